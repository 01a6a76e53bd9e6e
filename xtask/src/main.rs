//! Repository tasks: `cargo xtask COMMAND`, a file per command.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | something that was checked is wrong |
//! | 2 | wrong flags, or a program is missing: the message says which one and how to install it |

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program answers on its streams")]

mod ci;
mod cli;
mod conformance;
mod fuzz;
mod mutants;
mod repo;
mod runner;
mod sim;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
