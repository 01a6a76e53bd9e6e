//! Every file is part of a program, and says what it is.

use std::collections::BTreeSet;

use super::{Finding, Verdict, Workspace};
use crate::tidy::workspace::{File, Package, is_target_root};

/// Every source is reached by `mod` from the root of a target.
pub(super) fn dead_files(workspace: &Workspace) -> Verdict {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut waiting: Vec<String> = workspace.packages.iter().flat_map(|package| roots(workspace, package)).collect();
    while let Some(path) = waiting.pop() {
        let Some(file) = workspace.file(&path) else { continue };
        if reached.insert(path) {
            waiting.extend(children(workspace, file));
        }
    }
    let dead = workspace.files.iter().filter(|file| !reached.contains(&file.path));
    let findings = dead.map(|file| Finding::new(&file.path, 0, "no `mod` leads here")).collect();
    Verdict { figure: format!("{} of {} files reached", reached.len(), workspace.files.len()), findings }
}

/// Every source begins with its module doc.
pub(super) fn module_docs(workspace: &Workspace) -> Verdict {
    let begins_with_doc =
        |file: &&File| file.comments.first().is_some_and(|comment| comment.is_module_doc() && comment.line == 1);
    let undocumented = workspace.files.iter().filter(|file| !begins_with_doc(file));
    let findings: Vec<_> =
        undocumented.map(|file| Finding::new(&file.path, 1, "the first line is not a `//!` doc")).collect();
    let documented = workspace.files.len() - findings.len();
    Verdict { figure: format!("{documented} of {} files", workspace.files.len()), findings }
}

/// The root files of a package's targets: by place, and by `path` in the manifest. Programs that do not compile are
/// roots, too: a test shows them to the compiler.
fn roots(workspace: &Workspace, package: &Package) -> Vec<String> {
    let is_root = |path: &str| is_target_root(path) || path.starts_with("tests/wrong/");
    let by_place = workspace.files.iter().filter(|file| file.package == package.dir && is_root(file.path_in_package()));
    let tables = ["lib", "bin", "example", "test", "bench"];
    let by_path = tables.iter().flat_map(|table| package.manifest.values(table, "path"));
    by_place.map(|file| file.path.clone()).chain(by_path.map(|path| format!("{}/{path}", package.dir))).collect()
}

/// The files of a file's modules.
fn children(workspace: &Workspace, file: &File) -> Vec<String> {
    let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let is_root =
        workspace.package(&file.package).is_some_and(|package| roots(workspace, package).contains(&file.path));
    let base = if is_root { format!("{dir}/") } else { file.children() };
    let mut found = Vec::new();
    for module in file.module_files() {
        if let Some(path) = module.file {
            found.push(format!("{dir}/{path}"));
        } else {
            let path = module.path.join("/");
            found.extend([format!("{base}{path}.rs"), format!("{base}{path}/mod.rs")]);
        }
    }
    found
}
