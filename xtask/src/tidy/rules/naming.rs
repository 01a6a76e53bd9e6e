//! Names that say something.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{MODULE_WORDS, OLD_WORDS, OLD_WORDS_STATED_IN, TYPE_WORDS};

/// No type, module or file has a name from the list of words that say nothing.
pub(super) fn names(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut count = 0;
    for file in &workspace.files {
        if let Some(word) = snake_words(file.stem()).find(|word| MODULE_WORDS.contains(&word.as_str())) {
            findings.push(Finding::new(
                &file.path,
                0,
                format!("a file called `{}`: `{word}` says nothing", file.stem()),
            ));
        }
        if let Some(folder) = file.path.split('/').find(|folder| MODULE_WORDS.contains(folder)) {
            findings.push(Finding::new(&file.path, 0, format!("a folder called `{folder}`")));
        }
        for pair in file.tokens.as_slice().windows(2) {
            let name = &pair[1].text;
            let says_nothing = if pair[0].is("mod") {
                snake_words(name).find(|word| MODULE_WORDS.contains(&word.as_str()))
            } else if ["struct", "enum", "union", "trait", "type"].iter().any(|keyword| pair[0].is(keyword)) {
                camel_words(name).into_iter().find(|word| TYPE_WORDS.contains(&word.as_str()))
            } else {
                continue;
            };
            count += 1;
            if let Some(word) = says_nothing {
                findings.push(Finding::new(
                    &file.path,
                    pair[0].line,
                    format!("`{} {name}`: `{word}` says nothing", pair[0].text),
                ));
            }
        }
    }
    Verdict { figure: format!("{count} types and modules"), findings }
}

/// Words that are given up do not come back.
pub(super) fn old_words(workspace: &Workspace) -> Verdict {
    let is_under =
        |path: &str, place: &str| path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let stated = |path: &str| OLD_WORDS_STATED_IN.iter().any(|place| is_under(path, place));
    let mut findings = Vec::new();
    for (path, text) in workspace.texts.iter().filter(|(path, _)| !stated(path)) {
        for (index, line) in text.lines().enumerate() {
            for word in OLD_WORDS.iter().filter(|word| has_word(line, word)) {
                findings.push(Finding::new(path, index + 1, format!("`{word}` is a word that was given up")));
            }
        }
    }
    Verdict { figure: format!("{} words", OLD_WORDS.len()), findings }
}

/// Whether a line has the word, or its plural, by itself or as a part of a name.
fn has_word(line: &str, word: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let (before, rest) = (line[..at].chars().next_back(), &line[at..]);
        let begins =
            before.is_none_or(|c| !c.is_alphabetic() || c.is_lowercase() && rest.starts_with(char::is_uppercase));
        let after = rest[word.len()..].strip_prefix('s').unwrap_or(&rest[word.len()..]);
        begins && !after.starts_with(char::is_lowercase)
    })
}

fn snake_words(name: &str) -> impl Iterator<Item = String> {
    name.split('_').map(str::to_lowercase)
}

/// `HttpHead2` is `http` and `head2`.
fn camel_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() => word.push(c),
            _ => words.push(c.to_lowercase().collect()),
        }
    }
    words
}
