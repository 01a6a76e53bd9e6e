//! `cargo xtask bench` and `cargo xtask soak`: built and started, with the flags as they were given. The program is in
//! `benches/runner`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::ci::Outcome;
use crate::cli::{EXIT_FAILED, EXIT_MISSING, RunnerFlags};
use crate::repo;

/// Becomes the program, whose signals, output and exit code are then this one's.
pub(crate) fn run(name: &str, flags: &RunnerFlags) -> u8 {
    let error = command(name, &flags.flags).exec();
    eprintln!("cargo did not start: {error}");
    EXIT_FAILED
}

/// Runs it as a step of `ci`: skipped where it says what to install.
pub(crate) fn step(name: &str, flags: &[&str]) -> Outcome {
    let mut last = String::new();
    let ended = command(name, flags).stderr(Stdio::piped()).spawn().and_then(|mut program| {
        for line in program.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
            last = line?;
            eprintln!("{last}");
        }
        program.wait()
    });
    match ended {
        Ok(status) => judge(status.code(), last),
        Err(error) => Outcome::Failed(format!("{name}: {error}")),
    }
}

/// Flags that the program does not know end it with the same code as a tool that it misses: those are a failure.
fn judge(code: Option<i32>, last: String) -> Outcome {
    match code {
        Some(0) => Outcome::Passed,
        Some(code) if code == i32::from(EXIT_MISSING) && last.contains(INSTALL) => Outcome::Skipped(last),
        _ => Outcome::Failed(last),
    }
}

/// The program builds as it always has: not optimised, so that loads are comparable.
fn command(name: &str, flags: &[impl AsRef<OsStr>]) -> Command {
    let mut command = repo::cargo();
    command.args(["run", "--quiet", "--locked", "--package", "plimsoll-bench-runner", "--", name]).args(flags);
    command
}

/// Is in each line that says what is missing.
const INSTALL: &str = ": apt-get install ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_skipped_and_a_wrong_flag_fails() {
        let missing = "no valgrind, which counts instructions: apt-get install valgrind".to_owned();
        assert_eq!(judge(Some(2), missing.clone()), Outcome::Skipped(missing));
        let wrong = "For more information, try '--help'.".to_owned();
        assert_eq!(judge(Some(2), wrong.clone()), Outcome::Failed(wrong));
        assert_eq!(judge(Some(0), String::new()), Outcome::Passed);
        assert_eq!(judge(Some(1), "mio: grows".to_owned()), Outcome::Failed("mio: grows".to_owned()));
        assert_eq!(judge(None, String::new()), Outcome::Failed(String::new()));
    }
}
