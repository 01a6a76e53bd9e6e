//! The commits of a branch, from git.

use std::path::Path;
use std::process::{Command, Stdio};

/// Abbreviated names and subjects of the commits that no `main` has, merges left out. None where that cannot be known:
/// without git, without another branch to compare with, and in a clone so shallow that it does not hold where the
/// branches part.
pub(super) fn not_on_main(root: &Path) -> Vec<(String, String)> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.arg("-C").arg(root).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    };
    let here = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let mains = MAINS.iter().filter(|main| **main != here && git(&["merge-base", "HEAD", main]).is_some());
    let mut arguments = vec!["log", "--no-merges", "--format=%h %s", "HEAD", "--not"];
    let known = arguments.len();
    arguments.extend(mains);
    if arguments.len() == known {
        return Vec::new();
    }
    let log = git(&arguments).unwrap_or_default();
    log.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, subject)| (name.to_owned(), subject.to_owned()))
        .collect()
}

/// What a change lands on: here, and where this was cloned from.
const MAINS: [&str; 2] = ["refs/heads/main", "refs/remotes/origin/main"];

#[cfg(test)]
mod tests;
