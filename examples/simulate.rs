//! A service of your own in simulated worlds: a seed decides what goes wrong, and what must hold is asserted in each.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::time::Duration;

use plimsoll::http::{Request, Response, Server};
use plimsoll::net::TcpStream;
use plimsoll::sim::{Census, Faults, SimConfig, Sweep, World};
use plimsoll::{MemoryLimit, Runtime, Spawner, sleep, spawn, timeout};

/// The service: it counts the bytes of a body.
async fn count(mut req: Request) -> Response {
    match req.collect().await {
        Ok(body) => Response::text(body.len().to_string()),
        Err(_) => Response::new(plimsoll::http::StatusCode::BAD_REQUEST),
    }
}

/// One world: whole answers where nothing fails, else a whole one or none. Nothing is left behind.
fn run(seed: u64) -> Census {
    let is_clean = seed.is_multiple_of(2);
    let faults = if is_clean { Faults::clean() } else { Faults::wild() };
    let world = World::new(SimConfig::new(seed).with_faults(faults));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(8)).simulate(&world).expect("a simulation starts");
    runtime.block_on(async {
        let server = Server::bind("127.0.0.1:80").expect("nobody else is in this world");
        let serving = spawn(server.serve(count)).expect("there is room");
        // A link may be down for ever: the client gives up, after two minutes of the world's time.
        let answer = timeout(Duration::from_secs(120), ask()).await.ok().flatten();
        assert!(!is_clean || answer.is_some(), "in a clean world there is an answer");
        if let Some(answer) = answer {
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n5000"), "{answer}");
        }
        Spawner::current().stop();
        serving.await.expect("no panic").expect("the server ends");
    });
    let report = runtime.shutdown();
    assert!(report.is_clean(), "{report}");
    assert!(world.descriptors().is_empty(), "descriptors are left");
    world.census()
}

/// A client; `None` if something went wrong on its way.
async fn ask() -> Option<String> {
    sleep(Duration::from_millis(1)).await;
    let mut client = TcpStream::connect("127.0.0.1:80".parse().ok()?).await.ok()?;
    client.send_bytes(b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n").await.ok()?;
    client.send_bytes(&[b'x'; 5_000]).await.ok()?;
    let mut answer = Vec::new();
    while let Some(bytes) = client.recv().await.ok()? {
        answer.extend_from_slice(&bytes);
    }
    // A cut answer is as good as none.
    String::from_utf8(answer).ok().filter(|answer| answer.ends_with("5000"))
}

/// `cargo run --release --example simulate [SEEDS]`
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seeds = std::env::args().nth(1).map_or(Ok(1_000), |seeds| seeds.parse())?;
    let census = Sweep { first_seed: 1, seeds, threads: 2 }.run(run, |_done| {})?;
    println!("{seeds} worlds, and this happened in them:\n{census}");
    Ok(())
}
