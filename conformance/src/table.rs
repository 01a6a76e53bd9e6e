//! Cases as lines of a Markdown table.

use crate::h1::{Framed, Then};

/// A line of a table with these cells, escaped.
#[must_use]
pub fn line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = "|".to_owned();
    for cell in cells {
        line.push(' ');
        line.push_str(&escape(cell));
        line.push_str(" |");
    }
    line.push('\n');
    line
}

/// The two lines that begin a table.
#[must_use]
pub fn heading(columns: &[&str]) -> String {
    line(columns.iter().copied()) + "|" + &"---|".repeat(columns.len()) + "\n"
}

/// What a case sends, in one line: escaped as in Rust, the middle of long inputs left out.
#[must_use]
pub fn input(framed: &Framed) -> String {
    let bytes = &framed.input;
    let mut shown = if bytes.len() <= INPUT_SHOWN_BYTES_MAX {
        bytes.escape_ascii().to_string()
    } else {
        let (start, end) = (&bytes[..INPUT_START_BYTES], &bytes[bytes.len() - INPUT_END_BYTES..]);
        format!("{} .. {} ({} bytes)", start.escape_ascii(), end.escape_ascii(), bytes.len())
    };
    if framed.case.then == Then::HalfClose {
        shown.push_str(" (then closes its half)");
    }
    shown.trim().to_owned()
}

/// Text that Markdown leaves as it is.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '~' | '&') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Longer inputs are shown in part.
const INPUT_SHOWN_BYTES_MAX: usize = 260;
/// The shown start of a long input.
const INPUT_START_BYTES: usize = 90;
/// The shown end of a long input.
const INPUT_END_BYTES: usize = 40;

#[cfg(test)]
mod tests;
