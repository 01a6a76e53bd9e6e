//! Clients that speak HTTP/2: many requests at once on one connection, within both sides' windows.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use plimsoll::net::WriteHalf;
use plimsoll::{Error, sleep, spawn, timeout};
use plimsoll_codec::h1::FieldSlot;
use plimsoll_codec::hpack::{Decoder, FieldBuf, TABLE_BYTES};
use plimsoll_conformance::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};

use crate::dial::Dial;
use crate::oracle::{Seen, Verdict, is_line};
use crate::plan::Rng;
use crate::service::body;

const FIRST_WINDOW: i64 = 65_535;
/// Statuses with which the server may answer for reasons of its own.
const REFUSALS: [u16; 4] = [400, 408, 500, 503];

/// One request, and what is due for it.
struct Ask {
    name: String,
    block: Vec<u8>,
    sends: Vec<u8>,
    due: Vec<u8>,
    length: Option<usize>,
    is_head: bool,
    /// The client resets the stream when it has so many bytes of the body.
    resets_after: Option<usize>,
}

/// What a client does.
pub(crate) struct Plan {
    asks: Vec<Ask>,
    /// With which its streams begin to receive.
    window: u32,
    /// It gives windows back when so many bytes of them are used.
    told_after: u32,
    frame_bytes: usize,
    piece_bytes: usize,
    /// Says behind which address it is, before anything else.
    introduction: Vec<u8>,
    read_pause: Duration,
    /// It goes away when it has so many bytes.
    drops_after: Option<usize>,
    half_closes: bool,
}

impl core::fmt::Debug for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<&str> = self.asks.iter().map(|ask| ask.name.as_str()).collect();
        f.debug_struct("Http2Plan")
            .field("asks", &names)
            .field("window", &self.window)
            .field("told_after", &self.told_after)
            .field("drops_after", &self.drops_after)
            .finish_non_exhaustive()
    }
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let window = rng.pick(&[1_000, 16_384, 65_535, 200_000]);
        Self {
            asks: (0..rng.between(1, 12)).map(|_| ask(rng)).collect(),
            window,
            told_after: rng.pick(&[1, window / 2, window]),
            frame_bytes: rng.pick(&[1, 700, 5_000, 16_384]) as usize,
            piece_bytes: rng.pick(&[1, 30, 900, 100_000]) as usize,
            introduction: Vec::new(),
            read_pause: Duration::from_millis(if rng.below(5) == 0 { rng.between(1, 10) } else { 0 }),
            drops_after: (rng.below(8) == 0).then(|| rng.below(20_000) as usize),
            half_closes: rng.below(6) == 0,
        }
    }

    /// Whether its exchanges may end because of the client.
    pub(crate) fn is_at_fault(&self) -> bool {
        self.drops_after.is_some() || self.half_closes || self.asks.iter().any(|ask| ask.resets_after.is_some())
    }

    /// Says behind which address it is, before anything else.
    pub(crate) fn introduce(&mut self, header: &[u8]) {
        self.introduction = header.to_vec();
    }

    /// How many of its requests may be answered when it is gone: all of them, if it leaves before the end.
    pub(crate) fn deserted_max(&self) -> u64 {
        if self.drops_after.is_some() { self.asks.len() as u64 } else { 0 }
    }

    /// Whether what came is what may come.
    fn judge(&self, got: &Got, is_clean: bool, seen: &mut Seen) -> Result<Verdict, String> {
        let (mut verdict, mut is_whole) = (Verdict::Whole, got.is_ended);
        for (ask, stream) in self.asks.iter().zip(&got.streams) {
            let all = stream.status == Some(200) && stream.has_ended && stream.body == ask.due;
            seen.whole += u64::from(all);
            seen.midway += u64::from(stream.status == Some(200) && !stream.has_ended);
            let refused = stream.status.is_some_and(|status| REFUSALS.contains(&status));
            let is_legal = match stream.status {
                None => stream.body.is_empty(),
                Some(200) => ask.due.starts_with(&stream.body) && (!stream.has_ended || all),
                Some(_) => refused && (stream.body.is_empty() || is_line(&stream.body, stream.has_ended)),
            };
            let is_length = stream.length.is_none_or(|length| refused || Some(length) == ask.length);
            if !is_legal || !is_length {
                let (body, due) = (stream.body.len(), ask.due.len());
                return Err(format!(
                    "{}: status {:?}, {body} of {due} bytes, length {:?}, ended {}",
                    ask.name, stream.status, stream.length, stream.has_ended
                ));
            }
            if refused {
                verdict = Verdict::Refused;
            } else if !all && verdict == Verdict::Whole {
                verdict = Verdict::Cut;
            }
            is_whole &= all || stream.was_reset_by_us;
        }
        if is_clean && self.drops_after.is_none() && !is_whole {
            return Err(format!("in a clean world everything arrives: {verdict:?}, GOAWAY {:?}", got.goaway));
        }
        Ok(verdict)
    }
}

