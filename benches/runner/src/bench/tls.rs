//! `cargo xtask bench --tls`: servers over TLS side by side, one thread each, with the same P-256 certificate, TLS 1.3,
//! `TLS_AES_128_GCM_SHA256` and X25519.
//!
//! | row | what is done | what is counted |
//! |---|---|---|
//! | `keep-alive` | wrk, 512 connections, a request at a time | CPU microseconds of the server for a request |
//! | `pipelined` | wrk, 64 connections, 16 requests at once | the same |
//! | `h2` | h2load, 32 connections, 32 streams at a time on each | the same |
//! | `full` | connections of one request each, 8 at a time | CPU microseconds of the server for a connection |
//! | `resumed` | the same, each with the ticket of the one before | the same |
//! | `bulk` | 4 connections, answers of 1 MiB | CPU seconds of the server for 10^9 bytes |
//! | `parked` | 10,000 connections after a request, at a fresh process | anonymous bytes of the server for each |
//! | `burst` | 5,000 connections after a request, then all closed; ours alone | what of the pool's bytes and of the resident growth is back after 3 s |
//!
//! | part | file |
//! |---|---|
//! | a client | [`client`] |
//! | the certificate | [`certificate`] |
//! | a measurement of a server | [`work`] |
//! | the table | [`table`] |
//!
//! The servers take turns, round by round; each has one core, the load another. All servers of a profile run at the
//! same time, so that a round of one lies beside those of the others.

mod certificate;
mod client;
mod table;
mod work;

use std::fs;
use std::path::PathBuf;

use super::placement::{self, Placement};
use super::process::Running;
use super::servers::{self, Server};
use super::{Extent, h2load, wrk};
use crate::cli::{BenchFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use work::{Bed, Work};

/// What was measured of a server in a profile, round by round; the rounds that failed are not there.
struct Series {
    server: &'static Server,
    /// The round, and its figure.
    figures: Vec<(u32, f64)>,
    failed: Option<String>,
}

/// Measures and prints the tables.
pub(super) fn run(flags: &BenchFlags) -> u8 {
    let missing = placement::missing().or_else(wrk::missing).or_else(h2load::missing);
    if let Some(install) = missing {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    if let Some(unknown) = flags.profiles.iter().find(|name| Work::of(name).is_none() && *name != BURST) {
        let names: Vec<&str> = Work::ALL.iter().map(|work| work.name()).collect();
        eprintln!("no profile `{unknown}`; of TLS there are {}, {BURST}", names.join(", "));
        return EXIT_MISSING;
    }
    let servers = match servers::chosen(servers::SECURED, &flags.peers, flags.quick) {
        Ok(servers) => servers,
        Err(unknown) => {
            eprintln!("{unknown}");
            return EXIT_MISSING;
        }
    };
    let wanted = |name: &str| flags.profiles.is_empty() || flags.profiles.iter().any(|profile| profile == name);
    match measure(&Extent::new(flags), &servers, wanted) {
        Ok(true) => EXIT_OK,
        Ok(false) => EXIT_FAILED,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(extent: &Extent, servers: &[&'static Server], wanted: impl Fn(&str) -> bool) -> Result<bool, String> {
    let servers = servers::build(servers, |server, why| eprintln!("{} is left out: {why}", server.name))?;
    for folder in [super::dir().join("servers"), dir()] {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    certificate::write(&dir()).map_err(|why| format!("the certificate: {why}"))?;
    placement::raise_open_files(super::OPEN_FILES);
    let placement = Placement::here()?;
    let machine = placement.describe()?;
    placement.stay_away();
    let bed = Bed::new(&placement, &dir(), extent)?;
    let mut text = format!("{}, {} cores, Linux {}\n", machine.cpu, machine.cores, machine.kernel);
    let versions: Vec<String> = servers.iter().filter_map(|server| server.version()).collect();
    text.push_str(&format!("{}\n", versions.join(", ")));
    let mut clean = true;
    for work in Work::ALL.into_iter().filter(|work| wanted(work.name())) {
        let load = placement::load_average();
        let series = if work == Work::Parked { parked(&bed, &servers) } else { rounds(&bed, work, &servers, extent) };
        clean &= series.iter().all(|series| series.failed.is_none());
        text.push_str(&table::of(work, &series, load, placement::load_average()));
    }
    for server in servers.iter().filter(|server| server.is_ours() && wanted(BURST)) {
        let line = match Running::start(server, "/", &placement).and_then(|running| bed.burst(&running)) {
            Ok(burst) => burst.line(server.name),
            Err(why) => {
                clean = false;
                format!("{BURST}: {}: {why}\n", server.name)
            }
        };
        eprint!("{line}");
        text.push_str(&line);
    }
    print!("{text}");
    let path = super::dir().join("tls.txt");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(clean)
}

/// All servers that can do it run; each round loads them in turns and begins with another one.
fn rounds(bed: &Bed<'_>, work: Work, servers: &[&'static Server], extent: &Extent) -> Vec<Series> {
    let able = servers.iter().filter(|server| work.needs().iter().all(|needed| server.cannot(Some(*needed)).is_none()));
    let mut entries: Vec<(Option<Running>, Series)> = able
        .map(|&server| {
            let started = Running::start(server, "/", bed.placement());
            let failed = started.as_ref().err().cloned();
            (started.ok(), Series { server, figures: Vec::new(), failed })
        })
        .collect();
    for round in 0..extent.rounds {
        for turn in 0..entries.len() {
            let at = (turn + round as usize) % entries.len();
            let (running, series) = &mut entries[at];
            let Some(server) = running else { continue };
            match bed.measure(work, server) {
                Ok(figure) => series.figures.push((round, figure)),
                Err(why) => {
                    series.failed = Some(server.death().unwrap_or(why));
                    *running = None;
                }
            }
        }
        let last = entries.iter().filter_map(|(_, series)| {
            let (_, figure) = series.figures.last().filter(|(of, _)| *of == round)?;
            Some(format!("{} {figure:.2}", series.server.name))
        });
        eprintln!("{}: round {} of {}: {}", work.name(), round + 1, extent.rounds, last.collect::<Vec<_>>().join(", "));
    }
    entries.into_iter().map(|(_, series)| series).collect()
}

/// Each server alone, as a fresh process.
fn parked(bed: &Bed<'_>, servers: &[&'static Server]) -> Vec<Series> {
    let able = servers.iter().filter(|server| server.cannot(Some(servers::Ability::Stays)).is_none());
    able.map(|&server| {
        let mut series = Series { server, figures: Vec::new(), failed: None };
        match Running::start(server, "/", bed.placement()).and_then(|running| bed.measure(Work::Parked, &running)) {
            Ok(bytes) => series.figures.push((0, bytes)),
            Err(why) => series.failed = Some(why),
        }
        eprintln!("parked: {}: {:?}", server.name, series.figures.first().map(|(_, bytes)| bytes));
        series
    })
    .collect()
}

/// Where the certificate is.
pub(super) fn dir() -> PathBuf {
    super::dir().join("tls")
}

const BURST: &str = "burst";
