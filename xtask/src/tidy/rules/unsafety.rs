//! Where `unsafe` is, and why it is right.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{FUZZ_PACKAGE, SAFETY_LINES_ABOVE, UNSAFE_LIST, UNSAFE_PACKAGES};
use crate::tidy::lexer::Token;
use crate::tidy::workspace::{File, Role, is_target_root};

/// The files with `unsafe` are those of the list, and the invariants that the list names are stated.
pub(super) fn listed(workspace: &Workspace) -> Verdict {
    let list = list(workspace);
    let mut findings = Vec::new();
    for (file, count) in workspace.files.iter().map(|file| (file, unsafe_tokens(file).count())) {
        match (list.get(&file.path), unsafe_tokens(file).next()) {
            (None, Some(token)) => {
                findings.push(Finding::new(
                    &file.path,
                    token.line,
                    format!("`unsafe` in a file that {UNSAFE_LIST} does not list ({count})"),
                ));
            }
            (Some(row), None) => {
                findings.push(Finding::new(UNSAFE_LIST, row.line, format!("{} has no `unsafe`", file.path)))
            }
            _ => {}
        }
    }
    for (path, row) in &list {
        let Some(file) = workspace.file(path) else {
            findings.push(Finding::new(UNSAFE_LIST, row.line, format!("{path} does not exist")));
            continue;
        };
        let stated = stated_in(workspace, &file.package);
        for name in row.invariants.difference(&stated) {
            findings.push(Finding::new(UNSAFE_LIST, row.line, format!("{name} is not stated in {}", file.package)));
        }
    }
    let (sources, tokens) =
        (workspace.files.len(), workspace.files.iter().map(|file| unsafe_tokens(file).count()).sum::<usize>());
    Verdict { figure: format!("{} of {sources} files, {tokens} times `unsafe`", list.len()), findings }
}

/// What has no `unsafe` forbids it, so that the compiler watches it too. A module of tests may leave that to the module
/// around it.
pub(super) fn forbidden(workspace: &Workspace) -> Verdict {
    let has_unsafe = workspace.files.iter().filter(|file| unsafe_tokens(file).next().is_some());
    let has_unsafe: Vec<&str> = has_unsafe.map(|file| file.path.as_str()).collect();
    let forbidding: Vec<&File> = workspace.files.iter().filter(|file| forbids_unsafe(file)).collect();
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| must_forbid(file, &has_unsafe)) {
        let around = |other: &&File| file.role == Role::Test && file.path.starts_with(&other.children());
        if !forbidding.iter().any(|other| other.path == file.path || around(other)) {
            findings.push(Finding::new(&file.path, 1, "`#![forbid(unsafe_code)]` is missing"));
        }
    }
    Verdict {
        figure: format!("{} of {} files forbid it themselves", forbidding.len(), workspace.files.len()),
        findings,
    }
}

/// Each block and implementation has a SAFETY comment, and it cites an invariant that its package states.
pub(super) fn reasons(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let (mut reasons, mut names) = (0, BTreeSet::new());
    for file in &workspace.files {
        let stated = stated_in(workspace, &file.package);
        for line in justified_lines(file.tokens.as_slice()) {
            reasons += 1;
            match reason(file, line) {
                None => findings.push(Finding::new(&file.path, line, "no `// SAFETY:` comment above")),
                Some(cited) if cited.is_empty() => {
                    findings.push(Finding::new(&file.path, line, "the SAFETY comment names no invariant"))
                }
                Some(cited) => {
                    for name in cited.difference(&stated) {
                        findings.push(Finding::new(
                            &file.path,
                            line,
                            format!("{name} is not stated in a module doc as `**{name}**`"),
                        ));
                    }
                    names.extend(cited);
                }
            }
        }
    }
    Verdict { figure: format!("{reasons} blocks and implementations cite {} invariants", names.len()), findings }
}

/// A row of the list.
struct Row {
    line: usize,
    invariants: BTreeSet<String>,
}

/// The rows of the list by path: `` | `path` | what for | I-NAMES | ``.
fn list(workspace: &Workspace) -> BTreeMap<String, Row> {
    let text = workspace.texts.get(UNSAFE_LIST).map_or("", String::as_str);
    let mut rows = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", path, _, invariants, ..] = cells.as_slice() else { continue };
        let Some(path) = path.strip_prefix('`').and_then(|path| path.strip_suffix('`')) else { continue };
        rows.insert(path.to_owned(), Row { line: index + 1, invariants: invariant_names(invariants) });
    }
    rows
}

fn unsafe_tokens(file: &File) -> impl Iterator<Item = &Token> {
    file.tokens.as_slice().iter().filter(|token| token.is("unsafe"))
}

fn forbids_unsafe(file: &File) -> bool {
    file.tokens.find_sequence(&["#", "!", "[", "forbid", "(", "unsafe_code", ")"]).next().is_some()
}

fn must_forbid(file: &File, has_unsafe: &[&str]) -> bool {
    if UNSAFE_PACKAGES.contains(&file.package.as_str()) {
        // In a module, `forbid` is for its children too.
        let children = file.children();
        return !has_unsafe.iter().any(|path| *path == file.path || path.starts_with(&children));
    }
    file.role != Role::Test && file.package != FUZZ_PACKAGE && is_target_root(file.path_in_package())
}

/// The lines of `unsafe {` and `unsafe impl`.
fn justified_lines(tokens: &[Token]) -> impl Iterator<Item = usize> {
    tokens
        .windows(2)
        .filter(|pair| pair[0].is("unsafe") && (pair[1].is("{") || pair[1].is("impl")))
        .map(|pair| pair[0].line)
}

/// The invariants that the nearest SAFETY comment above the line cites; `None` without a comment.
fn reason(file: &File, line: usize) -> Option<BTreeSet<String>> {
    let near = |comment: &&_| {
        let comment: &crate::tidy::lexer::Comment = comment;
        comment.line <= line && comment.line + SAFETY_LINES_ABOVE >= line
    };
    let comments: Vec<_> = file.comments.iter().filter(near).collect();
    let start = comments.iter().rposition(|comment| comment.text.contains("SAFETY:"))?;
    let mut cited = invariant_names(&comments[start].text);
    // The comment goes on as long as the next line is a comment.
    for pair in comments[start..].windows(2) {
        if pair[1].line != pair[0].line_last + 1 || file.is_code_line(pair[0].line) {
            break;
        }
        cited.extend(invariant_names(&pair[1].text));
    }
    Some(cited)
}

/// The invariants that module docs of a package state: `**I-NAME**`.
fn stated_in(workspace: &Workspace, package: &str) -> BTreeSet<String> {
    let mut stated = BTreeSet::new();
    for file in workspace.files.iter().filter(|file| file.package == package) {
        for comment in file.comments.iter().filter(|comment| comment.is_module_doc()) {
            stated.extend(comment.text.split("**").skip(1).step_by(2).flat_map(invariant_names));
        }
    }
    stated
}

/// The words of a text that are names of invariants: `I-` and capitals, digits and dashes.
fn invariant_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let is_name = |word: &&str| {
        let rest = word.strip_prefix("I-").unwrap_or_default();
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-')
    };
    words.map(|word| word.trim_end_matches('-')).filter(is_name).map(str::to_owned).collect()
}
