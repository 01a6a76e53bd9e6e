//! Methods of a type are looked for where the type is.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::IMPLS_ELSEWHERE;
use crate::tidy::lexer::{Token, TokenKind};
use crate::tidy::workspace::File;

/// An inherent `impl` stands in the file of its type, below it, or in the same room: a folder of the crate's root.
pub(super) fn of_impls(workspace: &Workspace) -> Verdict {
    let (mut findings, mut count) = (Vec::new(), 0);
    for package in workspace.published() {
        let files: Vec<&File> = workspace.product().filter(|file| file.package == package.dir).collect();
        let mut homes: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
        for file in &files {
            types(file).for_each(|name| homes.entry(name).or_default().push(file));
        }
        for file in &files {
            for (name, line) in inherent_impls(file) {
                count += 1;
                let Some(homes) = homes.get(name) else { continue };
                let is_elsewhere = IMPLS_ELSEWHERE.contains(&(&*file.path, name));
                if is_elsewhere || homes.iter().any(|home| is_room(home, file)) {
                    continue;
                }
                let of = homes.iter().map(|home| home.path_in_package()).collect::<Vec<_>>().join(", ");
                findings.push(Finding::new(&file.path, line, format!("methods of `{name}`, which is in {of}")));
            }
        }
    }
    Verdict { figure: format!("{count} inherent impls, {} in another room", IMPLS_ELSEWHERE.len()), findings }
}

/// Whether methods of a type of `home` may be in this file.
fn is_room(home: &File, file: &File) -> bool {
    let room = |file: &File| {
        let (room, _) = file.path_in_package().strip_prefix("src/")?.split_once('/')?;
        Some(room.to_owned())
    };
    home.path == file.path
        || file.path.starts_with(&home.children())
        || (room(home).is_some() && room(home) == room(file))
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
