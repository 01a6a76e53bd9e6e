//! Cells cannot break out of their line.

use super::*;

#[test]
fn cells_are_escaped() {
    assert_eq!(line(["a", "b"]), "| a | b |\n");
    assert_eq!((text("a|b"), text("\\r*")), ("a\\|b".to_owned(), "\\\\r\\*".to_owned()));
    assert_eq!(code("a\\r|b"), "`a\\r\\|b`");
    assert_eq!((code(" a"), code("a`b")), ("`  a `".to_owned(), "``a`b``".to_owned()));
    assert_eq!(heading(&["x", "y"]), "| x | y |\n|---|---|\n");
}

#[test]
fn every_input_is_one_short_line() {
    for framed in crate::h1::cases() {
        let shown = input(&framed);
        assert!(!shown.contains('\n') && shown.is_ascii() && shown.len() < 4 * INPUT_SHOWN_BYTES_MAX, "{shown}");
    }
}
