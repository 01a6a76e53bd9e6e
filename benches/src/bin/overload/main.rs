//! The server that `cargo xtask bench --overload` loads beyond what fits: handlers that sleep, compute, stream, read,
//! poll and talk, each counted from its begin to its end.
//!
//! ```text
//! cargo run --release -p plimsoll-benches --bin overload -- --listen 127.0.0.1:8080 --memory 8MiB --workers 1
//! ```
//!
//! `/counts` says how many of each kind were begun, ended by themselves and were dropped half way; stderr says it again
//! at the end.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the command line")]

mod work;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use plimsoll::http::{
    Error, Message, OriginCheck, Request, Response, Server, StatusCode, WebSocketConfig, WebSocketEnd,
    WebSocketHandler, WebSocketRef,
};
use plimsoll::{DriverChoice, MemoryLimit, Runtime, sleep};

use work::{Begun, Bell, Kind, PIECE, PIECE_EVERY, PIECES, Route, Work};

/// The server of `cargo xtask bench --overload`.
#[derive(Debug, Parser)]
#[command(name = "overload")]
struct Flags {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// The memory line, with the unit B, KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    memory: MemoryLimit,
    /// The driver: auto, uring or mio
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    driver: DriverChoice,
}

static BELL: Bell = Bell::new();

fn main() -> ExitCode {
    let served = serve(&Flags::parse());
    eprint!("{}", work::counts());
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Until a signal stops it and what runs has ended.
fn serve(flags: &Flags) -> plimsoll::Result<()> {
    let builder = Runtime::builder().workers(flags.workers).memory(flags.memory).driver(flags.driver);
    let runtime = builder.signals(true).build()?;
    let work = Work::calibrate();
    runtime.block_on(async {
        let server = Server::bind(flags.listen)?;
        println!("listening on http://{}", server.local_addr());
        server.serve(move |request| answer(request, work)).await
    })?;
    eprintln!("{}", runtime.shutdown());
    Ok(())
}

/// Answers a request.
///
/// Not an `async fn`: an argument that is moved into a future is there twice, and the task cell of every waiting
/// handler pays for it.
fn answer(mut request: Request, work: Work) -> impl Future<Output = Result<Response, Error>> {
    let route = Route::of(request.path());
    async move {
        let Some(route) = route else { return Ok(Response::text("not found\n").with_status(StatusCode::NOT_FOUND)) };
        Ok(match route {
            Route::Sleep(time) => {
                let begun = Begun::new(Kind::Sleep);
                sleep(time).await;
                begun.finish();
                Response::text("ok")
            }
            Route::Compute(ms) => {
                let begun = Begun::new(Kind::Compute);
                work.run(ms);
                begun.finish();
                Response::text("ok")
            }
            Route::Poll => {
                let begun = Begun::new(Kind::Poll);
                BELL.wait().await;
                begun.finish();
                Response::text("ok")
            }
            Route::Tiny => {
                Begun::new(Kind::Tiny).finish();
                Response::text("ok")
            }
            Route::Wake => {
                BELL.ring();
                Response::text("ok")
            }
            Route::Stream => stream(&mut request).await?,
            Route::Upload => upload(&mut request).await?,
            Route::WebSocket => {
                let config = WebSocketConfig { origin: OriginCheck::Any, ..WebSocketConfig::default() };
                request.serve_websocket(&config, Member(None))?
            }
            Route::Counts => Response::text(work::counts()),
        })
    }
}

async fn stream(request: &mut Request) -> Result<Response, Error> {
    let begun = Begun::new(Kind::Stream);
    let mut out = request.respond(Response::new(StatusCode::OK), None)?;
    for _ in 0..PIECES {
        sleep(PIECE_EVERY).await;
        out.write_static(&PIECE).await?;
    }
    let response = out.finish().await?;
    begun.finish();
    Ok(response)
}

/// Counts the bytes of the body without keeping them.
async fn upload(request: &mut Request) -> Result<Response, Error> {
    let begun = Begun::new(Kind::Upload);
    let mut bytes = 0_u64;
    while let Some(chunk) = request.chunk().await? {
        bytes += chunk.len() as u64;
    }
    begun.finish();
    Ok(Response::text(bytes.to_string()))
}

/// A WebSocket that echoes; none before it is open. It ends by itself when its peer closes it.
struct Member(Option<Begun>);

impl WebSocketHandler for Member {
    fn opened(&mut self, _socket: &mut WebSocketRef<'_>) -> Result<(), Error> {
        self.0 = Some(Begun::new(Kind::WebSocket));
        Ok(())
    }

    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
        socket.send(message)
    }

    fn closed(&mut self, end: WebSocketEnd) {
        if let (WebSocketEnd::ByPeer(_), Some(begun)) = (end, self.0.take()) {
            begun.finish();
        }
    }
}
