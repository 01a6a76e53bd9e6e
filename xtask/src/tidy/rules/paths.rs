//! Nothing depends on the machine that it was written on.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{MACHINE_PATHS, MACHINE_PATHS_STATED_IN};
use crate::tidy::workspace::Role;

/// Sources, manifests and documents name no path of one machine. Tests may make files where they like.
pub(super) fn machine_paths(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let is_test = |path: &str| workspace.file(path).is_some_and(|file| file.role == Role::Test);
    for (path, text) in workspace.texts.iter().filter(|(path, _)| *path != MACHINE_PATHS_STATED_IN && !is_test(path)) {
        for (index, line) in text.lines().enumerate() {
            let in_test = workspace.file(path).is_some_and(|file| file.is_test_line(index + 1));
            if let Some(found) = MACHINE_PATHS.iter().find(|machine| line.contains(**machine)).filter(|_| !in_test) {
                findings.push(Finding::new(path, index + 1, format!("`{found}` is a path of one machine")));
            }
        }
    }
    Verdict { figure: format!("{} texts", workspace.texts.len()), findings }
}
