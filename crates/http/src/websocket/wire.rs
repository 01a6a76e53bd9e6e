//! One end of a WebSocket, in the connection's place in the table: what was received becomes messages, what is to be sent becomes output.
//!
//! ```text
//!                silent for long: ping           our close frame                the peer's
//!  Open, Asked <----------------------> Asked --------------------> Closing ----------------+
//!    |                                                                 | it takes too long  v
//!    |  the peer's close frame, or what breaks the protocol            |                 Ending: output leaves
//!    +------------------------------------------------------------------------------------> |
//!                                                                      v                    v  our half is shut down
//!                                         Over, or closed <--------- Lingering <------------+
//! ```
//!
//! While nothing is received or sent there is only the [`Wire`]; [`Work`] is made for a message and dropped after it.

mod passing;
mod weight;

use ::core::ops::Range;
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::ws::{
    CONTROL_BYTES_MAX, CloseCode, Compression, Decoder, Event, FrameHead, Limits, Opcode, PeerRecord, Role,
};
use plimsoll_pool::{Charge, PoolBox};
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, Pool};

use super::assembly::Assembly;
use super::deflate::{self, Streams};
use super::message::Message;
use super::{WebSocketConfig, WebSocketEnd};
use crate::core::Core;
use crate::output::{COPY_BYTES_MAX, Output};
use crate::{Body, Error};

/// What connections that were opened with the same configuration share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) values: Values,
    _charge: Charge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) limits: Limits,
    pub(super) ping_interval: Option<Duration>,
    pub(super) message_timeout: Duration,
    pub(super) send_timeout: Duration,
    pub(super) close_timeout: Duration,
    /// What was agreed on.
    pub(super) compression: Option<Compression>,
}

impl Values {
    pub(super) fn new(config: &WebSocketConfig, compression: Option<Compression>) -> Self {
        let &WebSocketConfig { limits, ping_interval, message_timeout, send_timeout, close_timeout, .. } = config;
        Self { limits, ping_interval, message_timeout, send_timeout, close_timeout, compression }
    }
}

/// The settings that were used last: nearly all connections of a server share a few.
#[derive(Debug, Default)]
pub(crate) struct KnownSettings(Vec<Rc<Settings>>);

impl KnownSettings {
    pub(super) fn shared(&mut self, pool: &Pool, values: Values) -> Result<Rc<Settings>, OverBudget> {
        if let Some(known) = self.0.iter().find(|known| known.values == values) {
            return Ok(Rc::clone(known));
        }
        let bytes = size_of::<Settings>() + 4 * size_of::<usize>();
        let charge = pool.budget().charge(Kind::Codec, bytes as u64)?;
        let fresh = Rc::new(Settings { values, _charge: charge });
        self.0.truncate(KNOWN_MAX - 1);
        self.0.insert(0, Rc::clone(&fresh));
        Ok(fresh)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Silent for a while, and asked whether it is there.
    Asked,
    /// Our close frame was sent; the peer's is waited for.
    Closing,
    /// Both have said that they close, or the peer is not believed any more: what is there to be sent still leaves.
    Ending,
    /// Our half is shut down; so much of the peer was dropped, in KiB. Bytes that nobody read would make the kernel answer with a reset, which can
    /// overtake what we sent.
    Lingering {
        dropped_kib: u16,
    },
    /// Nothing goes on any more. The connection's task still has its socket.
    Over,
}

/// What there is a limited time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    None,
    /// The peer, to say anything.
    Idle,
    /// A message, from its first byte.
    Message,
    /// The peer, to take something of the output.
    Send,
    /// The close handshake.
    Close,
    /// The peer, to close its half.
    Linger,
}

/// What is kept of a WebSocket while nothing happens on it.
pub(crate) struct Wire {
    pub(super) settings: Rc<Settings>,
    record: PeerRecord,
    pub(super) work: Option<PoolBox<Work>>,
    /// When the peer was heard last, in quarters of a second.
    pub(super) heard: u32,
    pub(super) end: Option<WebSocketEnd>,
    pub(super) phase: Phase,
    pub(super) deadline: Deadline,
    pub(super) flags: Flags,
    /// Since when it waits for memory, in quarters of a second of the last hours; 0 while it does not.
    pub(super) starved_at: u16,
}

