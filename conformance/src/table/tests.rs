//! Cells cannot break out of their line.

use super::*;

#[test]
fn cells_are_escaped() {
    assert_eq!(line(["a|b", "\\r"]), "| a\\|b | \\\\r |\n");
    assert_eq!(heading(&["x", "y"]), "| x | y |\n|---|---|\n");
}

#[test]
fn every_input_is_one_short_line() {
    for framed in crate::h1::cases() {
        let shown = input(&framed);
        assert!(!shown.contains('\n') && shown.is_ascii() && shown.len() < 4 * INPUT_SHOWN_BYTES_MAX, "{shown}");
    }
}
