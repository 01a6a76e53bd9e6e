//! `cargo xtask fuzz`: every cargo-fuzz target for some time.

pub(crate) mod replay;
mod seeds;

use std::fs;
use std::process::Command;

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK, FuzzFlags};
use crate::repo;

/// Runs the targets one after the other; stops at the first that fails.
pub(crate) fn run(flags: &FuzzFlags) -> u8 {
    if let Some(install) = repo::nightly_missing(repo::RUST_VERSION_MIN).or_else(|| repo::subcommand_missing("fuzz")) {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    let all = replay::names();
    if let Some(unknown) = flags.target.iter().find(|name| !all.contains(&name.as_str())) {
        eprintln!("no fuzz target `{unknown}`; there are {}", all.join(", "));
        return EXIT_MISSING;
    }
    for target in all.iter().filter(|name| flags.target.is_empty() || flags.target.iter().any(|wanted| wanted == *name))
    {
        println!("== fuzz {target} for {} s", flags.seconds);
        match fuzz(target, flags.seconds).status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("{target} failed ({status}); the input is in fuzz/artifacts/{target}");
                return EXIT_FAILED;
            }
            Err(error) => {
                eprintln!("cargo fuzz did not start: {error}");
                return EXIT_FAILED;
            }
        }
    }
    EXIT_OK
}

/// What the fuzzer finds goes to the build directory, beside the seeds; the corpus of the repository is only read.
fn fuzz(target: &str, seconds: u32) -> Command {
    let found = repo::target_dir().join("fuzz-corpus").join(target);
    if let Err(error) = fs::create_dir_all(&found) {
        eprintln!("{}: {error}", found.display());
    }
    for (index, seed) in seeds::of(target).iter().enumerate() {
        // A seed that is missing costs the fuzzer some time and nothing else.
        let _unwritten = fs::write(found.join(format!("case-{index}")), seed);
    }
    let mut command = repo::cargo_of("nightly");
    command.args(["fuzz", "run", target]).arg(found).arg(replay::corpus_dir(target));
    command.args(["--", &format!("-max_total_time={seconds}"), "-max_len=16384"]);
    command
}