/// Of a connection: a few bits, as so many bytes would cost each parked one a size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// In the list of connections to be looked after this turn.
    pub(super) const LISTED: Self = Self(1);
    /// Counted as active.
    pub(super) const COUNTED: Self = Self(2);
    /// A task got a message in this turn, and has not had the time to take it.
    pub(super) const FED: Self = Self(4);
    /// Something that is to be sent found no room in memory.
    pub(super) const STARVED: Self = Self(8);
    /// Among those that wait for it.
    pub(super) const HUNGRY: Self = Self(16);
    /// There was room in its turn, and not enough: it looks again after a while, until it finds some.
    pub(super) const RETRIES: Self = Self(64);
    /// The peer has ended its half; a receive tells after what came before.
    pub(super) const ENDED: Self = Self(32);

    pub(super) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    /// Sets or clears a flag; what it was.
    pub(super) fn put(&mut self, flag: Self, value: bool) -> bool {
        let before = self.has(flag);
        self.0 = if value { self.0 | flag.0 } else { self.0 & !flag.0 };
        before
    }
}

/// What is needed while a message is received or sent.
pub(crate) struct Work {
    decoder: Decoder,
    /// Received, not looked at yet.
    input: Option<Lease>,
    pub(super) output: Output,
    /// Our close frame, which waits for a long message to leave.
    last_words: Option<ControlFrame>,
    /// Of the message that was begun.
    assembly: Assembly,
    is_text: bool,
    is_compressed: bool,
    /// Complete, and not taken by its task yet.
    pub(super) ready: Option<Message>,
    /// When the message that was begun must be complete.
    pub(super) message_until: Option<Instant>,
    pub(super) streams: Option<PoolBox<Streams>>,
}

/// What came of a step.
pub(super) enum Step {
    NeedMore,
    /// Nothing that anybody has to be told.
    On,
    Message(Message),
    Close(Option<CloseCode>),
}

impl Wire {
    pub(super) fn new(settings: Rc<Settings>) -> Self {
        Self {
            settings,
            record: PeerRecord::NEW,
            work: None,
            heard: quarters(plimsoll_runtime::now()),
            end: None,
            phase: Phase::Open,
            deadline: Deadline::None,
            flags: Flags::default(),
            starved_at: 0,
        }
    }

