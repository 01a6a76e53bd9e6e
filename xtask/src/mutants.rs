//! `cargo xtask mutants`: cargo-mutants over the crates whose tests have to find every fault. For a weekly job: a whole
//! run takes hours.
//!
//! What is left out, and why, is in `.cargo/mutants.toml`.

use std::process::Command;
use std::{env, fs};

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK, MutantsFlags};
use crate::repo;

/// The packages, and which of their files; none named is all of them.
const PACKAGES: [(&str, &[&str]); 4] = [
    ("plimsoll-slab", &[]),
    ("plimsoll-pool", &[]),
    ("plimsoll-codec", &[]),
    ("plimsoll-runtime", &["crates/runtime/src/task/**", "crates/runtime/src/time/**"]),
];

/// Runs the packages one after the other, also after one whose tests have missed something.
pub(crate) fn run(flags: &MutantsFlags) -> u8 {
    if let Some(install) = repo::subcommand_missing("mutants") {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    if let Some(unknown) = flags.package.iter().find(|name| !PACKAGES.iter().any(|(known, _)| known == name)) {
        eprintln!("mutants are not made of `{unknown}`, but of {}", PACKAGES.map(|(name, _)| name).join(", "));
        return EXIT_MISSING;
    }
    // cargo-mutants makes the last part of its path only.
    let outputs = repo::target_dir().join("mutants");
    if let Err(error) = fs::create_dir_all(&outputs) {
        eprintln!("{}: {error}", outputs.display());
        return EXIT_FAILED;
    }
    let mut worst = EXIT_OK;
    for (package, files) in PACKAGES {
        if !flags.package.is_empty() && !flags.package.iter().any(|wanted| wanted == package) {
            continue;
        }
        println!("== mutants of {package}");
        match mutants(package, files, flags.shard.as_deref()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("{package}: {status}; what was missed is in target/mutants/{package}/mutants.out/missed.txt");
                worst = EXIT_FAILED;
            }
            Err(error) => {
                eprintln!("cargo mutants did not start: {error}");
                return EXIT_FAILED;
            }
        }
    }
    worst
}

fn mutants(package: &str, files: &[&str], shard: Option<&str>) -> Command {
    let mut command = repo::cargo();
    command.args(["mutants", "--package", package, "--all-features", "--timeout", TIMEOUT_SECONDS, "--output"]);
    command.arg(repo::target_dir().join("mutants").join(package));
    files.iter().for_each(|file| _ = command.args(["--file", file]));
    // A part is then a sample of all files.
    shard.into_iter().for_each(|shard| _ = command.args(["--shard", shard, "--sharding", "round-robin"]));
    // Without the examples of the documentation, the tests in files of their own, which are not built either, and the
    // longest test, and with fewer cases of each. It is enough that one test fails: the others need not run, nor need
    // the case be made small or kept, and nobody reads a backtrace.
    command.arg("--cargo-arg=--lib");
    command.args(["--", "--", "--skip", "ten_thousand_clients", "-Zunstable-options", "--fail-fast"]);
    command.env("PROPTEST_CASES", "64").env("PLIMSOLL_SCHEDULES", "200");
    command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    command.env("RUST_BACKTRACE", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    // Tests that loop are ended by their processor time and their memory, however busy the machine is with other
    // things, and those that wait for ever by the clock: cargo-mutants itself would leave them behind. The harness, and
    // only that, takes its unstable option.
    let limits = format!("timeout --signal=KILL {TEST_SECONDS} prlimit --cpu={CPU_SECONDS} --data={DATA_BYTES}");
    let runner = format!("env RUSTC_BOOTSTRAP=1 {limits}");
    command.env(format!("CARGO_TARGET_{}_RUNNER", target()), runner);
    command
}

/// The machine that we run on, as the names of Cargo's variables have it.
fn target() -> String {
    format!("{}_UNKNOWN_LINUX_GNU", env::consts::ARCH).to_uppercase()
}

/// A shard as cargo-mutants names it: `0/8` is the first of eight.
pub(crate) fn shard(text: &str) -> Result<String, String> {
    let parts = text.split_once('/').and_then(|(at, of)| Some((at.parse::<u32>().ok()?, of.parse::<u32>().ok()?)));
    match parts {
        Some((at, of)) if at < of => Ok(text.to_owned()),
        _ => Err("K/N, with K from 0 to N - 1".to_owned()),
    }
}

/// For a build, or what starts the tests.
const TIMEOUT_SECONDS: &str = "300";

/// For tests that wait for ever: tens of times what they take by themselves, since a weekly job may run beside others.
const TEST_SECONDS: u32 = 120;

/// For tests that loop: some times what all tests of a package take.
const CPU_SECONDS: u32 = 15;

/// For tests that loop and store: more than any test needs.
const DATA_BYTES: u64 = 4 << 30;
