//! The lexer keeps code, strings and comments apart, whatever looks like what.

use super::{TokenKind, lex};

fn words(source: &str) -> Vec<String> {
    let (tokens, _) = lex(source);
    tokens.as_slice().iter().filter(|token| token.kind == TokenKind::Word).map(|token| token.text.clone()).collect()
}

#[test]
fn comments_and_strings_are_not_code() {
    let source = "let a = \"unsafe // no\"; // unsafe\n/* unsafe /* nested */ unsafe */ b /// unsafe\n";
    assert_eq!(words(source), ["let", "a", "b"]);
}

#[test]
fn every_kind_of_string_ends_where_it_ends() {
    for string in ["\"a\\\"b\"", "r\"a\\\"", "r#\"a\"b\"#", "b\"a\\\\\"", "br##\"a\"#b\"##", "c\"a\"", "\"\""] {
        assert_eq!(words(&format!("before {string} after")), ["before", "after"], "{string}");
    }
}

#[test]
fn characters_are_not_lifetimes() {
    let (tokens, _) =
        lex("fn f<'a>(x: &'a str) { match c { '\\'' | '\"' | 'x' | b'\\n' | '\\u{1F600}' | 'é' => 'out: loop {} } }");
    let of = |kind| tokens.as_slice().iter().filter(move |token| token.kind == kind).count();
    assert_eq!((of(TokenKind::Lifetime), of(TokenKind::Literal)), (3, 6));
}

#[test]
fn raw_words_lose_their_mark_and_raw_strings_do_not_become_words() {
    assert_eq!(words("r#type r#\"type\"# rare"), ["type", "rare"]);
}

#[test]
fn lines_are_counted_in_all_of_them() {
    let (tokens, comments) = lex("a\n/* 1\n2 */ b\n\"x\ny\" c\n// d");
    let lines: Vec<_> = tokens.as_slice().iter().map(|token| (token.line, token.line_last)).collect();
    assert_eq!(lines, [(1, 1), (3, 3), (4, 5), (5, 5)]);
    assert_eq!(comments.iter().map(|comment| (comment.line, comment.line_last)).collect::<Vec<_>>(), [(2, 3), (6, 6)]);
}

#[test]
fn sequences_are_found_across_lines_and_not_in_strings() {
    let (tokens, _) = lex("Instant::now(); \"Instant::now\";\nInstant\n    ::now()");
    let lines: Vec<_> = tokens.find_sequence(&["Instant", "::", "now"]).map(|token| token.line).collect();
    assert_eq!(lines, [1, 2]);
}

#[test]
fn an_unfinished_source_does_not_stop_the_lexer() {
    for source in ["\"never", "/* never", "r#\"never", "'", "b'", "r#", "é'é", "'\\"] {
        let (tokens, comments) = lex(source);
        assert!(tokens.as_slice().len() + comments.len() > 0, "{source}");
    }
}
