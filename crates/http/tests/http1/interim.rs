//! Informational responses of handlers, over both protocols: on io_uring (where it works), on mio and in the
//! simulation.

use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, Lease, Result, now, pool, sleep, timeout};

use crate::rig::frames::{
    Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, RST_STREAM, WINDOW_UPDATE, cancel, frame, get, request,
};
use crate::rig::memory::fill;
use crate::rig::{in_simulation, on_each, read, serve, talk};

type Handled = core::result::Result<Response, Error>;

fn hint(value: &str) -> Response {
    Response::new(StatusCode::EARLY_HINTS).header("x-hint", value)
}

/// Two hints, with pauses if there is a query, and an answer that names the path; a long one for `/large`.
async fn hinted(mut req: Request) -> Handled {
    let path = req.path().to_owned();
    for part in ["a", "b"] {
        req.inform(hint(&format!("{path}{part}"))).await?;
        if req.query_string().is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let body = if path == "/large" { "l".repeat(40_000) } else { String::new() };
    Ok(Response::text(format!("{body}<{path}>")))
}

/// Frames of the given streams, up to the ends of all of them.
async fn answers(client: &mut Client, streams: &[u32]) -> Result<Vec<Frame>> {
    let (mut frames, mut open) = (Vec::new(), streams.to_vec());
    while !open.is_empty() {
        let frame = client.frame().await?.unwrap_or_else(|| panic!("the connection ended: {frames:?}"));
        if !streams.contains(&frame.stream) || ![DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
            continue;
        }
        if frame.kind == RST_STREAM || frame.flags & END_STREAM != 0 {
            open.retain(|stream| *stream != frame.stream);
        }
        frames.push(frame);
    }
    Ok(frames)
}

/// The block of an informational response with one field that no table keeps: of the status as a literal, and nothing
/// else.
fn block(status: &str, name: &str, value: &str) -> Vec<u8> {
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [&[8][..], &literal(status), &[0], &literal(name), &literal(value)].concat()
}

/// What a handler found, when it is there.
async fn found<T: Copy + PartialEq>(look: impl Fn() -> T, none: T) -> T {
    let start = now();
    while look() == none && (now() - start) < Duration::from_secs(60) {
        sleep(Duration::from_millis(1)).await;
    }
    look()
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn they_leave_before_their_answer_and_behind_those_before_it() {
    on_each("order", async || {
        let server = serve(Config::default(), hinted)?;
        let paths = ["/1", "/large", "/2?", "/3", "/large?", "/4"];
        let pipeline: String = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
        let end = "GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let bytes = [pipeline.as_bytes(), end.as_bytes()].concat();
        for cut in [bytes.len(), 1, 30, 100] {
            let text = talk(server.address, &[&bytes[..cut], &bytes[cut..]], None).await?;
            let mut rest = text.as_str();
            for path in paths.iter().chain(&["/end"]) {
                let path = path.trim_end_matches('?');
                for part in ["a", "b"] {
                    let head = format!("HTTP/1.1 103 Early Hints\r\nx-hint: {path}{part}\r\n\r\n");
                    rest = rest.strip_prefix(&head).unwrap_or_else(|| panic!("{path}{part}: {rest:.300}"));
                }
                assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {rest:.300}");
                let body = format!("<{path}>");
                let at = rest.find(&body).unwrap_or_else(|| panic!("{path}: {rest:.300}"));
                rest = &rest[at + body.len()..];
            }
            assert_eq!(rest, "", "nothing is behind the last");
        }
        let totals = server.counters.totals();
        assert_eq!(totals.responses_total, [(200, 28)], "answers are counted");
        server.stop().await
    });
}

#[test]
fn over_http2_they_are_heads_that_end_nothing() {
    on_each("HTTP/2", async || {
        let server = serve(Config::default(), hinted)?;
        let mut client = Client::connect(server.address, &[]).await?;
        let streams = [1, 3, 5, 7];
        let paths = ["/1", "/large", "/2?", "/3"];
        let requests: Vec<_> = streams.iter().zip(paths).map(|(stream, path)| get(*stream, path)).collect();
        client.send(&requests.concat()).await?;
        let frames = answers(&mut client, &streams).await?;
        for (stream, path) in streams.into_iter().zip(paths.map(|path| path.trim_end_matches('?'))) {
            let own: Vec<_> = frames.iter().filter(|frame| frame.stream == stream).collect();
            for (at, part) in ["a", "b"].into_iter().enumerate() {
                assert_eq!((own[at].kind, own[at].flags), (HEADERS, END_HEADERS), "{path}: {:?}", own[at]);
                assert!(own[at].payload.ends_with(&block("103", "x-hint", &format!("{path}{part}"))), "{:?}", own[at]);
            }
            assert!(own[2].has_status(200), "{path}: {:?}", own[2]);
            assert!(own[3..].iter().all(|frame| frame.kind == DATA), "{path}");
            let body: Vec<u8> = own[3..].iter().flat_map(|data| data.payload.clone()).collect();
            assert!(body.ends_with(format!("<{path}>").as_bytes()), "{path}");
        }
        assert_eq!(server.counters.totals().responses_total, [(200, 4)], "answers are counted");
        drop(client);
        server.stop().await
    });
}

#[test]
fn they_leave_while_their_handler_is_at_work() {
    on_each("at once", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let opened = Arc::clone(&gate);
        let server = serve(Config::default(), move |mut req: Request| {
            let gate = Arc::clone(&opened);
            async move {
                req.inform(hint("soon")).await?;
                found(|| gate.load(Ordering::Relaxed), false).await;
                Ok::<_, Error>(Response::text("done"))
            }
        })?;
        let mut old = TcpStream::connect(server.address).await?;
        old.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert_eq!(read(&mut old, Some(b"\r\n\r\n")).await?, "HTTP/1.1 103 Early Hints\r\nx-hint: soon\r\n\r\n");
        let mut new = Client::connect(server.address, &[]).await?;
        new.send(&get(1, "/")).await?;
        assert!(new.next_of(HEADERS).await?.payload.ends_with(&block("103", "x-hint", "soon")));
        assert_eq!(server.counters.totals().responses_total, [], "nothing is answered yet");
        gate.store(true, Ordering::Relaxed);
        assert!(read(&mut old, Some(b"done")).await?.starts_with("HTTP/1.1 200 "));
        assert_eq!(new.body(1).await?, b"done");
        drop((old, new));
        server.stop().await
    });
}

#[test]
fn a_client_of_http_1_0_gets_none() {
    on_each("HTTP/1.0", async || {
        let server = serve(Config::default(), hinted)?;
        for fields in ["", "Connection: keep-alive\r\n"] {
            let request = format!("GET /1? HTTP/1.0\r\n{fields}\r\n");
            let answer = talk(server.address, &[request.as_bytes()], Some(b"</1>")).await?;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("</1>"), "{answer}");
            assert!(!answer.contains("103") && !answer.contains("x-hint"), "{answer}");
        }
        server.stop().await
    });
}

