//! One end of a WebSocket, in the connection's place in the table: what was received becomes messages, what is to be
//! sent becomes output.
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

use ::core::num::NonZeroU32;
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::ws::{CONTROL_BYTES_MAX, CloseCode, FrameHead, Opcode, PeerRecord};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Kind, OverBudget, Pool};

use super::control::{ControlFrame, put_control, static_close};
use super::deflate;
use super::end::WebSocketEnd;
use super::flow::Flow;
use super::message::Message;
use super::settings::{Settings, Values};
use super::work::{Step, Work};
use crate::exchange::output::COPY_BYTES_MAX;
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;
use crate::{Body, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Silent for a while, and asked whether it is there.
    Asked,
    /// Our close frame was sent; the peer's is waited for.
    Closing,
    /// Both have said that they close, or the peer is not believed any more: what is there to be sent still leaves.
    Ending,
    /// Our half is shut down; so much of the peer was dropped. Bytes that nobody read would make the kernel answer with
    /// a reset, which can overtake what we sent.
    Lingering(Dropped),
    /// Nothing goes on any more. The connection's task still has its socket.
    Over,
}

/// What came after the end, in KiB. Bytes, as a number would cost each parked connection one for its alignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped([u8; 2]);

impl Dropped {
    pub(super) fn add(&mut self, bytes: usize) {
        let kib = u16::from_ne_bytes(self.0).saturating_add(bytes.div_ceil(1_024) as u16);
        self.0 = kib.to_ne_bytes();
    }

    /// Whether it is more than a peer may still send.
    pub(super) fn is_too_much(self) -> bool {
        u16::from_ne_bytes(self.0) > DROPPED_KIB_MAX
    }
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
    /// When the peer was heard last, or since when it waits for memory, in quarters of a second.
    since: u32,
    /// Which of the members of hubs it is, once it is open.
    pub(super) member: Option<NonZeroU32>,
    pub(super) end: Option<WebSocketEnd>,
    pub(super) phase: Phase,
    pub(super) deadline: Deadline,
    pub(super) flags: Flags,
    pub(super) flow: Flow,
    pub(super) memory: MemoryWait,
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
    pub(super) const DELIVERED: Self = Self(4);
    /// The peer has ended its half; a receive tells after what came before.
    pub(super) const ENDED: Self = Self(8);

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

impl Wire {
    pub(super) fn new(settings: Rc<Settings>) -> Self {
        Self {
            settings,
            record: PeerRecord::NEW,
            work: None,
            since: quarters(plimsoll_runtime::now()),
            member: None,
            end: None,
            phase: Phase::Open,
            deadline: Deadline::None,
            flags: Flags::default(),
            flow: Flow::Free,
            memory: MemoryWait::None,
        }
    }

    /// Whether messages may be sent.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Asked)
    }

