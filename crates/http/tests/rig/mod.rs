//! The rig of the server's suites: each scenario runs on io_uring (where it works), on mio and in the simulation, with
//! real connections of the same runtime as clients, and ends with a census of what is left.

#![allow(dead_code, unused_imports, reason = "no suite uses all of it")]

pub(crate) mod bridge;
pub(crate) mod drops;
pub(crate) mod frames;
pub(crate) mod half_closed;
pub(crate) mod honest;
pub(crate) mod memory;
pub(crate) mod records;
#[cfg(feature = "tls-aws-lc")]
pub(crate) mod secured;
pub(crate) mod threads;
pub(crate) mod websocket;

use core::future::Future;
use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::{Config, Counters, ProxyProtocol, Request, Server};
use plimsoll_runtime::net::{SocketAddress, SocketStream, TcpStream, UnixAddress};
use plimsoll_runtime::{JoinHandle, Result, Spawner, sleep, spawn, timeout};

#[path = "../../../runtime/tests/support/mod.rs"]
mod support;

pub(crate) use support::{
    Directory, fresh_directory, fresh_unix_address, in_simulation, in_simulation_under, is_simulated, on_each,
    on_each_under, on_each_with_files, place_file, real_runtimes, until, wait_max,
};

/// What carries the bytes of the suites' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beneath {
    Nothing,
    /// The [transport for tests](records).
    Records,
    /// [TLS](secured).
    Tls,
}

/// The programs are named after it.
fn beneath() -> Beneath {
    match module_path!().split("::").next() {
        Some("records") => Beneath::Records,
        Some("https_suites") => Beneath::Tls,
        _ => Beneath::Nothing,
    }
}

/// Why a test says nothing over records.
pub(crate) const AT_THE_LINE: &str = "sealing takes memory, and the bridge is under the same line";
pub(crate) const BRIDGE_TAKES: &str = "the bridge takes what its client does not, and tells no reset from an end";

pub(crate) const BEFORE_KEYS: &str = "who is refused before there are keys is closed without a word";

/// Whether a transport is beneath the suites.
pub(crate) fn is_carried() -> bool {
    beneath() != Beneath::Nothing
}

/// Whether a test is left out of the programs that run over a transport.
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
pub(crate) fn is_skipped(why: &str) -> bool {
    if is_carried() {
        eprintln!("skipped over {:?}: {why}", beneath());
    }
    is_carried()
}

/// The same for TLS alone.
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
pub(crate) fn is_skipped_over_tls(why: &str) -> bool {
    if beneath() == Beneath::Tls {
        eprintln!("skipped over Tls: {why}");
    }
    beneath() == Beneath::Tls
}

/// A server that runs, to be stopped at the end of a scenario.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Counters,
    serving: JoinHandle<Result<()>>,
}

impl Running {
    /// How many connections, requests and streams were turned away or cut off, for whatever reason.
    pub(crate) fn shed(&self) -> u64 {
        self.counters.totals().shed_total.iter().sum()
    }

    pub(crate) async fn stop(self) -> Result<()> {
        Spawner::current().stop();
        self.serving.await.expect("the server does not panic")
    }
}

pub(crate) fn serve<H, F>(config: Config, handler: H) -> Result<Running>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future + 'static,
    F::Output: plimsoll_http::IntoResponse,
{
    let has_header = config.proxy_protocol == ProxyProtocol::Required;
    let server = Server::bind("127.0.0.1:0")?.config(config);
    let address = server.local_addr();
    match beneath() {
        Beneath::Records => {
            let bridge = bridge::bridge(address, has_header, records::carry)?;
            serve_on(server.transport(records::Records::make()), bridge, handler)
        }
        #[cfg(feature = "tls-aws-lc")]
        Beneath::Tls => {
            let bridge = bridge::bridge(address, has_header, secured::carry)?;
            serve_on(server.tls(secured::config()), bridge, handler)
        }
        _ => serve_on(server, address, handler),
    }
}

/// The same at a Unix socket. Its address of IP is none.
pub(crate) fn serve_unix<H, F>(at: UnixAddress, config: Config, handler: H) -> Result<Running>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future + 'static,
    F::Output: plimsoll_http::IntoResponse,
{
    let server = Server::bind(at)?.config(config);
    assert_eq!(server.local_address(), at.into());
    serve_on(server, SocketAddr::from(([0, 0, 0, 0], 0)), handler)
}

fn serve_on<H, F>(server: Server, address: SocketAddr, handler: H) -> Result<Running>
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future + 'static,
    F::Output: plimsoll_http::IntoResponse,
{
    Ok(Running { address, counters: server.counters(), serving: spawn(server.serve(handler))? })
}

/// Reads a body to its end; how long it was.
pub(crate) async fn count_body(req: &mut Request) -> core::result::Result<usize, plimsoll_http::Error> {
    let mut bytes = 0;
    while let Some(chunk) = req.chunk().await? {
        bytes += chunk.len();
    }
    Ok(bytes)
}

/// Sends pieces with a pause between them, and reads until the end of the stream, or until `enough` is in it.
pub(crate) async fn talk(address: SocketAddr, pieces: &[&[u8]], enough: Option<&[u8]>) -> Result<String> {
    let mut client = TcpStream::connect(address).await?;
    for piece in pieces {
        client.send_bytes(piece).await?;
        if pieces.len() > 1 {
            sleep(Duration::from_millis(2)).await;
        }
    }
    read(&mut client, enough).await
}

pub(crate) async fn read<A: SocketAddress>(client: &mut SocketStream<A>, enough: Option<&[u8]>) -> Result<String> {
    let mut bytes = Vec::new();
    let has = |bytes: &[u8]| enough.is_some_and(|enough| bytes.windows(enough.len()).any(|window| window == enough));
    while !has(&bytes) {
        match timeout(Duration::from_secs(120), client.recv()).await? {
            Ok(Some(lease)) => bytes.extend_from_slice(&lease),
            Ok(None) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
