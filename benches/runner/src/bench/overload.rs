//! `cargo xtask bench --overload`: servers under more than fits, beside each other.
//!
//! First it is found what fits: the highest rate at which every request is answered 200. Then multiples of that are
//! offered, as an open loop: requests begin when they are due, whether or not earlier ones are answered. Every multiple
//! is a cell of its own, with a server that was started for it, and beside it a light client of another address asks
//! for something small. In the end the server's own count of its handlers, which drop guards keep, is compared with
//! what the clients know.
//!
//! | part | file |
//! |---|---|
//! | which loads there are | [`profiles`] |
//! | one cell | [`cell`] |
//! | what fits, and what a refusal costs | [`capacity`] |
//! | when requests begin | [`schedule`] |
//! | what they are | [`ask`] |
//! | all clients | [`engine`] |
//! | a connection, and what is said on it | [`link`], [`talk`], with [`answer`], [`http2`] and [`member`] |
//! | the light client | [`light`] |
//! | what the clients know | [`ledger`] |
//! | what the server knows | [`counts`] |
//! | what is kept, and how it is shown | [`record`], [`report`], [`plot`] |
//!
//! The server is `benches/src/bin/overload`; docs/overload.md says what the columns are.

mod answer;
mod ask;
mod capacity;
mod cell;
mod counts;
mod engine;
mod http2;
mod ledger;
mod light;
mod link;
mod member;
mod plot;
mod profiles;
mod record;
mod report;
mod schedule;
mod talk;

use std::fs;
use std::time::Duration;

use super::placement::{self, Placement};
use super::servers::{self, Server};
use crate::cli::{BenchFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use cell::{Bed, Subject};
use profiles::Profile;
use record::{ProfileRecord, Record, Series};

/// Builds, measures and reports.
pub(super) fn run(flags: &BenchFlags) -> u8 {
    if let Some(install) = placement::missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    let chosen = profiles::chosen(&flags.profiles, flags.quick)
        .and_then(|profiles| Ok((profiles, servers::chosen(servers::OVERLOADED, &flags.peers, flags.quick)?)));
    let (profiles, servers) = match chosen {
        Ok(chosen) => chosen,
        Err(unknown) => {
            eprintln!("{unknown}");
            return EXIT_MISSING;
        }
    };
    match measure(&profiles, &servers, flags) {
        Ok(()) => EXIT_OK,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(profiles: &[&'static Profile], servers: &[&'static Server], flags: &BenchFlags) -> Result<(), String> {
    let servers = servers::build(servers, |server, why| eprintln!("{} is left out: {why}", server.name))?;
    fs::create_dir_all(super::dir().join("servers")).map_err(|error| error.to_string())?;
    placement::raise_open_files(OPEN_FILES);
    let placement = Placement::here()?;
    let machine = placement.describe()?;
    placement.stay_away();
    let seconds = flags.seconds.unwrap_or(if flags.quick { QUICK_SECONDS } else { SECONDS });
    let bed = Bed {
        placement: &placement,
        window: Duration::from_secs(seconds.into()),
        precision: if flags.quick { QUICK_PRECISION } else { PRECISION },
        seed: SEED,
    };
    let factors: &[f64] = if flags.quick { &profiles::QUICK_FACTORS } else { &profiles::FACTORS };
    let mut record = Record { machine, seed: SEED, profiles: Vec::new() };
    print!("{}", report::introduction(&record));
    for profile in profiles {
        let series = servers.iter().map(|server| measure_one(&bed, profile, server, factors));
        record.profiles.push(ProfileRecord {
            name: profile.name.to_owned(),
            what: profile.what.to_owned(),
            line: line(profile),
            series: series.collect(),
        });
        print!("{}", record.profiles.last().map(report::text).unwrap_or_default());
        // What is there stays when the rest is broken off.
        write(&record)?;
    }
    Ok(())
}

/// One server under one load, at each multiple of what fits.
fn measure_one(bed: &Bed<'_>, profile: &Profile, server: &'static Server, factors: &[f64]) -> Series {
    let mut series = Series {
        server: server.name.to_owned(),
        missing: None,
        limit: None,
        fits: None,
        costs: None,
        cells: Vec::new(),
    };
    if let Err(why) = fill(bed, profile, server, factors, &mut series) {
        eprintln!("{}: {}: {why}", profile.name, server.name);
        series.missing = Some(why);
    }
    series
}

fn fill(
    bed: &Bed<'_>,
    profile: &Profile,
    server: &'static Server,
    factors: &[f64],
    series: &mut Series,
) -> Result<(), String> {
    if let Some(why) = server.cannot(profile.needs()) {
        return Err(why.to_owned());
    }
    let word = if server.is_ours() {
        line(profile)
    } else {
        let limit = if server.is_installed() { INSTALLED_LIMIT } else { bed.limit(server, profile)? };
        series.limit = Some(limit);
        limit.to_string()
    };
    let subject = Subject { server, word };
    let fits = bed.fits(&subject, profile)?;
    eprintln!("{}: {}: {fits:.0} requests a second fit", profile.name, server.name);
    series.fits = Some(fits);
    if profile.ask.kind() == "sleep" {
        series.costs = Some(bed.costs(&subject, profile, fits)?);
    }
    for &factor in factors {
        let cell = bed.cell(&subject, profile, fits, factor)?;
        eprintln!(
            "{}: {} x{factor}: {:.0} answered a second, of {:.0} that were offered",
            profile.name,
            server.name,
            cell.goodput(),
            cell.offered_per_second
        );
        series.cells.push(cell);
    }
    Ok(())
}

/// The memory line of ours.
fn line(profile: &Profile) -> String {
    format!("{}MiB", profile.line_mib)
}

/// Writes the record in all forms.
fn write(record: &Record) -> Result<(), String> {
    let json = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    for (name, text) in [("overload.json", json + "\n"), ("overload.html", report::page(record))] {
        let path = super::dir().join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("written: {}", path.display());
    }
    Ok(())
}

/// The arrivals follow from it.
const SEED: u64 = 15;
/// Of a server that is not built here, for which it cannot be measured what a request needs.
const INSTALLED_LIMIT: u64 = 512;
/// Seconds in which goodput is counted, and to which share what fits is known.
const SECONDS: u32 = 4;
const PRECISION: f64 = 0.05;
const QUICK_SECONDS: u32 = 2;
const QUICK_PRECISION: f64 = 0.2;
/// Files that may be open here and in a server.
const OPEN_FILES: u64 = 20_000;
