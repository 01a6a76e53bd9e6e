//! The programs of one driver, and a cycle of the soak over them.
//!
//! ```text
//! storm -> quiet -> what was counted is at least what the clients know
//!   ^        |
//!   |      calm: honest clients alone -> quiet -> what was counted is exactly what they know
//!   |                                     |
//!   +------- no more is held than after the first cycle, which is the warm-up
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::asks::Weather;
use super::attacks::{self, ATTACKS};
use super::child::Running;
use super::clients::Visit;
use super::figures::{Metrics, Observer, Sample, Series, reconcile};
use super::ledger::{Fate, Kind, Ledger, Tallies, Tally};
use super::target::Target;
use crate::bench::placement::Placement;
use crate::bench::swarm::Event;
use crate::bench::swarm::guide::Swarm;
use crate::random::Random;

/// What has happened so far, for those who look on.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub(super) cycles: u64,
    /// What is going on.
    pub(super) stage: &'static str,
    pub(super) clients: Tallies,
    /// Connections by attack, and those of the swarm's loads.
    pub(super) attackers: BTreeMap<&'static str, u64>,
    pub(super) restarts: u64,
    /// Of the arena and of the relay.
    pub(super) samples: [Option<Sample>; 2],
}

/// The programs of a driver.
#[derive(Debug)]
pub(super) struct Bed<'a> {
    arena: Running,
    relay: Running,
    target: Target,
    observer: Observer,
    /// Of the arena and of the relay.
    pub(super) series: [Series; 2],
    random: Random,
    progress: &'a Mutex<Progress>,
}

