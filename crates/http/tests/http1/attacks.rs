//! One test for each class of attack on HTTP/1.1. Each asserts what the attacker is answered, that memory stays under
//! the line, and that an honest client is served all the while. What is quick runs on every driver; what waits for
//! deadlines runs in the simulation.

use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, now, sleep, spawn};

use crate::rig::honest::Honest;
use crate::rig::{Running, in_simulation, on_each, read, serve, talk};

const GET: &[u8] = b"GET /honest HTTP/1.1\r\nHost: h\r\n\r\n";
const CLOSE: &[u8] = b"GET /honest HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// What an attacker wants to slip past somebody who reads the bytes before it in another way.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

/// What handlers of an attacked server saw.
#[derive(Clone, Default)]
struct Seen {
    smuggled: Arc<AtomicU64>,
    started: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
}

/// A server whose handlers read bodies, ignore them, or stream for ever.
fn attacked(config: Config, seen: &Seen) -> Result<Running> {
    let seen = seen.clone();
    serve(config, move |req: Request| answer(req, seen.clone()))
}

async fn answer(mut req: Request, seen: Seen) -> Result<Response, Error> {
    seen.started.fetch_add(1, Ordering::Relaxed);
    match req.path() {
        "/smuggled" => {
            seen.smuggled.fetch_add(1, Ordering::Relaxed);
            Ok(Response::text("smuggled"))
        }
        "/body" => Ok(Response::text(req.collect().await?.len().to_string())),
        "/stream" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            for _ in 0..10_000 {
                out.write_bytes(vec![b'x'; 4_096].into()).await?;
                seen.written_bytes.fetch_add(4_096, Ordering::Relaxed);
            }
            out.finish().await
        }
        _ => Ok(Response::text("fine")),
    }
}

