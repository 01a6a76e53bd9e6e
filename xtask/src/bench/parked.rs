//! What a keep-alive connection costs that has done a request and waits: anonymous memory of the server, not of the kernel.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use super::client::Connection;
use super::figures::Spread;
use super::placement::Placement;
use super::proc::OpenFiles;
use super::process::Running;
use super::servers::Server;

/// A server with parked connections.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Anonymous bytes for each connection, in each round.
    bytes_per_connection: Vec<f64>,
    /// Connections that did not get their answer, or that the server closed; they make its figure worthless.
    pub(super) errors: u64,
}

impl Parked {
    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(self.bytes_per_connection.iter().copied())
    }
}

/// Parks connections at a server, a fresh process in each round.
pub(super) fn measure(server: &'static Server, placement: &Placement, rounds: u32) -> Result<Parked, String> {
    let connections = connections_here()?;
    let mut parked = Parked::default();
    for round in 1..=rounds {
        let running = Running::start(server, super::client::PATH, placement)?;
        park(&running, connections, &mut parked)?;
        let bytes = parked.bytes_per_connection.last().copied().unwrap_or_default();
        eprintln!("parked: round {round} of {rounds}: {}: {bytes:.0} bytes/connection", server.name);
    }
    Ok(parked)
}

fn park(server: &Running, connections: usize, parked: &mut Parked) -> Result<(), String> {
    parked.errors += warm_up(server.address());
    thread::sleep(SETTLE);
    let before = server.memory()?.anonymous_bytes;
    let (open, failed): (Vec<_>, Vec<_>) =
        (0..connections).map(|index| ask(from(index), server.address(), 1)).partition(Result::is_ok);
    thread::sleep(SETTLE);
    let after = server.memory()?.anonymous_bytes;
    let closed = open.iter().flatten().filter(|connection| !connection.is_parked()).count();
    parked.errors += (failed.len() + closed) as u64;
    // A server that gives memory back while connections come has a figure below zero; it is shown as it is.
    parked.bytes_per_connection.push((after as f64 - before as f64) / connections as f64);
    Ok(())
}

/// Some connections at a time that do some requests and are closed: what is allocated once is there then. Returns how many failed.
fn warm_up(server: SocketAddr) -> u64 {
    let asked: Vec<_> = (0..WARM_UP_CONNECTIONS).map(|index| ask(from(index), server, WARM_UP_REQUESTS)).collect();
    asked.iter().filter(|asked| asked.is_err()).count() as u64
}

/// How many connections the limits allow here.
pub(super) fn connections_here() -> Result<usize, String> {
    let open_files = OpenFiles::now().map_err(|error| format!("no limit of open files: {error}"))?;
    match connections(open_files.soft) {
        0 => Err(format!("{} open files are too few for parked connections: raise ulimit -n", open_files.soft)),
        connections => Ok(connections),
    }
}

/// A connection that has asked so often.
pub(super) fn ask(from: Ipv4Addr, to: SocketAddr, requests: usize) -> std::io::Result<Connection> {
    let mut connection = Connection::open(from, to)?;
    for _ in 0..requests {
        connection.ask()?;
    }
    Ok(connection)
}

/// The clients' addresses in turns.
pub(super) fn from(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, FIRST_CLIENT + (index % CLIENTS) as u8)
}

/// As many connections as are wanted, or as many as fit when so many files may be open.
fn connections(open_files: u64) -> usize {
    CONNECTIONS.min(usize::try_from(open_files.saturating_sub(SPARE_FILES)).unwrap_or(CONNECTIONS))
}

/// Files that may be open, here and in a server, so that all connections fit.
pub(super) const OPEN_FILES: u64 = CONNECTIONS as u64 + SPARE_FILES;

const CONNECTIONS: usize = 10_000;
/// Files that are no connections; a server sizes its tables by the limit and keeps some free.
const SPARE_FILES: u64 = 512;
/// 127.0.0.2 to 127.0.0.21.
const FIRST_CLIENT: u8 = 2;
const CLIENTS: usize = 20;
const WARM_UP_CONNECTIONS: usize = 200;
const WARM_UP_REQUESTS: usize = 3;
/// Until a server has done what it does after the last request or close.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