fn ask(rng: &mut Rng) -> Ask {
    let size = rng.pick(&[0, 1, 10, 1_000, 5_000, 16_384, 16_385, 30_000, 100_000]);
    let piece = rng.pick(&[900, 4_000, 16_384, 20_000, 80_000]);
    let sent = rng.pick(&[0, 1, 300, 5_000, 30_000]);
    let (method, path, due, length) = match rng.below(9) {
        0 | 1 => ("GET", format!("/text/0/{size}"), body(size), Some(size)),
        2 => ("GET", format!("/text/{}/{size}", rng.between(1, 9)), body(size), Some(size)),
        3 => ("GET", format!("/pieces/{piece}/{size}"), body(size), None),
        4 => ("GET", format!("/length/{piece}/{size}"), body(size), Some(size)),
        5 => ("POST", "/echo".to_owned(), body(sent), Some(sent)),
        6 => {
            let count = sent.to_string().into_bytes();
            let length = count.len();
            ("POST", "/count".to_owned(), count, Some(length))
        }
        7 => ("POST", "/ignore".to_owned(), b"ignored".to_vec(), Some(7)),
        _ => ("POST", format!("/late/{sent}"), b"late".to_vec(), Some(4)),
    };
    let is_head = method == "GET" && rng.below(6) == 0;
    let method = if is_head { "HEAD" } else { method };
    let says_length = method == "POST" && rng.below(2) == 0;
    let priority = format!("u={}{}", rng.below(8), if rng.below(2) == 0 { ", i" } else { "" });
    let digits = sent.to_string();
    let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "h"), (":path", path.as_str())];
    if rng.below(2) == 0 {
        fields.push(("priority", priority.as_str()));
    }
    if says_length {
        fields.push(("content-length", digits.as_str()));
    }
    Ask {
        name: format!("{method} {path} {sent}"),
        block: block(&fields),
        sends: if method == "POST" { body(sent) } else { Vec::new() },
        // A body whose length was not said is echoed without one; that of a request without one is known.
        length: if path == "/echo" && !says_length && sent > 0 { None } else { length },
        due: if is_head { Vec::new() } else { due },
        is_head,
        resets_after: (rng.below(12) == 0).then(|| rng.below(9_000) as usize),
    }
}

/// Bytes on their way to the server.
#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    is_done: bool,
    waker: Option<Waker>,
    /// Why nothing more is sent.
    failure: Option<Error>,
}

