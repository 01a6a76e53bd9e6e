//! What waits for memory, on which protocol: one table. Each row goes on when there is memory again, and is told when
//! there is none for too long.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::Config;

use super::waiting::{Stage, ask, lends_nothing, on_each, request};
use crate::rig::frames::{
    self, ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PREFACE, SETTINGS, block, frame, get, is_ended,
};
use crate::rig::threads::{TEST_TIMEOUT, connect};
use crate::rig::websocket::{self, Got, HANDSHAKE, Inbox};

/// Who has taken all memory when it is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// The client has it taken, and then sends.
    Client,
    /// The handler, before it goes on.
    Handler,
}

/// What has come on a connection: whether it is enough.
type Check = fn(&[u8]) -> bool;

/// What waits, on which protocol.
struct Row {
    what: &'static str,
    takes: Takes,
    /// What is said while there is memory, and what comes of it.
    before: Vec<u8>,
    is_ready: Check,
    /// What waits then.
    then: Vec<u8>,
    /// When there is memory again.
    is_served: Check,
    /// When there is none for too long.
    is_told: Check,
}

const HALF_HEAD: &[u8] = b"POST /body HTTP/1.1\r\nHost: h\r\nConte";
/// Its body looks like the end of a head to who looks for that a second time.
const OTHER_HALF: &[u8] = b"nt-Length: 5\r\n\r\n\r\n\r\nb";

/// A connection of HTTP/2 with these frames.
fn hello(frames: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), frames].concat()
}

/// A request to switch to a WebSocket.
fn handshake(path: &str) -> Vec<u8> {
    format!("{}\r\n", HANDSHAKE.replacen("GET /", &format!("GET {path}"), 1)).into_bytes()
}

/// The same on a stream of HTTP/2.
fn connect_stream(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", path),
        ("sec-websocket-version", "13"),
    ];
    hello(&frame(HEADERS, END_HEADERS, 1, &block(&fields)))
}

fn message(bytes: usize) -> Vec<u8> {
    websocket::frame(true, Opcode::Binary, &vec![b'm'; bytes])
}

/// The same in frames of HTTP/2.
fn message_on_stream(bytes: usize) -> Vec<u8> {
    message(bytes).chunks(4_000).flat_map(|part| frame(DATA, 0, 1, part)).collect()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_nothing_due(_bytes: &[u8]) -> bool {
    true
}

fn is_fine(bytes: &[u8]) -> bool {
    text_of(bytes).ends_with("fine")
}

fn is_refused(bytes: &[u8]) -> bool {
    let text = text_of(bytes);
    text.starts_with("HTTP/1.1 503 ") && text.to_lowercase().contains("\r\nretry-after: 1\r\n")
}

/// A 200 with so many bytes of a body, all the same.
fn is_body(bytes: &[u8], byte: u8, count: usize) -> bool {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let is_chunked = text_of(&bytes[..head]).contains("Transfer-Encoding: chunked");
    let ends = !is_chunked || bytes.ends_with(b"\r\n0\r\n\r\n");
    bytes.starts_with(b"HTTP/1.1 200 ") && ends && bytes[head..].iter().filter(|&&found| found == byte).count() == count
}

fn frames_of(bytes: &[u8]) -> Vec<Frame> {
    let mut bytes = bytes.to_vec();
    core::iter::from_fn(|| Frame::take_from(&mut bytes)).collect()
}

/// Bytes of DATA on a stream that has ended.
fn body_of(bytes: &[u8], stream: u32) -> Option<Vec<u8>> {
    let frames = frames_of(bytes);
    let data = frames.iter().filter(|frame| (frame.kind, frame.stream) == (DATA, stream));
    let body = data.flat_map(|frame| frame.payload.clone()).collect();
    is_ended(&frames, stream).then_some(body)
}

/// A 503 on a stream, whose connection lives.
fn is_refused_stream(bytes: &[u8], stream: u32) -> bool {
    let frames = frames_of(bytes);
    let mut heads = frames.iter().filter(|frame| (frame.kind, frame.stream) == (HEADERS, stream));
    heads.next_back().is_some_and(|head| head.has_status(503)) && is_ended(&frames, stream)
}

fn is_told_goodbye(bytes: &[u8]) -> bool {
    frames_of(bytes).iter().any(|frame| frame.kind == GOAWAY)
}

/// The messages of a WebSocket: how long each is, and the code that follows.
fn told(bytes: &[u8]) -> (Vec<usize>, Option<CloseCode>) {
    let start = if bytes.starts_with(b"HTTP/1.1 101 ") {
        bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4)
    } else {
        0
    };
    let mut inbox = Inbox::new(websocket::decoder(), bytes[start..].to_vec());
    let (mut lengths, mut code) = (Vec::new(), None);
    while let Some(got) = if code.is_none() { inbox.next() } else { None } {
        match got {
            Got::Binary(bytes) => lengths.push(bytes.len()),
            Got::Close(said) => code = said,
            _ => {}
        }
    }
    (lengths, code)
}

