//! `cargo xtask bench`: servers side by side, in one run, on loopback.
//!
//! A figure means something only beside another one that was measured on the same machine at the same time, so every server runs
//! for the whole of a profile, and they are loaded in turns: a round is one run of wrk for each of them, and the round
//! after it starts with the next one. Servers have one core, wrk has another.
//!
//! | part | file |
//! |---|---|
//! | which servers there are, and how each is built and started | [`servers`] |
//! | a started server | [`process`] |
//! | which cores they run on, and the programs that this needs | [`placement`] |
//! | what wrk does and says | [`load`] |
//! | the rounds of a profile | [`rounds`] |
//! | what a connection costs that waits | [`parked`] |
//! | table and `target/bench/report.json` | [`report`] |
//!
//! Its other measurements, each behind a flag of its own:
//!
//! | flag | part | file |
//! |---|---|---|
//! | `--criterion` | the parts, each beside what one would take instead | [`criterion`] |
//! | `--instructions` | what a request costs, counted exactly | [`instructions`] |
//! | `--pool` | the targets of the memory pool | [`pool`] |

mod callgrind;
mod client;
mod criterion;
mod figures;
pub(crate) mod instructions;
mod load;
mod parked;
mod placement;
mod pool;
mod proc;
mod process;
mod report;
mod rounds;
mod servers;

use std::fs;
use std::path::PathBuf;

use crate::cli::{BenchFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;
use load::Wrk;
use placement::Placement;
use process::Running;
use report::{Absent, Report};
use servers::Server;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Runs of wrk that count, for each server and profile; at least 1.
    rounds: u32,
    /// Length of each; at least 1.
    seconds: u32,
    /// Length of the one before them that does not count; at least 1.
    warm_up_seconds: u32,
    /// Fresh processes of each server whose memory is measured; at least 1.
    parked_rounds: u32,
}

impl Extent {
    fn new(flags: &BenchFlags) -> Extent {
        let (rounds, seconds, parked_rounds) = if flags.quick { (3, 2, 1) } else { (7, 4, 3) };
        let seconds = flags.seconds.unwrap_or(seconds);
        let rounds = flags.rounds.unwrap_or(rounds);
        Extent { rounds, seconds, warm_up_seconds: seconds.div_ceil(2), parked_rounds }
    }
}

/// Builds, measures and reports.
pub(crate) fn run(flags: &BenchFlags) -> u8 {
    if let Some(name) = &flags.criterion {
        return criterion::run(name);
    }
    if flags.pool {
        return pool::run();
    }
    if flags.instructions {
        return instructions::run(flags.update);
    }
    let servers = match servers::chosen(&flags.peers) {
        Ok(servers) => servers,
        Err(unknown) => {
            eprintln!("{unknown}");
            return EXIT_MISSING;
        }
    };
    if let Some(install) = placement::missing().or_else(load::missing) {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    match measure(&servers, Extent::new(flags)) {
        Ok(report) => conclude(&report),
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(servers: &[&'static Server], extent: Extent) -> Result<Report, String> {
    servers::build(servers)?;
    fs::create_dir_all(dir()).map_err(|error| format!("{}: {error}", dir().display()))?;
    let placement = Placement::here()?;
    placement::raise_open_files(parked::OPEN_FILES);
    let mut report = Report::new(placement.describe()?, extent);
    let servers = present(servers, &placement, &mut report.absent);
    let wrk = Wrk::new(&placement, &dir())?;
    for profile in &load::PROFILES {
        let running = servers.iter().map(|server| Running::start(server, &placement)).collect::<Result<Vec<_>, _>>()?;
        report.profiles.push(rounds::measure(profile, &running, &wrk, extent)?);
    }
    report.parked = Some(parked::measure(&servers, &placement, extent.parked_rounds)?);
    Ok(report)
}

/// The servers that start and answer what is asked of them below: a driver may be missing here, for example.
fn present(servers: &[&'static Server], placement: &Placement, absent: &mut Vec<Absent>) -> Vec<&'static Server> {
    let answers = |server: &&&'static Server| {
        let started = Running::start(server, placement);
        match started.and_then(|running| client::answers_ok(running.address())) {
            Ok(()) => true,
            Err(why) => {
                eprintln!("{} is left out: {why}", server.name);
                absent.push(Absent { server: server.name, why });
                false
            }
        }
    };
    servers.iter().filter(answers).copied().collect()
}

/// Shows the report, writes it, and judges it.
fn conclude(report: &Report) -> u8 {
    print!("{}", report.text());
    let path = dir().join("report.json");
    match fs::write(&path, report.json()) {
        Ok(()) => eprintln!("written: {}", path.display()),
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return EXIT_FAILED;
        }
    }
    if report.is_clean() { EXIT_OK } else { EXIT_FAILED }
}

/// Where the report, the scripts of wrk and what the servers say on stderr go.
fn dir() -> PathBuf {
    repo::target_dir().join("bench")
}
