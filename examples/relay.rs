//! A TCP relay: every connection is joined with one to another address, and costs no buffer and no task while nothing
//! comes.
//!
//! ```text
//! cargo run --release --example relay -- --listen 127.0.0.1:9000 --to 127.0.0.1:9100
//! ```
//!
//! With several workers, connections may reach the target in another order than they came in: each worker connects for
//! itself.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use plimsoll::io::{self, Relay};
use plimsoll::net::{SocketOption, TcpListener, TcpStream};
use plimsoll::{Runtime, signal, timeout};
use plimsoll_examples::{RuntimeFlags, address, print_started, runtime_words};

/// How long a connection to the other address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long relays may run on after the stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A TCP relay.
#[derive(Debug, Parser)]
#[command(name = "relay")]
struct Flags {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000", value_parser = address)]
    listen: SocketAddr,
    /// Where to connect to
    #[arg(long, value_name = "ADDR", value_parser = address)]
    to: SocketAddr,
    /// End a relay after so many seconds without a byte; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle: u64,
    #[command(flatten)]
    runtime: RuntimeFlags,
}

fn main() -> ExitCode {
    plimsoll_examples::main(|flags: &Flags| flags.runtime.run(async |runtime| Ok(serve(flags, runtime).await?)))
}

async fn serve(flags: &Flags, runtime: &Runtime) -> plimsoll::Result<()> {
    let listener = TcpListener::bind(flags.listen)?;
    let (listen, to, idle) = (listener.local_addr(), flags.to, Duration::from_secs(flags.idle));
    let (words, more) = runtime_words(runtime);
    print_started(&format!("listening on {listen} to={to}{words}{more}\n"), runtime);
    listener.on_every_worker(move |listener| accept(listener, to, idle)).await
}

/// Joins connections until the stop; then those that run may finish.
async fn accept(listener: TcpListener, to: SocketAddr, idle: Duration) -> plimsoll::Result<()> {
    listener.serve_here(move |stream| join(stream, to, idle)).await?;
    io::drain_relays(DRAIN_TIMEOUT).await;
    debug_assert!(signal::is_stopping(), "serving ends with the stop");
    Ok(())
}

async fn join(near: TcpStream, to: SocketAddr, idle: Duration) -> plimsoll::Result<()> {
    let far = timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await??;
    near.set_option(SocketOption::NoDelay(true))?;
    far.set_option(SocketOption::NoDelay(true))?;
    let relay = Relay::new(near, far);
    if idle.is_zero() { relay.detach().await } else { relay.idle_timeout(idle).detach().await }
}
