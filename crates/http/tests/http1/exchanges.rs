//! Every exchange that was begun ends once, for the reason that is true.

use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use plimsoll_http::{Config, Error, ExchangeEnd, Request, Response, Shed, StatusCode, WebSocketConfig};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Lease, Result, sleep};

use crate::rig::drops::Drops;
use crate::rig::frames::{self, Client, cancel};
use crate::rig::memory::fill;
use crate::rig::{Running, on_each, read, serve, talk, until};

/// Begun, and how many ended in the order of [`ExchangeEnd::ALL`].
fn counts(server: &Running) -> (u64, [u64; ExchangeEnd::ALL.len()]) {
    let totals = server.counters.totals();
    (totals.exchanges_begun_total, totals.exchanges_ended_total)
}

fn config() -> Config {
    Config {
        // Longer than any machine is held up while a client goes away.
        handler_timeout: Some(Duration::from_secs(3)),
        body_timeout: Duration::from_millis(500),
        send_timeout: Duration::from_millis(400),
        drain_timeout: Duration::from_millis(200),
        ..Config::default()
    }
}

async fn answer(mut request: Request, drops: Drops) -> Result<Response, Error> {
    let _guard = drops.guard();
    match request.path() {
        "/sleep" => sleep(Duration::from_secs(1_000)).await,
        "/body" => drop(request.collect().await?),
        "/large" => return Ok(Response::new(StatusCode::OK).body(bytes::Bytes::from(vec![b'x'; 32 << 20]))),
        "/panic" => panic!("a handler that panics"),
        "/ws" => {
            let config = WebSocketConfig::default();
            return request
                .upgrade_websocket(&config, |mut socket| async move { while socket.recv().await.is_ok() {} });
        }
        _ => {}
    }
    Ok(Response::text("done"))
}

fn server(drops: &Drops) -> Result<Running> {
    let drops = drops.clone();
    serve(config(), move |request| answer(request, drops.clone()))
}

/// Waits until so many were begun.
async fn begun(server: &Running, count: u64) {
    until("it is begun", || counts(server).0 >= count).await;
}

