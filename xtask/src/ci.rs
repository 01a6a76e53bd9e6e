//! `cargo xtask ci`: everything that must pass before a change lands, one step after the other.
//!
//! A step that needs a tool that is not there says `skipped: why` in one line and does not fail; everything else that a
//! step cannot do is a failure.

mod api;
mod ecosystem;
mod packages;
mod steps;
mod targets;

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::cli::{CiFlags, EXIT_FAILED, EXIT_OK};

/// One thing that must pass. They run in this order: what fails fast comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Every file is formatted
    Fmt,
    /// No lint speaks
    Clippy,
    /// The house rules
    Tidy,
    /// No word is misspelt (needs typos)
    Typos,
    /// Licences and sources of dependencies; duplicates are printed (needs cargo-deny)
    Deny,
    /// Every test, on every driver, and the examples of the documentation
    Test,
    /// The documentation builds without a warning
    Doc,
    /// The concurrent parts in every interleaving
    Loom,
    /// The server in some thousand simulated worlds, also over TLS
    Sim,
    /// The fuzz targets over their corpora and seeded random inputs
    Fuzz,
    /// A minute of mixed load and attacks: nothing grows, leaks or miscounts
    Soak,
    /// Clients that others wrote (those that are installed)
    Clients,
    /// The examples with crates that others wrote, beside the servers that are installed. By `--only` alone
    Ecosystem,
    /// What a request costs, and how that has changed: printed, not judged (needs valgrind). By `--only` alone
    Instructions,
    /// The crates with unsafe code under the address sanitizer (needs nightly)
    Asan,
    /// Each feature of what is published alone, none and all (needs cargo-hack)
    Features,
    /// What is published builds with the lowest Rust that its manifest names (needs that toolchain)
    Msrv,
    /// What is published builds with the lowest versions of its dependencies (needs nightly)
    MinimalVersions,
    /// It compiles for other processors and C libraries (those targets that are installed). By `--only` alone
    Targets,
    /// The tests that rest on pages, with pages of 16 and 64 KiB. By `--only` alone
    Pages,
    /// What is published builds from its packages alone
    Packages,
    /// The documentation builds as docs.rs builds it (needs nightly)
    DocsRs,
    /// The public surface is what docs/api says (needs nightly and cargo-public-api)
    Api,
}

/// Steps that build much for what seldom breaks, or judge nothing: they run when they are asked for, each week and
/// before a release.
const BY_NAME: [Step; 4] = [Step::Ecosystem, Step::Instructions, Step::Targets, Step::Pages];

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Why it could not run here.
    Skipped(String),
    /// What is wrong.
    Failed(String),
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn run(self) -> Outcome {
        match self {
            Step::Fmt => steps::fmt(),
            Step::Clippy => steps::clippy(),
            Step::Tidy => steps::tidy(),
            Step::Typos => steps::typos(),
            Step::Deny => steps::deny(),
            Step::Test => steps::test(),
            Step::Doc => steps::doc(),
            Step::Loom => steps::loom(),
            Step::Sim => steps::sim(),
            Step::Fuzz => steps::fuzz(),
            Step::Soak => steps::soak(),
            Step::Clients => steps::clients(),
            Step::Ecosystem => ecosystem::ecosystem(),
            Step::Instructions => steps::instructions(),
            Step::Asan => steps::asan(),
            Step::Features => steps::features(),
            Step::Msrv => steps::msrv(),
            Step::MinimalVersions => steps::minimal_versions(),
            Step::Targets => targets::targets(),
            Step::Pages => targets::pages(),
            Step::Packages => packages::packages(),
            Step::DocsRs => steps::docs_rs(),
            Step::Api => api::api(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Skipped(why) => write!(f, "skipped: {why}"),
            Outcome::Failed(what) => write!(f, "FAILED: {what}"),
        }
    }
}

/// Runs the chosen steps and says how they ended.
pub(crate) fn run(flags: &CiFlags) -> u8 {
    if flags.list {
        for step in Step::value_variants() {
            println!("{}", step.name());
        }
        return EXIT_OK;
    }
    let mut ended: Vec<(Step, Outcome, Duration)> = Vec::new();
    for step in chosen(flags) {
        println!("\n== {}", step.name());
        let start = Instant::now();
        let outcome = step.run();
        let took = start.elapsed();
        println!("== {} {outcome} ({:.1} s)", step.name(), took.as_secs_f64());
        let failed = matches!(outcome, Outcome::Failed(_));
        ended.push((step, outcome, took));
        if failed && !flags.keep_going {
            break;
        }
    }
    summarise(&ended)
}

/// The steps that the flags leave, in order.
fn chosen(flags: &CiFlags) -> Vec<Step> {
    let wanted = |step: &Step| match flags.only.is_empty() {
        true => !BY_NAME.contains(step),
        false => flags.only.contains(step),
    };
    Step::value_variants().iter().copied().filter(wanted).filter(|step| !flags.skip.contains(step)).collect()
}

fn summarise(ended: &[(Step, Outcome, Duration)]) -> u8 {
    println!("\n== summary");
    for (step, outcome, took) in ended {
        println!("{:<16} {:>7.1} s  {outcome}", step.name(), took.as_secs_f64());
    }
    let total: Duration = ended.iter().map(|(_, _, took)| *took).sum();
    println!("{:<16} {:>7.1} s", "total", total.as_secs_f64());
    if ended.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_))) { EXIT_FAILED } else { EXIT_OK }
}

#[cfg(test)]
mod tests;
