//! `cargo xtask bench`: servers side by side, in one run, on loopback.
//!
//! A figure means something only beside another one that was measured on the same machine at the same time, so every
//! server runs for the whole of a profile, and they are loaded in turns: a round is one run of the load for each of
//! them, and the round after it starts with the next one. Servers have one core, the load has another.
//!
//! | part | file |
//! |---|---|
//! | which servers there are, and how each is built and started | [`servers`] |
//! | which loads there are | [`loads`] |
//! | a started server | [`process`] |
//! | which cores they run on, and the programs that this needs | [`placement`] |
//! | whether all answer the same | [`check`] |
//! | what wrk does and says | [`wrk`] |
//! | what h2load does and says | [`h2load`] |
//! | clients of our own | [`swarm`] |
//! | the rounds of a profile | [`rounds`] |
//! | the memory cases | [`memory`] |
//! | what is kept: `target/bench/report.json` | [`record`] |
//! | how it is shown | [`report`] |
//!
//! Its other measurements, each behind a flag of its own:
//!
//! | flag | part | file |
//! |---|---|---|
//! | `--criterion` | the parts, each beside what one would take instead | [`criterion`] |
//! | `--instructions` | what a request costs, counted exactly | [`instructions`] |
//! | `--relay` | relays side by side | [`relay`], with [`pairs`] |
//! | `--fanout` | one message to many WebSockets | [`fanout`] |
//! | `--overload` | multiples of what fits | [`overload`] |
//! | `--tls` | servers over TLS side by side | [`tls`] |
//! | `--pool` | the targets of the memory pool | [`pool`], with [`memory`] and [`client`] |

mod callgrind;
mod check;
pub(crate) mod client;
mod criterion;
mod fanout;
mod figures;
mod h2load;
mod instructions;
mod loads;
mod memory;
mod overload;
mod pairs;
pub(crate) mod placement;
mod pool;
pub(crate) mod proc;
mod process;
mod record;
mod relay;
mod report;
mod rounds;
mod servers;
pub(crate) mod swarm;
mod tls;
mod wrk;

use std::fs;
use std::path::PathBuf;

use crate::cli::{BenchFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;
use check::Bodies;
use loads::{Case, Generator, Profile};
use placement::Placement;
use record::{Absent, Record, ServerRecord};
use rounds::Bench;
use servers::{Ability, Server};
use wrk::Wrk;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Runs of a load that count, for each server and profile; at least 1.
    rounds: u32,
    /// Length of each; at least 1.
    seconds: u32,
    /// The memory cases have one `part`th of their connections; at least 1.
    part: u32,
}

impl Extent {
    fn new(flags: &BenchFlags) -> Extent {
        let (rounds, seconds, part) = if flags.quick { (3, 1, 10) } else { (ROUNDS, SECONDS, 1) };
        Extent { rounds: flags.rounds.unwrap_or(rounds), seconds: flags.seconds.unwrap_or(seconds), part }
    }
}

/// What is measured.
struct Choice {
    servers: Vec<&'static Server>,
    profiles: Vec<&'static Profile>,
    cases: Vec<&'static Case>,
}

impl Choice {
    fn new(flags: &BenchFlags) -> Result<Choice, String> {
        let (profiles, cases) = loads::chosen(&flags.profiles)?;
        Ok(Choice { servers: servers::chosen(servers::ALL, &flags.peers, flags.quick)?, profiles, cases })
    }

    /// What is asked of a server, and what it has to be able to do for it.
    fn targets(&self) -> Vec<(&'static str, Option<Ability>)> {
        let mut targets: Vec<_> = self.profiles.iter().map(|profile| (profile.target, profile.needs)).collect();
        targets.extend(self.cases.iter().map(|case| (case.plan.target, case.needs)));
        // What is loaded in HTTP/2 is judged by what h2load says of the answers.
        targets.retain(|(_, needs)| *needs != Some(Ability::Http2));
        targets.sort_unstable_by_key(|(target, _)| *target);
        targets.dedup_by_key(|(target, _)| *target);
        targets
    }

    fn needs_h2load(&self) -> bool {
        self.profiles.iter().any(|profile| matches!(profile.generator, Generator::H2load { .. }))
    }

    fn needs_wrk(&self) -> bool {
        self.profiles.iter().any(|profile| matches!(profile.generator, Generator::Wrk { .. }))
    }
}