/// What becomes of each try, a letter each: sent, refused, gone.
async fn tried(req: &mut Request, responses: Vec<Response>) -> String {
    let mut tried = String::new();
    for response in responses {
        tried.push(match req.inform(response).await {
            Ok(()) => 's',
            Err(Error::Misuse(_)) => 'r',
            Err(Error::Disconnected) => 'g',
            Err(error) => panic!("{error}"),
        });
    }
    tried
}

/// `/wrong` tries what is not allowed, `/many` more than is allowed, `/late` behind the beginning of its answer.
async fn refused(mut req: Request) -> Handled {
    let status = |status: u16| Response::new(StatusCode::from_u16(status).expect("a status"));
    let with = |name: &str, value: &str| Response::new(StatusCode::EARLY_HINTS).header(name, value);
    let responses = match req.path() {
        "/many" => (0..20).map(|number| hint(&number.to_string())).collect(),
        "/late" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            let tried = tried(&mut req, vec![hint("late"), status(102)]).await;
            out.write_bytes(tried.into_bytes().into()).await?;
            return out.finish().await;
        }
        _ => vec![
            status(200),
            status(404),
            status(101),
            status(999),
            status(103).body("x"),
            with("x-hint", "a\r\nset-cookie: b"),
            with("x-hint", "a\nb"),
            with("x-hint", "a\0"),
            with("x hint", "a"),
            with("content-length", "3"),
            with("transfer-encoding", "chunked"),
            with("connection", "close"),
            with("x-hint", &"v".repeat(15 * 1_024)),
            with("x-hint", &"v".repeat(15 * 1_024 - 10)),
            status(199),
        ],
    };
    let tried = tried(&mut req, responses).await;
    Ok(Response::text(tried))
}

