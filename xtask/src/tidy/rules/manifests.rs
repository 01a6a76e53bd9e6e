//! What the manifests say: who may depend on whom, and what is said once for all.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{INHERITED, INHERITED_UNPUBLISHED, MAY_DEPEND_ON, OWN_WORKSPACES};
use crate::tidy::workspace::Package;

/// Dependencies inside the workspace point one way.
pub(super) fn direction(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut edges = 0;
    for package in &workspace.packages {
        let allowed = MAY_DEPEND_ON.iter().find(|(name, _)| *name == package.name).map(|(_, allowed)| *allowed);
        for (name, line) in package.manifest.dependencies() {
            if !workspace.packages.iter().any(|other| other.name == name) {
                continue;
            }
            edges += 1;
            if allowed.is_some_and(|allowed| !allowed.contains(&name)) {
                let message = format!("{} must not depend on {name}", package.name);
                findings.push(Finding::new(manifest_path(package), line, message));
            }
        }
        if allowed.is_none() && package.dir.starts_with("crates/") {
            findings.push(Finding::new(
                manifest_path(package),
                0,
                "the table of who may depend on whom does not know this package",
            ));
        }
    }
    Verdict { figure: format!("{edges} dependencies between {} packages", workspace.packages.len()), findings }
}

/// Lints, version, licence and the like are those of the workspace.
pub(super) fn inherits(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let members = workspace.packages.iter().filter(|package| package.manifest.value("workspace", "members").is_none());
    // A workspace of its own has nothing to take from ours.
    let members: Vec<_> = members.filter(|package| !OWN_WORKSPACES.contains(&package.dir.as_str())).collect();
    for package in &members {
        if package.manifest.value("lints", "workspace") != Some("true") {
            findings.push(Finding::new(manifest_path(package), 0, "`[lints] workspace = true` is missing"));
        }
        let unpublished = package.manifest.value("package", "publish") == Some("false");
        let keys = if unpublished { INHERITED_UNPUBLISHED.as_slice() } else { INHERITED.as_slice() };
        for key in keys.iter().filter(|key| !package.manifest.inherits("package", key)) {
            findings.push(Finding::new(manifest_path(package), 0, format!("`{key}.workspace = true` is missing")));
        }
        if !unpublished && package.manifest.value("package", "description").is_none() {
            findings.push(Finding::new(manifest_path(package), 0, "a published package needs a description"));
        }
    }
    Verdict { figure: format!("{} members", members.len()), findings }
}

fn manifest_path(package: &Package) -> String {
    format!("{}/Cargo.toml", package.dir)
}