/// The bytes of a WebSocket on a stream.
fn on_stream(bytes: &[u8]) -> Vec<u8> {
    let data = frames_of(bytes).into_iter().filter(|frame| (frame.kind, frame.stream) == (DATA, 1));
    data.flat_map(|frame| frame.payload).collect()
}

/// A message of so many bytes, and an end.
fn is_sent(bytes: &[u8], length: usize) -> bool {
    told(bytes) == (vec![length], Some(CloseCode::NORMAL))
}

/// No message, and that it may come again later.
fn is_closed(bytes: &[u8]) -> bool {
    told(bytes) == (Vec::new(), Some(CloseCode::TRY_LATER))
}

fn is_closed_stream(bytes: &[u8]) -> bool {
    is_closed(&on_stream(bytes)) && is_ended(&frames_of(bytes), 1)
}

fn is_switched(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 101 ") && bytes.ends_with(b"\r\n\r\n")
}

fn is_tunnel(bytes: &[u8]) -> bool {
    frames_of(bytes).iter().any(|frame| frame.kind == HEADERS && frame.has_status(200))
}

fn of_http1() -> Vec<Row> {
    let fine = request("/", 0);
    let row = |what, takes, before: &[u8], then: &[u8], is_served, is_told| {
        let is_ready = if before.is_empty() { is_nothing_due } else { is_fine };
        row(what, takes, before.to_vec(), is_ready, then.to_vec(), is_served, is_told)
    };
    let half = [&fine[..], HALF_HEAD].concat();
    vec![
        row("a request", Takes::Client, &fine, &fine, is_fine, is_refused),
        // In one segment: when the first is answered, the beginning of the second has been looked at.
        row("a head in parts", Takes::Client, &half, OTHER_HALF, |got| text_of(got).ends_with("\r\n\r\n5"), is_refused),
        row(
            "an upload",
            Takes::Client,
            &fine,
            &request("/body", 10_000),
            |got| text_of(got).ends_with("\r\n\r\n10000"),
            is_refused,
        ),
        row("an answer", Takes::Handler, b"", &request("/answer", 0), |got| is_body(got, b'a', 16 * 1_024), is_refused),
        row(
            "a long head",
            Takes::Handler,
            b"",
            &request("/long-head", 0),
            |got| text_of(got).ends_with("\r\n\r\nlong"),
            is_refused,
        ),
        row(
            "a piece of an answer",
            Takes::Handler,
            b"",
            &request("/pieces", 0),
            |got| is_body(got, b'p', 900 + 4 * 9_000),
            // It is begun: it is cut off.
            |got| !got.ends_with(b"\r\n0\r\n\r\n"),
        ),
        row(
            "an interim answer",
            Takes::Handler,
            b"",
            &request("/hint", 0),
            |got| text_of(got).starts_with("HTTP/1.1 103 ") && text_of(got).ends_with("hinted"),
            is_refused,
        ),
    ]
}

fn row(
    what: &'static str,
    takes: Takes,
    before: Vec<u8>,
    is_ready: Check,
    then: Vec<u8>,
    is_served: Check,
    is_told: Check,
) -> Row {
    Row { what, takes, before, is_ready, then, is_served, is_told }
}

fn of_http2() -> Vec<Row> {
    let asked = || hello(&get(1, "/"));
    let is_asked: Check = |got| body_of(got, 1).as_deref() == Some(b"fine");
    let upload = [frames::request(3, "POST", "/counted", &[], 0), frame(DATA, END_STREAM, 3, &[b'b'; 9_000])].concat();
    vec![
        row(
            "a request on HTTP/2",
            Takes::Client,
            asked(),
            is_asked,
            get(3, "/"),
            |got| body_of(got, 3).as_deref() == Some(b"fine"),
            is_told_goodbye,
        ),
        row(
            "an upload on HTTP/2",
            Takes::Client,
            asked(),
            is_asked,
            upload,
            |got| body_of(got, 3).as_deref() == Some(b"9000"),
            is_told_goodbye,
        ),
        row(
            "a part of a body on HTTP/2",
            Takes::Client,
            hello(&[frames::request(1, "POST", "/counted", &[], 0), get(3, "/")].concat()),
            |got| body_of(got, 3).as_deref() == Some(b"fine"),
            frame(DATA, END_STREAM, 1, &[b'b'; 9_000]),
            |got| body_of(got, 1).as_deref() == Some(b"9000"),
            is_told_goodbye,
        ),
        row(
            "an answer on HTTP/2",
            Takes::Handler,
            Vec::new(),
            is_nothing_due,
            hello(&get(1, "/answer")),
            |got| body_of(got, 1).is_some_and(|body| body == [b'a'; 16 * 1_024]),
            // Its head has left.
            is_told_goodbye,
        ),
        row(
            "a long head on HTTP/2",
            Takes::Handler,
            Vec::new(),
            is_nothing_due,
            hello(&get(1, "/long-head")),
            |got| body_of(got, 1).as_deref() == Some(b"long"),
            |got| is_refused_stream(got, 1),
        ),
        row(
            "a piece of an answer on HTTP/2",
            Takes::Handler,
            Vec::new(),
            is_nothing_due,
            hello(&get(1, "/pieces")),
            |got| body_of(got, 1).is_some_and(|body| body.len() == 900 + 4 * 9_000),
            is_told_goodbye,
        ),
        row(
            "an interim answer on HTTP/2",
            Takes::Handler,
            Vec::new(),
            is_nothing_due,
            hello(&get(1, "/hint")),
            |got| body_of(got, 1).as_deref() == Some(b"hinted"),
            |got| is_refused_stream(got, 1),
        ),
    ]
}

