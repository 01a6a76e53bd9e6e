//! The command line, and which file answers which command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::ci::{self, Step};
use crate::conformance::{self, Suite};
use crate::{bench, fuzz, tidy};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that must pass before a change lands
    Ci(CiFlags),
    /// The house rules, with figures
    Tidy,
    /// Every fuzz target for some time (needs nightly and cargo-fuzz)
    Fuzz(FuzzFlags),
    /// The cases of the protocols on our server and others
    Conformance(ConformanceFlags),
    /// Servers side by side on loopback (needs wrk)
    Bench(BenchFlags),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CiFlags {
    /// Leave a step out; may be repeated
    #[arg(long, value_name = "STEP")]
    pub(crate) skip: Vec<Step>,
    /// Run this step and no other; may be repeated
    #[arg(long, value_name = "STEP")]
    pub(crate) only: Vec<Step>,
    /// Run the steps after a failed one too
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Name the steps and exit
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FuzzFlags {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
    /// Run this target and no other; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchFlags {
    /// 3 rounds of 2 seconds: under three minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure beside these servers and no others
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Rounds of each load [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Seconds for each server in a round [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConformanceFlags {
    /// This suite and no other
    #[arg(value_name = "SUITE")]
    pub(crate) suite: Option<Suite>,
    /// Compare with these servers and no others
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Write the results into docs/
    #[arg(long)]
    pub(crate) write: bool,
}

/// Reads the command line and runs the command.
pub(crate) fn run() -> ExitCode {
    ExitCode::from(match Xtask::parse().command {
        Command::Ci(flags) => ci::run(&flags),
        Command::Tidy => tidy::run(),
        Command::Fuzz(flags) => fuzz::run(&flags),
        Command::Conformance(flags) => conformance::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
    })
}

/// Everything that was asked for was done and is right.
pub(crate) const EXIT_OK: u8 = 0;
/// A check says no.
pub(crate) const EXIT_FAILED: u8 = 1;
/// A program that the command needs is missing.
pub(crate) const EXIT_MISSING: u8 = 2;

#[cfg(test)]
mod tests;
