//! What a peer has a limited time for, as one table over both protocols: who is slower hears so when the time is over,
//! and who is fast enough does not. In the simulation, whose time is cheap. Windows, and what else HTTP/2 alone has,
//! are in the suite of that; WebSockets in the table of their codes; who gives way when memory is short, with the tests
//! of the line.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_http::{Config, Error, Request, Response, Shed, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, Runtime, now, sleep, spawn, timeout};

use crate::rig::frames::{ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, PING, PREFACE, SETTINGS, frame, get, request};
use crate::rig::honest::Honest;
use crate::rig::{Running, count_body, in_simulation, read, serve};

/// So many peers do each of it at the same time.
const PEERS: usize = 30;

/// What a slow peer hears.
#[derive(Clone, Copy, Debug)]
enum Hears {
    /// The end of the connection.
    End,
    /// An answer with this status, and then the end.
    Answer(u16),
    /// An answer with this status on its stream.
    OnStream(u16),
    /// GOAWAY, and then the end.
    Goaway,
}

struct Slow {
    what: &'static str,
    first: Vec<u8>,
    /// What it sends in each second from then on.
    then: fn(usize) -> Vec<u8>,
    hears: Hears,
    after_secs: RangeInclusive<u64>,
}

fn nothing(_second: usize) -> Vec<u8> {
    Vec::new()
}

fn a_byte(_second: usize) -> Vec<u8> {
    b"a".to_vec()
}

/// A byte of a body of HTTP/2.
fn a_byte_of_data(_second: usize) -> Vec<u8> {
    frame(DATA, 0, 1, b"a")
}

/// The bytes of a frame, one after the other.
fn a_byte_of_a_ping(second: usize) -> Vec<u8> {
    frame(PING, 0, 0, &[7; 8]).get(second..=second).unwrap_or_default().to_vec()
}

/// The beginning of a connection of HTTP/2.
fn hello(frames: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), frames].concat()
}

fn post(path: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}").into_bytes()
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
const LONG: &str = "Content-Length: 90000\r\n";

/// The times are those that a server has if nothing else is asked for; answers linger for a while.
fn slow_peers() -> Vec<Slow> {
    use Hears::{Answer, End, Goaway, OnStream};
    let row = |what, first, then, hears, after_secs| Slow { what, first, then, hears, after_secs };
    let open = hello(&request(1, "POST", "/count", &[], 0));
    vec![
        row("a connection without a request", Vec::new(), nothing, End, 60..=62),
        row("a part of a head", b"GET / HT".to_vec(), nothing, Answer(408), 10..=13),
        row("a head that drips", b"GET / HTTP/1.1\r\nX: ".to_vec(), a_byte, Answer(408), 10..=13),
        row("a part of a body", post("/collect", "Content-Length: 9\r\n", "abc"), nothing, Answer(408), 30..=34),
        row("a body that drips and is collected", post("/collect", LONG, ""), a_byte, Answer(408), 30..=34),
        row("a body that drips and is counted", post("/count", LONG, ""), a_byte, Answer(408), 30..=34),
        row("a chunk that drips", post("/collect", CHUNKED, "ffff\r\n"), a_byte, Answer(408), 30..=34),
        row("a body that drips and is not read", post("/ignore", LONG, ""), a_byte, Answer(200), 30..=34),
        row("a body on a stream of which nothing comes", open.clone(), nothing, OnStream(408), 30..=34),
        row("a body on a stream that drips", open, a_byte_of_data, OnStream(408), 30..=34),
        row("a frame that drips beside a handler", hello(&get(1, "/stuck")), a_byte_of_a_ping, Goaway, 10..=13),
    ]
}

async fn answer(mut req: Request) -> core::result::Result<Response, Error> {
    match req.path() {
        "/collect" => Ok(Response::text(req.collect().await?.len().to_string())),
        "/count" => Ok(Response::text(count_body(&mut req).await?.to_string())),
        "/stuck" => {
            sleep(Duration::from_secs(3_600)).await;
            Ok(Response::text("late"))
        }
        _ => Ok(Response::text("fine")),
    }
}

/// The frames that came whole.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut bytes = bytes.to_vec();
    core::iter::from_fn(|| Frame::take_from(&mut bytes)).collect()
}

/// What a peer heard, and after how many seconds: up to the end of the connection, or of its stream.
async fn suffer(running: &Running, slow: Rc<Slow>) -> Result<(Vec<u8>, u64)> {
    let start = now();
    let mut client = TcpStream::connect(running.address).await?;
    client.send_bytes(&slow.first).await?;
    let (mut reader, mut writer) = client.into_split();
    let (then, hears) = (slow.then, slow.hears);
    let dripping = spawn(async move {
        for second in 0.. {
            sleep(Duration::from_secs(1)).await;
            if writer.send_bytes(&then(second)).await.is_err() {
                return;
            }
        }
    })?;
    let is_enough =
        |bytes: &[u8]| matches!(hears, Hears::OnStream(_)) && frames(bytes).iter().any(|frame| frame.kind == HEADERS);
    let mut bytes = Vec::new();
    while !is_enough(&bytes) {
        match timeout(Duration::from_secs(200), reader.recv()).await? {
            Ok(Some(more)) => bytes.extend_from_slice(&more),
            Ok(None) | Err(_) => break,
        }
    }
    dripping.abort();
    Ok((bytes, now().since(start).as_secs()))
}

