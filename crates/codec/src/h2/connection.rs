//! One connection: what it is, and what is expected next. The frames that carry requests are in `data` and `headers`,
//! control frames in `control` beside this, output in `send`, our windows in `windows`, resets and GOAWAY in
//! `closing`.

mod audit;
mod data;
mod headers;
mod long;

use super::event::{Event, Failure, ResetCause, Step, Storage};
use super::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use super::guard::Guard;
use super::recent::{GivenUp, Recent};
use super::settings::Offer;
use super::stream::{Output, Receiving, Transition, find, get};
use super::{ErrorCode, Limits, StreamKey, block};
use crate::Error;
use crate::h1::{HTTP2_PREFACE, Sink};
use crate::hpack::{Decoder, Encoder, TABLE_BYTES};

/// The server's side of one HTTP/2 connection. Plain data of a fixed size; see the [module](super).
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) limits: Limits,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    pub(super) input: Input,
    pub(super) going: Going,
    admission: Admission,
    pub(super) replenishing: Replenishing,
    /// The highest stream that the peer opened.
    pub(super) last_id: u32,
    /// The highest one that was not passed over: what a GOAWAY says must not grow (RFC 9113 6.8).
    pub(super) processed_id: u32,
    /// Slots in use.
    pub(super) live: u16,
    /// Streams that wait for their turn to send.
    pub(super) waiting: u16,
    pub(super) receiving: Receiving,
    /// The window with which the peer's streams begin: ours once it was acknowledged.
    pub(super) own_window: i32,
    /// The streams that the peer may have, in the same way.
    streams_max: u16,
    /// What our last SETTINGS said of both.
    pub(super) offer: Offer,
    /// Whether the peer has still to acknowledge them.
    pub(super) awaits_ack: bool,
    pub(super) send_window: i32,
    /// DATA frames in a row that found a window of less than [`SMALL_WINDOW_BYTES`](super::send::SMALL_WINDOW_BYTES).
    pub(super) small_frames: u8,
    /// The window with which our responses begin.
    pub(super) peer_window: i32,
    pub(super) peer_frame_bytes: u32,
    /// Counts the turns of sending.
    pub(super) turn: u32,
    pub(super) guard: Guard,
    /// Those that we reset because the peer broke a rule.
    pub(super) reset_by_us: Recent<32>,
    pub(super) given_up: GivenUp,
    pub(super) ended: Recent<16>,
    /// The number of our last header block among all that were decoded into the scratch memory.
    last_block: u64,
}

/// What the next byte belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Preface,
    /// The first frame, which has to be SETTINGS.
    FirstFrame,
    Frame,
    /// The payload of a DATA frame behind its header.
    Data {
        stream: StreamKey,
        left: u32,
        padding: u32,
        ends: bool,
    },
    /// A header block that is too long to be put together.
    LongBlock(long::LongBlock),
    /// Bytes that nobody wants.
    Skip {
        left: u32,
    },
    Failed(Error),
}

/// How far a shutdown is (RFC 9113 6.8).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Going {
    Serving,
    /// The peer was told to open no more streams; those that are on their way are served.
    Announced,
    /// New streams are passed over.
    Final,
}

/// What happens to a new stream without a slot.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Admission {
    Ask,
    Refuse,
}

/// Whether used bytes are given back to the peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Replenishing {
    On,
    Held,
}

impl Connection {
    /// A connection from its first byte, the preface.
    #[must_use]
    pub const fn new(limits: &Limits) -> Connection {
        Connection {
            limits: *limits,
            encoder: Encoder::new(limits.encoder_table_bytes_max),
            decoder: Decoder::new(TABLE_BYTES as u16),
            input: Input::Preface,
            going: Going::Serving,
            admission: Admission::Ask,
            replenishing: Replenishing::On,
            last_id: 0,
            processed_id: 0,
            live: 0,
            waiting: 0,
            receiving: Receiving::new(WINDOW_BYTES),
            own_window: WINDOW_BYTES,
            streams_max: limits.streams_max,
            offer: Offer { streams_max: limits.streams_max, window_bytes: limits.window_bytes },
            awaits_ack: true,
            send_window: WINDOW_BYTES,
            small_frames: 0,
            peer_window: WINDOW_BYTES,
            peer_frame_bytes: FRAME_BYTES_MAX as u32,
            turn: 0,
            guard: Guard::new(limits),
            reset_by_us: Recent::new(),
            given_up: GivenUp::NONE,
            ended: Recent::new(),
            last_block: 0,
        }
    }

    /// The same, with an [`offer`](Connection::offer) from the first SETTINGS on.
    #[must_use]
    pub fn offering(mut self, streams_max: u16, window_bytes: u32) -> Connection {
        self.offer = Offer::within(&self.limits, streams_max, window_bytes);
        self
    }

    /// Bytes that [`pack`](Connection::pack) needs.
    #[must_use]
    pub const fn packed_bytes(&self) -> usize {
        self.decoder.packed_bytes() + self.encoder.packed_bytes()
    }

