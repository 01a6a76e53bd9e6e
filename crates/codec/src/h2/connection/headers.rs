//! Header blocks: a new stream with its request, trailers of one that is there, and whether a new one is let in.

use http::StatusCode;

use super::{Admission, Connection, Going, Input, need};
use crate::Error;
use crate::h1::{FIELDS_CEILING, FieldSlot, Sink};
use crate::h2::event::{Event, Failure, Step, Storage};
use crate::h2::frame::{FrameHeader, flag, kind};
use crate::h2::request::{self, Judged};
use crate::h2::stream::{Receiving, Transition, find, find_free};
use crate::h2::{Stream, StreamKey, StreamState, block};
use crate::hpack::FieldBuf;
use crate::hpack::mark::Mark;

impl Connection {
    pub(super) fn headers_frame<S: Sink + ?Sized>(
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
            block::Located::Long(first) => return self.begin_long_block(header, first, now_ms),
        };
        let is_new = header.stream > self.last_id;
        let slot = if is_new && self.admission == Admission::Ask && self.live < self.streams_max {
            find_free(storage.streams, header.stream)
        } else {
            None
        };
        let may_grow = storage.streams.len() < usize::from(self.streams_max);
        if is_new && slot.is_none() && may_grow && self.going != Going::Final && self.admission == Admission::Ask {
            return Ok(Step { consumed: 0, event: Event::NeedStreams });
        }
        let ends = header.has(flag::END_STREAM);
        let list = match found.in_one_piece(input) {
            _ if !is_new => self.decode(&found, input, storage, None)?,
            Some(block) if storage.repeat.is(self.last_block, block, ends) => List::Judged(Ok(())),
            _ => self.decode_request(&found, input, storage, ends)?,
        };
        self.guard.payload(found.block_bytes);
        self.guard.overhead(found.consumed - found.block_bytes, now_ms)?;
        let self_dependent = found.depends_on == Some(header.stream);
        let event = if is_new {
            match (self.begin_stream(header.stream), slot) {
                (Begun::PassedOver, _) => Ok(Event::Progress),
                (Begun::Refused, _) => {
                    // What is on its way on it is not held against the peer.
                    self.given_up.note(header.stream);
                    self.answer_refused(header.stream, StatusCode::SERVICE_UNAVAILABLE, ends, storage, out)?;
                    Ok(Event::Progress)
                }
                (Begun::Served, None) => Err(Failure::Stream(header.stream, Error::StreamRefused)),
                (Begun::Served, _) if self_dependent => Err(Failure::Stream(header.stream, Error::SelfDependency)),
                (Begun::Served, Some(key)) => self.request(key, list, ends, storage, out, now_ms),
            }
        } else {
            self.trailers(header.stream, list, ends, storage)
        };
        event.map(|event| Step { consumed: found.consumed, event })
    }

    /// A new stream, of which the block is there: whether it is served.
    #[inline]
    pub(super) fn begin_stream(&mut self, id: u32) -> Begun {
        debug_assert!(id > self.last_id);
        let admission = std::mem::replace(&mut self.admission, Admission::Ask);
        self.last_id = id;
        if self.going == Going::Final {
            return Begun::PassedOver;
        }
        self.processed_id = id;
        // One that is refused is not the peer's fault, so it does not count.
        if admission == Admission::Refuse { Begun::Refused } else { Begun::Served }
    }

    /// A request that was understood, but is not wanted: an answer says more than a reset.
    pub(super) fn refuse<S: Sink + ?Sized>(
        &mut self,
        id: u32,
        error: Error,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<(), Failure> {
        self.guard.reset(&self.limits, now_ms)?;
        self.answer_refused(id, error.status(), ends, storage, out)
    }

    fn decode(
        &mut self,
        found: &block::Found,
        input: &[u8],
        storage: &mut Storage<'_>,
        marks: Option<&mut [Mark; FIELDS_CEILING]>,
    ) -> Result<List, Error> {
        self.last_block = storage.repeat.begin();
        let (bytes, assembly) = storage.bytes.split_at_mut(self.limits.header_list_bytes());
        let fields_max = storage.slots.len().min(self.limits.fields_max.into());
        let mut fields = FieldBuf::new(bytes, &mut storage.slots[..fields_max], self.limits.header_list_bytes());
        if let Some(marks) = marks {
            fields = fields.with_marks(marks);
        }
        let block = found.assemble(input, assembly);
        self.decoder.decode(storage.decoder_table, block, &mut fields)?;
        Ok(if fields.is_over() { List::Over } else { List::Fields(fields.slots().len()) })
    }

    /// Decodes and judges a request, and remembers it.
    #[inline(never)]
    fn decode_request(
        &mut self,
        found: &block::Found,
        input: &[u8],
        storage: &mut Storage<'_>,
        ends: bool,
    ) -> Result<List, Error> {
        let mut marks = [Mark::NONE; FIELDS_CEILING];
        let before = self.decoder.state();
        let List::Fields(fields) = self.decode(found, input, storage, Some(&mut marks))? else { return Ok(List::Over) };
        let judged = request::judge(storage.bytes, slots(storage, fields), &marks, ends);
        let judged = judged.map(|judged| storage.repeat.keep(judged));
        if judged.is_ok()
            && self.decoder.state() == before
            && let Some(block) = found.in_one_piece(input)
        {
            storage.repeat.keep_block(block, ends);
        }
        Ok(List::Judged(judged))
    }

    #[inline]
    fn request<S: Sink + ?Sized>(
        &mut self,
        key: StreamKey,
        list: List,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Event, Failure> {
        let judged = match list {
            List::Judged(judged) => judged,
            List::Over => Err(Error::HeadTooLarge),
            List::Fields(_) => Err(Error::StateMisuse),
        };
        match judged {
            Ok(()) => {}
            Err(error) if is_answered(error) => {
                self.refuse(key.id, error, ends, storage, out, now_ms)?;
                return Ok(Event::Progress);
            }
            Err(error) => return Err(Failure::Stream(key.id, error)),
        }
        let &Judged { priority, length, .. } = storage.repeat.request();
        storage.streams[usize::from(key.slot)] = Stream {
            id: key.id,
            state: if ends { StreamState::HalfClosedRemote } else { StreamState::Open },
            priority,
            turn: self.turn,
            send_window: self.peer_window,
            receiving: Receiving::new(self.own_window),
            length_left: length,
            ..Stream::FREE
        };
        self.live += 1;
        debug_assert!(self.live <= self.limits.streams_max);
        Ok(Event::Request { stream: key, ends })
    }

    /// A header block on a stream that is not new.
    pub(super) fn trailers(
        &mut self,
        id: u32,
        list: List,
        ends: bool,
        storage: &mut Storage<'_>,
    ) -> Result<Event, Failure> {
        let key = find(storage.streams, id);
        let state = key.map_or(StreamState::Closed, |key| storage.streams[usize::from(key.slot)].state);
        let Some(key) = key.filter(|_| state.can_receive()) else {
            return match state {
                _ if self.reset_by_us.has(id) => Ok(Event::Progress),
                _ if state.is_over() && self.is_passed_over(id) => Ok(Event::Progress),
                StreamState::HalfClosedRemote => Err(Failure::Stream(id, Error::StreamClosed)),
                _ if key.is_some() || self.ended.has(id) => Err(Error::StreamClosed.into()),
                // Passed over when a higher one was opened, or forgotten long ago.
                _ => Err(Error::StreamIdInvalid.into()),
            };
        };
        let broken = |error| Err(Failure::Stream(id, error));
        let fields = match list {
            List::Over => return broken(Error::TrailersTooLarge),
            List::Judged(_) => return broken(Error::StateMisuse),
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

    /// Lets the next stream be answered 503 with Retry-After, after [`Event::NeedStreams`] or when there is no memory
    /// for it.
    pub fn refuse_next(&mut self) {
        self.admission = Admission::Refuse;
    }

    /// Takes [`refuse_next`](Self::refuse_next) back: there is memory again, and the next stream has not come as a
    /// whole.
    pub fn admit_next(&mut self) {
        self.admission = Admission::Ask;
    }

    /// Whether this input begins with the head of a request, as far as its first bytes tell.
    #[must_use]
    pub fn is_request_next(&self, input: &[u8]) -> bool {
        let header = FrameHeader::parse(input).filter(|_| self.input == Input::Frame);
        header.is_some_and(|header| header.kind == kind::HEADERS && header.stream > self.last_id)
    }
}

/// What became of a header block.
#[derive(Copy, Clone, Debug)]
pub(super) enum List {
    /// Of trailers: how many.
    Fields(usize),
    Over,
    /// Of a request, which is in the scratch memory if it is valid.
    Judged(Result<(), Error>),
}

/// What becomes of a new stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Served,
    /// There is no memory for it.
    Refused,
    /// Behind the last that is served.
    PassedOver,
}

/// Whether a request with this fault gets an answer instead of a reset (RFC 9113 8.1.1): its frames and fields are as
/// they must be, only what it asks for is not understood or not wanted. Somebody on the way may have passed on what its
/// own client sent.
const fn is_answered(error: Error) -> bool {
    matches!(
        error,
        Error::HeadTooLarge
            | Error::ExpectationUnknown
            | Error::MethodTooLong
            | Error::HostInvalid
            | Error::TargetInvalid
            | Error::TargetFormInvalid
    )
}

fn slots<'s>(storage: &'s Storage<'_>, fields: usize) -> &'s [FieldSlot] {
    &storage.slots[..fields]
}
