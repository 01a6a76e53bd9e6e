//! What goes out: heads of answers, bodies as far as windows and room allow, and the ends of streams.

use http::{StatusCode, Version};
use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::{BodyLength, BodyOut, Full, ResponseHead, Sink};
use plimsoll_codec::h2::{ErrorCode, FRAME_HEADER_BYTES, StreamKey, block_bytes_max, head_bytes_max};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Kind, OverBudget, Pool};

use super::room::{END_BYTES_MAX, UPDATE_BYTES_MAX, make};
use super::streams::{Ending, Exchange, Incoming, Outgoing, find};
use super::window::shrink_window;
use super::{ENCODING_BYTES, Http2, Parts, Scratch};
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::exchange::failure::Failure;
use crate::exchange::min_rate::moved_on;
use crate::exchange::misbehaviour::{COMPLETED_POINTS, UNWANTED_BYTES_FREE, Verdict, unwanted_points};
use crate::exchange::output::Output;
use crate::exchange::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::exchange::user_code::{self, UserBody};
use crate::worker::state::Core;

/// An output that makes its room in the pool as it goes. It is full at the memory line.
pub(super) struct Growing<'a>(pub(super) &'a mut Output, pub(super) &'a Pool);

impl Sink for Growing<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.0.append(self.1, bytes).map_err(|_| Full)
    }
}

/// Bodies up to this size are gathered with their heads.
const WHOLE_BYTES_MAX: usize = 1_024;

