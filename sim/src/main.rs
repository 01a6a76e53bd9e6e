//! `cargo xtask sim`: sweeps over seeds, prints how far it is, and names a seed that fails.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program answers on its streams")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use plimsoll::sim::{Census, FailedSeed, Sweep};
use plimsoll_sim::limits::Limit;
use plimsoll_sim::oracle::Verdict;
use plimsoll_sim::scenario::Carrier;
use plimsoll_sim::{fanout, relay, scenario, world};

mod sys;

/// A sweep of so many seeds must have seen every fault and every kind of operation.
const COMPLETE_FROM_SEEDS: u64 = 1_000;
/// How often the sweep says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The server and its clients in simulated worlds
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim", bin_name = "cargo xtask sim")]
struct Flags {
    /// What runs in the worlds: the server, the same over TLS, relays or hubs
    #[arg(long, value_enum, default_value = "server")]
    of: Of,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    first: u64,
    /// Run this seed alone, twice, and say what happened in it
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Run every Nth seed a second time and compare the two runs
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    replay_every: u64,
    /// Threads [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
}

impl Flags {
    /// Runs `test` for all seeds, and says every ten seconds how far it is.
    fn sweep(&self, clock: &sys::Clock, test: impl Fn(u64) -> Census + Sync) -> Result<Census, FailedSeed> {
        let threads = self.threads.map_or_else(sys::processors, usize::from);
        let said = AtomicU64::new(0);
        let progress = |done: u64| {
            let turn = clock.elapsed().as_secs() / PROGRESS_INTERVAL.as_secs();
            if said.fetch_max(turn, Ordering::Relaxed) < turn {
                println!("{done} of {} seeds, {:.0} a second", self.seeds, clock.rate(done));
            }
        };
        Sweep { first_seed: self.first, seeds: self.seeds, threads }.run(test, progress)
    }
}

/// What runs a seed.
enum Scenario {
    /// It has more to show than its census.
    Server(Carrier),
    Other(fn(u64) -> world::Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    Server,
    Tls,
    Relay,
    Fanout,
}

impl Of {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn scenario(self) -> Scenario {
        match self {
            Self::Server => Scenario::Server(Carrier::Bare),
            Self::Tls => Scenario::Server(Carrier::Tls),
            Self::Relay => Scenario::Other(relay::run),
            Self::Fanout => Scenario::Other(fanout::run),
        }
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match (flags.of.scenario(), flags.seed) {
        (Scenario::Server(carrier), Some(seed)) => run_one(seed, carrier),
        (Scenario::Server(carrier), None) => sweep(&flags, carrier),
        (Scenario::Other(run), Some(seed)) => {
            let outcome = run(seed);
            println!("{}", outcome.census);
            println!("seed {seed}: trace {:016x}: {}", outcome.trace_hash, outcome.summary);
            assert_eq!(outcome, run(seed), "a seed does the same again");
            ExitCode::SUCCESS
        }
        (Scenario::Other(run), None) => sweep_over(&flags, run),
    }
}

/// Sweeps over a scenario that shows no more than its census.
fn sweep_over(flags: &Flags, run: fn(u64) -> world::Outcome) -> ExitCode {
    let name = flags.of.name();
    let clock = sys::Clock::start();
    let test = |seed: u64| {
        let outcome = run(seed);
        if seed.is_multiple_of(flags.replay_every) {
            assert_eq!(outcome, run(seed), "a seed does the same again");
        }
        outcome.census
    };
    match flags.sweep(&clock, test) {
        Ok(census) => {
            println!("{census}");
            println!(
                "{} seeds of {name} from {}: {:.0} a second, 0 failed",
                flags.seeds,
                flags.first,
                clock.rate(flags.seeds)
            );
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("{failed}");
            eprintln!("to see it again: cargo xtask sim --of {name} --seed {}", failed.seed);
            ExitCode::FAILURE
        }
    }
}

fn run_one(seed: u64, carrier: Carrier) -> ExitCode {
    let outcome = scenario::run(seed, carrier);
    let again = scenario::run(seed, carrier);
    println!("{}", outcome.census);
    println!("seed {seed}: trace {:016x}, {} bytes received", outcome.trace_hash, outcome.received_bytes);
    println!("clients: {:?}", outcome.verdicts);
    println!("limit: {:?}", outcome.limit);
    println!("server: {:?}", outcome.totals);
    if outcome == again {
        return ExitCode::SUCCESS;
    }
    eprintln!("the second run was another one: trace {:016x}, {:?}", again.trace_hash, again.totals);
    ExitCode::FAILURE
}

/// What a sweep counts besides the census.
#[derive(Debug, Default)]
struct Clients {
    whole: AtomicU64,
    cut: AtomicU64,
    refused: AtomicU64,
    /// Seeds in which each limit was tight, and those in which it was reached.
    limits: [[AtomicU64; 2]; Limit::ALL.len()],
}

impl Clients {
    fn count(&self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let count = match verdict {
                Verdict::Whole => &self.whole,
                Verdict::Cut => &self.cut,
                Verdict::Refused => &self.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn sweep(flags: &Flags, carrier: Carrier) -> ExitCode {
    let clients = Clients::default();
    let clock = sys::Clock::start();
    let test = |seed: u64| {
        let outcome = scenario::run(seed, carrier);
        if seed.is_multiple_of(flags.replay_every) {
            assert_eq!(outcome, scenario::run(seed, carrier), "a seed does the same again");
        }
        clients.count(&outcome.verdicts);
        if let Some((limit, is_reached)) = outcome.limit {
            let [tight, reached] = &clients.limits[limit as usize];
            tight.fetch_add(1, Ordering::Relaxed);
            reached.fetch_add(u64::from(is_reached), Ordering::Relaxed);
        }
        outcome.census
    };
    match flags.sweep(&clock, test) {
        Ok(census) => finish(flags, carrier, &census, &clients, &clock),
        Err(failed) => {
            eprintln!("{failed}");
            eprintln!("to see it again: cargo xtask sim --of {} --seed {}", flags.of.name(), failed.seed);
            ExitCode::FAILURE
        }
    }
}

fn finish(flags: &Flags, carrier: Carrier, census: &Census, clients: &Clients, clock: &sys::Clock) -> ExitCode {
    println!("{census}");
    let [whole, cut, refused] =
        [&clients.whole, &clients.cut, &clients.refused].map(|count| count.load(Ordering::Relaxed));
    println!("clients: {whole} got all, {cut} a part, {refused} were refused");
    let mut unreached = Vec::new();
    for (limit, counts) in Limit::ALL.into_iter().zip(&clients.limits).filter(|(limit, _)| carrier.tells_of(*limit)) {
        let [tight, reached] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        println!("{reached:>10} reached limit: {} (tight in {tight})", limit.name());
        if reached == 0 {
            unreached.push(limit.name());
        }
    }
    let took = clock.elapsed().as_secs_f64();
    println!(
        "{} seeds from {} in {took:.1} s: {:.0} a second, 0 failed",
        flags.seeds,
        flags.first,
        clock.rate(flags.seeds)
    );
    if flags.seeds < COMPLETE_FROM_SEEDS {
        return ExitCode::SUCCESS;
    }
    let faults: Vec<&str> = census.faults_missing().map(|fault| fault.name()).collect();
    let ops: Vec<&str> = census.ops_missing().map(|kind| kind.name()).collect();
    if faults.is_empty() && ops.is_empty() && unreached.is_empty() && whole.min(cut).min(refused) > 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "the census is not complete: never happened: faults {faults:?}, operations {ops:?}, limits {unreached:?}"
    );
    ExitCode::FAILURE
}