    /// Moves both tables of HPACK to `to`: a connection that waits needs no storage for them. Nothing but what needs no
    /// [`Storage`] may be called before [`unpack`](Connection::unpack).
    ///
    /// # Panics
    ///
    /// If `to` has fewer than [`packed_bytes`](Connection::packed_bytes).
    pub fn pack(&mut self, decoder_table: &mut [u8], encoder_table: &mut [u8], to: &mut [u8]) {
        let used = self.decoder.pack(decoder_table, to);
        self.encoder.pack(encoder_table, &mut to[used..]);
    }

    /// Moves both tables back to storage of the same sizes as before.
    ///
    /// # Panics
    ///
    /// If `from` is not what was packed.
    pub fn unpack(&self, from: &[u8], decoder_table: &mut [u8], encoder_table: &mut [u8]) {
        let used = self.decoder.unpack(from, decoder_table);
        self.encoder.unpack(&from[used..], encoder_table);
    }

    /// Everything that was written has been taken by the socket: control frames are counted from 0 again.
    pub fn output_sent(&mut self) {
        self.guard.control_frames = 0;
    }

    /// Whether so many control frames wait to be sent that [`Event::NeedOutput`](super::Event::NeedOutput) would come:
    /// there is no use in reading on.
    #[must_use]
    pub const fn needs_output(&self) -> bool {
        self.guard.control_frames >= self.limits.control_frames_max
    }

    /// Streams that have a slot.
    #[must_use]
    pub const fn live_streams(&self) -> u16 {
        self.live
    }

