//! Files of a crate that take names from each other can only be read together: there are few in a circle.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{CIRCLE_FILES_MAX, CIRCLES_LEFT};
use crate::tidy::imports::{Arrows, Imports, circles};

/// No circle has more than [`CIRCLE_FILES_MAX`] files, but for those of [`CIRCLES_LEFT`], which do not grow.
pub(super) fn circles_of_imports(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut figures = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.dir.starts_with("crates/")) {
        let arrows = Imports::of_package(workspace, &package.dir).arrows(workspace);
        let found = circles(&arrows);
        let large = found.iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX);
        let mut left = CIRCLES_LEFT.iter().filter(|(dir, _)| *dir == package.dir).map(|(_, files)| *files);
        for circle in large {
            figures.push(format!("{} {}", package.dir, circle.len()));
            let files = circle.len();
            let place = circle.first().map_or(&*package.dir, |first| first);
            match left.next() {
                Some(allowed) if files == allowed => {}
                Some(allowed) if files < allowed => findings.push(Finding::new(
                    place,
                    0,
                    format!("a circle of {files} files, where {allowed} were left: say so in `CIRCLES_LEFT`"),
                )),
                _ => findings.push(Finding::new(place, 0, told(circle, &arrows))),
            }
        }
        for allowed in left {
            let message = format!("no circle of {allowed} files is left: take it out of `CIRCLES_LEFT`");
            findings.push(Finding::new(&package.dir, 0, message));
        }
    }
    let figure = match figures.is_empty() {
        true => format!("none of more than {CIRCLE_FILES_MAX} files"),
        false => format!("at most {CIRCLE_FILES_MAX} files; left: {}", figures.join(", ")),
    };
    Verdict { figure, findings }
}

/// The files of a circle, and what each takes from the others.
fn told(circle: &std::collections::BTreeSet<String>, arrows: &Arrows) -> String {
    let mut message = format!("{} files import each other, at most {CIRCLE_FILES_MAX}:", circle.len());
    for file in circle {
        let to = arrows.get(file).into_iter().flatten().filter(|to| circle.contains(*to));
        let names: Vec<_> = to.map(|to| to.rsplit("/src/").next().unwrap_or(to)).collect();
        message.push_str(&format!("\n        {file} -> {}", names.join(", ")));
    }
    message
}