impl Queue {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.wake();
    }

    fn end(&mut self) {
        self.is_done = true;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Sends what is queued, piece by piece.
async fn write(mut to: WriteHalf, queue: Rc<RefCell<Queue>>, piece_bytes: usize, half_closes: bool) {
    let mut pieces = 0;
    loop {
        let piece = poll_fn(|cx| {
            let mut queue = queue.borrow_mut();
            if queue.bytes.is_empty() && !queue.is_done {
                queue.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            // Small ones at first: each is a segment.
            let most = if pieces < 40 { piece_bytes } else { usize::MAX };
            let count = most.min(queue.bytes.len());
            Poll::Ready(queue.bytes.drain(..count).collect::<Vec<u8>>())
        })
        .await;
        pieces += 1;
        if piece.is_empty() {
            break;
        }
        if let Err(error) = to.send_bytes(&piece).await {
            queue.borrow_mut().failure = Some(error);
            break;
        }
    }
    // Only who closes its half comes here, but after an error.
    if half_closes {
        let _gone_already = to.shutdown_write().await;
    }
    // Kept open until the reader is done.
    core::future::pending::<()>().await;
}

/// A stream as the client sees it.
#[derive(Default)]
struct Stream {
    sent: usize,
    has_sent_all: bool,
    window: i64,
    status: Option<u16>,
    length: Option<usize>,
    body: Vec<u8>,
    has_ended: bool,
    was_reset: bool,
    was_reset_by_us: bool,
    /// Received, and not given back yet.
    used: u32,
}

/// What a client got.
struct Got {
    streams: Vec<Stream>,
    bytes: usize,
    /// The code of the last GOAWAY.
    goaway: Option<u32>,
    /// The server closed the connection in an orderly way.
    is_ended: bool,
}

/// A connection's state, as the client sees it.
struct Session<'p> {
    plan: &'p Plan,
    got: Got,
    queue: Rc<RefCell<Queue>>,
    window: i64,
    first_window: i64,
    used: u32,
    decoder: Decoder,
    table: Vec<u8>,
}

impl Session<'_> {
    fn put(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.queue.borrow_mut().push(&frame(kind, flags, stream, payload));
    }

    fn begin(&mut self) {
        let window = self.plan.window.to_be_bytes();
        let hello = [
            &self.plan.introduction[..],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &frame(SETTINGS, 0, 0, &[&[0, 4], &window[..]].concat())[..],
        ];
        self.queue.borrow_mut().push(&hello.concat());
        for (at, ask) in self.plan.asks.iter().enumerate() {
            let ends = if ask.sends.is_empty() { END_STREAM } else { 0 };
            self.put(HEADERS, END_HEADERS | ends, id(at), &ask.block);
            let stream = Stream { window: FIRST_WINDOW, has_sent_all: ask.sends.is_empty(), ..Stream::default() };
            self.got.streams.push(stream);
        }
    }

    /// Sends of the bodies what the windows allow.
    fn send(&mut self) {
        for (at, ask) in self.plan.asks.iter().enumerate() {
            while let Some(stream) =
                self.got.streams.get_mut(at).filter(|stream| !stream.has_sent_all && !stream.was_reset)
            {
                let rest = &ask.sends[stream.sent..];
                let room = stream.window.min(self.window).max(0) as usize;
                let count = rest.len().min(room).min(self.plan.frame_bytes.max(rest.len() / 64));
                let count = count.min(16_384);
                if count == 0 {
                    break;
                }
                let ends = count == rest.len();
                stream.sent += count;
                stream.window -= count as i64;
                self.window -= count as i64;
                stream.has_sent_all = ends;
                self.put(DATA, if ends { END_STREAM } else { 0 }, id(at), &rest[..count]);
            }
        }
    }

    /// Whether nothing more is to come for any request.
    fn is_done(&self) -> bool {
        let is_over = |stream: &Stream| stream.was_reset || (stream.has_ended && stream.has_sent_all);
        self.got.streams.iter().all(is_over)
    }

    fn frame(&mut self, kind: u8, flags: u8, number: u32, payload: &[u8]) {
        let word = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let at = (number as usize).wrapping_sub(1) / 2;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for entry in payload.chunks_exact(6).filter(|entry| entry[..2] == [0, 4]) {
                    let window = i64::from(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]));
                    let change = window - self.first_window;
                    self.first_window = window;
                    self.got.streams.iter_mut().for_each(|stream| stream.window += change);
                }
                self.put(SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => self.put(PING, ACK, 0, payload),
            GOAWAY => self.got.goaway = Some(u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]])),
            WINDOW_UPDATE if number == 0 => self.window += i64::from(word),
            WINDOW_UPDATE => self.stream(at).window += i64::from(word),
            RST_STREAM => self.stream(at).was_reset = true,
            HEADERS => self.head(at, flags, payload),
            DATA => self.data(at, flags, payload),
            _ => {}
        }
        self.send();
    }

    fn stream(&mut self, at: usize) -> &mut Stream {
        self.got.streams.get_mut(at).expect("the server uses streams that the client opened")
    }

    fn head(&mut self, at: usize, flags: u8, payload: &[u8]) {
        assert!(flags & END_HEADERS != 0, "heads are short");
        let (mut bytes, mut slots) = ([0; 4_096], [FieldSlot::EMPTY; 32]);
        let mut fields = FieldBuf::new(&mut bytes, &mut slots, 4_096);
        self.decoder.decode(&mut self.table, payload, &mut fields).expect("a valid block");
        let number = |value: &[u8]| core::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
        let value = |name: &[u8]| fields.fields().find(|field| field.0 == name).and_then(|field| number(field.1));
        let (status, length) = (value(b":status"), value(b"content-length"));
        let stream = self.stream(at);
        assert!(stream.status.is_none(), "one head for each request");
        stream.status = status.map(|status| status as u16);
        stream.length = length;
        stream.has_ended = flags & END_STREAM != 0;
    }

    fn data(&mut self, at: usize, flags: u8, payload: &[u8]) {
        let (told_after, resets_after) = (self.plan.told_after, self.plan.asks[at].resets_after);
        let is_head = self.plan.asks[at].is_head;
        let stream = self.stream(at);
        assert!(!is_head && !stream.has_ended, "no body behind the end, nor to HEAD");
        stream.body.extend_from_slice(payload);
        stream.used += payload.len() as u32;
        stream.has_ended = flags & END_STREAM != 0;
        let resets = !stream.has_ended && resets_after.is_some_and(|after| stream.body.len() >= after);
        let told = (stream.used >= told_after && !stream.has_ended).then(|| core::mem::take(&mut stream.used));
        if resets && !stream.was_reset {
            (stream.was_reset, stream.was_reset_by_us) = (true, true);
            self.put(RST_STREAM, 0, id(at), &[0, 0, 0, 8]);
        } else if let Some(told) = told {
            self.put(WINDOW_UPDATE, 0, id(at), &told.to_be_bytes());
        }
        self.used += payload.len() as u32;
        if self.used >= told_after.min(30_000) {
            let told = core::mem::take(&mut self.used);
            self.put(WINDOW_UPDATE, 0, 0, &told.to_be_bytes());
        }
    }
}

