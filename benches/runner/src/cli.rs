//! The command line, and which file answers which command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{bench, soak};

/// `cargo xtask` starts this program, and its name stands in what this one says of itself.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Runner {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A mixed load with attacks for a long time: fails on growth, leaks, or counters that do not agree with the
    /// clients'
    Soak(SoakFlags),
    /// Servers side by side on loopback (needs wrk and h2load), or one of the other measurements
    Bench(BenchFlags),
    #[command(hide = true)]
    BenchLoad(SwarmFlags),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SoakFlags {
    /// How long, on both drivers beside each other
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_080))]
    pub(crate) minutes: u32,
    /// On this driver and no other; may be repeated
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(soak::DRIVERS))]
    pub(crate) driver: Vec<String>,
    /// What the clients do follows from it; another one each time without it
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchFlags {
    /// Ours, the floors and hyper only, 3 rounds of 1 second, a tenth of the connections in memory cases: under three
    /// minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure beside these servers and no others (ours are always there)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Measure these profiles and memory cases and no others; with --relay bulk, messages, parked; with --fanout round,
    /// slow; with --overload and --tls see below
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) profiles: Vec<String>,
    /// Rounds of each profile [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Seconds for each server in a round [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: Option<u32>,
    /// Put what is measured into the report that is there, in the place of what it has of the same name
    #[arg(long)]
    pub(crate) merge: bool,
    /// Measure nothing: make the README's figures, the plot and the tables from benches/results/reference.json
    #[arg(long)]
    pub(crate) readme: bool,
    /// Run the criterion benches instead, or the group of that name
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["quick", "peers", "rounds", "seconds"])]
    pub(crate) criterion: Option<String>,
    /// Count the instructions of a fixed set of requests instead (needs valgrind)
    #[arg(long, conflicts_with_all = ["quick", "peers", "rounds", "seconds", "criterion"])]
    pub(crate) instructions: bool,
    /// Measure the targets of memory instead, or those whose name has this in it, and say which are met
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["quick", "peers", "rounds", "seconds", "criterion", "instructions"])]
    pub(crate) pool: Option<String>,
    /// Measure relays side by side instead: CPU of a large transfer and of small messages, memory of parked pairs
    #[arg(long, conflicts_with_all = ["peers", "criterion", "instructions", "pool"])]
    pub(crate) relay: bool,
    /// Measure fan-out instead: one message to 10,000 WebSockets, its memory and time, and what becomes of slow ones
    #[arg(long, conflicts_with_all = ["peers", "criterion", "instructions", "pool", "relay"])]
    pub(crate) fanout: bool,
    /// Measure servers under multiples of what fits instead: goodput, refusals, a light client, and whether every
    /// handler's end is explained
    #[arg(long, conflicts_with_all = ["rounds", "merge", "criterion", "instructions", "pool", "relay", "fanout"])]
    pub(crate) overload: bool,
    /// Measure servers over TLS side by side instead: requests, handshakes, bulk, memory of parked connections and
    /// after a burst
    #[arg(long, conflicts_with_all = ["merge", "criterion", "instructions", "pool", "relay", "fanout", "overload"])]
    pub(crate) tls: bool,
    /// With --instructions: store the counts as the new baseline
    #[arg(long, requires = "instructions")]
    pub(crate) update: bool,
    /// With --instructions: count a route with each of the server's layers around it
    #[arg(long, requires = "instructions", conflicts_with = "update")]
    pub(crate) layers: bool,
}

const BENCH_HELP: &str = "\
Profiles: keep-alive-64, keep-alive-512, pipelined-16, short-10, json-50, upload-20m, h2-streams-32, h2-streams-100,
  websocket-512, websocket-4096.
Memory cases: parked, half-head, slow-readers, uploads, unread-pipelines, burst, websockets.
Profiles of --overload: sleep, sleep-10, sleep-1000, sleep-new, sleep-h2, sleep-returns, sleep-insists, sleep-8m, compute, compute-new, compute-h2,
  stream, upload, poll, websocket, tiny; it writes target/bench/overload.json and overload.html. Its --quick is sleep, beside hyper.
Profiles of --tls: keep-alive, pipelined, full, resumed, h2, bulk, parked, burst; it writes target/bench/tls.txt.
Writes target/bench/report.json and report.html, and a table to stdout; progress goes to stderr.
Servers are in benches/runner/src/bench/servers.rs, loads in benches/runner/src/bench/loads.rs: a line each.

cargo xtask bench --quick                                 a first look
cargo xtask bench                                         all of it, about 35 minutes
cargo xtask bench --peers hyper,floor-uring --profiles keep-alive-64 --rounds 3
cargo xtask bench --profiles json-50,parked --merge       measure these again, keep the rest of the report";

/// The clients of a load; `bench` starts them.
#[derive(Debug, clap::Args)]
pub(crate) struct SwarmFlags {
    /// The name of a profile or memory case
    pub(crate) load: String,
    /// The server
    pub(crate) to: std::net::SocketAddr,
    /// How long, if the load has no end
    #[arg(long)]
    pub(crate) seconds: Option<u32>,
    /// One part of so many of its connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) part: u32,
}

/// Reads the command line and runs the command.
pub(crate) fn run() -> ExitCode {
    ExitCode::from(match Runner::parse().command {
        Command::Soak(flags) => soak::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
        Command::BenchLoad(flags) => bench::swarm::run(&flags),
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