#[test]
fn what_is_not_one_is_refused_and_the_answer_follows() {
    on_each("refused", async || {
        let server = serve(Config::default(), refused)?;
        let all_but_two = "rrrrrrrrrrrrrss";
        for (path, expected, interims) in
            [("/wrong", all_but_two, 2), ("/many", "ssssssssssssssssrrrr", 16), ("/late", "rr", 0)]
        {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let answer = talk(server.address, &[request.as_bytes()], None).await?;
            assert_eq!(answer.matches("HTTP/1.1 1").count(), interims, "{path}: {answer}");
            let answer = &answer[answer.find("HTTP/1.1 200 ").expect("an answer")..];
            assert!(answer.contains(&format!("\r\n{expected}")), "{path}: {answer}");
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&get(1, path)).await?;
            let frames = answers(&mut client, &[1]).await?;
            let heads = frames.iter().filter(|frame| frame.kind == HEADERS).count();
            assert_eq!(heads, interims + 1, "{path}: {frames:?}");
            let body: Vec<u8> =
                frames.iter().filter(|frame| frame.kind == DATA).flat_map(|frame| frame.payload.clone()).collect();
            assert_eq!(String::from_utf8_lossy(&body), expected, "{path}");
        }
        server.stop().await
    });
}

#[test]
fn a_continue_that_the_handler_sends_is_the_only_one() {
    on_each("100 by hand", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            req.inform(Response::new(StatusCode::CONTINUE)).await?;
            let body = req.collect().await?;
            Ok::<_, Error>(Response::text(body))
        })?;
        let mut old = TcpStream::connect(server.address).await?;
        old.send_bytes(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n").await?;
        assert_eq!(read(&mut old, Some(b"\r\n\r\n")).await?, "HTTP/1.1 100 Continue\r\n\r\n");
        old.send_bytes(b"mastGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
        let answer = read(&mut old, None).await?;
        // The second did not ask for one, and gets it all the same: the handler said so.
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("mastHTTP/1.1 100 "), "{answer}");
        assert_eq!(answer.matches("100 Continue").count(), 1, "{answer}");
        let mut new = Client::connect(server.address, &[]).await?;
        new.send(&request(1, "POST", "/", &[("expect", "100-continue")], 0)).await?;
        assert!(new.next_of(HEADERS).await?.payload.ends_with(b"\x08\x03100"));
        sleep(Duration::from_millis(20)).await;
        new.send(&frame(DATA, END_STREAM, 1, b"mast")).await?;
        assert_eq!(new.body(1).await?, b"mast", "the next head is the answer's");
        drop((old, new));
        server.stop().await
    });
}

