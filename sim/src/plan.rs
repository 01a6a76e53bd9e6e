//! What a client does, and what it may get for it.

use core::time::Duration;

use crate::limits::Limit;
use crate::oracle::{self, Expected, Framing, Seen, Verdict};
use crate::service::body;

/// A small generator of numbers: SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// How a client's part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It reads until the server closes.
    Reads,
    /// It goes away when it has so many bytes.
    DropAfter(usize),
    /// It ends its half after the last byte, and reads on.
    HalfClose,
}

/// What the oracle demands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// All that is due: nothing is in the way.
    All,
    /// All that is due, or a refusal before anything else.
    AllOrRefused,
    /// A beginning of what is due.
    Beginning,
    /// The same, and a 503 for any answer.
    WhatFits,
}

pub(crate) struct Plan {
    pub(crate) pieces: Vec<(Duration, Vec<u8>)>,
    pub(crate) read_pause: Duration,
    pub(crate) end: End,
    expected: Vec<Expected>,
    names: Vec<String>,
    /// It breaks the protocol.
    misbehaves: bool,
    /// The limit that it reaches for certain.
    pub(crate) reaches: Option<Limit>,
}

impl core::fmt::Debug for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Plan")
            .field("requests", &self.names)
            .field("pieces", &self.pieces.len())
            .field("read_pause", &self.read_pause)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// One whose handlers sleep for some time if it may wait.
    pub(crate) fn new(rng: &mut Rng, is_patient: bool) -> Self {
        let mut plan = Self {
            pieces: Vec::new(),
            read_pause: Duration::from_millis(if rng.below(4) == 0 { rng.between(1, 20) } else { 0 }),
            end: End::Reads,
            expected: Vec::new(),
            names: Vec::new(),
            misbehaves: false,
            reaches: None,
        };
        let mut bytes = Vec::new();
        for _ in 0..rng.below(6) {
            plan.request(rng, &mut bytes, false, is_patient);
        }
        match rng.below(10) {
            0 => plan.misbehave(rng, &mut bytes),
            // The server's timeout ends it.
            1 => {}
            2 => {
                plan.names.push("a head that never ends".to_owned());
                bytes.extend_from_slice(&b"GET /text/0/9 HTTP/1.1\r\nHost: h\r\n"[..rng.between(1, 30) as usize]);
                plan.expected.push(Expected::error(408));
            }
            _ => plan.request(rng, &mut bytes, true, is_patient),
        }
        plan.end = match rng.below(8) {
            0 => End::DropAfter(rng.below(20_000) as usize),
            1 => End::HalfClose,
            _ => End::Reads,
        };
        plan.pieces = cut(rng, &bytes);
        plan
    }

    /// Whether an exchange of it may end because of the client.
    pub(crate) fn is_at_fault(&self) -> bool {
        self.misbehaves || self.end != End::Reads
    }

    /// Says behind which address it is, before anything else.
    pub(crate) fn introduce(&mut self, header: &[u8]) {
        self.pieces.insert(0, (Duration::ZERO, header.to_vec()));
    }

    /// A client that reaches a limit for certain, where one client can.
    pub(crate) fn reaching(limit: Limit, rng: &mut Rng) -> Option<Self> {
        let mut plan = Self {
            pieces: Vec::new(),
            read_pause: Duration::ZERO,
            end: End::Reads,
            expected: Vec::new(),
            names: vec![limit.name().to_owned()],
            misbehaves: false,
            reaches: Some(limit),
        };
        let get = b"GET /text/0/10 HTTP/1.1\r\nHost: h\r\n\r\n";
        match limit {
            Limit::Age | Limit::Requests => {
                let pause = if limit == Limit::Age { 150 } else { rng.below(3) };
                plan.pieces = (0..12).map(|_| (Duration::from_millis(pause), get.to_vec())).collect();
                plan.expected = (0..12).map(|_| Expected::text(body(10))).collect();
            }
            Limit::Handler => {
                plan.pieces.push((Duration::ZERO, b"GET /text/2000/10 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()));
                plan.expected.push(Expected::error(503));
            }
            Limit::BodyRate => {
                let head = b"POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n";
                plan.pieces.push((Duration::ZERO, head.to_vec()));
                let bytes = rng.between(1, 200) as usize;
                plan.pieces.extend((0..20).map(|_| (Duration::from_millis(200), body(bytes))));
                plan.expected.push(Expected::error(408));
            }
            Limit::Connections | Limit::Address | Limit::Memory | Limit::Handlers => return None,
        }
        Some(plan)
    }

    /// A request; the last one asks for the end of the connection.
    fn request(&mut self, rng: &mut Rng, bytes: &mut Vec<u8>, is_last: bool, is_patient: bool) {
        let size = rng.pick(&[0, 1, 10, 1_000, 5_000, 16_384, 16_385, 30_000, 100_000]);
        let piece = rng.pick(&[900, 4_000, 16_384, 20_000, 80_000]);
        let sent = rng.pick(&[0, 1, 300, 5_000, 30_000, 100_000]);
        let kind = rng.below(10);
        // What nobody reads is dropped up to 64 KiB.
        let sent = if kind == 7 { sent.min(30_000) } else { sent };
        let (method, path, expected) = match kind {
            0 | 1 => ("GET", format!("/text/0/{size}"), Expected::text(body(size))),
            2 => {
                let sleeps_ms = rng.between(1, if is_patient { 1_500 } else { 9 });
                ("GET", format!("/text/{sleeps_ms}/{size}"), Expected::text(body(size)))
            }
            3 => ("GET", format!("/pieces/{piece}/{size}"), Expected::streamed(None, body(size))),
            4 => ("GET", format!("/length/{piece}/{size}"), Expected::streamed(Some(size), body(size))),
            5 => ("POST", "/echo".to_owned(), Expected::streamed(Some(sent), body(sent))),
            6 => ("POST", "/count".to_owned(), Expected::text(sent.to_string().into_bytes())),
            8 => ("GET", format!("/file/{sent}/{size}"), Expected::text(body(sent))),
            7 => ("POST", "/ignore".to_owned(), Expected::text(b"ignored".to_vec())),
            _ => ("POST", format!("/late/{sent}"), Expected::streamed(Some(4), b"late".to_vec())),
        };
        let mut expected = expected;
        let is_chunked = method == "POST" && rng.below(2) == 0;
        if is_chunked && path == "/echo" {
            expected.framing = Framing::Chunked;
        }
        let is_head = method == "GET" && rng.below(6) == 0;
        let is_10 = is_last && method == "GET" && rng.below(4) == 0;
        expected.is_head = is_head;
        expected.closes = is_last;
        if is_10 && expected.framing == Framing::Chunked {
            expected.framing = Framing::UntilClose;
        }
        let method = if is_head { "HEAD" } else { method };
        let version = if is_10 { "1.0" } else { "1.1" };
        let close = if is_last && !is_10 { "Connection: close\r\n" } else { "" };
        let mut text = format!("{method} {path} HTTP/{version}\r\nHost: h\r\n{close}");
        let mut content = Vec::new();
        if method == "POST" && is_chunked {
            text += "Transfer-Encoding: chunked\r\n";
            chunks(rng, &body(sent), &mut content);
        } else if method == "POST" {
            text += &format!("Content-Length: {sent}\r\n");
            content = body(sent);
        }
        self.names.push(format!("{method} {path} {}{version}", if is_chunked { "chunked " } else { "" }));
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&content);
        self.expected.push(expected);
    }

    fn misbehave(&mut self, rng: &mut Rng, bytes: &mut Vec<u8>) {
        let bad: [(&[u8], u16); 6] = [
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
            (b"GET / HTTP/1.1\r\nHost: h\r\nExpect: magic\r\n\r\n", 417),
            (b"POST /count HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello", 400),
        ];
        self.misbehaves = true;
        let (text, status) = rng.pick(&bad);
        self.names.push(format!("bad input for {status}"));
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
        self.expected.push(Expected::error(status));
    }

    /// Whether what came is what may come.
    pub(crate) fn judge(
        &self,
        received: &[u8],
        ended: bool,
        demand: Demand,
        seen: &mut Seen,
    ) -> Result<Verdict, String> {
        let verdict = oracle::judge(received, &self.expected, ended, demand == Demand::WhatFits, seen)?;
        // An old connection, and one that has had its requests, ends with an answer before all are there.
        let due = match self.reaches {
            Some(Limit::Age | Limit::Requests) => Verdict::Cut,
            _ => Verdict::Whole,
        };
        let is_refused = received.is_empty() || received.starts_with(b"HTTP/1.1 503 ");
        let is_met = match demand {
            _ if self.end != End::Reads => true,
            Demand::All => verdict == due && ended,
            Demand::AllOrRefused => verdict == due && ended || verdict != Verdict::Whole && is_refused,
            Demand::Beginning | Demand::WhatFits => true,
        };
        match is_met {
            true => Ok(verdict),
            false => Err(format!(
                "in this world {demand:?} arrives, not {verdict:?} after {} bytes, ended {ended}",
                received.len()
            )),
        }
    }
}

