//! Methods of a type are looked for where the type is.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::IMPL_ROOMS_LATER;
use crate::tidy::lexer::{Token, TokenKind};
use crate::tidy::workspace::File;

/// An inherent `impl` stands in the file of its type, below it, or beside it in a folder that is not the crate's root.
pub(super) fn of_impls(workspace: &Workspace) -> Verdict {
    let (mut findings, mut count) = (Vec::new(), 0);
    for package in workspace.published() {
        let files: Vec<&File> = workspace.product().filter(|file| file.package == package.dir).collect();
        let mut homes: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in &files {
            types(file).for_each(|name| homes.entry(name).or_default().push(file));
        }
        let mut astray = Vec::new();
        for file in &files {
            for (name, line) in inherent_impls(file) {
                count += 1;
                if let Some(homes) = homes.get(name)
                    && !homes.iter().any(|home| is_room(home, file))
                {
                    let of = homes.iter().map(|home| home.path_in_package()).collect::<Vec<_>>().join(", ");
                    astray.push(Finding::new(&file.path, line, format!("methods of `{name}`, which is in {of}")));
                }
            }
        }
        match IMPL_ROOMS_LATER.contains(&&*package.dir) {
            true if astray.is_empty() && !files.is_empty() => {
                findings.push(Finding::new(&package.dir, 0, "take it out of `IMPL_ROOMS_LATER`".to_owned()));
            }
            true => {}
            false => findings.append(&mut astray),
        }
    }
    let later = IMPL_ROOMS_LATER.join(", ");
    Verdict { figure: format!("{count} inherent impls; later: {later}"), findings }
}

/// Whether methods of a type of `home` may be in this file.
fn is_room(home: &File, file: &File) -> bool {
    let folder = |file: &File| file.path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let root = format!("{}/src", home.package);
    let is_beside = folder(home) == folder(file) && folder(home) != root;
    home.path == file.path || file.path.starts_with(&home.children()) || is_beside
}

/// The structs, enums and unions of a file.
fn types(file: &File) -> impl Iterator<Item = &str> {
    let pairs = file.tokens.as_slice().windows(2).filter(|pair| !file.is_test_line(pair[0].line));
    let named = pairs.filter(|pair| ["struct", "enum", "union"].iter().any(|keyword| pair[0].is(keyword)));
    named.filter(|pair| pair[1].kind == TokenKind::Word).map(|pair| pair[1].text.as_str())
}

/// The type of each `impl` without a trait, and its line.
fn inherent_impls(file: &File) -> impl Iterator<Item = (&str, usize)> {
    let tokens = file.tokens.as_slice();
    let begins = move |at: &usize| {
        // Not in the place of a type: `-> impl Fn()`.
        let is_item = *at == 0 || ["}", ";", "]", "{", "unsafe"].iter().any(|before| tokens[at - 1].is(before));
        tokens[*at].is("impl") && is_item && !file.is_test_line(tokens[*at].line)
    };
    let found = (0..tokens.len()).filter(begins);
    found.filter_map(move |at| Some((type_of_impl(&tokens[at + 1..])?, tokens[at].line)))
}

/// The type behind `impl`; `None` with a trait.
fn type_of_impl(head: &[Token]) -> Option<&str> {
    let (mut depth, mut name) = (0_usize, None);
    for (at, token) in head.iter().enumerate() {
        match token.text.as_str() {
            "{" | "where" if depth == 0 => return name,
            "for" if depth == 0 => return None,
            "<" => depth += 1,
            // Not that of `->`.
            ">" if !head[at - 1].is("-") => depth = depth.saturating_sub(1),
            _ if depth == 0 && token.kind == TokenKind::Word => name = Some(token.text.as_str()),
            _ => {}
        }
    }
    None
}
