//! Servers under load: `cargo xtask bench` and `cargo xtask soak`, which only build and start this program.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | something that was checked is wrong |
//! | 2 | wrong flags, or a program is missing: the last line says which one and how to install it |

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program answers on its streams")]

mod bench;
mod cli;
mod random;
mod repo;
mod soak;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
