//! Comments are as wide as code.

use super::{Finding, Verdict, Workspace};
use crate::tidy::manifest::Manifest;
use crate::tidy::workspace::File;

/// No line with a comment is wider than `max_width` of `rustfmt.toml`, which rustfmt leaves alone. Tables and links
/// cannot be broken.
pub(super) fn width(workspace: &Workspace) -> Verdict {
    let max = workspace.texts.get("rustfmt.toml").map_or("", String::as_str);
    let max = Manifest::parse(max).value("", "max_width").and_then(|value| value.parse().ok()).unwrap_or(WIDTH);
    let (mut findings, mut lines) = (Vec::new(), 0);
    for file in &workspace.files {
        lines += file.comments.iter().map(|comment| comment.line_last + 1 - comment.line).sum::<usize>();
        for (line, width) in wide(workspace, file, max) {
            findings.push(Finding::new(&file.path, line, format!("a comment of {width} columns, at most {max}")));
        }
    }
    Verdict { figure: format!("at most {max} columns in {lines} lines"), findings }
}

/// Lines with comments that are wider than `max`, and how wide they are.
fn wide(workspace: &Workspace, file: &File, max: usize) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = workspace.texts.get(&file.path).map_or("", String::as_str).lines().collect();
    let commented = file.comments.iter().flat_map(|comment| comment.line..=comment.line_last);
    let widths = commented.filter_map(|line| Some((line, lines.get(line - 1)?)));
    let broken = widths.filter(|(_, text)| !is_unbreakable(text));
    broken.map(|(line, text)| (line, text.chars().count())).filter(|(_, width)| *width > max).collect()
}

fn is_unbreakable(line: &str) -> bool {
    line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|') || line.contains("://")
}

/// That of rustfmt, without a file.
const WIDTH: usize = 100;
