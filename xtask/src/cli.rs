//! The command line, and which file answers which command.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::ci::{self, Step};
use crate::conformance::{self, Suite};
use crate::{fuzz, mutants, runner, sim, tidy};

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
    /// Faults put into the crates whose tests have to find them all (needs cargo-mutants); hours, but for a shard
    Mutants(MutantsFlags),
    /// The cases of the protocols on our server and others
    Conformance(ConformanceFlags),
    /// The server and its clients in simulated worlds, a seed each
    Sim(SimFlags),
    /// A mixed load with attacks for a long time: fails on growth, leaks, or counters that do not agree with the
    /// clients'
    Soak(RunnerFlags),
    /// Servers side by side on loopback (needs wrk and h2load), or one of the other measurements
    Bench(RunnerFlags),
    #[command(hide = true)]
    BenchLoad(RunnerFlags),
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
pub(crate) struct MutantsFlags {
    /// This package and no other; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Vec<String>,
    /// One of N parts, counted from 0
    #[arg(long, value_name = "K/N", value_parser = mutants::shard)]
    pub(crate) shard: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SimFlags {
    /// Instead of worlds: so many random schedules of exchanges that wait for memory and hold it; none may deadlock,
    /// and nobody wait for ever
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "flags")]
    pub(crate) schedules: Option<u64>,
    /// Passed on: --of server|relay|fanout, --seeds N, --first S, --seed S (one seed, again), --replay-every N,
    /// --threads N
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAG")]
    pub(crate) flags: Vec<String>,
}

/// Flags of the program in `benches/runner`, which knows them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunnerFlags {
    /// Passed on; with `--help` the program names them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAG")]
    pub(crate) flags: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConformanceFlags {
    /// This suite and no other
    #[arg(value_name = "SUITE")]
    pub(crate) suite: Option<Suite>,
    /// Compare with these servers and no others
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Run these clients, or those whose names begin so, and no others
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
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
        Command::Mutants(flags) => mutants::run(&flags),
        Command::Sim(flags) => sim::run(&flags),
        Command::Soak(flags) => runner::run("soak", &flags),
        Command::Conformance(flags) => conformance::run(&flags),
        Command::Bench(flags) => runner::run("bench", &flags),
        Command::BenchLoad(flags) => runner::run("bench-load", &flags),
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
