//! What our server holds when all its connections speak at once, and whether they find buffers.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::super::client::{self, Connection};
use super::super::placement::Placement;
use super::super::process::Running;
use super::super::servers::Server;

/// Resident bytes that a burst adds at its peak, for each connection.
pub(super) fn bytes_per_request(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let running = Running::start(server, client::PATH, placement)?;
    let mut connections = park(&running, client::connections_here()?)?;
    let before = running.resident_bytes()?;
    running.reset_peak()?;
    all_at_once(&running, &mut connections, 0)?;
    let peak = running.peak_resident_bytes()?;
    Ok(peak.saturating_sub(before) as f64 / connections.len() as f64)
}

/// How often a receive found no buffer, for each of some connections that send more together than all buffers hold.
pub(super) fn blocked_per_connection(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let running = Running::start(server, client::PATH, placement)?;
    let blocked = || sample(&running, "plimsoll_enobufs_total ");
    let mut connections = park(&running, client::connections_here()?.min(STORM_CONNECTIONS))?;
    let before = blocked()?;
    all_at_once(&running, &mut connections, STORM_BYTES)?;
    Ok((blocked()? - before) / connections.len() as f64)
}

/// A request and its answer on each connection. The server is stopped while the requests are sent, so that it finds all
/// of them at once.
fn all_at_once(running: &Running, connections: &mut [Connection], filler_bytes: usize) -> Result<(), String> {
    signal(running, "-STOP")?;
    let sent = connections.iter_mut().try_for_each(|connection| connection.send(filler_bytes));
    signal(running, "-CONT")?;
    sent.and_then(|()| connections.iter_mut().try_for_each(Connection::receive))
        .map_err(|error| format!("a connection in the burst: {error}"))
}

/// Leases that parked connections add, of all classes but pages: tables take whole pages, by many connections for each.
pub(super) fn leases_of_parked(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let running = Running::start(server, client::PATH, placement)?;
    let leases = || leases(&metrics(&running)?).ok_or_else(|| "/metrics has no leases".to_owned());
    client::answers_ok(running.address())?;
    thread::sleep(SETTLE);
    let before = leases()?;
    let connections = park(&running, client::connections_here()?)?;
    thread::sleep(SETTLE);
    let after = leases()?;
    drop(connections);
    Ok(after.saturating_sub(before) as f64)
}

/// Connections that have done a request and wait.
fn park(running: &Running, connections: usize) -> Result<Vec<Connection>, String> {
    let opened: Result<Vec<_>, _> =
        (0..connections).map(|index| client::ask(client::from(index), running.address(), 1)).collect();
    let opened = opened.map_err(|error| format!("a connection: {error}"))?;
    thread::sleep(SETTLE);
    Ok(opened)
}

fn metrics(running: &Running) -> Result<String, String> {
    client::get(running.address(), "/metrics").map_err(|error| format!("GET /metrics: {error}"))
}

/// The sample that begins so.
fn sample(running: &Running, name: &str) -> Result<f64, String> {
    let metrics = metrics(running)?;
    let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.ok_or_else(|| format!("/metrics has no {name}"))
}

/// The sum of the leases of all classes but pages.
fn leases(metrics: &str) -> Option<u64> {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix("plimsoll_leases{class=\""));
    let counts: Option<Vec<u64>> = samples
        .filter(|sample| !sample.starts_with("4096\""))
        .map(|sample| sample.split_once("\"} ")?.1.parse().ok())
        .collect();
    counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

fn signal(running: &Running, signal: &str) -> Result<(), String> {
    let sent = Command::new("kill").args([signal, &running.pid().to_string()]).status();
    match sent {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("kill {signal} ended with {status}")),
        Err(error) => Err(format!("no kill, of the package `procps`: {error}")),
    }
}

/// Until a server has done what it does after the last request or close.
const SETTLE: Duration = Duration::from_secs(1);
/// Together more than the receive buffers of a worker hold.
const STORM_CONNECTIONS: usize = 1_000;
const STORM_BYTES: usize = 4_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_all_classes_but_pages_are_summed() {
        let metrics = "# TYPE plimsoll_leases gauge\nplimsoll_leases{class=\"64\"} 3\nplimsoll_leases{class=\"4096\"} 70\n\
                       plimsoll_leases{class=\"1024\"} 2\nplimsoll_tasks 4\n";
        assert_eq!(leases(metrics), Some(5));
        assert_eq!(leases("plimsoll_tasks 4\n"), None);
    }
}
