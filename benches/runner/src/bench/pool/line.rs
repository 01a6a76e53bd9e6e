//! Whether the line holds while clients want more than it, and whether others are served meanwhile.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::placement::Placement;
use super::super::process::Running;
use super::super::servers::{LOW_LINE_BYTES, Server};
use super::super::swarm::guide::Swarm;
use super::super::{client, loads, memory};

/// What the floods did to a server, the worst of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flooded {
    /// By how much the resident bytes grew at their peak, for the line.
    pub(super) growth: f64,
    /// How long somebody else waited for an answer, or tried for one.
    pub(super) slowest_seconds: f64,
    /// How often that one was not answered with 200.
    pub(super) turned_away: u32,
}

/// A fresh server for each flood.
pub(super) fn flood(server: &'static Server, placement: &Placement) -> Result<Flooded, String> {
    let mut worst = Flooded::default();
    for name in FLOODS {
        let one = one(loads::case(name)?, server, placement)?;
        eprintln!(
            "{}: {name}: grew by {:.3} of the line, the slowest answer to another client took {:.3} s, {} were not 200",
            server.name, one.growth, one.slowest_seconds, one.turned_away
        );
        worst.growth = worst.growth.max(one.growth);
        worst.slowest_seconds = worst.slowest_seconds.max(one.slowest_seconds);
        worst.turned_away += one.turned_away;
    }
    Ok(worst)
}

fn one(case: &loads::Case, server: &'static Server, placement: &Placement) -> Result<Flooded, String> {
    let running = Running::start(server, case.plan.target, placement)?;
    // A few of the same first: what is needed once is there then.
    memory::converse(Swarm::start(case.name, running.address(), None, WARM_UP_PART, placement)?, || Ok(()))?;
    running.reset_peak()?;
    let before = running.resident_bytes()?;
    let (over, address) = (AtomicBool::new(false), running.address());
    let (slowest, turned_away) = thread::scope(|scope| {
        let honest = scope.spawn(|| honest(address, &over));
        let swarm = Swarm::start(case.name, address, None, 1, placement);
        let done = swarm.and_then(|swarm| memory::converse(swarm, || Ok(())));
        over.store(true, Ordering::Relaxed);
        let slowest = honest.join().map_err(|_| "the honest client panicked".to_owned());
        done.and(slowest)
    })?;
    let growth = running.peak_resident_bytes()?.saturating_sub(before);
    Ok(Flooded { growth: growth as f64 / LOW_LINE_BYTES as f64, slowest_seconds: slowest.as_secs_f64(), turned_away })
}

/// A client of another address that asks again and again on fresh connections: the longest time to a right answer,
/// however many tries that took, and how many of them were in vain.
fn honest(server: SocketAddr, over: &AtomicBool) -> (Duration, u32) {
    let (mut slowest, mut in_vain) = (Duration::ZERO, 0);
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        while client::ask(HONEST, server, 1).is_err() && start.elapsed() < WAIT_MAX {
            in_vain += 1;
            thread::sleep(PAUSE);
        }
        slowest = slowest.max(start.elapsed());
        thread::sleep(PAUSE);
    }
    (slowest, in_vain)
}

/// The cases that want more than the line.
const FLOODS: [&str; 5] = ["half-head", "unread-blobs", "uploads", "unread-pipelines", "greedy"];
/// So that 2 to 100 connections are left.
const WARM_UP_PART: u32 = 100;
/// An address that no flood comes from.
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);
const PAUSE: Duration = Duration::from_millis(50);
/// After so long it counts as not answered.
const WAIT_MAX: Duration = Duration::from_secs(20);
