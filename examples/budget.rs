//! The line being reached and honoured, as a live picture: waves of requests of which each holds 64 KiB for a while, on
//! a server with 16 MiB.
//!
//! What does not fit is answered with 503. Between the waves the memory goes back to the system.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use plimsoll::http::{Counters, IntoResponse, Request, Response, Server, StatusCode};
use plimsoll::net::TcpStream;
use plimsoll::{Kind, sleep, spawn};

const HELD_BYTES: usize = 64 << 10;
const BAR_CELLS: u64 = 50;
const FRAME: Duration = Duration::from_millis(100);
/// Frames of a wave, and as many of calm.
const WAVE_FRAMES: u32 = 60;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

#[plimsoll::main(memory = "16MiB")]
async fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let server = Server::bind(&flags.listen)?;
    println!("listening on http://{}", server.local_addr());
    let _detached = spawn(waves(server.local_addr(), server.counters()))?;
    server.serve(hold).await
}

async fn hold(_: Request) -> Response {
    let Ok(_held) = plimsoll::pool().try_acquire(HELD_BYTES, Kind::Buffers) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    sleep(Duration::from_secs(1)).await;
    Response::text("held\n")
}

/// Clients of our own, a picture after each frame.
async fn waves(address: SocketAddr, counters: Counters) {
    for frame in (0..2 * WAVE_FRAMES).cycle() {
        for _ in 0..if frame < WAVE_FRAMES { frame } else { 0 } {
            // At the line there is no room for the client's task either: that one does not come.
            let _refused = spawn(visit(address)).map(drop);
        }
        draw(&counters);
        sleep(FRAME).await;
    }
}

async fn visit(address: SocketAddr) -> plimsoll::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.send_bytes(b"GET / HTTP/1.1\r\nHost: budget\r\nConnection: close\r\n\r\n").await?;
    while stream.recv().await?.is_some() {}
    Ok(())
}

fn draw(counters: &Counters) {
    let (budget, totals) = (plimsoll::budget(), counters.totals());
    let (line, charged, peak) = (budget.limit().as_bytes(), budget.charged(), budget.peak());
    let filled = "#".repeat((charged * BAR_CELLS).div_ceil(line) as usize);
    let [held, refused] =
        [200, 503].map(|code| totals.responses_total.iter().find(|of| of.0 == code).map_or(0, |of| of.1));
    let (start, end) = if std::io::stdout().is_terminal() { ("\r", "") } else { ("", "\n") };
    print!("{start}{filled:.<50}| {:5} of {} KiB, ", charged >> 10, line >> 10);
    print!("peak {:5}; held {held}, refused {refused}{end}", peak >> 10);
    let _closed = std::io::stdout().flush();
}