impl Core {
    /// Runs `act` with the scratch memory for what goes out.
    pub(super) fn with_parts<R>(&self, http2: &mut Http2, act: impl FnOnce(&mut Parts<'_>) -> R) -> R {
        let mut scratch = self.h2_scratch.borrow_mut();
        let Scratch { encoding, unused, .. } = &mut *scratch;
        let bytes = encoding.as_mut().map_or(&mut [][..], |lease| lease.as_mut_slice());
        act(&mut http2.split(bytes, &mut [], unused))
    }

    /// Whether more may be gathered for the socket.
    pub(super) fn has_room(&self, output: &Output) -> bool {
        output.gathered_bytes() < self.config.output_bytes_max
    }

    /// Writes an answer's head, and its body as far as that goes at once. Without room for it nothing is done:
    /// [`Error::OverBudget`].
    pub(super) fn put_answer(
        &self,
        parts: &mut Parts<'_>,
        stream: StreamKey,
        response: &mut Response,
        length: BodyLength,
    ) -> Result<(), Error> {
        let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
        let date = self.date();
        let head = ResponseHead::new(&exchange.method, Version::HTTP_2, response.status(), length)?.date(&date);
        let ends = head.body() == BodyOut::None;
        let text_bytes = if ends { 0 } else { response.body_bytes() };
        let gathered = parts.output.gathered_bytes();
        let fits = text_bytes <= WHOLE_BYTES_MAX && gathered + text_bytes <= self.config.output_bytes_max;
        let fields = response.fields();
        if block_bytes_max(fields) > ENCODING_BYTES - FRAME_HEADER_BYTES {
            return Err(Error::Misuse("the fields of an answer are too long: HTTP/2 has room for 15 KiB"));
        }
        // Room first: what was encoded cannot be taken back, as the peer's table of HPACK would not be ours any more.
        let with_text = if fits { FRAME_HEADER_BYTES + text_bytes } else { 0 };
        make(parts.output, parts.hunger, self, head_bytes_max(fields) + with_text)?;
        let head = head.fields(response.fields());
        let text = if ends { &[] } else { response.body_slice() };
        let mut out = Growing(parts.output, &self.pool);
        // Small bodies go out with their heads.
        let put = match fits {
            true => parts.codec.put_whole(stream, &head, text, &mut parts.storage, &mut out),
            false => Ok(false),
        };
        let put = match put {
            Ok(false) => parts.codec.put_response(stream, &head, ends, &mut parts.storage, &mut out).map(|()| false),
            whole => whole,
        };
        let is_whole = match put {
            Ok(is_whole) => is_whole,
            Err(CodecError::StreamClosed) => return Err(Error::Gone),
            Err(error) => {
                debug_assert!(false, "room was made: {error}");
                *parts.closing = true;
                return Err(error.into());
            }
        };
        self.counters().response(response.status().as_u16());
        let body_bytes = text.len() as u64;
        exchange.due = match head.body() {
            BodyOut::Length(bytes) => Some(bytes - body_bytes),
            BodyOut::None => Some(0),
            BodyOut::Chunked | BodyOut::UntilClose => None,
        };
        exchange.sent_bytes = body_bytes;
        if ends || is_whole {
            exchange.response = Outgoing::Complete;
            exchange.finished |= is_whole;
            self.log_exchange(exchange, response.status());
            return Ok(());
        }
        exchange.response = Outgoing::Body;
        if body_bytes == 0 {
            // Streamed: how long it is is known at its end.
            exchange.status = Some(response.status());
            return Ok(());
        }
        self.log_exchange(exchange, response.status());
        (exchange.body, exchange.finished) = (::core::mem::take(response.body_mut()).into(), true);
        self.put_body(parts, stream);
        Ok(())
    }

    /// Sends a body that fits one frame at once, while nobody else waits; else it waits for its turn.
    pub(super) fn put_body(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        let bytes = exchange.rest().len();
        let fits = parts.codec.data_room(stream, bytes, &parts.storage) == bytes
            && parts.output.gathered_bytes() + bytes <= self.config.output_bytes_max;
        parts.codec.set_waiting(stream, true, &mut parts.storage);
        if fits && parts.codec.next_to_send(&parts.storage) == Some(stream) {
            self.put_data(parts, stream);
        }
    }

    /// Sends one frame of a stream's body. `false` when there was no room.
    fn put_data(&self, parts: &mut Parts<'_>, stream: StreamKey) -> bool {
        let Some(exchange) = find(parts.exchanges, stream) else {
            parts.codec.set_waiting(stream, false, &mut parts.storage);
            return true;
        };
        let rest = exchange.rest().len();
        let room = self.config.output_bytes_max.saturating_sub(parts.output.gathered_bytes());
        let bytes = parts.codec.data_room(stream, rest.min(room), &parts.storage);
        if bytes == 0 && rest > 0 {
            return false;
        }
        if make(parts.output, parts.hunger, self, FRAME_HEADER_BYTES + bytes).is_err() {
            return false;
        }
        let ends = exchange.finished && bytes == rest;
        let put = parts.codec.put_data_header(stream, bytes, ends, &mut parts.storage, parts.output);
        if put.is_err() {
            debug_assert!(false, "the stream may send so much, and room was made: {put:?}");
            *parts.closing = true;
            return false;
        }
        parts.output.push(&exchange.rest()[..bytes]);
        exchange.body_sent += bytes;
        for since in [&mut exchange.blocked_since, &mut *parts.stalled] {
            *since = since
                .map(|since| moved_on(since, bytes, self.config.body_bytes_per_second_min, plimsoll_runtime::now()));
        }
        if exchange.rest().is_empty() {
            (exchange.body, exchange.body_sent, exchange.blocked_since) = (UserBody::default(), 0, None);
            parts.codec.set_waiting(stream, false, &mut parts.storage);
            if let Some(writer) = exchange.writer.take() {
                writer.wake();
            }
        }
        if ends {
            exchange.response = Outgoing::Complete;
            self.end_if_done(parts, stream);
        }
        true
    }

    /// Sends what waits: answers, then bodies in the order of their priorities.
    pub(super) fn pump(&self, http2: &mut Http2) {
        if http2.codec.live_streams() == 0 || http2.closing {
            return;
        }
        self.with_parts(http2, |parts| {
            self.wake_informers(parts);
            for at in 0..parts.exchanges.len() {
                if *parts.answers == 0 || !self.has_room(parts.output) {
                    break;
                }
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                if exchange.ending.is_some() && !self.end_now(parts, stream) {
                    break;
                }
                let Some(exchange) = find(parts.exchanges, stream) else { continue };
                let Some(mut answer) = exchange.answer.take() else { continue };
                *parts.answers -= 1;
                if self.answer_now(parts, stream, &mut answer).is_err()
                    && let Some(exchange) = find(parts.exchanges, stream)
                {
                    exchange.answer = Some(answer);
                    *parts.answers += 1;
                    break;
                }
                user_code::drop_later(::core::mem::take(answer.body_mut()));
            }
            while self.has_room(parts.output) && !*parts.closing {
                let Some(stream) = parts.codec.next_to_send(&parts.storage) else { break };
                if !self.put_data(parts, stream) {
                    break;
                }
            }
        });
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// There is no room for it, not even to have it wait: it may be given once more.
    pub(super) fn answer_stream(
        &self,
        parts: &mut Parts<'_>,
        stream: StreamKey,
        response: &mut Response,
    ) -> Result<(), OverBudget> {
        let Some(exchange) = find(parts.exchanges, stream) else { return Ok(()) };
        (exchange.running, exchange.handler) = (false, None);
        if self.has_room(parts.output) || response.kind() == ResponseKind::Streamed {
            if let Some(status) = exchange.status.take() {
                self.log_exchange(exchange, status);
            }
            let Err(over) = self.answer_now(parts, stream, response) else { return Ok(()) };
            if let Some(exchange) = find(parts.exchanges, stream) {
                exchange.running = true;
            }
            return Err(over);
        }
        let waiting = ::core::mem::replace(response, Response::streamed());
        match self.pool.try_boxed(waiting, Kind::Codec) {
            Ok(answer) => {
                (exchange.answer, exchange.begun_at) = (Some(answer), None);
                *parts.answers += 1;
                Ok(())
            }
            Err((over, waiting)) => {
                (*response, exchange.running) = (waiting, true);
                // Its handler waits in line, and is woken from there.
                parts.hunger.note_over(Priority::Output, &over);
                Err(over)
            }
        }
    }

    fn answer_now(&self, parts: &mut Parts<'_>, stream: StreamKey, response: &mut Response) -> Result<(), OverBudget> {
        let Some(exchange) = find(parts.exchanges, stream) else { return Ok(()) };
        let is_streamed = response.kind() == ResponseKind::Streamed;
        if exchange.is_reset || is_streamed && (exchange.finished || exchange.held) {
            self.end_if_done(parts, stream);
            return Ok(());
        }
        if is_streamed || exchange.response != Outgoing::Head {
            // Cut short, or a second answer: the peer can only be told by a reset.
            if response.kind() == ResponseKind::Whole {
                self.warn_of_second(response.status().as_u16());
            }
            self.break_off(parts, stream, ErrorCode::InternalError);
            return Ok(());
        }
        let length = response.length();
        match self.put_answer(parts, stream, response, length) {
            Ok(()) | Err(Error::Gone) => {}
            Err(Error::OverBudget(over)) => return Err(over),
            Err(error) => {
                tracing::error!(%error, "a response could not be written");
                self.fail_stream(parts, stream, error.into_response().status());
                return Ok(());
            }
        }
        if let Some(exchange) = find(parts.exchanges, stream) {
            exchange.begun_at = None;
        }
        self.end_if_done(parts, stream);
        Ok(())
    }

    /// Answers with an error, if no answer was begun; else the stream is reset.
    pub(super) fn fail_stream(&self, parts: &mut Parts<'_>, stream: StreamKey, failure: impl Into<Failure>) {
        self.fail_or_reset(parts, stream, failure.into(), ErrorCode::InternalError);
    }

    /// Answers 503 to a request whose handler never ran. Without room for that the stream is refused: the client may
    /// send it again.
    pub(super) fn refuse_stream(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        self.fail_or_reset(parts, stream, Failure::NO_ROOM, ErrorCode::RefusedStream);
    }

    fn fail_or_reset(&self, parts: &mut Parts<'_>, stream: StreamKey, failure: Failure, code: ErrorCode) {
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        exchange.running = false;
        let is_due = exchange.response == Outgoing::Head && !exchange.is_reset && !*parts.closing;
        if is_due && self.put_failure(parts, stream, failure).is_ok() {
            return self.end_if_done(parts, stream);
        }
        self.break_off(parts, stream, code);
    }

    /// Writes an answer of the server's own: with its line if that leaves at once, which no window and no memory is
    /// waited for, else without.
    fn put_failure(&self, parts: &mut Parts<'_>, stream: StreamKey, failure: Failure) -> Result<(), Error> {
        let bytes = failure.line.len();
        let mut whole = Response::from(failure);
        let room = head_bytes_max(whole.fields()) + FRAME_HEADER_BYTES + bytes;
        if parts.codec.data_room(stream, bytes, &parts.storage) == bytes
            && parts.output.reserve(&self.pool, room).is_ok()
        {
            let length = whole.length();
            return self.put_answer(parts, stream, &mut whole, length);
        }
        self.put_answer(parts, stream, &mut whole.body(Body::Empty), BodyLength::Empty)
    }

    /// Resets a stream whose handler is gone, and frees its slot. Without room to say so, the peer is told later.
    pub(super) fn break_off(&self, parts: &mut Parts<'_>, stream: StreamKey, code: ErrorCode) {
        if make(parts.output, parts.hunger, self, END_BYTES_MAX).is_err() {
            return self.end_later(parts, stream, Ending::Reset(code));
        }
        let mut out = Growing(parts.output, &self.pool);
        if parts.codec.reset(stream, code, &mut parts.storage, &mut out).is_err() {
            *parts.closing = true;
        }
        self.free(parts, stream);
    }

    /// Frees the slot of a stream that nobody works on any more and whose answer is complete. What is still to come of
    /// its request is taken and dropped for a while before: a reset could overtake the answer at the peer.
    pub(super) fn end_if_done(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        let is_answered =
            exchange.response == Outgoing::Complete || exchange.held && exchange.response != Outgoing::Head;
        if !exchange.running && is_answered {
            parts.answered.add(&mut exchange.course, self.counters());
        }
        let is_held = exchange.running || exchange.held;
        if is_held || !exchange.is_reset && exchange.response != Outgoing::Complete {
            return;
        }
        if matches!(exchange.request, Incoming::Done | Incoming::Gone) || exchange.is_reset {
            return self.free(parts, stream);
        }
        if exchange.drain_until.is_none() {
            exchange.drain_until = Some(plimsoll_runtime::now() + self.config.linger_timeout);
            exchange.patience.pause(plimsoll_runtime::now());
            if let Some(unread) = exchange.received.take() {
                self.drop_data(parts, stream, unread.len());
            }
        }
    }

    /// Gives bytes back to the peer that nobody reads. After too many of them the peer is asked to stop.
    pub(super) fn drop_data(&self, parts: &mut Parts<'_>, stream: StreamKey, bytes: usize) {
        self.release(parts, stream, bytes);
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        exchange.dropped_bytes = exchange.dropped_bytes.saturating_add(bytes as u32);
        if exchange.dropped_bytes > self.config.drain_bytes_max && exchange.response == Outgoing::Complete {
            self.free(parts, stream);
        }
    }

    /// Bytes of a request's body are not in memory any more.
    pub(super) fn release(&self, parts: &mut Parts<'_>, stream: StreamKey, bytes: usize) {
        if parts.output.reserve(&self.pool, UPDATE_BYTES_MAX).is_err() {
            parts.untold.windows = true;
            return parts.codec.release_deferred(stream, bytes, &mut parts.storage);
        }
        let mut out = Growing(parts.output, &self.pool);
        if parts.codec.release(stream, bytes, &mut parts.storage, &mut out).is_err() {
            *parts.closing = true;
        }
    }

    pub(super) fn free(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        if make(parts.output, parts.hunger, self, END_BYTES_MAX).is_err() {
            return self.end_later(parts, stream, Ending::Free);
        }
        if let Some(exchange) = find(parts.exchanges, stream) {
            if let Some(status) = exchange.status.take() {
                self.log_exchange(exchange, status);
            }
            exchange.wake();
            *parts.answers -= u16::from(exchange.answer.is_some()) + u16::from(exchange.ending.is_some());
            let over = parts.exchanges[usize::from(stream.slot)].take();
            if let Some(mut over) = over {
                if over.waiting.is_some() {
                    self.wait_no_more(&mut over);
                }
                parts.answered.add(&mut over.course, self.counters());
                shrink_window(parts.codec, &mut over);
                self.judge(parts, over.dropped_bytes);
                over.clear();
                self.h2_spare.set(Some(over));
            }
        }
        let mut out = Growing(parts.output, &self.pool);
        if parts.codec.forget(stream, &mut parts.storage, &mut out).is_err() {
            *parts.closing = true;
        }
    }

    /// Long bodies that no handler wants are legal each time.
    fn judge(&self, parts: &mut Parts<'_>, dropped_bytes: u32) {
        if dropped_bytes <= UNWANTED_BYTES_FREE {
            return parts.score.forgive(COMPLETED_POINTS);
        }
        let ends = match parts.score.add(unwanted_points(dropped_bytes)) {
            Verdict::Tolerated => return,
            Verdict::GoAway => parts.codec.shutdown_finish(&mut Growing(parts.output, &self.pool)).is_err(),
            Verdict::Close => {
                self.counters().shed(Shed::Misbehaviour);
                true
            }
        };
        *parts.closing |= ends;
    }

    pub(super) fn log_exchange(&self, exchange: &mut Exchange, status: StatusCode) {
        if let Some(line) = exchange.line.take() {
            self.log_line(&line, status, exchange.sent_bytes, exchange.peer);
        }
    }
}
