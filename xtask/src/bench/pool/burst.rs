//! What our server holds when all its connections speak at once.

use std::process::Command;
use std::thread;

use super::super::client::{self, Connection};
use super::super::parked::{self, SETTLE};
use super::super::placement::Placement;
use super::super::process::Running;
use super::super::servers::Server;

/// Resident bytes that a burst adds at its peak, for each connection. The server is stopped while the requests are sent, so that it finds all
/// of them at once.
pub(super) fn bytes_per_request(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let running = Running::start(server, client::PATH, placement)?;
    let mut connections = park(&running)?;
    let before = running.resident_bytes()?;
    running.reset_peak()?;
    signal(&running, "-STOP")?;
    let sent = connections.iter_mut().try_for_each(Connection::send);
    signal(&running, "-CONT")?;
    sent.and_then(|()| connections.iter_mut().try_for_each(Connection::receive))
        .map_err(|error| format!("a connection in the burst: {error}"))?;
    let peak = running.peak_resident_bytes()?;
    Ok(peak.saturating_sub(before) as f64 / connections.len() as f64)
}

/// Leases that parked connections add, of all classes but pages: tables take whole pages, by many connections for each.
pub(super) fn leases_of_parked(server: &'static Server, placement: &Placement) -> Result<f64, String> {
    let running = Running::start(server, client::PATH, placement)?;
    let leases = || -> Result<u64, String> {
        let metrics = client::get(running.address(), "/metrics").map_err(|error| format!("GET /metrics: {error}"))?;
        leases(&metrics).ok_or_else(|| "/metrics has no leases".to_owned())
    };
    client::answers_ok(running.address())?;
    thread::sleep(SETTLE);
    let before = leases()?;
    let connections = park(&running)?;
    thread::sleep(SETTLE);
    let after = leases()?;
    drop(connections);
    Ok(after.saturating_sub(before) as f64)
}

/// Connections that have done a request and wait.
fn park(running: &Running) -> Result<Vec<Connection>, String> {
    let connections = parked::connections_here()?;
    let opened: Result<Vec<_>, _> =
        (0..connections).map(|index| parked::ask(parked::from(index), running.address(), 1)).collect();
    let opened = opened.map_err(|error| format!("a connection: {error}"))?;
    thread::sleep(SETTLE);
    Ok(opened)
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
