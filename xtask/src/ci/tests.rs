//! Which steps run, and what the summary answers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use super::steps::LEAKS;
use super::{BY_NAME, Outcome, Step, chosen, summarise};
use crate::cli::{CiFlags, EXIT_FAILED, EXIT_OK};
use crate::repo;

fn flags(only: &[Step], skip: &[Step]) -> CiFlags {
    CiFlags { skip: skip.to_vec(), only: only.to_vec(), keep_going: false, list: false }
}

#[test]
fn all_steps_but_those_by_name_run_without_flags_and_keep_their_order() {
    let all = Step::value_variants().iter().copied();
    assert_eq!(chosen(&flags(&[], &[])), all.filter(|step| !BY_NAME.contains(step)).collect::<Vec<_>>());
    assert_eq!(chosen(&flags(&BY_NAME, &[])), BY_NAME);
    assert_eq!(chosen(&flags(&[Step::Doc, Step::Fmt], &[])), [Step::Fmt, Step::Doc]);
    assert_eq!(chosen(&flags(&[Step::Doc, Step::Fmt], &[Step::Doc])), [Step::Fmt]);
    assert!(!chosen(&flags(&[], &[Step::Asan])).contains(&Step::Asan));
}

#[test]
fn one_failure_is_a_failure_and_a_skip_is_not() {
    let took = Duration::from_millis(10);
    let skipped = (Step::Asan, Outcome::Skipped("no nightly".to_owned()), took);
    assert_eq!(summarise(&[(Step::Fmt, Outcome::Passed, took), skipped.clone()]), EXIT_OK);
    assert_eq!(summarise(&[(Step::Fmt, Outcome::Failed("exit 1".to_owned()), took), skipped]), EXIT_FAILED);
}

/// The text of all sources below a folder.
fn sources(below: &Path) -> String {
    let entries = fs::read_dir(below).expect("a folder").map(|entry| entry.expect("an entry").path());
    let text = |path: &Path| fs::read_to_string(path).expect("a source is text");
    entries
        .map(|path| match path.extension() {
            Some(extension) if extension == "rs" => text(&path),
            None if path.is_dir() => sources(&path),
            _ => String::new(),
        })
        .collect()
}

#[test]
fn each_leak_that_is_meant_names_a_function_that_there_is() {
    let sources = sources(&repo::root().join("crates"));
    let meant = fs::read_to_string(repo::root().join(LEAKS)).expect("the list is there");
    let names = || meant.lines().filter_map(|line| line.strip_prefix("leak:"));
    assert!(names().count() > 5, "each is on a line of its own: {meant}");
    for name in names() {
        let function = name.rsplit("::").next().unwrap_or(name);
        assert!(
            sources.contains(&format!("fn {function}(")),
            "{LEAKS} names `{name}`, which nothing is called any more"
        );
    }
}

#[test]
fn the_documents_name_the_lowest_rust() {
    let read = |name: &str| fs::read_to_string(repo::root().join(name)).expect("the document is there");
    let lowest = repo::RUST_VERSION_MIN;
    assert!(read("README.md").contains(&format!("Rust {lowest} or newer")));
    assert!(read("CONTRIBUTING.md").contains(&format!("rustup toolchain install {lowest} ")));
}