/// RFC 9110 10.1.1: who has sent some of the body already does not wait, and may take a 100 for the answer.
#[test]
fn no_continue_is_sent_when_some_of_the_body_is_there() {
    on_each("100 is left out", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            let late = req.path() == "/late";
            let mut body = Vec::new();
            while let Some(part) = req.chunk().await? {
                body.extend_from_slice(&part);
                if late {
                    sleep(Duration::from_millis(20)).await;
                }
            }
            Ok::<_, Error>(Response::text(body))
        })?;
        let expect = [("expect", "100-continue")];
        for path in ["/", "/late"] {
            for (first, rest) in [(&b"mast"[..], &b""[..]), (b"m", b"ast")] {
                let mut old = TcpStream::connect(server.address).await?;
                let head =
                    format!("POST {path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
                old.send_bytes(&[head.as_bytes(), first].concat()).await?;
                if !rest.is_empty() {
                    sleep(Duration::from_millis(5)).await;
                    old.send_bytes(rest).await?;
                }
                let answer = read(&mut old, Some(b"mast")).await?;
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                let mut new = Client::connect(server.address, &[]).await?;
                let ends = if rest.is_empty() { END_STREAM } else { 0 };
                // Windows may come between.
                let between = [frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 9]), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 9])];
                let head = request(1, "POST", path, &expect, 0);
                new.send(&[head, between.concat(), frame(DATA, ends, 1, first)].concat()).await?;
                if ends == 0 {
                    sleep(Duration::from_millis(5)).await;
                    new.send(&frame(DATA, END_STREAM, 1, rest)).await?;
                }
                let head = new.next_of(HEADERS).await?;
                assert!(head.has_status(200), "{path}: {head:?}");
                assert_eq!(new.body(1).await?, b"mast");
            }
        }
        // Some of another body is none of this one.
        let mut new = Client::connect(server.address, &[]).await?;
        let frames = [request(1, "POST", "/", &[], 0), request(3, "POST", "/", &expect, 0), frame(DATA, 0, 1, b"m")];
        new.send(&frames.concat()).await?;
        let interim = new.next_of(HEADERS).await?;
        assert!(interim.stream == 3 && interim.payload.ends_with(b"\x08\x03100"), "{interim:?}");
        drop(new);
        server.stop().await
    });
}

#[test]
fn who_must_finish_is_told_that_the_client_is_gone() {
    on_each("gone", async || {
        let gone = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&gone);
        let config = Config { interim_responses_max: u32::MAX, ..Config::default() };
        let server = serve(config, move |mut req: Request| {
            let gone = Arc::clone(&count);
            async move {
                let _finish = req.must_finish();
                loop {
                    match req.inform(hint("still here")).await {
                        Ok(()) => sleep(Duration::from_millis(1)).await,
                        Err(Error::Disconnected) => break,
                        Err(error) => return Err(error),
                    }
                }
                gone.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Error>(Response::text("nobody gets this"))
            }
        })?;
        let mut old = TcpStream::connect(server.address).await?;
        old.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        read(&mut old, Some(b"still here")).await?;
        drop(old);
        assert_eq!(found(|| gone.load(Ordering::Relaxed), 0).await, 1);
        let mut new = Client::connect(server.address, &[]).await?;
        new.send(&get(1, "/")).await?;
        new.next_of(HEADERS).await?;
        // A reset ends the stream alone.
        new.send(&cancel(1)).await?;
        assert_eq!(found(|| gone.load(Ordering::Relaxed), 1).await, 2);
        new.send(&get(3, "/")).await?;
        while new.next_of(HEADERS).await?.stream != 3 {}
        drop(new);
        assert_eq!(found(|| gone.load(Ordering::Relaxed), 2).await, 3);
        server.stop().await
    });
}

/// All memory. Counts how often it was given back.
struct Held {
    _leases: Vec<Lease>,
    given_back: Arc<AtomicU32>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }
}

/// Informs its client while it holds all memory itself: for a while, or for `/ever`.
async fn waiting(mut req: Request, given_back: Arc<AtomicU32>) -> Handled {
    let forever = req.path() == "/ever";
    let response = hint("at the line").header("x-long", "v".repeat(5_000));
    let held = Held { _leases: fill(1), given_back };
    let mut inform = pin!(req.inform(response));
    let early = timeout(Duration::from_millis(20), inform.as_mut()).await;
    assert!(early.is_err(), "it waits");
    if !forever {
        drop(held);
    }
    inform.await?;
    Ok(Response::text("fed"))
}