impl<'a> Bed<'a> {
    pub(super) fn start(driver: &'static str, seed: u64, progress: &'a Mutex<Progress>) -> Result<Bed<'a>, String> {
        let flags = |more: &[&str]| -> Vec<String> {
            let own = ["--listen", "127.0.0.1:0", "--driver", driver, "--workers", "2", "--memory", LINE];
            own.iter().chain(more).map(|&word| word.to_owned()).collect()
        };
        let arena = Running::start("arena", &format!("arena {driver}"), &flags(&[]))?;
        let target = Target::start(driver)?;
        let to = target.address().to_string();
        let relay = Running::start("relay", &format!("relay {driver}"), &flags(&["--to", &to]))?;
        let observer = Observer::new(arena.address());
        Ok(Bed {
            arena,
            relay,
            target,
            observer,
            series: <[Series; 2]>::default(),
            random: Random::new(seed),
            progress,
        })
    }

    /// Runs cycles until the time is over: one at least. The errors are all that is wrong in the first cycle in which
    /// something is.
    pub(super) fn run(&mut self, until: Instant) -> Result<(), Vec<String>> {
        loop {
            let storm = STORM.min(until.saturating_duration_since(Instant::now())).max(STORM_MIN);
            self.cycle(storm)?;
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Ends the programs, which must leave nothing, and judges the whole.
    pub(super) fn stop(self) -> Vec<String> {
        let [arena, relay] = &self.series;
        let judged = [arena.judge("arena"), relay.judge("relay")];
        let ended = [self.relay.stop(), self.target.stop(), self.arena.stop()];
        judged.into_iter().chain(ended).filter_map(Result::err).collect()
    }

    fn cycle(&mut self, storm: Duration) -> Result<(), Vec<String>> {
        let one = |what: String| vec![what];
        let before = self.observer.quiet().map_err(one)?;
        self.stage("storm");
        let clients = self.phase(Weather::Storm, storm).map_err(|wrong| self.explain(wrong, &before))?;
        self.stage("after the storm");
        let between = self.observer.quiet().map_err(one)?;
        agree(reconcile(Weather::Storm, &before, &between, &clients))?;
        self.stage("calm");
        let clients = self.phase(Weather::Calm, CALM).map_err(|wrong| self.explain(wrong, &between))?;
        self.stage("weighed");
        let after = self.observer.quiet().map_err(one)?;
        agree(reconcile(Weather::Calm, &between, &after, &clients))?;
        let [arena, relay] = &mut self.series;
        let arena = arena.take(&self.arena, Some(&mut self.observer)).map_err(|what| one(format!("arena: {what}")))?;
        let relay = relay.take(&self.relay, None).map_err(|what| one(format!("relay: {what}")))?;
        self.note(|progress| {
            progress.cycles += 1;
            progress.samples = [Some(arena), Some(relay)];
        });
        Ok(())
    }

    /// Lets the clients of a weather visit for some time; what they got.
    fn phase(&mut self, weather: Weather, time: Duration) -> Result<Tallies, Vec<String>> {
        let (over, ledger) = (Instant::now() + time, Ledger::default());
        let mut seeds = self.random.fork();
        let this = &*self;
        thread::scope(|scope| {
            for kind in CLIENTS {
                let (mut random, ledger) = (seeds.fork(), &ledger);
                scope.spawn(move || this.visit(kind, weather, over, &mut random, ledger));
            }
            if weather == Weather::Calm {
                return;
            }
            for _ in 0..ATTACKERS {
                let (mut random, ledger) = (seeds.fork(), &ledger);
                scope.spawn(move || this.attack(over, &mut random, ledger));
            }
            let (mut random, ledger) = (seeds.fork(), &ledger);
            scope.spawn(move || match this.flood(over, &mut random) {
                Ok(()) => {}
                Err(what) => ledger.fail(what),
            });
            let mut random = seeds.fork();
            scope.spawn(move || match this.target.restart_until(over, &mut random) {
                Ok(restarts) => this.note(|progress| progress.restarts += restarts),
                Err(what) => ledger.fail(what),
            });
        });
        let deaths = [self.arena.death(), self.relay.death()].into_iter().flatten();
        let (tallies, mut failures) = ledger.into_parts();
        failures.extend(deaths);
        if failures.is_empty() { Ok(tallies) } else { Err(failures) }
    }

    fn visit(&self, kind: Kind, weather: Weather, over: Instant, random: &mut Random, ledger: &Ledger) {
        let to = if kind == Kind::Relayed { self.relay.address() } else { self.arena.address() };
        while Instant::now() < over && !ledger.has_failed() {
            let generation = self.target.generation();
            let mut visit = Visit::new(to, weather, random);
            let run = visit.run(kind);
            let mut tally = visit.tally;
            if kind == Kind::Relayed && !self.target.has_stayed(generation) && run.is_err() {
                tally.count(Fate::Interrupted);
            } else if let Err(what) = run {
                ledger.fail(what);
            }
            ledger.add(kind, &tally);
            self.note(|progress| *progress.clients.entry(kind).or_default() += &tally);
            rest(&tally, random);
        }
    }

    fn attack(&self, over: Instant, random: &mut Random, ledger: &Ledger) {
        while Instant::now() < over && !ledger.has_failed() {
            let attack = &ATTACKS[random.below(ATTACKS.len())];
            // The relay carries them on.
            let to = if random.below(4) == 0 { self.relay.address() } else { self.arena.address() };
            let connections = attacks::run(attack, to, random);
            self.note(|progress| *progress.attackers.entry(attack.name).or_default() += connections);
        }
    }

    /// The loads of the benchmark that fill memory, smaller: processes of their own.
    fn flood(&self, over: Instant, random: &mut Random) -> Result<(), String> {
        while Instant::now() < over {
            let load = random.pick(&LOADS);
            let swarm = Swarm::start(load, self.arena.address(), None, PART, &Placement::Unpinned)?;
            loop {
                if let Event::Done(tally) = swarm.next()? {
                    self.note(|progress| *progress.attackers.entry(load).or_default() += tally.opened);
                    break;
                }
            }
        }
        Ok(())
    }

    fn stage(&self, stage: &'static str) {
        self.note(|progress| progress.stage = stage);
    }

    /// Adds what the arena says that it did.
    fn explain(&mut self, mut wrong: Vec<String>, before: &Metrics) -> Vec<String> {
        wrong.push(match self.observer.quiet() {
            Ok(after) => format!("meanwhile the arena let go of: {}", after.shed_since(before)),
            Err(what) => what,
        });
        wrong
    }

    fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Who was turned away comes back a little later, as it is told to.
fn rest(tally: &Tally, random: &mut Random) {
    if tally.refused + tally.let_go + tally.interrupted > 0 {
        thread::sleep(Duration::from_millis(20 + random.below(80) as u64));
    }
}

fn agree(wrong: Vec<String>) -> Result<(), Vec<String>> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// The honest clients, each on a thread.
const CLIENTS: [Kind; 8] = [
    Kind::Http1,
    Kind::Http1,
    Kind::Http2,
    Kind::Http2,
    Kind::WebSocket,
    Kind::WebSocketHttp2,
    Kind::Relayed,
    Kind::Relayed,
];
/// Attacks at a time.
const ATTACKERS: usize = 3;
/// The loads of the swarm, and which part of their connections.
const LOADS: [&str; 6] = ["half-head", "slow-readers", "unread-pipelines", "unread-blobs", "burst", "websockets"];
const PART: u32 = 20;
/// The line of the arena and of the relay.
const LINE: &str = "8MiB";
const STORM: Duration = Duration::from_secs(12);
const STORM_MIN: Duration = Duration::from_secs(4);
const CALM: Duration = Duration::from_secs(2);
