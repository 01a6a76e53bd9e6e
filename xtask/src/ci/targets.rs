//! Where else it runs: other processors, another C library, larger pages.

use std::process::{Command, Stdio};

use super::Outcome;
use super::steps::{finish, published};
use crate::repo;

/// What is published compiles for each of these. `arena` is linked for the static one where the processor is this one,
/// and prints its plan. TLS is left out: its cryptography is partly C, and wants a compiler of C for the target.
const TARGETS: [&str; 3] = ["aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl", STATIC];
const STATIC: &str = "x86_64-unknown-linux-musl";

/// All features but those of TLS.
const FEATURES: &str = "plimsoll/deflate plimsoll/json plimsoll/hyper plimsoll/tokio-io plimsoll/futures-io \
                        plimsoll/tokio-context plimsoll-tower/axum-connect-info";

/// Sizes of pages, in bytes, that the tests run with beside the system's own.
const PAGES: [&str; 2] = ["16384", "65536"];
/// Tests of the pool that ask the system what is resident: its pages are not those that are simulated.
const OF_THE_SYSTEM: [&str; 2] =
    ["arena::tests::one_touched_byte_is_one_page", "arena::tests::resident_memory_is_what_is_charged"];

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
        for features in [None, Some(FEATURES)] {
            let mut check = cargo("check", target);
            let without_tls = packages.iter().filter(|package| *package != "plimsoll-tls");
            without_tls.for_each(|package| _ = check.args(["-p", package]));
            features.iter().for_each(|features| _ = check.args(["--features", features]));
            if let failed @ Outcome::Failed(_) = finish(&mut check) {
                return failed;
            }
        }
        if target == STATIC
            && cfg!(target_arch = "x86_64")
            && let failed @ Outcome::Failed(_) = static_arena()
        {
            return failed;
        }
    }
    Outcome::Passed
}

fn static_arena() -> Outcome {
    let compiler = Command::new("musl-gcc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !compiler.is_ok_and(|status| status.success()) {
        println!("skipped: a static arena (no musl-gcc: apt-get install musl-tools)");
        return Outcome::Passed;
    }
    let mut arena = cargo("build", STATIC);
    if let failed @ Outcome::Failed(_) = finish(arena.args(["-p", "plimsoll-examples", "--example", "arena"])) {
        return failed;
    }
    let program = repo::target_dir().join("targets").join(STATIC).join("debug/examples/arena");
    finish(Command::new(program).arg("--plan").stdout(Stdio::null()))
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
        pool.arg("--");
        OF_THE_SYSTEM.iter().for_each(|test| _ = pool.args(["--skip", test]));
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