#[test]
fn without_memory_for_long_the_request_is_told() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    on_each("never fed", async || {
        let config = Config { memory_timeout: Duration::from_millis(300), ..lends_nothing() };
        let count = Arc::new(AtomicU32::new(0));
        let given_back = Arc::clone(&count);
        let server = serve(config, move |req| waiting(req, Arc::clone(&given_back)))?;
        let request = b"GET /ever HTTP/1.1\r\nHost: h\r\n\r\n";
        let answer = talk(server.address, &[request], Some(b"\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/ever")).await?;
        assert_eq!(found(|| count.load(Ordering::Relaxed), 1).await, 2);
        let frames = answers(&mut client, &[1]).await?;
        let told = frames.last().expect("it ends");
        let is_503 = frames.iter().any(|frame| frame.kind == HEADERS && frame.has_status(503));
        assert!(told.kind == RST_STREAM || is_503, "{frames:?}");
        client.send(&get(3, "/")).await?;
        assert_eq!(found(|| count.load(Ordering::Relaxed), 2).await, 3);
        assert_eq!(answers(&mut client, &[3]).await?.last().map(|frame| frame.kind), Some(DATA), "it lives");
        drop(client);
        server.stop().await
    });
}

/// So many of a kilobyte: more than the socket takes.
const MANY: u32 = 3_000;

/// How many were sent when nothing has happened for a while.
async fn settled(sent: &AtomicU32) -> u32 {
    loop {
        let before = sent.load(Ordering::Relaxed);
        sleep(Duration::from_millis(200)).await;
        if before > 0 && sent.load(Ordering::Relaxed) == before {
            return before;
        }
    }
}

#[test]
fn a_client_that_takes_nothing_stops_them() {
    if crate::rig::is_skipped(crate::rig::BRIDGE_TAKES) {
        return;
    }
    in_simulation("back-pressure", async || {
        let sent = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&sent);
        let config = Config { output_bytes_max: 8_192, interim_responses_max: MANY, ..Config::default() };
        let server = serve(config, move |mut req: Request| {
            let sent = Arc::clone(&count);
            async move {
                for _ in 0..MANY {
                    req.inform(hint(&"v".repeat(1_000))).await?;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, Error>(Response::text("all"))
            }
        })?;
        let buffers = || pool().budget().charged_by(Kind::Buffers);
        for is_http2 in [false, true] {
            let before = buffers();
            let mut reader = Reader::begin(server.address, is_http2).await?;
            let stopped = settled(&sent).await;
            assert!(stopped < MANY, "HTTP/2: {is_http2}: all were taken");
            let held = buffers().saturating_sub(before);
            assert!(held < 64 * 1_024, "HTTP/2: {is_http2}: {held} bytes");
            assert_eq!(reader.count().await?, MANY, "HTTP/2: {is_http2}");
            sent.store(0, Ordering::Relaxed);
        }
        server.stop().await
    });
}

/// A client of either protocol that reads later.
enum Reader {
    Old(TcpStream),
    New(Client),
}

impl Reader {
    async fn begin(server: SocketAddr, is_http2: bool) -> Result<Self> {
        if is_http2 {
            let mut client = Client::connect(server, &[]).await?;
            client.send(&get(1, "/")).await?;
            return Ok(Self::New(client));
        }
        let mut client = TcpStream::connect(server).await?;
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
        Ok(Self::Old(client))
    }

    /// How many informational responses came before the answer.
    async fn count(&mut self) -> Result<u32> {
        match self {
            Self::Old(client) => Ok(read(client, None).await?.matches("HTTP/1.1 103 ").count() as u32),
            Self::New(client) => {
                let frames = answers(client, &[1]).await?;
                Ok(frames.iter().filter(|frame| frame.kind == HEADERS).count() as u32 - 1)
            }
        }
    }
}