/// Waits until so many have ended; what the server counts then.
async fn ended(server: &Running, count: u64) -> [u64; ExchangeEnd::ALL.len()] {
    until("they end", || counts(server).1.iter().sum::<u64>() >= count).await;
    counts(server).1
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

#[test]
fn of_http1_for_each_reason() {
    on_each("exchanges of HTTP/1.1", async || {
        let drops = Drops::default();
        let server = server(&drops)?;
        // Three at once, one more, and one whose handler panics.
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(&[get("/"), get("/"), get("/")].concat()).await?;
        assert_eq!(ended(&server, 3).await, [3, 0, 0, 0, 0]);
        client.send_bytes(&get("/")).await?;
        assert_eq!(ended(&server, 4).await, [4, 0, 0, 0, 0]);
        talk(server.address, &[&get("/panic")], None).await?;
        assert_eq!(ended(&server, 5).await, [5, 0, 0, 0, 0], "it ended by itself");
        assert_eq!(counts(&server), (5, [5, 0, 0, 0, 0]));
        // One that is not begun is none.
        talk(server.address, &[b"GET / HTTP/1.1\r\n\r\n"], None).await?;
        assert_eq!(counts(&server).0, 5);
        // The client goes away.
        let mut gone = TcpStream::connect(server.address).await?;
        gone.send_bytes(&get("/sleep")).await?;
        begun(&server, 6).await;
        drop(gone);
        assert_eq!(ended(&server, 6).await, [5, 1, 0, 0, 0]);
        // A handler, a body, and a peer that takes nothing.
        talk(server.address, &[&get("/sleep")], None).await?;
        assert_eq!(ended(&server, 7).await, [5, 1, 1, 0, 0]);
        talk(server.address, &[b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"], None).await?;
        assert_eq!(ended(&server, 8).await, [5, 1, 2, 0, 0]);
        let mut deaf = TcpStream::connect(server.address).await?;
        deaf.send_bytes(&get("/large")).await?;
        assert_eq!(ended(&server, 9).await, [5, 1, 3, 0, 0]);
        drop(deaf);
        // And one that goes away while its answer leaves: its handler is over.
        let mut gone = TcpStream::connect(server.address).await?;
        gone.send_bytes(&get("/large")).await?;
        read(&mut gone, Some(b"xxx")).await?;
        drop(gone);
        assert_eq!(ended(&server, 10).await, [5, 2, 3, 0, 0]);
        assert_eq!((drops.count() as u64, counts(&server).0), (10, 10));
        server.stop().await
    });
}

#[test]
fn of_a_stop_and_of_a_handshake() {
    on_each("exchanges at a stop", async || {
        let drops = Drops::default();
        let server = {
            let drops = drops.clone();
            serve(Config { handler_timeout: None, ..config() }, move |request| answer(request, drops.clone()))?
        };
        let counters = server.counters.clone();
        let mut socket = TcpStream::connect(server.address).await?;
        let upgrade = "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        socket.send_bytes(upgrade.as_bytes()).await?;
        assert_eq!(ended(&server, 1).await, [1, 0, 0, 0, 0], "it ends with the handshake");
        drop(socket);
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(&get("/sleep")).await?;
        begun(&server, 2).await;
        assert_eq!(counts(&server), (2, [1, 0, 0, 0, 0]));
        server.stop().await?;
        assert_eq!(counters.totals().exchanges_ended_total, [1, 0, 0, 0, 1]);
        Ok(())
    });
}

#[test]
fn of_http2_for_each_reason() {
    on_each("exchanges of HTTP/2", async || {
        let drops = Drops::default();
        let server = server(&drops)?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[frames::get(1, "/"), frames::get(3, "/"), frames::get(5, "/panic")].concat()).await?;
        assert_eq!(ended(&server, 3).await, [3, 0, 0, 0, 0]);
        client.send(&frames::get(7, "/sleep")).await?;
        begun(&server, 4).await;
        client.send(&cancel(7)).await?;
        assert_eq!(ended(&server, 4).await, [3, 1, 0, 0, 0]);
        client.send(&frames::get(9, "/sleep")).await?;
        assert_eq!(ended(&server, 5).await, [3, 1, 1, 0, 0], "the handler's time is up");
        // Its window lets nothing more go.
        client.send(&frames::get(11, "/large")).await?;
        assert_eq!(ended(&server, 6).await, [3, 1, 2, 0, 0]);
        client.send(&frames::request(13, "POST", "/body", &[], 0)).await?;
        assert_eq!(ended(&server, 7).await, [3, 1, 3, 0, 0], "a body that never comes");
        client.send(&frames::get(15, "/sleep")).await?;
        begun(&server, 8).await;
        drop(client);
        assert_eq!(ended(&server, 8).await, [3, 2, 3, 0, 0]);
        assert_eq!((drops.count() as u64, counts(&server).0), (8, 8));
        server.stop().await
    });
}

thread_local! {
    /// Memory that a handler has taken.
    static HELD: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn an_answer_that_has_left_is_finished_though_what_came_behind_it_finds_no_room() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    on_each("a request behind an answer at the line", async || {
        let server = serve(config(), async |_: Request| {
            HELD.set(fill(1));
            Response::text("taken")
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        // In one receive; the second is too long to be kept in what is spare.
        let long = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(3_000));
        client.send_bytes(&[get("/"), long.into_bytes()].concat()).await?;
        let ends = ended(&server, 1).await;
        drop(HELD.take());
        assert_eq!(ends, [1, 0, 0, 0, 0]);
        let answers = read(&mut client, None).await?;
        assert!(answers.contains("taken") && answers.contains("HTTP/1.1 503 "), "{answers}");
        assert_eq!(server.counters.totals().shed_total[Shed::Head as usize], 1, "it was not kept");
        drop(client);
        server.stop().await
    });
}

/// Says how much of its body came behind its answer.
async fn answer_first(mut request: Request, read: Arc<AtomicUsize>) -> Result<Response, Error> {
    let mut out = request.respond(Response::new(StatusCode::OK), Some(2))?;
    out.write_static(b"ok").await?;
    let answered = out.finish().await?;
    let mut bytes = 0;
    while let Some(chunk) = request.chunk().await? {
        bytes += chunk.len();
    }
    read.store(bytes, Ordering::Relaxed);
    Ok(answered)
}

#[test]
fn a_handler_reads_on_behind_its_answer_also_the_last_of_a_connection() {
    for close in ["", "Connection: close\r\n"] {
        on_each("a body behind its answer", async || {
            let read_behind = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&read_behind);
            let server = serve(Config::default(), move |request| answer_first(request, Arc::clone(&seen)))?;
            let mut client = TcpStream::connect(server.address).await?;
            let head = format!("POST / HTTP/1.1\r\nHost: h\r\n{close}Content-Length: 20\r\n\r\n0123456789");
            client.send_bytes(head.as_bytes()).await?;
            assert!(read(&mut client, Some(b"ok")).await?.starts_with("HTTP/1.1 200 "));
            // Its client goes on when it has the answer.
            client.send_bytes(b"0123456789").await?;
            until("all of it is read", || read_behind.load(Ordering::Relaxed) == 20).await;
            assert_eq!(ended(&server, 1).await, [1, 0, 0, 0, 0], "{close:?}");
            drop(client);
            server.stop().await
        });
    }
}
