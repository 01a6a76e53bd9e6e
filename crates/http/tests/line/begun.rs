//! What is begun is finished: of more clients at once than fit the line, each is answered, and no handler that was
//! begun is dropped.

#![allow(clippy::print_stdout, reason = "how many were begun is printed")]

use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_http::{Config, Counters, Error, Request, Response, Server};
use plimsoll_pool::Charge;
use plimsoll_runtime::{Kind, Lease, MemoryLimit, net, pool, sleep};
use socket2::{Domain, Protocol, Socket, Type};

use crate::rig::memory::fill;
use crate::rig::threads::{TEST_TIMEOUT, serve_until, under_line, until};
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
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
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
        let server =
            Server::bind("127.0.0.1:0")?.config(Config { begun_protection: TEST_TIMEOUT, ..Config::default() });
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

thread_local! {
    /// What a handler has taken of the memory, until its client is content.
    static TAKEN: RefCell<Option<(Charge, Vec<Lease>)>> = const { RefCell::new(None) };
}

/// Takes all memory, and most of it not from the pool: what is given out there is no reason to receive less.
fn take_all() {
    let charge = pool().charge(Kind::Fixed, pool().budget().limit().as_bytes() / 2).expect("half of it is free");
    TAKEN.set(Some((charge, fill(1))));
}

/// A request with `/first` and what comes after its line, and another one, that comes with it.
fn two(first: &str) -> Vec<u8> {
    format!("{first}GET /second HTTP/1.1\r\nHost: h\r\nX-Long: {}\r\n\r\n", "x".repeat(2_700)).into_bytes()
}

/// Its chunks are decoded together, and then there is no room to part them from the request behind them.
#[test]
fn a_body_in_chunks_that_finds_no_room_is_read_on_when_there_is_some() {
    on_each("chunks", async || {
        let running = serve(Config::default(), async |mut req: Request| {
            let mut bytes = Vec::new();
            if req.path() == "/first" {
                take_all();
            }
            while let Some(chunk) = req.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            Ok::<_, Error>(Response::text(format!("{} of {}.", String::from_utf8_lossy(&bytes), bytes.len())))
        })?;
        let (one, other) = ("a".repeat(1_000), "b".repeat(1_500));
        let head = "POST /first HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut client = net::TcpStream::connect(running.address).await?;
        client.send_bytes(&two(&format!("{head}3e8\r\n{one}\r\n5dc\r\n{other}\r\n0\r\n\r\n"))).await?;
        sleep(Duration::from_millis(300)).await;
        drop(TAKEN.take());
        let answers = read(&mut client, Some(b" of 0.")).await?;
        assert!(answers.contains(&format!("{one}{other} of 2500.")), "{answers}");
        drop(client);
        running.stop().await
    });
}

/// What comes behind the request has no room, and the answer has none either to wait for the socket.
#[test]
fn an_answer_that_finds_no_room_is_sent_to_its_end_when_there_is_some() {
    const BODY_BYTES: usize = 16 << 20;
    on_each("answer", async || {
        let running = serve(Config::default(), async |_req: Request| {
            let response = Response::text(vec![b'~'; BODY_BYTES]);
            take_all();
            response
        })?;
        let mut client = net::TcpStream::connect(running.address).await?;
        client.send_bytes(&two("GET /first HTTP/1.1\r\nHost: h\r\n\r\n")).await?;
        sleep(Duration::from_millis(300)).await;
        drop(TAKEN.take());
        let (mut answer, mut seen) = (Vec::new(), 0);
        while seen < BODY_BYTES {
            match client.recv().await? {
                Some(bytes) => {
                    seen += bytes.iter().filter(|byte| **byte == b'~').count();
                    answer.extend_from_slice(&bytes[..bytes.len().min(16)]);
                }
                None => panic!("the answer was cut after {seen} bytes of its body"),
            }
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        drop(client);
        drop(TAKEN.take());
        running.stop().await
    });
}
