//! `cargo xtask soak`: a mixed load for a long time, honest clients among attackers, on both drivers under a small
//! line.
//!
//! | part | file |
//! |---|---|
//! | the programs: started, stopped, their reports | [`child`] |
//! | a cycle of storm and calm over them | [`bed`] |
//! | honest clients, what they ask, and what they got | [`clients`], [`asks`], [`http1`], [`http2`], [`ledger`] |
//! | attackers; more of them are the benchmark's swarm | [`attacks`] |
//! | the relay's target, which dies and comes back | [`target`] |
//! | memory, descriptors and counters | [`figures`] |
//!
//! It fails when
//! * an honest client gets something that is not due, or is turned away without a word that the documents name;
//! * a connection is left when all clients are gone, or more leases, tasks, operations or descriptors are held than
//!   after the first cycle;
//! * a counter is below what the clients know, or is another than that when they are alone;
//! * anonymous memory goes on growing;
//! * a program ends by itself, panics, does not stop, or reports that something is left.

mod asks;
mod attacks;
mod bed;
mod child;
mod clients;
mod figures;
mod http1;
pub(crate) mod http2;
mod ledger;
mod target;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::bench::placement;
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK, SoakFlags};
use crate::random::Random;
use bed::{Bed, Progress};
use ledger::{Kind, Tally};

/// Runs it and says how it ended.
pub(crate) fn run(flags: &SoakFlags) -> u8 {
    if let Some(install) = missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    match soak(flags) {
        Ok(()) => EXIT_OK,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

/// What to install first.
fn missing() -> Option<&'static str> {
    placement::missing()
}

/// Soaks both drivers beside each other. The error says what is wrong, a line each.
fn soak(flags: &SoakFlags) -> Result<(), String> {
    child::build()?;
    placement::raise_open_files(OPEN_FILES);
    let seed = flags.seed.unwrap_or_else(random_seed);
    println!(
        "soak of {} minutes, seed {seed}: cargo xtask soak --minutes {} --seed {seed}",
        flags.minutes, flags.minutes
    );
    let begin = Instant::now();
    let until = begin + Duration::from_secs(60 * u64::from(flags.minutes));
    let mut soaks: Vec<Soak> = Vec::new();
    let mut seeds = Random::new(seed);
    for driver in DRIVERS {
        let seed = seeds.fork().next();
        if !flags.driver.is_empty() && !flags.driver.iter().any(|wanted| wanted == driver) {
            continue;
        }
        match child::driver_works(driver) {
            Ok(()) => soaks.push(Soak { driver, seed, progress: Mutex::default(), wrong: Mutex::default() }),
            Err(why) => println!("skipped: {driver} ({why})"),
        }
    }
    thread::scope(|scope| {
        let running: Vec<_> = soaks.iter().map(|soak| scope.spawn(|| soak.run(until))).collect();
        let mut next = begin + STATUS_INTERVAL;
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(POLL);
            if Instant::now() >= next {
                next += STATUS_INTERVAL;
                soaks.iter().for_each(|soak| println!("{:>5} s {}", begin.elapsed().as_secs(), soak.status()));
            }
        }
    });
    soaks.iter().for_each(|soak| print!("\n{}", soak.table()));
    let wrong: Vec<String> = soaks.iter().flat_map(Soak::wrong).collect();
    let none = if soaks.is_empty() { Some("no driver works here".to_owned()) } else { None };
    let wrong: Vec<String> = none.into_iter().chain(wrong).collect();
    println!("\n{}", if wrong.is_empty() { "nothing leaked, nothing grew, everything agrees" } else { "FAILED" });
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The soak of one driver.
#[derive(Debug)]
struct Soak {
    driver: &'static str,
    seed: u64,
    progress: Mutex<Progress>,
    /// What is wrong.
    wrong: Mutex<Vec<String>>,
}

impl Soak {
    fn run(&self, until: Instant) {
        let wrong = match Bed::start(self.driver, self.seed, &self.progress) {
            Ok(mut bed) => {
                let mut wrong = bed.run(until).err().unwrap_or_default();
                wrong.extend(bed.stop());
                wrong
            }
            Err(what) => vec![what],
        };
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = wrong;
    }

    fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wrong(&self) -> Vec<String> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.iter().map(|what| format!("{}: {what}", self.driver)).collect()
    }

    fn status(&self) -> String {
        let progress = self.progress();
        let sum = |of: fn(&Tally) -> u64| progress.clients.values().map(of).sum::<u64>();
        let attackers: u64 = progress.attackers.values().sum();
        let figures = progress.samples.iter().zip(["arena", "relay"]).filter_map(|(sample, name)| {
            let sample = sample.as_ref()?;
            Some(format!(
                ", {name} {} KiB anonymous, {} descriptors",
                sample.anonymous_bytes / 1024,
                sample.descriptors()
            ))
        });
        format!(
            "{:<5} cycle {}, {}: {} answers, {} echoes, {} refused, {} let go, {attackers} attackers, {} restarts{}",
            self.driver,
            progress.cycles + 1,
            progress.stage,
            sum(Tally::served),
            sum(|tally| tally.echoes),
            sum(|tally| tally.refused),
            sum(|tally| tally.let_go + tally.cut),
            progress.restarts,
            figures.collect::<String>(),
        )
    }

    fn table(&self) -> String {
        let progress = self.progress();
        let mut text = format!(
            "{:<22} {:>11} {:>9} {:>9} {:>8} {:>8} {:>7} {:>5} {:>9} {:>11}\n",
            format!("{}, {} cycles", self.driver, progress.cycles),
            "connections",
            "requests",
            "answers",
            "echoes",
            "refused",
            "let go",
            "cut",
            "cancelled",
            "interrupted"
        );
        for kind in Kind::ALL {
            let tally = progress.clients.get(&kind).cloned().unwrap_or_default();
            text.push_str(&format!(
                "{:<22} {:>11} {:>9} {:>9} {:>8} {:>8} {:>7} {:>5} {:>9} {:>11}\n",
                kind.name(),
                tally.connections,
                tally.requests,
                tally.served(),
                tally.echoes,
                tally.refused,
                tally.let_go,
                tally.cut,
                tally.cancelled,
                tally.interrupted
            ));
        }
        let attackers: Vec<String> = progress.attackers.iter().map(|(name, count)| format!("{name} {count}")).collect();
        text.push_str(&format!(
            "attackers: {}; the target was restarted {} times\n",
            attackers.join(", "),
            progress.restarts
        ));
        for (sample, name) in progress.samples.iter().zip(["arena", "relay"]) {
            if let Some(sample) = sample {
                let kib = sample.anonymous_bytes / 1024;
                text.push_str(&format!(
                    "{name} at the end: {kib} KiB anonymous, {} descriptors\n",
                    sample.descriptors()
                ));
            }
        }
        text
    }
}

/// Another one each time.
fn random_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() ^ u64::from(since.subsec_nanos())
}

pub(crate) const DRIVERS: [&str; 2] = ["uring", "mio"];
const OPEN_FILES: u64 = 8_192;
const STATUS_INTERVAL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