    /// Whether no stream has a slot and the input is between two frames: what a connection has to be to wait without
    /// buffers.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.live == 0 && self.input == Input::Frame
    }

    /// Whether the next byte of the input begins a frame: without one there is nothing to [step](Connection::step)
    /// through.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        matches!(self.input, Input::Frame | Input::FirstFrame)
    }

    /// Whether the peer has acknowledged our SETTINGS, which change its windows (RFC 9113 6.5.3).
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !self.awaits_ack
    }

    /// Whether new streams are not served any more.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.going == Going::Final || matches!(self.input, Input::Failed(_))
    }

    /// Our settings are in force: the peer keeps to the new number of streams, those that it opens begin with the new
    /// window, and those that began before lose or gain the difference (RFC 9113 6.9.2).
    pub(super) fn settings_acknowledged(&mut self, storage: &mut Storage<'_>) {
        if !std::mem::replace(&mut self.awaits_ack, false) {
            return;
        }
        self.streams_max = self.offer.streams_max;
        let change = self.offer.window_bytes as i32 - self.own_window;
        self.own_window += change;
        for stream in storage.streams.iter_mut().filter(|stream| stream.id != 0) {
            stream.receiving.window += change;
        }
    }

    /// Looks at the input from the first byte that was not consumed, and says what it means. Writes what the protocol
    /// asks for to `out`, which needs room for [`STEP_OUTPUT_BYTES_MAX`]. `now_ms` is any clock that does not go back.
    ///
    /// # Errors
    ///
    /// When the peer broke a rule for which the connection has to end: GOAWAY was written, send it and close. Every
    /// later call gives the same error. [`Error::OutputFull`] without the room.
    ///
    /// # Panics
    ///
    /// If the storage is smaller than [`Storage`] says.
    pub fn step<S: Sink + ?Sized>(
        &mut self,
        input: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Step, Error> {
        let mut step = match self.input {
            Input::Frame | Input::FirstFrame => self.frame(input, storage, out, now_ms),
            Input::Data { stream, left, padding, ends } => Ok(self.data(input, storage, stream, left, padding, ends)),
            Input::Skip { left } => Ok(self.skip(input, left)),
            Input::Preface => self.preface(input).map_err(Failure::Connection),
            Input::LongBlock(long) => self.long_block(long, input, storage, out, now_ms),
            Input::Failed(error) => return Err(error),
        };
        if let Err(Failure::Stream(id, error)) = step {
            step = self.break_stream(id, error, storage, out, now_ms).map(|event| {
                let consumed = self.failed_frame_bytes(input);
                Step { consumed, event }
            });
        }
        // The step is not moved on the way: it is as long as a head.
        if step.is_ok()
            && let Err(full) = self.replenish_connection(out).and_then(|()| self.warn(out))
        {
            step = Err(full.into());
        }
        debug_assert!(step.as_ref().map_or(0, |step| step.consumed) <= input.len());
        step.map_err(|failure| match failure {
            Failure::Connection(error) | Failure::Stream(_, error) => self.fail(error, out),
        })
    }

    fn preface(&mut self, input: &[u8]) -> Result<Step, Error> {
        let have = input.len().min(HTTP2_PREFACE.len());
        if input[..have] != HTTP2_PREFACE[..have] {
            return Err(Error::PrefaceInvalid);
        }
        if have < HTTP2_PREFACE.len() {
            return Ok(need(HTTP2_PREFACE.len()));
        }
        self.input = Input::FirstFrame;
        Ok(Step { consumed: have, event: Event::Progress })
    }

    fn frame<S: Sink + ?Sized>(
        &mut self,
        input: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        let Some(header) = FrameHeader::parse(input) else {
            return Ok(need(FRAME_HEADER_BYTES));
        };
        if header.len > FRAME_BYTES_MAX {
            return Err(Error::FrameSizeInvalid.into());
        }
        if self.input == Input::FirstFrame && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(Error::PrefaceInvalid.into());
        }
        if self.needs_output() {
            return Ok(Step { consumed: 0, event: Event::NeedOutput });
        }
        match header.kind {
            kind::DATA => self.data_frame(header, input, storage, now_ms),
            kind::HEADERS => self.headers_frame(header, input, storage, out, now_ms),
            _ => self.control_frame(header, input, storage, out, now_ms),
        }
    }

    /// After a failure of a stream: the frame that caused it is used, or its payload is passed over.
    fn failed_frame_bytes(&mut self, input: &[u8]) -> usize {
        let Some(header) = FrameHeader::parse(input) else { return 0 };
        if header.kind == kind::HEADERS {
            // It was there as a whole, with all that continues it.
            return block::frames_bytes(input);
        }
        let whole = FRAME_HEADER_BYTES + header.len;
        let consumed = whole.min(input.len());
        self.pass_over(whole - consumed);
        consumed
    }

    pub(super) fn pass_over(&mut self, bytes: usize) {
        self.input = if bytes == 0 { Input::Frame } else { Input::Skip { left: bytes as u32 } };
    }

    fn skip(&mut self, input: &[u8], left: u32) -> Step {
        if input.is_empty() {
            return need(1);
        }
        let consumed = input.len().min(left as usize);
        self.pass_over(left as usize - consumed);
        Step { consumed, event: Event::Progress }
    }

    /// Whether this input begins with a whole frame for which a step writes nothing, unless it breaks a rule: a
    /// WINDOW_UPDATE, while no update of our own is due. It may be stepped through without room in the output.
    #[must_use]
    pub fn is_silent_next(&self, input: &[u8]) -> bool {
        let header = FrameHeader::parse(input).filter(|_| self.input == Input::Frame && !self.owes_update());
        header.is_some_and(|header| {
            header.kind == kind::WINDOW_UPDATE && header.len == 4 && input.len() >= FRAME_HEADER_BYTES + header.len
        })
    }

    /// Whether this input is no more than a part of a frame, or of a header block, that has to come as a whole. Within
    /// a long block it always is.
    #[must_use]
    pub fn is_part_next(&self, input: &[u8]) -> bool {
        if input.is_empty() || !self.is_between_frames() {
            return self.is_in_block();
        }
        let Some(header) = FrameHeader::parse(input) else { return true };
        match header.kind {
            kind::DATA => false,
            kind::HEADERS => matches!(block::locate(header, input, &self.limits), Ok(block::Located::Need(_))),
            _ => input.len() < FRAME_HEADER_BYTES + header.len,
        }
    }

    /// Ends a stream because the peer broke a rule on it.
    fn break_stream<S: Sink + ?Sized>(
        &mut self,
        id: u32,
        error: Error,
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Event, Failure> {
        self.guard.reset(&self.limits, now_ms)?;
        match error {
            Error::StreamRefused => self.given_up.note(id),
            _ => self.reset_by_us.note(id),
        }
        self.put_reset(id, ErrorCode::of(error), out)?;
        let Some(key) = find(storage.streams, id) else {
            return Ok(Event::Progress);
        };
        if self.close(storage, key) {
            Ok(Event::Reset { stream: key, cause: ResetCause::Broken(error) })
        } else {
            Ok(Event::Progress)
        }
    }

    /// Closes a stream; its bytes are given back to the connection. Says whether it was alive.
    pub(super) fn close(&mut self, storage: &mut Storage<'_>, key: StreamKey) -> bool {
        let Some(stream) = get(storage.streams, key) else { return false };
        if stream.step(Transition::Reset).is_err() {
            return false;
        }
        stream.wait(Output::Nothing, &mut self.waiting);
        let held = stream.receiving.held;
        stream.receiving.release(held);
        let released = self.receiving.release(held);
        debug_assert_eq!(released, held, "the connection holds what its streams hold");
        true
    }
}

pub(super) const fn need(bytes: usize) -> Step {
    Step { consumed: 0, event: Event::NeedMore { bytes } }
}

/// The window that both sides begin with (RFC 9113 6.9.2).
pub(super) const WINDOW_BYTES: i32 = 65_535;
/// A step writes no more than this: a refusal, a reset, two updates and a GOAWAY.
pub const STEP_OUTPUT_BYTES_MAX: usize = 128;