    /// Whether messages may be sent.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Asked)
    }

    /// Whether a message can be sent, or must wait until the peer has taken some.
    pub(super) fn has_room(&self, core: &Core) -> bool {
        self.work.as_ref().is_none_or(|work| work.output.has_room(1, core.config.output_bytes_max))
    }

    /// Whether it has waited for memory for too long.
    pub(super) fn has_starved(&self) -> bool {
        let waited = (quarters(plimsoll_runtime::now()) as u16).wrapping_sub(self.starved_at);
        let waited = Duration::from_millis(u64::from(waited) * QUARTER_MS);
        self.starved_at > 0 && waited >= self.settings.values.send_timeout
    }

    /// Whether a message waits to be taken.
    pub(super) fn holds_message(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.ready.is_some())
    }

    /// Takes the message that waits. The peer is heard again from now on, and is not to blame for the time before.
    pub(super) fn take_ready(&mut self) -> Option<Message> {
        let message = self.work.as_mut()?.ready.take()?;
        self.heard = quarters(plimsoll_runtime::now());
        Some(message)
    }

    /// Whether output waits for the socket.
    pub(super) fn has_output(&self) -> bool {
        self.work.as_ref().is_some_and(|work| !work.output.is_empty() || work.last_words.is_some())
    }

    /// Puts our close frame behind a long message that has left.
    pub(super) fn put_last_words(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let Some(work) = self.work.as_mut().filter(|work| !work.output.has_tail()) else { return Ok(()) };
        let Work { output, last_words: Some(frame), .. } = &mut **work else { return Ok(()) };
        output.append(pool, frame.as_bytes())?;
        work.last_words = None;
        Ok(())
    }

    /// Makes room for an answer as long as a message of so many bytes.
    pub(super) fn make_room(&mut self, pool: &Pool, bytes: usize) -> Result<(), OverBudget> {
        let copied = if bytes <= COPY_BYTES_MAX { bytes } else { 0 };
        let work = self.work(pool)?;
        if work.output.has_tail() { Ok(()) } else { work.output.reserve(pool, FRAME_HEAD_BYTES_MAX + copied) }
    }

    /// The work, made if it is not there.
    pub(super) fn work(&mut self, pool: &Pool) -> Result<&mut Work, OverBudget> {
        let work = match self.work.take() {
            Some(work) => work,
            None => {
                let work = Work::new(&self.settings.values, self.record);
                pool.try_boxed(work, Kind::Codec).map_err(|(over, _)| over)?
            }
        };
        Ok(self.work.insert(work))
    }

    /// Lets go of the work if nothing is left of it; whether there is none.
    pub(super) fn rest(&mut self, core: &Core) -> bool {
        let Some(work) = &mut self.work else { return true };
        let keeps = work.keeps_streams(core);
        let has_output = !work.output.is_empty() || work.last_words.is_some();
        let idle = work.input.is_none() && !has_output && work.ready.is_none() && !keeps;
        match work.decoder.record() {
            Some(record) if idle => {
                self.record = record;
                self.work = None;
                true
            }
            _ => false,
        }
    }

    /// Puts a message into the output: all of it or, after an error, nothing.
    pub(super) fn put_message(&mut self, core: &Core, message: Message) -> Result<(), Error> {
        self.take_message(core, &mut Some(message))
    }

    /// The same; a message for which there is no memory is left where it is.
    pub(super) fn take_message(&mut self, core: &Core, message: &mut Option<Message>) -> Result<(), Error> {
        if !self.is_open() {
            return Err(Error::Gone);
        }
        if !self.has_room(core) {
            return Err(Error::OutputFull);
        }
        let compression = self.settings.values.compression;
        let work = self.work(&core.pool)?;
        let Some(mut whole) = message.take() else { return Ok(()) };
        if let Some(compression) = compression {
            match deflate::put(work, core, compression, whole)? {
                Some(plain) => whole = plain,
                None => {
                    self.flags.put(Flags::RETRIES, false);
                    return Ok(());
                }
            }
        }
        let head = FrameHead::message(whole.opcode(), whole.as_bytes().len() as u64).encode();
        let put = match whole.body_mut() {
            Body::Empty => work.output.append(&core.pool, head.as_bytes()),
            body => work.output.append_piece(&core.pool, head.as_bytes(), body, &[]),
        };
        match put {
            Ok(()) => _ = self.flags.put(Flags::RETRIES, false),
            Err(_) => *message = Some(whole),
        }
        Ok(put?)
    }

    /// Puts a ping into the output.
    pub(super) fn put_ping(&mut self, core: &Core, payload: &[u8]) -> Result<(), Error> {
        if !self.is_open() {
            return Err(Error::Gone);
        }
        if !self.has_room(core) {
            return Err(Error::OutputFull);
        }
        put_control(&mut self.work(&core.pool)?.output, &core.pool, Opcode::Ping, &[payload])?;
        Ok(())
    }

    /// Says that we close, unless that was said; the reason is cut to what fits. Without room for the frame the connection just ends.
    pub(super) fn close(&mut self, core: &Core, code: Option<CloseCode>, reason: &str, next: Phase) {
        if !self.is_open() {
            return;
        }
        self.phase = next;
        let Ok(work) = self.work(&core.pool) else {
            self.phase = Phase::Ending;
            return;
        };
        if let Some(frame) = static_close(code).filter(|_| reason.is_empty()) {
            return work.output.append_last(frame);
        }
        let mut end = reason.len().min(CONTROL_BYTES_MAX - 2);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let code = code.map(|code| code.0.to_be_bytes());
        let code = code.as_ref().map_or(&[][..], |code| &code[..]);
        let parts = [code, &reason.as_bytes()[..end]];
        // Behind a long message, or when there is room.
        work.last_words = Some(ControlFrame::new(Opcode::Close, &parts));
        let _later = self.put_last_words(&core.pool);
    }

    /// Notes why it ends, if nothing was noted before.
    pub(super) fn note_end(&mut self, end: WebSocketEnd) {
        self.end.get_or_insert(end);
    }

    /// The peer did something wrong, or there is no room for what it sent.
    pub(super) fn fail(&mut self, core: &Core, error: &Error) {
        let (code, end) = match error {
            Error::Peer(error) => (error.close_code(), WebSocketEnd::Broken(*error)),
            Error::OverBudget(_) => (CloseCode::TRY_LATER, WebSocketEnd::NoRoom),
            _ => (CloseCode::UNEXPECTED, WebSocketEnd::ByUs(CloseCode::UNEXPECTED)),
        };
        self.note_end(end);
        self.close(core, Some(code), "", Phase::Ending);
        self.phase = Phase::Ending;
        if let Some(work) = &mut self.work {
            work.forget();
        }
    }

    /// Reads on in the input.
    pub(super) fn step(&mut self, core: &Core) -> Result<Step, Error> {
        let answers = self.is_open();
        let Some(work) = &mut self.work else { return Ok(Step::NeedMore) };
        work.step(core, answers, &self.settings.values)
    }
}