/// The body in chunks, with an extension and a trailer now and then.
fn chunks(rng: &mut Rng, body: &[u8], to: &mut Vec<u8>) {
    let mut rest = body;
    while !rest.is_empty() {
        let size = (rng.between(1, 9_000) as usize).min(rest.len());
        let extension = if rng.below(5) == 0 { ";name=value" } else { "" };
        to.extend_from_slice(format!("{size:x}{extension}\r\n").as_bytes());
        to.extend_from_slice(&rest[..size]);
        to.extend_from_slice(b"\r\n");
        rest = &rest[size..];
    }
    to.extend_from_slice(if rng.below(3) == 0 { b"0\r\nsum: 1\r\n\r\n" } else { b"0\r\n\r\n" });
}

/// Pieces of all sizes, with pauses between them.
pub(crate) fn cut(rng: &mut Rng, bytes: &[u8]) -> Vec<(Duration, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let size = match pieces.len() {
            12.. => rest.len(),
            _ => (rng.pick(&[1, 7, 60, 500, 9_000, 100_000]) as usize).min(rest.len()),
        };
        let pause = if rng.below(2) == 0 { rng.below(20) } else { 0 };
        pieces.push((Duration::from_millis(pause), rest[..size].to_vec()));
        rest = &rest[size..];
    }
    pieces
}