/// An honest client, which is served all the while.
async fn honest(running: &Running) -> Result<Honest> {
    let mut client = TcpStream::connect(running.address).await?;
    let ask = async move || {
        let start = now();
        client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert!(read(&mut client, Some(b"fine")).await?.starts_with("HTTP/1.1 200 "));
        assert!(now().since(start) < Duration::from_secs(1), "served, but late");
        Ok(())
    };
    Honest::begin(Duration::from_millis(500), ask).await
}

#[test]
fn who_is_too_slow_hears_so_in_time() {
    if crate::rig::is_skipped(crate::rig::BRIDGE_TAKES) {
        return;
    }
    in_simulation("slow peers", async || {
        let running = Rc::new(serve(Config::default(), answer)?);
        let honest = honest(&running).await?;
        let mut tasks = Vec::new();
        for slow in slow_peers().into_iter().map(Rc::new) {
            for _ in 0..PEERS {
                let (running, slow) = (Rc::clone(&running), Rc::clone(&slow));
                tasks.push(spawn(async move {
                    Ok::<_, plimsoll_runtime::Error>((suffer(&running, Rc::clone(&slow)).await?, slow))
                })?);
            }
        }
        for task in tasks {
            let ((bytes, secs), slow) = task.await.expect("no panic")?;
            let (text, what) = (String::from_utf8_lossy(&bytes), slow.what);
            match slow.hears {
                Hears::End => assert_eq!(text, "", "{what}"),
                Hears::Answer(status) => assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {text}"),
                Hears::OnStream(status) => {
                    let frames = frames(&bytes);
                    let head = frames.iter().find(|frame| frame.kind == HEADERS);
                    assert!(head.is_some_and(|head| head.has_status(status)), "{what}: {frames:?}");
                }
                Hears::Goaway => assert!(frames(&bytes).iter().any(|frame| frame.kind == GOAWAY), "{what}: {text}"),
            }
            assert!(slow.after_secs.contains(&secs), "{what}: after {secs} s, and not {:?}", slow.after_secs);
        }
        // All but those who asked for nothing.
        let shed = running.counters.totals().shed_total[Shed::Timeout as usize];
        assert_eq!(shed as usize, PEERS * (slow_peers().len() - 1));
        honest.end().await?;
        Rc::into_inner(running).expect("all have ended").stop().await
    });
}

/// As fast as a body has to come, and not faster.
#[test]
fn a_body_that_is_slow_enough_to_be_taken_is() {
    in_simulation("steady bodies", async || {
        let running = serve(Config::default(), answer)?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_bytes(&post("/collect", "Connection: close\r\nContent-Length: 204800\r\n", "")).await?;
        for _ in 0..100 {
            client.send_bytes(&[b'x'; 2_048]).await?;
            sleep(Duration::from_millis(1_900)).await;
        }
        assert!(read(&mut client, None).await?.ends_with("204800"));
        let mut client = crate::rig::frames::Client::connect(running.address, &[]).await?;
        client.send(&request(1, "POST", "/count", &[], 0)).await?;
        for _ in 0..60 {
            client.send(&frame(DATA, 0, 1, &[b'x'; 1_200])).await?;
            sleep(Duration::from_secs(1)).await;
        }
        client.send(&frame(DATA, END_STREAM, 1, &[])).await?;
        assert_eq!(client.body(1).await?, b"72000");
        assert_eq!(running.shed(), 0);
        running.stop().await
    });
}

/// Whose handler takes too long loses it, though its peer goes on taking some of the answer.
#[test]
fn a_handler_has_its_time_while_parts_of_its_answer_are_taken() {
    let world = World::new(SimConfig { socket_buffer_bytes: 2_048, ..SimConfig::new(5) });
    let run = Runtime::builder().simulate(&world).expect("a simulation starts").block_on(async {
        let handlers = Arc::new(());
        let of_handler = Arc::clone(&handlers);
        let config = Config { handler_timeout: Some(Duration::from_secs(3)), ..Config::default() };
        let running = serve(config, move |mut req: Request| {
            let held = Arc::clone(&of_handler);
            async move {
                let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                for _ in 0..1_000 {
                    out.write_static(&[b'x'; 16 * 1_024]).await?;
                }
                drop(held);
                out.finish().await
            }
        })?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let (idle, mut counts) = (Arc::strong_count(&handlers), Vec::new());
        for _ in 0..4 * 5 {
            sleep(Duration::from_millis(250)).await;
            assert!(client.recv().await?.is_some(), "it gets what its handler has written");
            counts.push(Arc::strong_count(&handlers) - idle);
        }
        // Timers are as coarse as a quarter of a second.
        let runs = counts.iter().filter(|count| **count == 1).count();
        assert!((4 * 3 - 1..4 * 4).contains(&runs), "{counts:?}");
        assert_eq!(counts.last(), Some(&0));
        drop(client);
        running.stop().await
    });
    run.expect("nothing fails");
}
