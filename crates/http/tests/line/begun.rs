//! What is begun is finished: of more clients at once than fit the line, each is answered, and no handler that was
//! begun is dropped.

#![allow(clippy::print_stdout, reason = "how many were begun is printed")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_http::{Config, Counters, Request, Response, Server};
use plimsoll_runtime::{MemoryLimit, net, sleep};
use socket2::{Domain, Protocol, Socket, Type};

use crate::rig::memory::fill;
use crate::rig::threads::{PATIENCE, serve_until, under_line, until};
use crate::rig::{on_each, read, serve};

/// Each takes some 2 KiB while its handler runs: some 700 of them fit.
const CLIENTS: usize = 1_600;
const LINE: MemoryLimit = MemoryLimit::kib(1_536);

/// How many handlers were begun, and how many of these came to their end.
#[derive(Default)]
struct Handlers {
    begun: AtomicUsize,
    finished: AtomicUsize,
    may_end: AtomicBool,
}

async fn slow(handlers: Arc<Handlers>) -> Response {
    handlers.begun.fetch_add(1, Ordering::Relaxed);
    while !handlers.may_end.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(10)).await;
    }
    handlers.finished.fetch_add(1, Ordering::Relaxed);
    Response::text("slept")
}

fn connect(at: usize, addresses: usize, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    let host = at % addresses;
    let from = SocketAddr::from(([127, 0, 1 + (host / 250) as u8, 1 + (host % 250) as u8], 0));
    socket.bind(&from.into()).expect("an address of the loopback");
    socket.connect(&to.into()).expect("the listener's queue has room");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// All ask, and those that were begun end when others have waited in vain; how many were answered 200 and 503.
fn crowd(addresses: usize, to: SocketAddr, counters: &Counters, handlers: &Handlers) -> (usize, usize) {
    let mut streams: Vec<_> = (0..CLIENTS).map(|at| connect(at, addresses, to)).collect();
    for stream in &mut streams {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it is sent");
    }
    until("the line is reached", || counters.totals().shed_total.iter().sum::<u64>() > 0);
    handlers.may_end.store(true, Ordering::Relaxed);
    let (mut served, mut refused) = (0, 0);
    for mut stream in streams {
        let mut answer = String::new();
        let end = stream.read_to_string(&mut answer);
        // What was turned away before it had asked may be reset behind its answer.
        assert!(end.is_ok() || answer.starts_with("HTTP/1.1 503 "), "{end:?} after {answer:?}");
        match answer.get(..13) {
            Some("HTTP/1.1 200 ") => {
                assert!(answer.ends_with("slept"), "{answer}");
                served += 1;
            }
            Some("HTTP/1.1 503 ") => {
                assert!(answer.contains("\r\nRetry-After: "), "{answer}");
                refused += 1;
            }
            _ => panic!("neither served nor refused: {answer:?}"),
        }
    }
    (served, refused)
}

fn what_is_begun_is_finished(addresses: usize) {
    under_line(&format!("{addresses} addresses"), LINE, async |runtime| {
        let handlers = Arc::new(Handlers::default());
        let (of_server, of_clients) = (Arc::clone(&handlers), Arc::clone(&handlers));
        // None is given up for its age, however long it takes until all have asked.
        let server = Server::bind("127.0.0.1:0")?.config(Config { begun_protection: PATIENCE, ..Config::default() });
        let (to, counters) = (server.local_addr(), server.counters());
        let serving = server.serve(move |_req: Request| slow(Arc::clone(&of_server)));
        let (served, refused) = serve_until(serving, move || crowd(addresses, to, &counters, &of_clients)).await?;
        let [begun, finished] = [&handlers.begun, &handlers.finished].map(|count| count.load(Ordering::Relaxed));
        println!("{addresses} addresses on {}: {begun} begun, {refused} refused", runtime.driver().kind);
        assert_eq!((begun, begun), (finished, served), "what is begun is finished, and its client hears that");
        assert!(refused > 0, "the line was not reached");
        assert_eq!(served + refused, CLIENTS);
        Ok(())
    });
}

#[test]
fn of_one_address() {
    what_is_begun_is_finished(1);
}

#[test]
fn of_many_addresses() {
    what_is_begun_is_finished(400);
}

/// They come together, and the first takes all memory as it begins.
#[test]
fn a_request_behind_one_that_runs_does_not_end_that_for_want_of_room() {
    on_each("pipelined", async || {
        let running = serve(Config::default(), async |req: Request| {
            let held = if req.path() == "/first" { fill(1) } else { Vec::new() };
            sleep(Duration::from_millis(300)).await;
            drop(held);
            Response::text("slept")
        })?;
        let second = format!("GET /second HTTP/1.1\r\nHost: h\r\nX-Long: {}\r\n\r\n", "x".repeat(2_700));
        let mut client = net::TcpStream::connect(running.address).await?;
        client.send_bytes(format!("GET /first HTTP/1.1\r\nHost: h\r\n\r\n{second}").as_bytes()).await?;
        // Until the memory for it is there again, nothing can be received here.
        sleep(Duration::from_millis(500)).await;
        for path in ["/first", "/second"] {
            let answer = read(&mut client, Some(b"slept")).await?;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer:?}");
            if answer.matches("HTTP/1.1 200 ").count() == 2 {
                break;
            }
        }
        drop(client);
        running.stop().await
    });
}