fn of_websockets() -> Vec<Row> {
    let mut rows = Vec::new();
    for path in ["/task", "/called"] {
        let opened = [handshake(path), message(1)].concat();
        let is_open: Check = |got| told(got).0 == [1];
        rows.push(row(
            "a short message",
            Takes::Client,
            opened.clone(),
            is_open,
            message(100),
            |got| told(got).0 == [100],
            is_closed,
        ));
        let opened = [connect_stream(path), message_on_stream(1)].concat();
        let is_open: Check = |got| is_tunnel(got) && told(&on_stream(got)).0 == [1];
        let echoed: Check = |got| told(&on_stream(got)).0 == [9_000];
        rows.push(row(
            "a message on a stream",
            Takes::Client,
            opened,
            is_open,
            message_on_stream(9_000),
            echoed,
            is_told_goodbye,
        ));
    }
    let sent: [(&str, Check, Check); 3] = [
        ("/sends/100", |got| is_sent(got, 100), |got| is_sent(&on_stream(got), 100)),
        ("/sends/5000", |got| is_sent(got, 5_000), |got| is_sent(&on_stream(got), 5_000)),
        ("/sends/60000", |got| is_sent(got, 60_000), |got| is_sent(&on_stream(got), 60_000)),
    ];
    for (path, is_sent, is_sent_on_stream) in sent {
        let opened = handshake(path);
        rows.push(row("a message that is sent", Takes::Handler, opened, is_switched, message(1), is_sent, is_closed));
        let (opened, go) = (connect_stream(path), message_on_stream(1));
        let what = "a message that is sent on a stream";
        rows.push(row(what, Takes::Handler, opened, is_tunnel, go, is_sent_on_stream, is_closed_stream));
    }
    rows
}

/// All of the table.
fn rows() -> impl Iterator<Item = Row> {
    of_http1().into_iter().chain(of_http2()).chain(of_websockets())
}

/// Reads until it is enough, or the connection ends.
fn read_until(stream: &mut TcpStream, is_enough: Check) -> Vec<u8> {
    let (mut got, mut bytes) = (Vec::new(), [0; 16 * 1024]);
    while got.is_empty() || !is_enough(&got) {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(len) => got.extend_from_slice(&bytes[..len]),
        }
    }
    got
}

fn shed(stage: &Stage) -> u64 {
    stage.counters.totals().shed_total.iter().sum()
}

/// Has one wait: it has asked, there is no memory, and it is known.
fn wait(row: &Row, address: SocketAddr, stage: &Stage) -> TcpStream {
    let mut client = connect(address);
    if !row.before.is_empty() {
        client.write_all(&row.before).expect("it is sent");
        let got = read_until(&mut client, row.is_ready);
        assert!((row.is_ready)(&got), "{}, before: {}", row.what, got.escape_ascii());
    }
    if row.takes == Takes::Client {
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
    }
    client.write_all(&row.then).expect("it is sent");
    // Or has waited already, where that is not for long.
    stage.until(|stage| stage.budget.waiting() > 0 || shed(stage) > 0, &format!("{} waits", row.what));
    client
}

#[test]
fn what_waits_goes_on_when_there_is_memory() {
    for row in rows() {
        let row = Arc::new(row);
        let config = Config { admission_timeout: TEST_TIMEOUT, memory_timeout: TEST_TIMEOUT, ..lends_nothing() };
        on_each(row.what, &config, move |address, stage| {
            let mut client = wait(&row, address, stage);
            // Longer than a tick: it keeps waiting.
            std::thread::sleep(Duration::from_millis(300));
            stage.want(false);
            let got = read_until(&mut client, row.is_served);
            assert!((row.is_served)(&got), "{}: {:.300}", row.what, got.escape_ascii());
            assert_eq!(shed(stage), 0, "{}", row.what);
        });
    }
}

#[test]
fn what_waits_for_too_long_is_told() {
    for row in rows() {
        let row = Arc::new(row);
        let short = Duration::from_millis(300);
        let config = Config { admission_timeout: short, memory_timeout: short, ..lends_nothing() };
        on_each(row.what, &config, move |address, stage| {
            let mut client = wait(&row, address, stage);
            stage.until(|stage| shed(stage) > 0, &format!("{} has waited too long", row.what));
            stage.want(false);
            let got = read_until(&mut client, row.is_told);
            assert!((row.is_told)(&got), "{}: {:.300}", row.what, got.escape_ascii());
            assert!(!(row.is_served)(&got), "{}: {:.300}", row.what, got.escape_ascii());
            // Others are served then.
            stage.until(|stage| !stage.is_held(), "the memory is free");
            assert!(ask(&mut connect(address), &request("/body", 3_000), "3000").starts_with("HTTP/1.1 200 "));
        });
    }
}
