//! A state is an enum: a struct of many flags has more states than anybody thought of.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{FLAG_BITS_LEFT, FLAG_BITS_PACKAGES, FLAGS_LEFT, FLAGS_MAX, FLAGS_OF};
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

/// Nor are they packed into a number: no file names more than [`FLAGS_MAX`] neighbouring bits of one type, but for
/// those of [`FLAG_BITS_LEFT`] and what reads and writes formats.
pub(super) fn no_bits(workspace: &Workspace) -> Verdict {
    let (mut findings, mut named) = (Vec::new(), 0);
    for file in workspace.product().filter(|file| !FLAG_BITS_PACKAGES.contains(&&*file.package)) {
        let (bits, line) = bits_of(file.tokens.as_slice(), |line| !file.is_test_line(line));
        let left = FLAG_BITS_LEFT.iter().find(|(path, _)| *path == file.path).map(|(_, bits)| *bits);
        let message = match left {
            Some(left) if bits < left => format!("{bits} bits: say so in `FLAG_BITS_LEFT`"),
            Some(left) if bits == left => String::new(),
            _ if bits <= FLAGS_MAX => continue,
            _ => format!(
                "{bits} bits of one number have names, at most {FLAGS_MAX}: an enum says which states there are"
            ),
        };
        named += 1;
        if !message.is_empty() {
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    Verdict { figure: format!("{named} files name more than {FLAGS_MAX}, and are listed"), findings }
}

/// How many constants of one type are neighbouring powers of two at the most, and where the first of these stands.
fn bits_of(tokens: &[Token], counts: impl Fn(usize) -> bool) -> (usize, usize) {
    let mut powers: BTreeMap<String, BTreeMap<u32, usize>> = BTreeMap::new();
    for at in 0..tokens.len() {
        // `const NAME: TYPE = ..;`
        let [keyword, _, colon, of, equals, ..] = &tokens[at..] else { break };
        if keyword.is("const") && colon.is(":") && equals.is("=") && counts(keyword.line) {
            let value = tokens[at + 5..].iter().take_while(|token| !token.is(";")).filter(|token| !token.is(&of.text));
            let value: String = value.map(|token| token.text.as_str()).collect();
            if let Some(power) = power_of(value.trim_matches(['(', ')'])) {
                powers.entry(of.text.clone()).or_default().entry(power).or_insert(keyword.line);
            }
        }
    }
    let runs = powers.values().flat_map(|powers| {
        let begins =
            powers.iter().filter(|(power, _)| power.checked_sub(1).is_none_or(|below| !powers.contains_key(&below)));
        begins.map(|(&first, &line)| ((first..).take_while(|power| powers.contains_key(power)).count(), line))
    });
    runs.max().unwrap_or_default()
}

/// Which power of two a value is that is written as a number or as `1 << N`.
fn power_of(value: &str) -> Option<u32> {
    if let Some(power) = value.strip_prefix("1<<") {
        return power.parse().ok();
    }
    let number: u64 = match (value.strip_prefix("0x"), value.strip_prefix("0b")) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok()?,
        (_, Some(digits)) => u64::from_str_radix(digits, 2).ok()?,
        _ => value.parse().ok()?,
    };
    number.is_power_of_two().then(|| number.trailing_zeros())
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