/// Builds, measures and reports.
pub(crate) fn run(flags: &BenchFlags) -> u8 {
    if let Some(name) = &flags.criterion {
        return criterion::run(name);
    }
    if let Some(name) = &flags.pool {
        return pool::run(name);
    }
    if flags.relay {
        return relay::run(&Extent::new(flags), &flags.profiles);
    }
    if flags.fanout {
        return fanout::run(&Extent::new(flags), &flags.profiles);
    }
    if flags.tls {
        return tls::run(flags);
    }
    if flags.overload {
        return overload::run(flags);
    }
    if flags.instructions {
        return instructions::run(flags.update, flags.layers);
    }
    if flags.readme {
        return judge(report::readme::write(&repo::root()).map(|()| true));
    }
    let choice = match Choice::new(flags) {
        Ok(choice) => choice,
        Err(unknown) => {
            eprintln!("{unknown}");
            return EXIT_MISSING;
        }
    };
    let missing = placement::missing().or_else(|| choice.needs_wrk().then(wrk::missing).flatten());
    let missing = missing.or_else(|| choice.needs_h2load().then(h2load::missing).flatten());
    if let Some(install) = missing {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    judge(measure(choice, Extent::new(flags)).and_then(|record| conclude(record, flags.merge)))
}

fn judge(clean: Result<bool, String>) -> u8 {
    match clean {
        Ok(true) => EXIT_OK,
        Ok(false) => EXIT_FAILED,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(mut choice: Choice, extent: Extent) -> Result<Record, String> {
    let mut absent = Vec::new();
    let mut leave_out = |server: &'static Server, why: String| {
        eprintln!("{} is left out: {why}", server.name);
        absent.push(Absent { server: server.name.to_owned(), why });
    };
    choice.servers = servers::build(&choice.servers, &mut leave_out)?;
    fs::create_dir_all(dir().join("servers")).map_err(|error| format!("{}: {error}", dir().display()))?;
    let placement = Placement::here()?;
    let machine = placement.describe()?;
    placement::raise_open_files(OPEN_FILES);
    placement.stay_away();
    let (targets, mut bodies) = (choice.targets(), Bodies::default());
    choice.servers.retain(|server| {
        let checked = bodies.check(server, &targets, &placement);
        checked.map_err(|why| leave_out(server, why)).is_ok()
    });
    let wrk = Wrk::new(&placement, &dir())?;
    let bench = Bench { placement: &placement, wrk: &wrk, extent };
    let mut record = Record::new(machine);
    for server in &choice.servers {
        let floor = server.driver.floor().to_owned();
        record.servers.push(ServerRecord { name: server.name.to_owned(), version: server.version(), floor });
    }
    record.absent = absent;
    record.profiles = choice.profiles.iter().map(|profile| bench.measure(profile, &choice.servers)).collect();
    let case = |case: &&'static Case| memory::measure(case, &choice.servers, extent.part, &placement);
    record.memory = choice.cases.iter().map(case).collect();
    Ok(record)
}

/// Shows the record and writes it in all forms. Whether all answers were right.
fn conclude(mut record: Record, merge: bool) -> Result<bool, String> {
    let json = dir().join("report.json");
    let clean = record.is_clean();
    let shown = report::text(&record);
    if merge && json.exists() {
        let older = fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
        let merged = Record::parse(&older).and_then(|older| older.merge(record.clone(), order));
        match merged {
            Ok(merged) => record = merged,
            Err(why) => {
                print!("{shown}");
                return Err(format!("{}: {why}", json.display()));
            }
        }
    }
    print!("{}", report::text(&record));
    for (name, text) in [("report.json", record.json()?), ("report.html", report::page(&record))] {
        let path = dir().join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("written: {}", path.display());
    }
    Ok(clean)
}

/// The place of a server, profile or case in a report.
fn order(name: &str) -> usize {
    let servers = servers::ALL.iter().map(|server| server.name);
    let names = servers.chain(loads::PROFILES.iter().map(|profile| profile.name));
    let mut names = names.chain(loads::CASES.iter().map(|case| case.name));
    names.position(|known| known == name).unwrap_or(usize::MAX)
}

/// Where the report, the scripts of wrk, and what the servers need and say go.
fn dir() -> PathBuf {
    repo::target_dir().join("bench")
}

/// All servers in about half an hour. What that is worth depends on how quiet the machine is: the report says it, and
/// benches/results/README.md.
const ROUNDS: u32 = 7;
const SECONDS: u32 = 2;
/// Files that a server may have open, as far as the hard limit goes: a server sizes its tables by the limit and keeps
/// some free.
const OPEN_FILES: u64 = 10_512;