/// An honest client on one connection.
async fn honest(address: SocketAddr) -> Result<Honest> {
    let mut client = TcpStream::connect(address).await?;
    let ask = async move || {
        let start = now();
        client.send_bytes(GET).await?;
        let answer = read(&mut client, Some(b"fine")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fine"), "{answer}");
        assert!(now() - start < Duration::from_secs(60), "served, but late");
        Ok(())
    };
    Honest::begin(Duration::from_millis(5), ask).await
}

/// Requests that two readers could understand in two ways, one for each place where that is found. All the others are
/// rows of `conformance/src/h1`, which this server is held to as well.
const AMBIGUOUS: [(&str, &[u8], u16); 4] = [
    ("in a field", b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", 400),
    (
        "between two fields",
        b"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "in a coding that is not spoken",
        b"POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    (
        "in the body",
        b"POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n4c\r\n0\r\n\r\n",
        400,
    ),
];

#[test]
fn smuggling_by_ambiguous_framing_is_refused() {
    on_each("ambiguous framing", async || {
        let seen = Seen::default();
        let server = attacked(Config::default(), &seen)?;
        let honest = honest(server.address).await?;
        for (name, request, status) in AMBIGUOUS {
            let answer = talk(server.address, &[&[request, SMUGGLED].concat()], None).await?;
            let is_refused = answer.starts_with(&format!("HTTP/1.1 {status} "));
            assert!(is_refused && answer.contains("\r\nConnection: close\r\n"), "{name}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{name}: one answer, then the end: {answer}");
        }
        assert_eq!(seen.smuggled.load(Ordering::Relaxed), 0);
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn smuggling_in_bodies_that_nobody_reads_stays_a_body() {
    on_each("bodies that nobody reads", async || {
        let seen = Seen::default();
        let config = Config { drain_bytes_max: 64 * 1024, ..Config::default() };
        let server = attacked(config, &seen)?;
        let honest = honest(server.address).await?;
        let length = SMUGGLED.len();
        let fixed = |method: &str| format!("{method} /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
        let chunked = |method: &str| {
            format!("{method} /ignore HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n")
        };
        for method in ["GET", "POST", "OPTIONS", "DELETE"] {
            // CL.0 and 0.CL: a length whose body the handler ignores.
            let cl = [fixed(method).as_bytes(), SMUGGLED, CLOSE].concat();
            // TE.0: the same in chunks.
            let te = [chunked(method).as_bytes(), SMUGGLED, b"\r\n0\r\n\r\n", CLOSE].concat();
            for request in [cl, te] {
                let answers = talk(server.address, &[&request], None).await?;
                assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{method}: {answers}");
                let (early, late) = request.split_at(request.len() / 2);
                let answers = talk(server.address, &[early, late], None).await?;
                assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{method} in two parts: {answers}");
            }
        }
        // An undrained body: more than is read and dropped ends the connection, and none of it is a request.
        let flood = SMUGGLED.repeat(8_000);
        let head = format!("POST /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", flood.len());
        let client = TcpStream::connect(server.address).await?;
        let (mut reader, mut writer) = client.into_split();
        writer.send_bytes(head.as_bytes()).await?;
        let _cut_off = writer.send_bytes(&flood).await;
        let mut answers = Vec::new();
        while let Ok(Some(bytes)) = reader.recv().await {
            answers.extend_from_slice(&bytes);
        }
        let answers = String::from_utf8_lossy(&answers);
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{answers}");
        assert_eq!(seen.smuggled.load(Ordering::Relaxed), 0);
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn an_upgrade_that_is_not_granted_switches_nothing() {
    on_each("premature upgrade", async || {
        let seen = Seen::default();
        let server = attacked(Config::default(), &seen)?;
        let honest = honest(server.address).await?;
        for protocol in ["websocket", "h2c", "TLS/1.0"] {
            let upgrade =
                format!("GET /fine HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n");
            let answers = talk(server.address, &[&[upgrade.as_bytes(), CLOSE].concat()], None).await?;
            assert!(!answers.contains("HTTP/1.1 101 "), "{answers}");
            assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "what follows is HTTP still: {answers}");
            let tunnel = [upgrade.as_bytes(), b"\x81\x85\0\0\0\0hello", SMUGGLED].concat();
            let answers = talk(server.address, &[&tunnel], None).await?;
            assert!(answers.contains("HTTP/1.1 400 "), "frames are no requests: {answers}");
        }
        assert_eq!(seen.smuggled.load(Ordering::Relaxed), 0, "nothing behind the frames was read");
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn a_header_bomb_is_refused_before_it_is_all_there() {
    on_each("header bomb", async || {
        let seen = Seen::default();
        let server = attacked(Config::default(), &seen)?;
        let honest = honest(server.address).await?;
        let fields = "A: b\r\n".repeat(101);
        let crumbs = "Cookie: a=b\r\n".repeat(101);
        let bombs = [
            ("a long target", format!("GET /{} HTTP/1.1\r\n", "a".repeat(9_000)), "414"),
            ("a long value", format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "a".repeat(17_000)), "431"),
            ("many fields", format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), "431"),
            ("many cookies", format!("GET / HTTP/1.1\r\nHost: h\r\n{crumbs}\r\n"), "431"),
        ];
        for (name, bomb, status) in bombs {
            for _ in 0..20 {
                let answer = talk(server.address, &[bomb.as_bytes()], None).await?;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
            }
        }
        // Only honest requests had a handler.
        let totals = server.counters.totals();
        assert_eq!(totals.requests_total, seen.started.load(Ordering::Relaxed));
        honest.end().await?;
        server.stop().await
    });
}

/// What `clients` tasks of an attack give, all at once.
async fn all<T: 'static, F: Future<Output = Result<T>> + 'static>(
    clients: usize,
    client: impl Fn(usize) -> F,
) -> Result<Vec<T>> {
    let mut running = Vec::new();
    for at in 0..clients {
        running.push(spawn(client(at))?);
    }
    let mut results = Vec::new();
    for one in running {
        results.push(one.await.expect("an attacker's assertions hold")?);
    }
    Ok(results)
}

#[test]
fn slow_readers_are_cut_off_and_their_handlers_wait() {
    if crate::rig::is_skipped(crate::rig::BRIDGE_TAKES) {
        return;
    }
    in_simulation("slow readers", async || {
        let seen = Seen::default();
        let server = attacked(Config::default(), &seen)?;
        let honest = honest(server.address).await?;
        let clients = 50;
        let readers = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..clients {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n").await?;
            // Kept open, and never read from.
            readers.borrow_mut().push(client);
        }
        sleep(Duration::from_secs(5)).await;
        let written = seen.written_bytes.load(Ordering::Relaxed);
        // What the sockets of both ends hold, a send in flight, and what is gathered: 64 KiB each.
        assert!(written <= clients * 4 * 64 * 1024, "{written} bytes for {clients} clients that read nothing");
        sleep(Duration::from_secs(30)).await;
        let totals = server.counters.totals();
        assert_eq!(totals.active, 0, "cut off after 30 s without progress");
        assert_eq!(seen.written_bytes.load(Ordering::Relaxed), written, "nothing was written meanwhile");
        readers.borrow_mut().clear();
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn a_pipelining_flood_is_read_no_faster_than_it_is_answered() {
    on_each("pipelining flood", async || {
        let seen = Seen::default();
        let server = attacked(Config::default(), &seen)?;
        let honest = honest(server.address).await?;
        let client = TcpStream::connect(server.address).await?;
        let (mut reader, mut writer) = client.into_split();
        let requests = 20_000;
        let flood = spawn(async move {
            writer.send_bytes(&GET.repeat(requests)).await?;
            writer.send_bytes(CLOSE).await
        })?;
        sleep(Duration::from_millis(50)).await;
        let mut answers = 0;
        let mut last = 0;
        while let Some(bytes) = reader.recv().await? {
            // Each body, `fine`, has one such pair, perhaps in two receives.
            answers += bytes.windows(2).filter(|pair| pair == b"ne").count();
            if last == b'n' && bytes.first() == Some(&b'e') {
                answers += 1;
            }
            last = *bytes.last().unwrap_or(&0);
        }
        assert!(answers > requests, "{answers} marks of {requests} answers");
        flood.await.expect("no panic")?;
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn a_connection_flood_meets_the_limit() {
    if crate::rig::is_skipped(crate::rig::BEFORE_KEYS) {
        return;
    }
    on_each("connection flood", async || {
        let server = attacked(Config { connections_max: 50, ..Config::default() }, &Seen::default())?;
        let honest = honest(server.address).await?;
        let address = server.address;
        let told = Rc::new(Cell::new(0));
        all(300, |_| {
            let told = Rc::clone(&told);
            async move {
                // Those beyond the limit are told so; those within say nothing, and hear nothing while they keep their
                // places.
                let Ok(mut client) = TcpStream::connect(address).await else { return Ok(()) };
                let first = async {
                    for _ in 0..12_000 {
                        if told.get() >= 250 {
                            break;
                        }
                        sleep(Duration::from_millis(5)).await;
                    }
                    Ok(String::new())
                };
                let answered = first_of(read(&mut client, Some(b"\r\n\r\n")), first).await;
                let answer = answered.unwrap_or_default();
                assert!(answer.is_empty() || answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
                told.set(told.get() + usize::from(answer.starts_with("HTTP/1.1 503 ")));
                Ok(())
            }
        })
        .await?;
        assert!(told.get() >= 250, "{} of 300 were told to come again", told.get());
        honest.end().await?;
        server.stop().await
    });
}

/// What comes first of two.
async fn first_of<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (core::pin::pin!(one), core::pin::pin!(other));
    core::future::poll_fn(|cx| match one.as_mut().poll(cx) {
        core::task::Poll::Pending => other.as_mut().poll(cx),
        ready => ready,
    })
    .await
}
