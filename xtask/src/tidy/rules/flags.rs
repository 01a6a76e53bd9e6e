//! A state is an enum: a struct of many flags has more states than anybody thought of.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{FLAGS_LEFT, FLAGS_MAX, FLAGS_OF};
use crate::tidy::lexer::Token;
use crate::tidy::source::closing;

/// At most [`FLAGS_MAX`] fields of a struct are true or false, but for those of [`FLAGS_LEFT`], which get no more.
pub(super) fn few(workspace: &Workspace) -> Verdict {
    let (mut findings, mut structs, mut over) = (Vec::new(), 0, 0);
    let mut left: Vec<_> = FLAGS_LEFT.to_vec();
    for file in workspace.product() {
        for Struct { name, line, flags } in structs_of(file.tokens.as_slice()) {
            if file.is_test_line(line) || FLAGS_OF.iter().any(|kind| name.ends_with(kind)) {
                continue;
            }
            structs += 1;
            let known = left.iter().position(|(path, of, _)| *path == file.path && *of == name);
            let allowed = known.map(|at| left.swap_remove(at).2);
            over += usize::from(flags > FLAGS_MAX);
            let message = match allowed {
                Some(allowed) if flags < allowed => format!("{name} has {flags} flags: say so in `FLAGS_LEFT`"),
                Some(allowed) if flags == allowed => continue,
                _ if flags <= FLAGS_MAX => continue,
                _ => format!("{name} has {flags} flags, at most {FLAGS_MAX}: an enum says which states there are"),
            };
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    let gone = left.iter().map(|(path, name, _)| (path, format!("{name} is gone: take it out of `FLAGS_LEFT`")));
    findings.extend(
        gone.filter(|(path, _)| workspace.file(path).is_some()).map(|(path, told)| Finding::new(*path, 0, told)),
    );
    Verdict { figure: format!("{over} of {structs} structs have more than {FLAGS_MAX}, and are listed"), findings }
}

struct Struct {
    name: String,
    line: usize,
    flags: usize,
}

/// The structs with named fields, and how many of these are `bool`, `Cell<bool>` or `Option<()>`.
fn structs_of(tokens: &[Token]) -> Vec<Struct> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(2) {
        if !tokens[at].is("struct") {
            continue;
        }
        let end_of_head = (at + 2..tokens.len()).find(|&at| ["{", ";", "("].iter().any(|end| tokens[at].is(end)));
        let Some(open) = end_of_head.filter(|&at| tokens[at].is("{")) else { continue };
        let body = &tokens[open + 1..closing(tokens, open)];
        let is_type = |at: usize, words: &[&str]| {
            let is_field = at > 0 && body[at - 1].is(":");
            let ends = body.get(at + words.len()).is_none_or(|next| next.is(","));
            is_field && ends && words.iter().zip(&body[at..]).all(|(word, token)| token.is(word))
        };
        let flags = (0..body.len()).filter(|&at| FLAG_TYPES.iter().any(|words| is_type(at, words))).count();
        found.push(Struct { name: tokens[at + 1].text.clone(), line: tokens[at].line, flags });
    }
    found
}

const FLAG_TYPES: [&[&str]; 4] =
    [&["bool"], &["Cell", "<", "bool", ">"], &["AtomicBool"], &["Option", "<", "(", ")", ">"]];
