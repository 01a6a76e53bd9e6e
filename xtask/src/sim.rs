//! `cargo xtask sim`: builds the simulation (optimised, with every assertion) and runs it; or the model of the waiters
//! for memory.

use std::process::Command;

use crate::cli::{EXIT_FAILED, EXIT_OK, SimFlags};
use crate::repo;

/// Runs a sweep, or one seed; the program says what happened.
pub(crate) fn run(flags: &SimFlags) -> u8 {
    let mut command = match flags.schedules {
        Some(schedules) => deadlocks(schedules),
        None => command(&flags.flags),
    };
    match command.status() {
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

/// The test that goes over so many random schedules, built as the simulation is; it prints its figures.
fn deadlocks(schedules: u64) -> Command {
    let mut command = repo::cargo();
    command.args(["test", "--quiet", "--locked", "--profile", "sim", "-p", "plimsoll-pool", "--lib"]);
    command.args(["--", "--nocapture", DEADLOCKS]).env("PLIMSOLL_SCHEDULES", schedules.to_string());
    command
}

/// Its name.
const DEADLOCKS: &str = "no_schedule_ends_in_a_deadlock";
