//! Code lines of files and functions, without tests, comments and blank lines.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{FILE_LINES, FILE_LINES_MAX, FUNCTION_LINES, FUNCTION_LINES_MAX};
use crate::tidy::workspace::Role;

/// A thing with a size: path, line and name.
type Sized = (usize, String, usize, String);

/// Files stay at about [`FILE_LINES`] and below [`FILE_LINES_MAX`].
pub(super) fn files(workspace: &Workspace) -> Verdict {
    let files = workspace.files.iter().filter(|file| file.role != Role::Test);
    let sizes = files.map(|file| (file.code_lines(), file.path.clone(), 0, "file".to_owned())).collect();
    judge(sizes, FILE_LINES, FILE_LINES_MAX)
}

/// Functions stay at about [`FUNCTION_LINES`] and below [`FUNCTION_LINES_MAX`].
pub(super) fn functions(workspace: &Workspace) -> Verdict {
    let mut sizes: Vec<Sized> = Vec::new();
    for file in workspace.files.iter().filter(|file| file.role != Role::Test) {
        for function in file.functions.iter().filter(|function| !file.is_test_line(function.line)) {
            let lines = file.code_lines_in(function.line, function.line_last);
            sizes.push((lines, file.path.clone(), function.line, format!("fn {}", function.name)));
        }
    }
    judge(sizes, FUNCTION_LINES, FUNCTION_LINES_MAX)
}

/// What is over `about` is named in the figure; what is over `max` is a finding.
fn judge(mut sizes: Vec<Sized>, about: usize, max: usize) -> Verdict {
    sizes.sort_by(|a, b| b.cmp(a));
    let named: Vec<_> = sizes.iter().filter(|(lines, ..)| *lines > about && *lines <= max).collect();
    let too_long = sizes.iter().filter(|(lines, ..)| *lines > max);
    let message = |lines: usize, name: &str| format!("{name} has {lines} code lines, at most {max}");
    let findings = too_long.map(|(lines, path, line, name)| Finding::new(path, *line, message(*lines, name))).collect();
    let mut figure = match sizes.first() {
        Some((lines, path, line, name)) => {
            format!("largest {lines} ({path}:{line} {name}), about {about}, at most {max}")
        }
        None => "nothing to measure".to_owned(),
    };
    if !named.is_empty() {
        let total = sizes.len();
        figure.push_str(&format!("; {} of {total} over {about}:", named.len()));
        for (lines, path, line, name) in named {
            figure.push_str(&format!("\n      note: {path}:{line}: {name} has {lines}"));
        }
    }
    Verdict { figure, findings }
}
