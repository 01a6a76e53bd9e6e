//! The list of where things are names what is there.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{WHERE_IS_HEADING, WHERE_IS_IN};

/// Each row of the list names a file, and a function in it.
pub(super) fn rows(workspace: &Workspace) -> Verdict {
    let (mut findings, mut count) = (Vec::new(), 0);
    let text = workspace.texts.get(WHERE_IS_IN).map_or("", String::as_str);
    let list = text.lines().enumerate().skip_while(|(_, line)| *line != WHERE_IS_HEADING).skip(1);
    let rows = list.take_while(|(_, line)| !line.starts_with("## ")).filter(|(_, line)| line.starts_with('|')).skip(2);
    for (index, line) in rows {
        count += 1;
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let name = |cell: Option<&str>| cell.map(|cell| cell.trim_matches('`').to_owned()).unwrap_or_default();
        let (file, function) = (name(cells.nth(1)), name(cells.next()));
        let message = match workspace.texts.get(&file) {
            None => format!("there is no file `{file}`"),
            Some(text) if !has_function(text, &function) => format!("`{file}` has no function `{function}`"),
            Some(_) => continue,
        };
        findings.push(Finding::new(WHERE_IS_IN, index + 1, message));
    }
    Verdict { figure: format!("{count} rows"), findings }
}

fn has_function(text: &str, name: &str) -> bool {
    let head = format!("fn {name}");
    text.match_indices(&head).any(|(at, _)| text[at + head.len()..].starts_with(['(', '<']))
}
