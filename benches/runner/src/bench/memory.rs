//! The memory cases: a fresh process of each server, many connections that do one thing, and what that does to its
//! memory.

use std::thread;
use std::time::Duration;

use super::loads::Case;
use super::placement::Placement;
use super::proc::Memory;
use super::process::Running;
use super::record::{CaseFigures, CaseRecord, CaseResult};
use super::servers::Server;
use super::swarm::{Event, Tally, guide::Swarm};

/// Runs a case at each server, with one `part`th of its connections.
pub(super) fn measure(
    case: &'static Case,
    servers: &[&'static Server],
    part: u32,
    placement: &Placement,
) -> CaseRecord {
    let connections = (case.plan.connections / part as usize).max(1);
    let mut results = Vec::new();
    for server in servers {
        let result = match server.cannot(case.needs) {
            Some(why) => CaseResult { server: server.name.to_owned(), missing: Some(why.to_owned()), figures: None },
            None => one(case, server, part, placement),
        };
        match (&result.figures, &result.missing) {
            (Some(figures), _) => eprintln!(
                "{}: {}: peak RSS {:.1} MiB, {} of {connections} connections failed",
                case.name,
                server.name,
                figures.peak_rss_bytes as f64 / super::record::MIB,
                figures.errors()
            ),
            (None, why) => eprintln!("{}: {}: {}", case.name, server.name, why.as_deref().unwrap_or("-")),
        }
        results.push(result);
    }
    CaseRecord { name: case.name.to_owned(), what: case.what.to_owned(), connections, results }
}

fn one(case: &Case, server: &'static Server, part: u32, placement: &Placement) -> CaseResult {
    let mut result = CaseResult { server: server.name.to_owned(), missing: None, figures: None };
    match Running::start(server, case.plan.target, placement) {
        Ok(mut running) => match look(case, &running, part, placement) {
            Ok(figures) => result.figures = Some(figures),
            Err(why) => {
                // The kernel may need a moment to end it.
                thread::sleep(SETTLE);
                result.missing = Some(running.death().unwrap_or(why));
            }
        },
        Err(why) => result.missing = Some(why),
    }
    result
}

fn look(case: &Case, server: &Running, part: u32, placement: &Placement) -> Result<CaseFigures, String> {
    // A few connections first: what is allocated once is there then.
    converse(Swarm::start("warm-up", server.address(), None, 1, placement)?, || Ok(()))?;
    thread::sleep(SETTLE);
    let before = server.memory()?;
    let mut held: Option<Memory> = None;
    let swarm = Swarm::start(case.name, server.address(), None, part, placement)?;
    let tally = converse(swarm, || {
        held = Some(server.memory()?);
        Ok(())
    })?;
    let over = server.memory()?;
    thread::sleep(AFTER);
    let after = server.memory()?;
    Ok(CaseFigures {
        before_rss_bytes: before.rss_bytes,
        before_anonymous_bytes: before.anonymous_bytes,
        held_anonymous_bytes: held.map(|held| held.anonymous_bytes),
        peak_rss_bytes: after.peak_rss_bytes,
        peak_pss_bytes: [Some(before), held, Some(over)]
            .into_iter()
            .flatten()
            .map(|of| of.pss_bytes)
            .max()
            .unwrap_or(0),
        after_rss_bytes: after.rss_bytes,
        seconds: tally.seconds,
        requests: tally.requests,
        refused: tally.refused,
        closed: tally.closed,
        wrong: tally.wrong,
        unfinished: tally.unfinished,
    })
}

/// Listens to the clients until they are done; looks at the server when they are where the case wants them.
pub(super) fn converse(swarm: Swarm, mut held: impl FnMut() -> Result<(), String>) -> Result<Tally, String> {
    loop {
        match swarm.next()? {
            Event::Held(_) => held()?,
            Event::Done(tally) => return Ok(tally),
            Event::Begin(_) | Event::End(_) => {}
        }
    }
}

/// Until a server has done what it does after the last close.
const SETTLE: Duration = Duration::from_millis(300);
/// Until a server has given back what it gives back.
const AFTER: Duration = Duration::from_millis(1000);