impl Work {
    fn new(values: &Values, record: PeerRecord) -> Self {
        let decoder = Decoder::resume(Role::Server, values.limits, record);
        Self {
            decoder: if values.compression.is_some() { decoder.compressed() } else { decoder },
            input: None,
            output: Output::default(),
            last_words: None,
            assembly: Assembly::default(),
            is_text: false,
            is_compressed: false,
            ready: None,
            message_until: None,
            streams: None,
        }
    }

    /// Whether something is remembered for the next message, after what can be given up is.
    fn keeps_streams(&mut self, core: &Core) -> bool {
        self.streams.as_mut().is_some_and(|streams| streams.are_kept(core))
    }

    /// Whether a message was begun that is not complete, or a frame.
    pub(super) fn is_within_message(&self) -> bool {
        self.decoder.is_within_message() || (self.input.is_some() && self.ready.is_none())
    }

    /// Drops what was received, but for a message that is complete: its task takes it still.
    pub(super) fn forget(&mut self) {
        (self.input, self.message_until, self.streams) = (None, None, None);
        self.assembly = Assembly::default();
    }

    /// Puts what has come behind what is there already: a part of a head or of a control frame, or what waits for its turn.
    pub(super) fn take(&mut self, pool: &Pool, fresh: Bytes) -> Result<(), OverBudget> {
        self.input = Some(match (self.input.take(), fresh) {
            (None, Bytes::Owned(lease)) => lease,
            (None, fresh) => pool.try_copy(&fresh, Kind::Buffers)?,
            (Some(mut rest), fresh) => {
                if rest.spare_capacity() < fresh.len() {
                    let mut larger = pool.try_acquire(rest.len() + fresh.len(), Kind::Buffers)?;
                    larger.extend(&rest);
                    rest = larger;
                }
                rest.extend(&fresh);
                rest
            }
        });
        Ok(())
    }

    /// Puts bytes that were kept before the first of all.
    pub(super) fn begin_with(&mut self, kept: Option<Lease>) {
        debug_assert!(self.input.is_none(), "before anything was received");
        self.input = kept;
    }

    fn step(&mut self, core: &Core, answers: bool, values: &Values) -> Result<Step, Error> {
        let mut nothing: [u8; 0] = [];
        let input = self.input.as_mut().map_or(&mut nothing[..], |lease| lease.as_mut_slice());
        let decoded = self.decoder.decode(input, plimsoll_runtime::now().as_millis())?;
        let step = match decoded.event {
            Event::NeedMore => Step::NeedMore,
            Event::Begin { is_text, is_compressed } => {
                (self.is_text, self.is_compressed) = (is_text, is_compressed);
                Step::On
            }
            Event::Data(range) => {
                // All that is left: taken as it is, without a copy.
                let is_rest = range.end == input.len() && self.assembly.is_empty() && !self.is_compressed;
                if let Some(mut lease) = self.input.take_if(|_| is_rest) {
                    lease.consume(range.start);
                    self.assembly.set(lease);
                    return Ok(Step::On);
                }
                self.data(core, range, values)?;
                Step::On
            }
            Event::End => {
                self.end(core, values)?;
                self.message_until = None;
                Step::Message(Message::received(self.is_text, ::core::mem::take(&mut self.assembly).finish()))
            }
            Event::Ping(range) => {
                if answers {
                    put_control(&mut self.output, &core.pool, Opcode::Pong, &[&input[range]])?;
                }
                Step::On
            }
            Event::Pong(_) => Step::On,
            Event::Close { code, .. } => Step::Close(code),
        };
        if let Some(input) = &mut self.input {
            input.consume(decoded.consumed);
        }
        self.input.take_if(|input| input.is_empty());
        Ok(step)
    }

