//! `cargo xtask sim`: builds the simulation (optimised, with every assertion) and runs it.

use std::process::Command;

use crate::cli::{EXIT_FAILED, EXIT_OK, SimFlags};
use crate::repo;

/// Runs a sweep, or one seed; the program says what happened.
pub(crate) fn run(flags: &SimFlags) -> u8 {
    match command(&flags.flags).status() {
        Ok(status) if status.success() => EXIT_OK,
        Ok(_) => EXIT_FAILED,
        Err(error) => {
            eprintln!("cargo did not start: {error}");
            EXIT_FAILED
        }
    }
}

/// The simulation with flags of its own.
pub(crate) fn command(flags: &[String]) -> Command {
    let mut command = repo::cargo();
    command.args(["run", "--quiet", "--locked", "--profile", "sim", "-p", "plimsoll-sim", "--"]).args(flags);
    command
}