    /// Whether what the peer says is looked at.
    pub(super) fn is_listening(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Asked | Phase::Closing)
    }

    /// Whether a message can be sent, or must wait until the peer has taken some.
    pub(super) fn has_room(&self, worker: &Desk) -> bool {
        self.work.as_ref().is_none_or(|work| work.output.has_room(1, worker.config.output_bytes_max))
    }

    /// Whether a message waits to be taken.
    pub(super) fn holds_message(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.ready.is_some())
    }

    /// Takes the message that waits. The peer is heard again from now on, and is not to blame for the time before.
    pub(super) fn take_ready(&mut self) -> Option<Message> {
        let work = self.work.as_mut()?;
        let message = work.ready.take()?;
        if work.is_between_messages() {
            // All that was received has found its room.
            self.flow.resume_receive();
        }
        self.note_heard();
        Some(message)
    }

    /// The peer has said something.
    pub(super) fn hear(&mut self) {
        self.note_heard();
        if self.phase == Phase::Asked {
            self.phase = Phase::Open;
        }
    }

    /// Whether output waits for the socket.
    pub(super) fn has_output(&self) -> bool {
        self.work.as_ref().is_some_and(|work| !work.output.is_empty() || work.pending_close.is_some())
    }

    /// Puts our close frame behind a long message that has left.
    pub(super) fn put_pending_close(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let Some(work) = self.work.as_mut().filter(|work| !work.output.has_tail()) else { return Ok(()) };
        let Work { output, pending_close: Some(frame), .. } = &mut **work else { return Ok(()) };
        output.append(pool, frame.as_bytes())?;
        work.pending_close = None;
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
            None => pool.try_boxed(self.fresh_work(), Kind::Codec).map_err(|(over, _)| over)?,
        };
        Ok(self.work.insert(work))
    }

    /// Takes in what has come; without room it is left where it is.
    pub(super) fn take_in(&mut self, pool: &Pool, fresh: &mut Option<Bytes>) -> Result<(), OverBudget> {
        let work = self.work(pool)?;
        let Some(bytes) = fresh.take() else { return Ok(()) };
        work.take(pool, bytes).map_err(|(over, bytes)| {
            *fresh = Some(bytes);
            over
        })
    }

    /// The work of a connection that has none.
    pub(super) fn fresh_work(&self) -> Work {
        debug_assert!(self.work.is_none(), "what is known of the peer is in the work while there is one");
        Work::new(&self.settings.values, self.record)
    }

    /// Sheds the work if nothing is left of it; whether there is none.
    pub(super) fn rest(&mut self, worker: &Desk) -> bool {
        let Some(work) = &mut self.work else { return true };
        let keeps = work.keeps_streams(worker);
        let has_output = !work.output.is_empty() || work.pending_close.is_some();
        // While it ends, what stands for its close frame stays: that is sent once.
        let ends = self.phase == Phase::Ending;
        let idle = work.is_between_messages() && !has_output && work.ready.is_none() && !keeps && !ends;
        match work.decoder.record() {
            Some(record) if idle => {
                self.record = record;
                self.work = None;
                true
            }
            _ => false,
        }
    }

    /// Whether it ends for want of memory, and found none to say so.
    pub(super) fn has_unsent_close(&self) -> bool {
        self.phase == Phase::Ending && self.work.is_none() && self.end == Some(WebSocketEnd::NoRoom)
    }

    /// Puts a message into the output: all of it or, after an error, nothing.
    pub(super) fn put_message(&mut self, worker: &Desk, message: Message) -> Result<(), Error> {
        self.take_message(worker, &mut Some(message))
    }

    /// The same; a message for which there is no memory is left where it is.
    pub(super) fn take_message(&mut self, worker: &Desk, message: &mut Option<Message>) -> Result<(), Error> {
        if !self.is_open() {
            return Err(self.closed());
        }
        if !self.has_room(worker) {
            return Err(Error::OutputFull);
        }
        if self.settings.values.compression.is_some() && self.put_deflated(worker, message)? {
            self.get_on();
            return Ok(());
        }
        let work = self.work(&worker.pool)?;
        let Some(mut whole) = message.take() else { return Ok(()) };
        let head = FrameHead::message(whole.opcode(), whole.as_bytes().len() as u64).encode();
        let put = match whole.body_mut() {
            Body::Empty => work.output.append(&worker.pool, head.as_bytes()),
            body => work.output.append_piece(&worker.pool, head.as_bytes(), body, &[]),
        };
        match put {
            Ok(()) => self.get_on(),
            Err(_) => *message = Some(whole),
        }
        Ok(put?)
    }

    /// Puts a message into the output, deflated; whether that could be.
    fn put_deflated(&mut self, worker: &Desk, message: &mut Option<Message>) -> Result<bool, Error> {
        let settings = Rc::clone(&self.settings);
        let work = self.work(&worker.pool)?;
        if let Some(whole) = message.take() {
            *message = deflate::put((&mut work.streams, &mut work.output), worker, &settings, whole)?;
        }
        Ok(message.is_none())
    }

    /// Why nothing is sent any more.
    pub(super) fn closed(&self) -> Error {
        match self.end {
            Some(WebSocketEnd::TimedOut) => Error::TimedOut,
            _ => Error::Disconnected,
        }
    }

    /// Puts a ping into the output.
    pub(super) fn put_ping(&mut self, worker: &Desk, payload: &[u8]) -> Result<(), Error> {
        if !self.is_open() {
            return Err(self.closed());
        }
        if !self.has_room(worker) {
            return Err(Error::OutputFull);
        }
        put_control(&mut self.work(&worker.pool)?.output, &worker.pool, Opcode::Ping, &[payload])?;
        Ok(())
    }

    /// Says that we close, unless that was said; the reason is cut to what fits. Without room for the frame the
    /// connection just ends.
    pub(super) fn close(&mut self, worker: &Desk, code: Option<CloseCode>, reason: &str, next: Phase) {
        if !self.is_open() {
            return;
        }
        self.phase = next;
        let Ok(work) = self.work(&worker.pool) else {
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
        work.pending_close = Some(ControlFrame::new(Opcode::Close, &parts));
        let _later = self.put_pending_close(&worker.pool);
    }

    /// Notes why it ends, if nothing was noted before.
    pub(super) fn note_end(&mut self, end: WebSocketEnd) {
        self.end.get_or_insert(end);
    }

    /// The peer did something wrong, or there is no room for what it sent.
    pub(super) fn fail(&mut self, worker: &Desk, error: &Error) {
        let (code, end) = match error {
            Error::Peer(error) => (error.close_code(), WebSocketEnd::Broken(*error)),
            Error::OverBudget(_) => (CloseCode::TRY_LATER, WebSocketEnd::NoRoom),
            _ => (CloseCode::UNEXPECTED, WebSocketEnd::ByUs(CloseCode::UNEXPECTED)),
        };
        self.note_end(end);
        self.close(worker, Some(code), "", Phase::Ending);
        self.phase = Phase::Ending;
        if let Some(work) = &mut self.work {
            work.forget();
        }
    }

    /// Reads on in the input.
    pub(super) fn step(&mut self, worker: &Desk) -> Result<Step, Error> {
        let answers = self.is_open();
        let Some(work) = &mut self.work else { return Ok(Step::NeedMore) };
        let has_waited = work.may_try_again();
        let step = work.step(worker, answers, &self.settings)?;
        if has_waited {
            self.resume_receive();
        }
        Ok(step)
    }
}

