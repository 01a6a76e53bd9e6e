//! Clients that open WebSockets: messages in frames of all sizes and splits, echoed by a task or by a called handler.

use core::time::Duration;

use plimsoll::http::{Error, Message, Request, Response, WebSocketConfig, WebSocketRef};
use plimsoll::net::ReadHalf;
use plimsoll::{sleep, spawn, timeout};
use plimsoll_codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};

use crate::dial::Dial;
use crate::oracle::{Seen, Verdict};
use crate::plan::{Rng, cut};
use crate::service::body;

/// The server's end: `/ws/0` is echoed by a task, the others by a handler that is called.
pub(crate) fn echo(request: &Request, form: usize) -> Result<Response, Error> {
    let config = WebSocketConfig {
        message_timeout: Duration::from_secs(6),
        send_timeout: Duration::from_secs(6),
        ping_interval: Some(Duration::from_secs(4)),
        ..WebSocketConfig::default()
    };
    if form > 0 {
        return request
            .serve_websocket(&config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message));
    }
    request.upgrade_websocket(&config, |mut socket| async move {
        while let Ok(Some(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

/// What a client sends, and what it may get for it.
#[derive(Debug)]
pub(crate) struct Plan {
    form: u64,
    /// `(is_text, bytes)` of each message.
    messages: Vec<(bool, usize)>,
    pings: usize,
    /// The code that it closes with, or is closed with.
    close: Option<u16>,
    /// It goes away after so many messages.
    leaves_after: Option<usize>,
    pieces: Vec<(Duration, Vec<u8>)>,
    read_pause: Duration,
}

/// What a client got.
#[derive(Default)]
struct Got {
    bytes: usize,
    messages: Vec<(bool, Vec<u8>)>,
    pongs: usize,
    close: Option<Option<CloseCode>>,
    /// Answered with something else than 101.
    is_refused: bool,
    ended: bool,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut plan = Self {
            form: rng.below(2),
            messages: Vec::new(),
            pings: 0,
            close: None,
            leaves_after: None,
            pieces: Vec::new(),
            read_pause: Duration::from_millis(if rng.below(4) == 0 { rng.between(1, 20) } else { 0 }),
        };
        let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let mut bytes = format!("GET /ws/{} HTTP/1.1\r\nHost: h\r\n{fields}{key}\r\n", plan.form).into_bytes();
        for _ in 0..rng.below(6) {
            let size = rng.pick(&[0, 1, 125, 126, 3_000, 17_000, 66_000, 100_000]);
            plan.message(rng, size, &mut bytes);
        }
        match rng.below(8) {
            // Left open: it is asked, and let go of.
            0 => {}
            1 => {
                plan.close = Some(1_002);
                bytes.extend_from_slice(&[0x82, 1, b'x']);
            }
            2 => plan.leaves_after = Some(rng.below(plan.messages.len() as u64 + 1) as usize),
            _ => {
                plan.close = Some(4_000);
                frame(rng, true, Opcode::Close, &4_000_u16.to_be_bytes(), &mut bytes);
            }
        }
        plan.pieces = cut(rng, &bytes);
        plan
    }

    fn message(&mut self, rng: &mut Rng, size: usize, bytes: &mut Vec<u8>) {
        let is_text = rng.below(2) == 0;
        self.messages.push((is_text, size));
        let content = body(size);
        let fragments = rng.between(1, 4) as usize;
        let part = size.div_ceil(fragments).max(1);
        let (mut rest, mut opcode) = (&content[..], if is_text { Opcode::Text } else { Opcode::Binary });
        loop {
            let (now, later) = rest.split_at(part.min(rest.len()));
            frame(rng, later.is_empty(), opcode, now, bytes);
            if later.is_empty() {
                return;
            }
            if rng.below(3) == 0 {
                self.pings += 1;
                frame(rng, true, Opcode::Ping, b"there?", bytes);
            }
            (rest, opcode) = (later, Opcode::Continuation);
        }
    }

    /// Whether its exchange may end because of the client.
    pub(crate) fn is_at_fault(&self) -> bool {
        self.leaves_after.is_some()
    }

    /// Says behind which address it is, before anything else.
    pub(crate) fn introduce(&mut self, header: &[u8]) {
        self.pieces.insert(0, (Duration::ZERO, header.to_vec()));
    }

    /// Whether what came is what may come.
    fn judge(&self, got: &Got, is_clean: bool) -> Result<Verdict, String> {
        if got.is_refused {
            return if is_clean { Err("in a clean world it is let in".to_owned()) } else { Ok(Verdict::Refused) };
        }
        if got.messages.len() > self.messages.len() || got.pongs > self.pings {
            return Err(format!("{} messages and {} pongs are too many", got.messages.len(), got.pongs));
        }
        for (at, ((is_text, message), (was_text, size))) in got.messages.iter().zip(&self.messages).enumerate() {
            if is_text != was_text || *message != body(*size) {
                return Err(format!("message {at} is not what was sent: {} bytes of {size}", message.len()));
            }
        }
        let code = got.close.map(|code| code.map(|code| code.0));
        let is_ours = code.is_some_and(|code| code == self.close);
        // The server goes away, finds no room, or waits for too long.
        if !is_ours && !matches!(code, None | Some(Some(1_001 | 1_008 | 1_013))) {
            return Err(format!("closed with {code:?}"));
        }
        let is_whole = got.messages.len() == self.messages.len() && is_ours && got.ended;
        if is_clean && self.close.is_some() && !(is_whole && got.pongs == self.pings) {
            return Err(format!(
                "in a clean world everything comes back, not {} messages, {code:?}",
                got.messages.len()
            ));
        }
        Ok(if is_whole { Verdict::Whole } else { Verdict::Cut })
    }
}

fn frame(rng: &mut Rng, is_final: bool, opcode: Opcode, payload: &[u8], to: &mut Vec<u8>) {
    let key = (rng.below(1 << 32) as u32).to_be_bytes();
    let head = FrameHead { is_final, ..FrameHead::message(opcode, payload.len() as u64) }.masked(key);
    to.extend_from_slice(head.encode().as_bytes());
    let start = to.len();
    to.extend_from_slice(payload);
    head.mask(&mut to[start..]);
}

/// A client from its first byte to its last: how many bytes it got, and how that is to be judged.
///
/// # Panics
///
/// When what it got is not what it may get.
pub(crate) async fn client(dial: &Dial, plan: Plan, is_clean: bool, seen: &mut Seen) -> (usize, Verdict) {
    let mut got = Got::default();
    if let Some(stream) = dial.connect(seen).await {
        let (mut read, mut write) = stream.into_split();
        let pieces = plan.pieces.clone();
        let writing = spawn(async move {
            for (pause, piece) in pieces {
                sleep(pause).await;
                if write.send_bytes(&piece).await.is_err() {
                    break;
                }
            }
            // Kept open until the reader is done.
            core::future::pending::<()>().await;
        });
        // The clients live under the same line.
        let Ok(writer) = writing else {
            seen.went_away = true;
            return (0, Verdict::Cut);
        };
        let reading = read_on(&mut read, &plan, &mut got, seen);
        let ended = matches!(timeout(Duration::from_secs(120), reading).await, Ok(true));
        got.ended = ended;
        writer.abort();
    }
    match plan.judge(&got, is_clean) {
        Ok(verdict) => (got.bytes, verdict),
        Err(what) => panic!("{what}\n{plan:?}"),
    }
}

/// Reads until the server ends the connection (`true`), or the plan or an error does.
async fn read_on(read: &mut ReadHalf, plan: &Plan, got: &mut Got, seen: &mut Seen) -> bool {
    let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
    let (mut decoder, mut input, mut message) = (None, Vec::new(), None);
    loop {
        sleep(plan.read_pause).await;
        match read.recv().await {
            Ok(Some(bytes)) => {
                got.bytes += bytes.len();
                input.extend_from_slice(&bytes);
            }
            Ok(None) => return true,
            Err(error) => {
                seen.failed(&error);
                return false;
            }
        }
        if decoder.is_none()
            && let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n")
        {
            seen.whole += u64::from(input.starts_with(b"HTTP/1.1 101 "));
            got.is_refused = !input.starts_with(b"HTTP/1.1 101 ");
            input.drain(..end + 4);
            decoder = Some(Decoder::new(Role::Client, limits));
        }
        let Some(decoder) = decoder.as_mut().filter(|_| !got.is_refused) else { continue };
        loop {
            let decoded = decoder.decode(&mut input, 0).expect("a server keeps to the protocol");
            let taken: Vec<u8> = input.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore => break,
                Event::Begin { is_text, .. } => message = Some((is_text, Vec::new())),
                Event::Data(range) => {
                    if let Some((_, bytes)) = &mut message {
                        bytes.extend_from_slice(&taken[range]);
                    }
                }
                Event::End => got.messages.extend(message.take()),
                Event::Ping(_) => {}
                Event::Pong(range) => {
                    assert_eq!(&taken[range], b"there?");
                    got.pongs += 1;
                }
                Event::Close { code, .. } => got.close = Some(code),
            }
        }
        if plan.leaves_after.is_some_and(|count| got.messages.len() >= count) {
            return false;
        }
    }
}
