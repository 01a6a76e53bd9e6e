//! Cases as lines of a Markdown table.

use crate::h1::{Framed, Then};

/// A line of a table with these cells, which are Markdown: see [`text`] and [`code`].
#[must_use]
pub fn line<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = "|".to_owned();
    for cell in cells {
        line.push(' ');
        line.push_str(cell);
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

/// What a case sends, as a cell: escaped as in Rust, the middle of long inputs left out.
#[must_use]
pub fn input(framed: &Framed) -> String {
    let bytes = &framed.input;
    let shown = if bytes.len() <= INPUT_SHOWN_BYTES_MAX {
        code(&bytes.escape_ascii().to_string())
    } else {
        let (start, end) = (&bytes[..INPUT_START_BYTES], &bytes[bytes.len() - INPUT_END_BYTES..]);
        let [start, end] = [start, end].map(|part| code(&part.escape_ascii().to_string()));
        format!("{start} .. {end} ({} bytes)", bytes.len())
    };
    match framed.case.then {
        Then::HalfClose if bytes.is_empty() => "nothing, then closes its half".to_owned(),
        Then::HalfClose => shown + ", then closes its half",
        Then::Probe => shown,
    }
}

/// A code span, which shows every character as it is.
#[must_use]
pub fn code(text: &str) -> String {
    let fence = "`".repeat(text.split(|character| character != '`').map(str::len).max().unwrap_or(0) + 1);
    // One space at both ends is not shown, and what begins or ends with a space or a backtick needs it.
    let pad = if text.starts_with([' ', '`']) || text.ends_with([' ', '`']) { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// Text that Markdown shows as it is.
#[must_use]
pub fn text(text: &str) -> String {
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