    /// A part of a message.
    fn data(&mut self, core: &Core, range: Range<usize>, values: &Values) -> Result<(), Error> {
        let part = &self.input.as_deref().unwrap_or_default()[range];
        if !self.is_compressed {
            return Ok(self.assembly.push(&core.pool, part)?);
        }
        Streams::of(&mut self.streams, core)?.inflate(core, (values, self.is_text), part, &mut self.assembly)
    }

    /// The end of a message.
    fn end(&mut self, core: &Core, values: &Values) -> Result<(), Error> {
        if !self.is_compressed {
            return Ok(());
        }
        Streams::of(&mut self.streams, core)?.finish(core, (values, self.is_text), &mut self.assembly)
    }
}

fn put_control(output: &mut Output, pool: &Pool, opcode: Opcode, parts: &[&[u8]]) -> Result<(), OverBudget> {
    output.append(pool, ControlFrame::new(opcode, parts).as_bytes())
}

/// A whole control frame.
struct ControlFrame {
    bytes: [u8; CONTROL_BYTES_MAX + 2],
    len: u8,
}

impl ControlFrame {
    fn new(opcode: Opcode, parts: &[&[u8]]) -> Self {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(len <= CONTROL_BYTES_MAX, "a control frame");
        let mut bytes = [0; CONTROL_BYTES_MAX + 2];
        bytes[..2].copy_from_slice(FrameHead::message(opcode, len as u64).encode().as_bytes());
        let mut at = 2;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self { bytes, len: at as u8 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The close frame of a code that we send ourselves: it needs no room.
pub(super) fn static_close(code: Option<CloseCode>) -> Option<&'static [u8]> {
    Some(match code? {
        CloseCode::NORMAL => CLOSE_NORMAL,
        CloseCode::GOING_AWAY => &[0x88, 2, 0x03, 0xE9],
        CloseCode::PROTOCOL => &[0x88, 2, 0x03, 0xEA],
        CloseCode::UNSUPPORTED => &[0x88, 2, 0x03, 0xEB],
        CloseCode::INVALID => &[0x88, 2, 0x03, 0xEF],
        CloseCode::POLICY => &[0x88, 2, 0x03, 0xF0],
        CloseCode::TOO_LARGE => &[0x88, 2, 0x03, 0xF1],
        CloseCode::UNEXPECTED => &[0x88, 2, 0x03, 0xF3],
        CloseCode::TRY_LATER => &[0x88, 2, 0x03, 0xF5],
        _ => return None,
    })
}

/// An instant in the unit in which it is kept of each connection.
pub(super) fn quarters(instant: Instant) -> u32 {
    (instant.as_millis() / QUARTER_MS) as u32
}

const CLOSE_NORMAL: &[u8] = &[0x88, 2, 0x03, 0xE8];
/// A ping without payload.
pub(super) const PING: &[u8] = &[0x89, 0];
pub(super) const QUARTER_MS: u64 = 250;
/// The head of a frame that a server sends.
const FRAME_HEAD_BYTES_MAX: usize = 10;
/// Settings that are kept for the next connection.
const KNOWN_MAX: usize = 16;

const _: () = assert!(size_of::<Work>() <= 512, "what a message needs fits its class");
const _: () = assert!(size_of::<Values>() <= 128 && size_of::<Wire>() <= 48, "a parked WebSocket is small");
