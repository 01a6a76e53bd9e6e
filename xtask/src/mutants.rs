//! `cargo xtask mutants`: cargo-mutants over the crates whose tests have to find every fault. For a weekly job: a whole run takes hours.
//!
//! What is left out, and why, is in `.cargo/mutants.toml`.

use std::process::Command;

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
    if let Some(install) = repo::cargo_mutants_missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    if let Some(unknown) = flags.package.iter().find(|name| !PACKAGES.iter().any(|(known, _)| known == name)) {
        eprintln!("mutants are not made of `{unknown}`, but of {}", PACKAGES.map(|(name, _)| name).join(", "));
        return EXIT_MISSING;
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
    command.args(["mutants", "--package", package, "--timeout", "240", "--output"]);
    command.arg(repo::target_dir().join("mutants").join(package));
    files.iter().for_each(|file| _ = command.args(["--file", file]));
    // A part is then a sample of all files.
    shard.into_iter().for_each(|shard| _ = command.args(["--shard", shard, "--sharding", "round-robin"]));
    // All tests run for each mutant: without the examples of the documentation and the longest one, and with fewer cases of each.
    command.args(["--", "--lib", "--", "--skip", "ten_thousand_clients"]);
    command.env("PROPTEST_CASES", "64").env("PLIMSOLL_SCHEDULES", "200");
    command
}

/// A shard as cargo-mutants names it: `0/8` is the first of eight.
pub(crate) fn shard(text: &str) -> Result<String, String> {
    let parts = text.split_once('/').and_then(|(at, of)| Some((at.parse::<u32>().ok()?, of.parse::<u32>().ok()?)));
    match parts {
        Some((at, of)) if at < of => Ok(text.to_owned()),
        _ => Err("K/N, with K from 0 to N - 1".to_owned()),
    }
}
