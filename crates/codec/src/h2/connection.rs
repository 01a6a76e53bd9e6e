//! One connection: what is expected next, and the frames that carry requests. Control frames are in `control`, output in `send`.

use super::event::{Event, Failure, ResetCause, Step, Storage};
use super::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use super::guard::Guard;
use super::recent::Recent;
use super::request::Judged;
use super::settings::Offer;
use super::stream::{Output, Receiving, Transition, find, find_free, get};
use super::{ErrorCode, Limits, Stream, StreamKey, StreamState, block, request};
use crate::Error;
use crate::h1::{FIELDS_CEILING, FieldSlot, HTTP2_PREFACE, Sink};
use crate::hpack::mark::Mark;
use crate::hpack::{Decoder, Encoder, FieldBuf, TABLE_BYTES};

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
    /// The window with which our responses begin.
    pub(super) peer_window: i32,
    pub(super) peer_frame_bytes: u32,
    /// Counts the turns of sending.
    pub(super) turn: u32,
    pub(super) guard: Guard,
    pub(super) reset_by_us: Recent<32>,
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
            live: 0,
            waiting: 0,
            receiving: Receiving::new(WINDOW_BYTES),
            own_window: WINDOW_BYTES,
            streams_max: limits.streams_max,
            offer: Offer { streams_max: limits.streams_max, window_bytes: limits.window_bytes },
            awaits_ack: true,
            send_window: WINDOW_BYTES,
            peer_window: WINDOW_BYTES,
            peer_frame_bytes: FRAME_BYTES_MAX as u32,
            turn: 0,
            guard: Guard::new(limits),
            reset_by_us: Recent::new(),
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

    /// Our settings are in force: the peer keeps to the new number of streams, those that it opens begin with the new window, and those that began
    /// before lose or gain the difference (RFC 9113 6.9.2).
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

    /// Looks at the input from the first byte that was not consumed, and says what it means. Writes what the protocol asks for to
    /// `out`, which needs room for [`STEP_OUTPUT_BYTES_MAX`]. `now_ms` is any clock that does not go back.
    ///
    /// # Errors
    ///
    /// When the peer broke a rule for which the connection has to end: GOAWAY was written, send it and close. Every later call gives the
    /// same error. [`Error::OutputFull`] without the room.
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
        let step = match self.input {
            Input::Frame | Input::FirstFrame => self.frame(input, storage, out, now_ms),
            Input::Data { stream, left, padding, ends } => Ok(self.data(input, storage, stream, left, padding, ends)),
            Input::Skip { left } => Ok(self.skip(input, left)),
            Input::Preface => self.preface(input).map_err(Failure::Connection),
            Input::Failed(error) => return Err(error),
        };
        let step = match step {
            Err(Failure::Stream(id, error)) => self.break_stream(id, error, storage, out, now_ms).map(|event| {
                let consumed = self.failed_frame_bytes(input);
                Step { consumed, event }
            }),
            other => other,
        };
        let step = step.and_then(|step| {
            self.replenish_connection(out)?;
            self.warn(out)?;
            Ok(step)
        });
        match step {
            Ok(step) => {
                debug_assert!(step.consumed <= input.len());
                Ok(step)
            }
            Err(Failure::Connection(error) | Failure::Stream(_, error)) => Err(self.fail(error, out)),
        }
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

    /// The header of a DATA frame: every rule is checked before a byte of the data is looked at.
    fn data_frame(
        &mut self,
        header: FrameHeader,
        input: &[u8],
        storage: &mut Storage<'_>,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        header.expect_stream(true)?;
        let (padding, prefix_bytes) = if header.has(flag::PADDED) {
            if header.len == 0 {
                return Err(Error::FrameSizeInvalid.into());
            }
            let Some(&padding) = input.get(FRAME_HEADER_BYTES) else {
                return Ok(need(FRAME_HEADER_BYTES + 1));
            };
            (usize::from(padding), 1)
        } else {
            (0, 0)
        };
        let data = (header.len - prefix_bytes).checked_sub(padding).ok_or(Error::PaddingInvalid)? as u32;
        if header.stream > self.last_id || header.stream.is_multiple_of(2) {
            return Err(Error::StreamIdle.into());
        }
        let ends = header.has(flag::END_STREAM);
        let overhead = header.len as u32 - data;
        self.receiving.receive(data, overhead)?;
        self.guard.overhead(FRAME_HEADER_BYTES + overhead as usize, now_ms)?;
        if data > 0 || ends {
            self.guard.payload(data as usize);
        } else {
            self.guard.empty(&self.limits)?;
        }
        let consumed = FRAME_HEADER_BYTES + prefix_bytes;
        let received = match find(storage.streams, header.stream) {
            Some(key) => get(storage.streams, key).map(|stream| (key, receive(stream, data, overhead, ends))),
            None => None,
        };
        match received {
            Some((stream, Ok(()))) => {
                self.input = Input::Data { stream, left: data, padding: padding as u32, ends };
                Ok(Step { consumed, event: Event::Progress })
            }
            refused => {
                self.receiving.release(data);
                let error =
                    refused.map_or(Error::StreamClosed, |(_, refused)| refused.err().unwrap_or(Error::StreamClosed));
                if error == Error::StreamClosed && self.reset_by_us.has(header.stream) {
                    // It was on its way when we reset the stream.
                    self.pass_over(header.len - prefix_bytes);
                    return Ok(Step { consumed, event: Event::Progress });
                }
                Err(Failure::Stream(header.stream, error))
            }
        }
    }

    /// Within a DATA frame.
    fn data(
        &mut self,
        input: &[u8],
        storage: &mut Storage<'_>,
        key: StreamKey,
        left: u32,
        padding: u32,
        ends: bool,
    ) -> Step {
        let Some(stream) = get(storage.streams, key).filter(|stream| stream.state.can_receive()) else {
            // Reset meanwhile, and its bytes were given back then.
            self.pass_over((left + padding) as usize);
            return Step { consumed: 0, event: Event::Progress };
        };
        if left > 0 {
            if input.is_empty() {
                return need(1);
            }
            let bytes = input.len().min(left as usize);
            return Step { consumed: 0, event: Event::Data { stream: key, bytes, frame_bytes: left as usize } };
        }
        if input.len() < padding as usize {
            if input.is_empty() {
                return need(1);
            }
            self.input = Input::Data { stream: key, left, padding: padding - input.len() as u32, ends };
            return Step { consumed: input.len(), event: Event::Progress };
        }
        self.input = Input::Frame;
        let event = if ends && stream.step(Transition::Received).is_ok() {
            Event::End { stream: key }
        } else {
            Event::Progress
        };
        Step { consumed: padding as usize, event }
    }

    /// Takes bytes of the last [`Event::Data`]: so many of the input are consumed. Can be fewer than there are; what is left is
    /// presented again. Give them back with [`release`](Connection::release) when they are not in memory any more.
    ///
    /// # Panics
    ///
    /// If these are more than the frame has left, or there is none.
    pub fn take_data(&mut self, bytes: usize) {
        let Input::Data { left, .. } = &mut self.input else { panic!("there is no data to take") };
        assert!(bytes <= *left as usize, "more than the frame has left");
        *left -= bytes as u32;
    }

    fn headers_frame<S: Sink + ?Sized>(
        &mut self,
        header: FrameHeader,
        input: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        header.expect_stream(true)?;
        if header.stream.is_multiple_of(2) {
            return Err(Error::StreamIdInvalid.into());
        }
        let found = match block::locate(header, input, &self.limits)? {
            block::Located::Need(bytes) => return Ok(need(bytes)),
            block::Located::Whole(found) => found,
        };
        let is_new = header.stream > self.last_id;
        let is_unwanted = is_new && self.admission == Admission::Refuse;
        let slot = if is_new && !is_unwanted && self.live < self.streams_max {
            find_free(storage.streams, header.stream)
        } else {
            None
        };
        let may_grow = storage.streams.len() < usize::from(self.streams_max);
        if is_new && slot.is_none() && may_grow && self.going != Going::Final && self.admission == Admission::Ask {
            return Ok(Step { consumed: 0, event: Event::NeedStreams });
        }
        let ends = header.has(flag::END_STREAM);
        let mut marks = [Mark::NONE; FIELDS_CEILING];
        // Only a request can be one that was seen before.
        let block = found.in_one_piece(input).filter(|_| is_new);
        let known = block.and_then(|block| storage.repeat.find(self.last_block, block, ends));
        let (list, block) = match known {
            Some(judged) => (List::Known(judged), None),
            None => {
                let before = self.decoder.state();
                let list = self.decode(&found, input, storage, &mut marks)?;
                (list, block.filter(|_| self.decoder.state() == before))
            }
        };
        self.guard.payload(found.block_bytes);
        self.guard.overhead(found.consumed - found.block_bytes, now_ms)?;
        let self_dependent = found.depends_on == Some(header.stream);
        let event = if is_new {
            self.admission = Admission::Ask;
            self.last_id = header.stream;
            match slot {
                _ if self.going == Going::Final => Ok(Event::Progress),
                // Not the peer's fault, so it does not count.
                _ if is_unwanted => {
                    self.put_reset(header.stream, ErrorCode::RefusedStream, out)?;
                    Ok(Event::Progress)
                }
                None => Err(Failure::Stream(header.stream, Error::StreamRefused)),
                _ if self_dependent => Err(Failure::Stream(header.stream, Error::SelfDependency)),
                Some(key) => self.request(key, (list, &marks, block), ends, storage, out, now_ms),
            }
        } else {
            self.trailers(header.stream, list, ends, storage)
        };
        event.map(|event| Step { consumed: found.consumed, event })
    }

    fn decode(
        &mut self,
        found: &block::Found,
        input: &[u8],
        storage: &mut Storage<'_>,
        marks: &mut [Mark; FIELDS_CEILING],
    ) -> Result<List, Error> {
        self.last_block = storage.repeat.begin();
        let (bytes, assembly) = storage.bytes.split_at_mut(self.limits.header_list_bytes());
        let fields_max = storage.slots.len().min(self.limits.fields_max.into());
        let mut fields = FieldBuf::new(bytes, &mut storage.slots[..fields_max], self.limits.header_list_bytes());
        fields = fields.with_marks(marks);
        let block = found.assemble(input, assembly);
        self.decoder.decode(storage.decoder_table, block, &mut fields)?;
        Ok(if fields.is_over() { List::Over } else { List::Fields(fields.slots().len()) })
    }

    fn request<S: Sink + ?Sized>(
        &mut self,
        key: StreamKey,
        (list, marks, block): (List, &[Mark], Option<&[u8]>),
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Event, Failure> {
        let judged = match list {
            List::Known(judged) => Ok(judged),
            List::Over => Err(Error::HeadTooLarge),
            List::Fields(fields) => request::judge(storage.bytes, slots(storage, fields), marks, ends),
        };
        let judged = match judged {
            Ok(judged) => judged,
            Err(error @ (Error::HeadTooLarge | Error::ExpectationUnknown | Error::MethodTooLong)) => {
                // Understood, but not wanted: an answer says more than a reset.
                self.guard.reset(&self.limits, now_ms)?;
                self.answer_refused(key.id, error.status(), ends, storage, out)?;
                return Ok(Event::Progress);
            }
            Err(error) => return Err(Failure::Stream(key.id, error)),
        };
        if let Some(block) = block {
            storage.repeat.keep(block, ends, &judged);
        }
        storage.streams[usize::from(key.slot)] = Stream {
            id: key.id,
            state: if ends { StreamState::HalfClosedRemote } else { StreamState::Open },
            priority: judged.priority,
            turn: self.turn,
            send_window: self.peer_window,
            receiving: Receiving::new(self.own_window),
            length_left: judged.length,
            ..Stream::FREE
        };
        self.live += 1;
        debug_assert!(self.live <= self.limits.streams_max);
        Ok(Event::Request { stream: key, head: judged.head, pseudo_fields: judged.pseudo_fields as u16, ends })
    }

    /// A header block on a stream that is not new.
    fn trailers(&mut self, id: u32, list: List, ends: bool, storage: &mut Storage<'_>) -> Result<Event, Failure> {
        let key = find(storage.streams, id);
        let state = key.map_or(StreamState::Closed, |key| storage.streams[usize::from(key.slot)].state);
        let Some(key) = key.filter(|_| state.can_receive()) else {
            return match state {
                _ if self.reset_by_us.has(id) => Ok(Event::Progress),
                StreamState::HalfClosedRemote => Err(Failure::Stream(id, Error::StreamClosed)),
                _ if key.is_some() || self.ended.has(id) => Err(Error::StreamClosed.into()),
                // Passed over when a higher one was opened, or forgotten long ago.
                _ => Err(Error::StreamIdInvalid.into()),
            };
        };
        let broken = |error| Err(Failure::Stream(id, error));
        let fields = match list {
            List::Over => return broken(Error::TrailersTooLarge),
            List::Known(_) => return broken(Error::StateMisuse),
            List::Fields(_) if !ends => return broken(Error::TrailersUnfinished),
            List::Fields(fields) => fields,
        };
        if let Err(error) = request::judge_trailers(storage.bytes, slots(storage, fields)) {
            return broken(error);
        }
        let stream = &mut storage.streams[usize::from(key.slot)];
        if stream.length_left.is_some_and(|left| left > 0) {
            return broken(Error::BodyLengthMismatch);
        }
        stream.step(Transition::Received)?;
        Ok(Event::Trailers { stream: key, fields: fields as u16 })
    }

    /// Lets the next stream be refused, after [`Event::NeedStreams`] or when there is no memory for it. The client may send it again.
    pub fn refuse_next(&mut self) {
        self.admission = Admission::Refuse;
    }

    /// Takes [`refuse_next`](Self::refuse_next) back: there is memory again, and the next stream has not come as a whole.
    pub fn admit_next(&mut self) {
        self.admission = Admission::Ask;
    }

    /// Whether this input begins with the head of a request, as far as its first bytes tell.
    #[must_use]
    pub fn is_request_next(&self, input: &[u8]) -> bool {
        let header = FrameHeader::parse(input).filter(|_| self.input == Input::Frame);
        header.is_some_and(|header| header.kind == kind::HEADERS && header.stream > self.last_id)
    }

    /// Whether this input begins with a whole frame for which a step writes nothing, unless it breaks a rule: a WINDOW_UPDATE. It may be stepped through without
    /// room in the output.
    #[must_use]
    pub fn is_silent_next(&self, input: &[u8]) -> bool {
        let header = FrameHeader::parse(input).filter(|_| self.input == Input::Frame);
        header.is_some_and(|header| {
            header.kind == kind::WINDOW_UPDATE && header.len == 4 && input.len() >= FRAME_HEADER_BYTES + header.len
        })
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

/// For tests and fuzzers.
impl Connection {
    /// Asserts that no byte of any window is lost: `granted` are the bytes by which windows were grown.
    pub(crate) fn audit(&self, streams: &[Stream], granted: impl Fn(u32) -> u32) {
        let alive = || streams.iter().filter(|stream| stream.id != 0);
        assert_eq!(usize::from(self.live), alive().count(), "slots in use");
        let waiting = alive().filter(|stream| stream.output == Output::Waiting).count();
        assert_eq!(usize::from(self.waiting), waiting, "streams that wait to send");
        let held: u32 = alive().map(|stream| stream.receiving.held).sum();
        assert_eq!(self.receiving.held, held, "the connection holds what its streams hold");
        assert_eq!(self.receiving.total(), i64::from(WINDOW_BYTES) + i64::from(granted(0)), "the connection's window");
        for stream in alive().filter(|stream| stream.state.can_receive()) {
            let expected = i64::from(self.own_window) + i64::from(granted(stream.id));
            assert_eq!(stream.receiving.total(), expected, "the window of stream {}", stream.id);
        }
        assert!(self.decoder.table_bytes() <= TABLE_BYTES && self.encoder.table_bytes() <= TABLE_BYTES);
    }

    /// What the peer may send on the connection, or on a stream on which it may send at all.
    pub(crate) fn receive_window(&self, streams: &[Stream], id: u32) -> Option<i32> {
        match id {
            0 => Some(self.receiving.window),
            _ => {
                let stream = find(streams, id).map(|key| streams[usize::from(key.slot)])?;
                stream.state.can_receive().then_some(stream.receiving.window)
            }
        }
    }
}

/// What became of a header block.
#[derive(Debug)]
enum List {
    Fields(usize),
    Over,
    /// It was a request that was judged before.
    Known(Judged),
}

fn slots<'s>(storage: &'s Storage<'_>, fields: usize) -> &'s [FieldSlot] {
    &storage.slots[..fields]
}

/// A stream gets the header of a DATA frame.
fn receive(stream: &mut Stream, data: u32, overhead: u32, ends: bool) -> Result<(), Error> {
    if !stream.state.can_receive() {
        return Err(Error::StreamClosed);
    }
    if let Some(left) = &mut stream.length_left {
        *left = left.checked_sub(data.into()).ok_or(Error::BodyLengthMismatch)?;
        if ends && *left > 0 {
            return Err(Error::BodyLengthMismatch);
        }
    }
    stream.receiving.receive(data, overhead)
}

pub(super) const fn need(bytes: usize) -> Step {
    Step { consumed: 0, event: Event::NeedMore { bytes } }
}

/// The window that both sides begin with (RFC 9113 6.9.2).
pub(super) const WINDOW_BYTES: i32 = 65_535;
/// A step writes no more than this: a refusal, a reset, two updates and a GOAWAY.
pub const STEP_OUTPUT_BYTES_MAX: usize = 128;