fn id(at: usize) -> u32 {
    2 * at as u32 + 1
}

/// Runs the plan. How many bytes came, and how it ended.
pub(crate) async fn talk(
    dial: &Dial,
    plan: &Plan,
    is_clean: bool,
    seen: &mut Seen,
) -> Result<(usize, Verdict), String> {
    let got = Got { streams: Vec::new(), bytes: 0, goaway: None, is_ended: false };
    let queue = Rc::new(RefCell::new(Queue::default()));
    let mut session = Session {
        plan,
        got,
        queue: Rc::clone(&queue),
        window: FIRST_WINDOW,
        first_window: FIRST_WINDOW,
        used: 0,
        decoder: Decoder::new(TABLE_BYTES as u16),
        table: vec![0; TABLE_BYTES],
    };
    session.begin();
    let Some(socket) = dial.connect(seen).await else {
        return plan.judge(&session.got, is_clean, seen).map(|verdict| (0, verdict));
    };
    let (mut read, to) = socket.into_split();
    // The clients live under the same line.
    let Ok(writer) = spawn(write(to, Rc::clone(&queue), plan.piece_bytes, plan.half_closes)) else {
        seen.went_away = true;
        return Ok((0, Verdict::Cut));
    };
    session.send();
    let reading = async {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            while let Some(&[a, b, c, kind, flags, d, e, f, g]) = bytes.first_chunk::<9>() {
                let whole = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
                if bytes.len() < whole {
                    break;
                }
                let payload: Vec<u8> = bytes.drain(..whole).skip(9).collect();
                session.frame(kind, flags, u32::from_be_bytes([d, e, f, g]), &payload);
            }
            if plan.half_closes && session.is_done() {
                queue.borrow_mut().end();
            }
            if plan.drops_after.is_some_and(|after| session.got.bytes >= after) {
                return;
            }
            sleep(plan.read_pause).await;
            match read.recv().await {
                Ok(Some(lease)) => {
                    session.got.bytes += lease.len();
                    bytes.extend_from_slice(&lease);
                }
                Ok(None) => {
                    session.got.is_ended = true;
                    return;
                }
                Err(error) => return seen.failed(&error),
            }
        }
    };
    let _out_of_time = timeout(Duration::from_secs(120), reading).await;
    writer.abort();
    drop(writer);
    if let Some(error) = queue.borrow_mut().failure.take() {
        seen.failed(&error);
    }
    let bytes = session.got.bytes;
    plan.judge(&session.got, is_clean, seen).map(|verdict| (bytes, verdict))
}
