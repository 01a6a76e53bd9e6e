//! So many requests of one kind in a simulated world, for callgrind to count: `counted KIND COUNT`.
//!
//! | kind | what answers |
//! |---|---|
//! | `native` | a handler of the server's own |
//! | `oneshot` | the same, which calls an axum router with a request that was made before |
//! | `made` | the first again; requests of the `http` crate are only made, and kept |
//! | `adapted` | the router itself, through `plimsoll_tower::serve` |
//!
//! Two runs that differ in COUNT alone differ by so many requests. What the adapter costs is `adapted` less `oneshot`,
//! and, as the making of requests counts in that, plus `made` less `native`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a program for the command line")]

use axum::{Router, body::Body, routing::get};
use http_body_util::BodyExt;
use plimsoll::http::{Request, Response, Server};
use plimsoll::net::TcpStream;
use plimsoll::sim::{SimConfig, World};
use plimsoll::{MemoryLimit, Runtime, Spawner, spawn};
use tower::ServiceExt;

const REQUEST: &[u8] = b"GET /pipeline HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

fn router() -> Router {
    Router::new().route("/pipeline", get(async || "Hello, World!"))
}

/// One that was made before, as a clone of it costs its parts.
fn made_before() -> http::Request<Body> {
    let head = http::Request::get("/pipeline").header("host", "localhost:8080");
    head.body(Body::empty()).expect("a request")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(kind), Some(Ok(count))) = (words.first(), words.get(1).map(|count| count.parse::<usize>())) else {
        return eprintln!("counted native|oneshot|made|adapted COUNT");
    };
    let world = World::new(SimConfig::new(1));
    let simulation = Runtime::builder().memory(MemoryLimit::mib(64)).simulate(&world).expect("it starts");
    let done = simulation.block_on(async {
        let server = Server::bind("127.0.0.1:80")?;
        let address = server.local_addr();
        let options = plimsoll_tower::Options::default().peer_address(false);
        let serving = match kind.as_str() {
            "made" => {
                std::mem::forget((0..=count).map(|_| made_before()).collect::<Vec<_>>());
                spawn(server.serve(async |_: Request| Response::text("Hello, World!")))?
            }
            "native" => spawn(server.serve(async |_: Request| Response::text("Hello, World!")))?,
            "oneshot" => {
                let prepared: Vec<_> = (0..=count).map(|_| made_before()).collect();
                let prepared = std::sync::Arc::new(std::sync::Mutex::new(prepared));
                let router = router();
                spawn(server.serve(move |_: Request| {
                    let asked = prepared.lock().expect("no panic").pop().expect("as many as are sent");
                    let router = router.clone();
                    async move {
                        let answer = router.oneshot(asked).await.expect("it cannot fail");
                        let body = answer.into_body().collect().await.expect("it is there").to_bytes();
                        Response::text(body)
                    }
                }))?
            }
            "adapted" => spawn(plimsoll_tower::serve_with(server, router(), options))?,
            other => panic!("{other} is no kind"),
        };
        let mut client = TcpStream::connect(address).await?;
        for _ in 0..=count {
            client.send_bytes(REQUEST).await?;
            let answer = client.recv().await?.expect("an answer");
            assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"Hello, World!"), "{answer:?}");
        }
        drop(client);
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
    done.expect("it serves");
}