/// How it waits for memory: each change of that is here.
impl Wire {
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self.memory, MemoryWait::None)
    }

    /// Changes how it waits. When a wait begins or ends, its time does, too, and that of the peer begins anew.
    pub(super) fn set_memory(&mut self, memory: MemoryWait) {
        let was_waiting = self.is_waiting();
        self.memory = memory;
        if self.is_waiting() != was_waiting {
            self.since = quarters(plimsoll_runtime::now());
        }
    }

    /// Another has taken its place among those that wait, or there is none: it looks again after a while.
    pub(super) fn lose_place(&mut self) {
        let mut memory = self.memory;
        memory.lose_place();
        self.set_memory(memory);
    }

    /// Something found room: the next wait begins anew. What leaves beside a message that has no room is not that
    /// message.
    #[inline]
    pub(super) fn get_on(&mut self) {
        self.flow.get_on();
        if self.is_waiting() {
            self.end_try();
        }
    }

    #[cold]
    fn end_try(&mut self) {
        let mut memory = self.memory;
        memory.get_on();
        if self.flow.is_blocked() && memory == MemoryWait::None {
            memory.lose_place();
        }
        self.set_memory(memory);
    }

    /// For how long it waits already.
    pub(super) fn has_waited(&self) -> Duration {
        if self.is_waiting() { self.since(plimsoll_runtime::now()) } else { Duration::ZERO }
    }

    /// For how long its peer is silent; not known while it waits.
    #[inline]
    pub(super) fn silence(&self, now: Instant) -> Duration {
        if self.is_waiting() { Duration::ZERO } else { self.since(now) }
    }

    pub(super) fn note_heard(&mut self) {
        if !self.is_waiting() {
            self.since = quarters(plimsoll_runtime::now());
        }
    }

    /// To a quarter of a second.
    #[inline]
    fn since(&self, now: Instant) -> Duration {
        let quarters = quarters(now).wrapping_sub(self.since);
        Duration::from_millis(u64::from(quarters) * QUARTER_MS)
    }
}

/// An instant in the unit in which it is kept of each connection.
fn quarters(instant: Instant) -> u32 {
    (instant.as_millis() / QUARTER_MS) as u32
}

const QUARTER_MS: u64 = 250;
/// What a peer may still send after the end.
const DROPPED_KIB_MAX: u16 = 4_096;
/// The head of a frame that a server sends.
const FRAME_HEAD_BYTES_MAX: usize = 10;

const _: () = assert!(size_of::<Values>() <= 128 && size_of::<Wire>() <= 48, "a parked WebSocket is small");
