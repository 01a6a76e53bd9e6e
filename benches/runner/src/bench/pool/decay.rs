//! What of a burst is back with the system when nobody asks for anything any more.

use std::thread;
use std::time::Duration;

use super::super::memory;
use super::super::placement::Placement;
use super::super::process::Running;
use super::super::servers::Server;
use super::super::swarm::guide::Swarm;
use super::super::{client, loads};

/// Per cent of the resident bytes that a burst added at its peak that are gone 3 s after it. The server is not asked
/// for anything meanwhile.
pub(super) fn percent_back(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let case = loads::case("active")?;
    let running = Running::start(server, client::PATH, placement)?;
    // What is needed once is there then, and what is not is gone.
    memory::converse(Swarm::start(case.name, running.address(), None, WARM_UP_PART, placement)?, || Ok(()))?;
    thread::sleep(DECAYED);
    running.reset_peak()?;
    let before = running.resident_bytes()?;
    let tally = memory::converse(Swarm::start(case.name, running.address(), None, 1, placement)?, || Ok(()))?;
    thread::sleep(LATEST);
    let (peak, after) = (running.peak_resident_bytes()?, running.resident_bytes()?);
    if tally.errors() > 0 {
        return Err(format!("{} of {} connections failed", tally.errors(), case.plan.connections));
    }
    let took = peak.saturating_sub(before);
    eprintln!("took {took} bytes at its peak, {} of them are left", after.saturating_sub(before));
    if took < TOOK_BYTES_MIN {
        return Err(format!("the burst took {took} bytes only"));
    }
    Ok(peak.saturating_sub(after).min(took) as f64 * 100.0 / took as f64)
}

/// A hundred connections.
const WARM_UP_PART: u32 = 50;
const DECAYED: Duration = Duration::from_secs(4);
/// When it has to be back.
const LATEST: Duration = Duration::from_secs(3);
/// A burst of less shows nothing.
const TOOK_BYTES_MIN: u64 = 1 << 20;
