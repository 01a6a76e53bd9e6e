//! Where else it runs: other processors, another C library, larger pages.

use std::process::{Command, Stdio};

use super::Outcome;
use super::steps::{finish, published};
use crate::repo;

/// What is published, and `arena`, compile for each of these; the static ones are linked, too, where the processor is
/// this one, and `arena` prints its plan.
const TARGETS: [&str; 3] = ["aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl", STATIC];
const STATIC: &str = "x86_64-unknown-linux-musl";

/// Sizes of pages, in bytes, that the tests run with beside the system's own.
const PAGES: [&str; 2] = ["16384", "65536"];
/// Tests of the pool that are about pages. Its others state figures of pages of 4 KiB.
const PAGE_TESTS: [&str; 6] =
    ["segment::tests", "segments::tests", "class::tests", "page::tests", "footprint::tests", "remote::tests"];

/// A target that is not installed is said and left out.
pub(super) fn targets() -> Outcome {
    let packages = match published() {
        Ok(packages) => packages,
        Err(failed) => return failed,
    };
    let missing: Vec<&str> = TARGETS.into_iter().filter(|target| !is_installed(target)).collect();
    for target in &missing {
        println!("skipped: {target} (rustup target add {target})");
    }
    if missing.len() == TARGETS.len() {
        return Outcome::Skipped(format!("no other target: rustup target add {}", missing.join(" ")));
    }
    for target in TARGETS.into_iter().filter(|target| !missing.contains(target)) {
        for features in [&[][..], &["--all-features"]] {
            let mut check = cargo("check", target);
            packages.iter().for_each(|package| _ = check.args(["-p", package]));
            if let failed @ Outcome::Failed(_) = finish(check.args(features)) {
                return failed;
            }
        }
        let verb = if target == STATIC && cfg!(target_arch = "x86_64") { "build" } else { "check" };
        let mut arena = cargo(verb, target);
        if let failed @ Outcome::Failed(_) = finish(arena.args(["-p", "plimsoll-examples", "--example", "arena"])) {
            return failed;
        }
        if verb == "build" {
            let program = repo::target_dir().join("targets").join(target).join("debug/examples/arena");
            if let failed @ Outcome::Failed(_) = finish(Command::new(program).arg("--plan").stdout(Stdio::null())) {
                return failed;
            }
        }
    }
    Outcome::Passed
}

/// The tests of the pool, the drivers and the runtime with larger pages, which are simulated: what is charged is
/// rounded as it would be there, over memory of the system.
pub(super) fn pages() -> Outcome {
    for page in PAGES {
        let test = |package: &str| {
            let mut command = repo::cargo();
            command.args(["test", "--locked", "--no-fail-fast", "--lib", "--tests", "-p", package]);
            command.env("RUSTFLAGS", format!("--cfg plimsoll_page_bytes=\"{page}\""));
            command.env("CARGO_TARGET_DIR", repo::target_dir().join("pages"));
            command
        };
        let mut pool = test("plimsoll-pool");
        pool.arg("--").args(PAGE_TESTS);
        for mut command in [pool, test("plimsoll-reactor"), test("plimsoll-runtime")] {
            if let failed @ Outcome::Failed(_) = finish(&mut command) {
                return failed;
            }
        }
    }
    Outcome::Passed
}

fn cargo(verb: &str, target: &str) -> Command {
    let mut command = repo::cargo();
    command.args([verb, "--locked", "--target", target]);
    command.env("CARGO_TARGET_DIR", repo::target_dir().join("targets"));
    command
}

/// Whether the toolchain that runs this has the standard library of a target.
fn is_installed(target: &str) -> bool {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    libraries.is_ok_and(|output| {
        output.status.success() && std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}
