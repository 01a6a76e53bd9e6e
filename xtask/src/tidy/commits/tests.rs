//! Only what is new on a branch is seen, and nothing where that cannot be known.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use super::not_on_main;

/// A folder that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("plimsoll-tidy-{name}-{}", process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

fn git(dir: &Path, line: &str) {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=a", "-c", "user.email=a@localhost"]);
    // The settings of whoever runs the test, and a hook that runs it, are not the test's.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    let output = command.args(line.split(' ')).output().expect("git is there");
    assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn commit(dir: &Path, subject: &str) {
    git(dir, &format!("commit --quiet --allow-empty --no-gpg-sign -m {subject}"));
}

fn subjects(dir: &Path) -> Vec<String> {
    not_on_main(dir).into_iter().map(|(_, subject)| subject).collect()
}

#[test]
fn what_is_new_on_a_branch_is_seen() {
    let folder = Folder::new("branch");
    let dir = &folder.0;
    assert!(not_on_main(dir).is_empty(), "without git there is nothing to see");
    git(dir, "init --quiet -b main");
    commit(dir, "old");
    assert!(subjects(dir).is_empty(), "main has nothing to be compared with");
    git(dir, "checkout --quiet -b work");
    commit(dir, "one");
    git(dir, "checkout --quiet main");
    commit(dir, "meanwhile");
    git(dir, "checkout --quiet work");
    git(dir, "merge --quiet --no-ff -m merge main");
    commit(dir, "two");
    assert_eq!(subjects(dir), ["two", "one"]);
    git(dir, "checkout --quiet --detach work");
    assert_eq!(subjects(dir), ["two", "one"], "so a runner checks it out");
}

#[test]
fn a_clone_is_compared_with_where_it_is_from() {
    let folder = Folder::new("clone");
    let (from, here) = (folder.0.join("from"), folder.0.join("here"));
    fs::create_dir_all(&from).expect("a folder for the test");
    git(&from, "init --quiet -b main");
    commit(&from, "old");
    commit(&from, "older");
    git(&folder.0, "clone --quiet from here");
    assert!(subjects(&here).is_empty());
    commit(&here, "new");
    assert_eq!(subjects(&here), ["new"]);
}

#[test]
fn a_shallow_clone_without_the_fork_says_nothing() {
    let folder = Folder::new("shallow");
    let (from, here) = (folder.0.join("from"), folder.0.join("here"));
    fs::create_dir_all(&from).expect("a folder for the test");
    git(&from, "init --quiet -b main");
    commit(&from, "old");
    git(&from, "checkout --quiet -b work");
    commit(&from, "one");
    commit(&from, "two");
    git(&from, "checkout --quiet main");
    commit(&from, "meanwhile");
    let url = format!("file://{}", from.display());
    git(&folder.0, &format!("clone --quiet --depth 1 --no-single-branch -b work {url} here"));
    assert!(subjects(&here).is_empty(), "main and work have no commit in common here");
}
