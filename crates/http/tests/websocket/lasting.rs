//! Connections that stay (WebSockets, streams of events, connections that left HTTP) leave room for requests, and count
//! for their address.

#![allow(clippy::print_stdout, reason = "how many are open is printed")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream as TcpStreamOfThread;

use plimsoll_http::{Config, Error, EventsConfig, Request, Response, Server, WebSocketConfig};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, MemoryLimit, pool, sleep};
use socket2::{Domain, Protocol, Socket, Type};

use crate::rig::threads::{TEST_TIMEOUT, serve_until, under_line};
use crate::rig::{in_simulation, serve, talk, websocket};

const LINE: MemoryLimit = MemoryLimit::kib(1_536);
/// More than there is room for.
const STREAMS: usize = 900;
/// Requests beside them.
const SLOW: usize = 32;

async fn events(mut req: Request) -> Result<Response, Error> {
    if req.path() == "/slow" {
        sleep(Duration::from_millis(1_500)).await;
    }
    if req.path() != "/events" {
        return Ok(Response::text("fine"));
    }
    let mut events = req.events(EventsConfig { heartbeat: None })?;
    events.comment("here").await?;
    while events.wait(sleep(Duration::from_secs(3_600))).await?.is_some() {}
    events.finish().await
}

/// Each from an address of its own.
fn connect_from(at: usize, to: SocketAddr) -> TcpStreamOfThread {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    let from = SocketAddr::from(([127, 0, 1 + (at / 250) as u8, 1 + (at % 250) as u8], 0));
    socket.bind(&from.into()).expect("an address of the loopback");
    socket.connect(&to.into()).expect("the listener's queue has room");
    let stream = TcpStreamOfThread::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream
}

fn ask(mut stream: &TcpStreamOfThread, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("it is sent");
    let mut answer = [0; 512];
    let len = stream.read(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

/// Opens streams of events until one is refused; and how many requests are served beside them.
fn fill_with_events(address: SocketAddr) -> (usize, usize) {
    let mut open = Vec::new();
    while open.len() < STREAMS {
        let stream = connect_from(open.len(), address);
        let answer = ask(&stream, "/events");
        if !answer.starts_with("HTTP/1.1 200 ") {
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer}");
            break;
        }
        open.push(stream);
    }
    // All at once, and each for longer than another would wait to begin.
    let slow: Vec<_> = (0..SLOW).map(|at| connect_from(STREAMS + at, address)).collect();
    for mut stream in &slow {
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is sent");
    }
    let is_served = |mut stream: TcpStreamOfThread| {
        let mut answer = [0; 512];
        let len = stream.read(&mut answer).expect("an answer");
        answer[..len].starts_with(b"HTTP/1.1 200 ")
    };
    (open.len(), slow.into_iter().filter(|stream| is_served(stream.try_clone().expect("a descriptor"))).count())
}

#[test]
fn streams_of_events_leave_room_for_requests() {
    under_line("events", LINE, async |runtime| {
        let server = Server::bind("127.0.0.1:0")?.config(Config { drain_timeout: Duration::ZERO, ..Config::default() });
        let address = server.local_addr();
        let (open, served) = serve_until(server.serve(events), move || fill_with_events(address)).await?;
        println!("{open} streams of events on {}, and {served} of {SLOW} requests", runtime.driver().kind);
        assert!((100..STREAMS).contains(&open), "{open} of them");
        assert_eq!(served, SLOW, "requests beside {open} streams");
        Ok(())
    });
}

/// Connections of one client.
const STAYING: usize = 800;
/// What is free beside them: less than a quarter of what they are counted with.
const FREE_BYTES: u64 = 36 * 1_024;

async fn stay(req: Request) -> Result<Response, Error> {
    match req.path() {
        "/websocket" => websocket::echo(&req, &WebSocketConfig::default()),
        "/upgrade" => req.upgrade("wait/1", |mut peer| async move { while let Ok(Some(_)) = peer.recv().await {} }),
        _ => Ok(Response::text("fine")),
    }
}

async fn open(address: SocketAddr, path: &str) -> plimsoll_runtime::Result<TcpStream> {
    let fields = "X-Forwarded-For: 192.0.2.66\r\n";
    if path == "/websocket" {
        return Ok(websocket::Client::open_with(address, path, fields, b"").await?.0.stream);
    }
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: wait/1\r\n{fields}\r\n");
    stream.send_bytes(head.as_bytes()).await?;
    websocket::read_head(&mut stream, "101").await?;
    Ok(stream)
}

fn an_address_with_many_is_no_newcomer(path: &'static str) {
    in_simulation(path, async || {
        let forwarded_from = vec!["127.0.0.1".parse().expect("an address")];
        let running = serve(Config { forwarded_from, ..Config::default() }, stay)?;
        let mut staying = Vec::new();
        for _ in 0..STAYING {
            staying.push(open(running.address, path).await?);
        }
        let budget = pool().budget().clone();
        let mut held = Vec::new();
        while budget.limit().as_bytes() - budget.in_use() > FREE_BYTES {
            held.push(pool().try_acquire(8 * 1_024, Kind::Buffers)?);
        }
        let ask = async |client: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Forwarded-For: {client}\r\n\r\n");
            talk(running.address, &[head.as_bytes()], None).await
        };
        let answer = ask("192.0.2.66").await?;
        assert!(answer.starts_with("HTTP/1.1 503 "), "it has {STAYING} of them: {answer}");
        let answer = ask("198.18.0.1").await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "it has none: {answer}");
        drop(staying);
        sleep(Duration::from_secs(10)).await;
        // What they held is taken, too: memory is as short as before.
        while budget.limit().as_bytes() - budget.in_use() > FREE_BYTES {
            held.push(pool().try_acquire(8 * 1_024, Kind::Buffers)?);
        }
        let answer = ask("198.18.0.2").await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "it has none: {answer}");
        let answer = ask("192.0.2.66").await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "they are closed: {answer}");
        drop(held);
        running.stop().await
    });
}

#[test]
fn an_address_with_many_websockets_is_no_newcomer() {
    an_address_with_many_is_no_newcomer("/websocket");
}

#[test]
fn an_address_with_many_upgraded_connections_is_no_newcomer() {
    an_address_with_many_is_no_newcomer("/upgrade");
}
