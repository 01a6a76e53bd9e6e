//! What goes out: heads of answers, bodies as far as windows and room allow, and the ends of streams.

use http::{StatusCode, Version};
use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::{BodyLength, BodyOut, Full, ResponseHead, Sink};
use plimsoll_codec::h2::{ErrorCode, FRAME_HEADER_BYTES, StreamKey, block_bytes_max, head_bytes_max};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Kind, OverBudget, Pool};

use super::no_room::make;
use super::shared::{ENCODING_BYTES, Env, Scratch};
use super::streams::{Exchange, Outgoing, find};
use super::{Http2, Parts};
use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::failure::Failure;
use crate::exchange::min_rate::moved_on;
use crate::exchange::output::Output;
use crate::exchange::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::exchange::user_code::{self, UserBody};

/// An output that makes its room in the pool as it goes. It is full at the memory line.
pub(super) struct Growing<'a>(pub(super) &'a mut Output, pub(super) &'a Pool);

impl Sink for Growing<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.0.append(self.1, bytes).map_err(|_| Full)
    }
}

/// Bodies up to this size are gathered with their heads.
const WHOLE_BYTES_MAX: usize = 1_024;

impl Http2 {
    /// Runs `act` with the scratch memory for what goes out.
    pub(super) fn with_parts<R>(&mut self, env: Env<'_>, act: impl FnOnce(&mut Parts<'_>) -> R) -> R {
        let mut scratch = env.shared.scratch.borrow_mut();
        let Scratch { encoding, unused, .. } = &mut *scratch;
        let bytes = encoding.as_mut().map_or(&mut [][..], |lease| lease.as_mut_slice());
        act(&mut self.split(env, bytes, &mut [], unused))
    }

    /// Sends what waits: answers, then bodies in the order of their priorities.
    pub(super) fn pump(&mut self, env: Env<'_>) {
        if self.codec.live_streams() > 0 && self.phase.is_open() {
            self.with_parts(env, |parts| parts.pump());
        }
    }
}

impl Env<'_> {
    /// Whether more may be gathered for the socket.
    pub(super) fn has_room(self, output: &Output) -> bool {
        output.gathered_bytes() < self.config.output_bytes_max
    }

    pub(super) fn log_exchange(self, exchange: &mut Exchange, status: StatusCode) {
        if let (Some(log), Some(line)) = (&self.log, exchange.line.take()) {
            log.write_line(&line, status, exchange.sent_bytes, exchange.peer);
        }
    }
}

impl Parts<'_> {
    /// Writes an answer's head, and its body as far as that goes at once. Without room for it nothing is done:
    /// [`Error::OverBudget`].
    pub(super) fn put_answer(
        &mut self,
        stream: StreamKey,
        response: &mut Response,
        length: BodyLength,
    ) -> Result<(), Error> {
        let Some(exchange) = find(self.exchanges, stream) else { return Err(Error::Disconnected) };
        let date = self.env.date();
        let head = ResponseHead::new(&exchange.method, Version::HTTP_2, response.status(), length)?.date(&date);
        let ends = head.body() == BodyOut::None;
        let text_bytes = if ends { 0 } else { response.body_bytes() };
        let gathered = self.output.gathered_bytes();
        let fits = text_bytes <= WHOLE_BYTES_MAX && gathered + text_bytes <= self.env.config.output_bytes_max;
        let fields = response.fields();
        if block_bytes_max(fields) > ENCODING_BYTES - FRAME_HEADER_BYTES {
            return Err(Error::Misuse(Misuse::FieldsTooLong));
        }
        // Room first: what was encoded cannot be taken back, as the peer's table of HPACK would not be ours any more.
        let with_text = if fits { FRAME_HEADER_BYTES + text_bytes } else { 0 };
        make(self.output, self.need, self.env, head_bytes_max(fields) + with_text)?;
        let head = head.fields(response.fields());
        let text = if ends { &[] } else { response.body_slice() };
        let mut out = Growing(self.output, &self.env.pool);
        // Small bodies go out with their heads.
        let put = match fits {
            true => self.codec.put_whole(stream, &head, text, &mut self.storage, &mut out),
            false => Ok(false),
        };
        let put = match put {
            Ok(false) => self.codec.put_response(stream, &head, ends, &mut self.storage, &mut out).map(|()| false),
            whole => whole,
        };
        let is_whole = match put {
            Ok(is_whole) => is_whole,
            Err(CodecError::StreamClosed) => return Err(Error::Disconnected),
            Err(error) => {
                debug_assert!(false, "room was made: {error}");
                self.phase.close();
                return Err(error.into());
            }
        };
        self.env.counters().response(response.status().as_u16());
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
            self.env.log_exchange(exchange, response.status());
            return Ok(());
        }
        exchange.response = Outgoing::Body;
        if body_bytes == 0 {
            // Streamed: how long it is is known at its end.
            exchange.status = Some(response.status());
            return Ok(());
        }
        self.env.log_exchange(exchange, response.status());
        (exchange.body, exchange.finished) = (::core::mem::take(response.body_mut()).into(), true);
        self.put_body(stream);
        Ok(())
    }

    /// Sends a body that fits one frame at once, while nobody else waits; else it waits for its turn.
    pub(super) fn put_body(&mut self, stream: StreamKey) {
        let Some(exchange) = find(self.exchanges, stream) else { return };
        let bytes = exchange.rest().len();
        let fits = self.codec.data_room(stream, bytes, &self.storage) == bytes
            && self.output.gathered_bytes() + bytes <= self.env.config.output_bytes_max;
        self.codec.set_waiting(stream, true, &mut self.storage);
        if fits && self.codec.next_to_send(&self.storage) == Some(stream) {
            self.put_data(stream);
        }
    }

    /// Sends one frame of a stream's body. `false` when there was no room.
    fn put_data(&mut self, stream: StreamKey) -> bool {
        let Some(exchange) = find(self.exchanges, stream) else {
            self.codec.set_waiting(stream, false, &mut self.storage);
            return true;
        };
        let rest = exchange.rest().len();
        let room = self.env.config.output_bytes_max.saturating_sub(self.output.gathered_bytes());
        let bytes = self.codec.data_room(stream, rest.min(room), &self.storage);
        if bytes == 0 && rest > 0 {
            return false;
        }
        if make(self.output, self.need, self.env, FRAME_HEADER_BYTES + bytes).is_err() {
            return false;
        }
        let ends = exchange.finished && bytes == rest;
        let put = self.codec.put_data_header(stream, bytes, ends, &mut self.storage, self.output);
        if put.is_err() {
            debug_assert!(false, "the stream may send so much, and room was made: {put:?}");
            self.phase.close();
            return false;
        }
        self.output.push(&exchange.rest()[..bytes]);
        exchange.body_sent += bytes;
        for since in [&mut exchange.blocked_since, &mut *self.stalled] {
            *since = since.map(|since| {
                moved_on(since, bytes, self.env.config.body_bytes_per_second_min, plimsoll_runtime::now())
            });
        }
        if exchange.rest().is_empty() {
            (exchange.body, exchange.body_sent, exchange.blocked_since) = (UserBody::default(), 0, None);
            self.codec.set_waiting(stream, false, &mut self.storage);
            if let Some(writer) = exchange.writer.take() {
                writer.wake();
            }
        }
        if ends {
            exchange.response = Outgoing::Complete;
            self.end_if_done(stream);
        }
        true
    }

    fn pump(&mut self) {
        self.wake_informers();
        for at in 0..self.exchanges.len() {
            if *self.answers == 0 || !self.env.has_room(self.output) {
                break;
            }
            let Some(exchange) = self.exchanges[at].as_deref_mut() else { continue };
            let stream = StreamKey { slot: at as u16, id: exchange.id };
            if exchange.ending.is_some() && !self.end_now(stream) {
                break;
            }
            let Some(exchange) = find(self.exchanges, stream) else { continue };
            let Some(mut answer) = exchange.answer.take() else { continue };
            *self.answers -= 1;
            if self.answer_now(stream, &mut answer).is_err()
                && let Some(exchange) = find(self.exchanges, stream)
            {
                exchange.answer = Some(answer);
                *self.answers += 1;
                break;
            }
            user_code::drop_later(::core::mem::take(answer.body_mut()));
        }
        while self.env.has_room(self.output) && self.phase.is_open() {
            let Some(stream) = self.codec.next_to_send(&self.storage) else { break };
            if !self.put_data(stream) {
                break;
            }
        }
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// There is no room for it, not even to have it wait: it may be given once more.
    pub(super) fn answer_stream(&mut self, stream: StreamKey, response: &mut Response) -> Result<(), OverBudget> {
        let Some(exchange) = find(self.exchanges, stream) else { return Ok(()) };
        exchange.stage.leave_handler();
        exchange.handler = None;
        if self.env.has_room(self.output) || response.kind() == ResponseKind::Streamed {
            if let Some(status) = exchange.status.take() {
                self.env.log_exchange(exchange, status);
            }
            let Err(over) = self.answer_now(stream, response) else { return Ok(()) };
            if let Some(exchange) = find(self.exchanges, stream) {
                exchange.stage.keep_handler();
            }
            return Err(over);
        }
        let waiting = ::core::mem::replace(response, Response::streamed());
        match self.env.pool.try_boxed(waiting, Kind::Codec) {
            Ok(answer) => {
                (exchange.answer, exchange.begun_at) = (Some(answer), None);
                *self.answers += 1;
                Ok(())
            }
            Err((over, waiting)) => {
                *response = waiting;
                exchange.stage.keep_handler();
                // Its handler waits in line, and is woken from there.
                self.need.note_over(Priority::Output, &over);
                Err(over)
            }
        }
    }

    fn answer_now(&mut self, stream: StreamKey, response: &mut Response) -> Result<(), OverBudget> {
        let Some(exchange) = find(self.exchanges, stream) else { return Ok(()) };
        let is_streamed = response.kind() == ResponseKind::Streamed;
        if exchange.response == Outgoing::Reset || is_streamed && (exchange.finished || exchange.stage.is_tunnel()) {
            self.end_if_done(stream);
            return Ok(());
        }
        if is_streamed || exchange.response != Outgoing::Head {
            // Cut short, or a second answer: the peer can only be told by a reset.
            if !is_streamed {
                self.env.warn_of_second(response.status().as_u16());
            }
            self.break_off(stream, ErrorCode::InternalError);
            return Ok(());
        }
        let length = response.length();
        match self.put_answer(stream, response, length) {
            Ok(()) | Err(Error::Disconnected) => {}
            Err(Error::OverBudget(over)) => return Err(over),
            Err(error) => {
                tracing::error!(%error, "a response could not be written");
                self.fail_stream(stream, error.into_response().status());
                return Ok(());
            }
        }
        if let Some(exchange) = find(self.exchanges, stream) {
            exchange.begun_at = None;
        }
        self.end_if_done(stream);
        Ok(())
    }

    /// Answers with an error, if no answer was begun; else the stream is reset.
    pub(super) fn fail_stream(&mut self, stream: StreamKey, failure: impl Into<Failure>) {
        self.fail_or_reset(stream, failure.into(), ErrorCode::InternalError);
    }

    /// Answers 503 to a request whose handler never ran. Without room for that the stream is refused: the client may
    /// send it again.
    pub(super) fn refuse_stream(&mut self, stream: StreamKey) {
        self.fail_or_reset(stream, Failure::NO_ROOM, ErrorCode::RefusedStream);
    }

    fn fail_or_reset(&mut self, stream: StreamKey, failure: Failure, code: ErrorCode) {
        let Some(exchange) = find(self.exchanges, stream) else { return };
        exchange.stage.leave_handler();
        let is_due = exchange.response == Outgoing::Head && self.phase.is_open();
        if is_due && self.put_failure(stream, failure).is_ok() {
            return self.end_if_done(stream);
        }
        self.break_off(stream, code);
    }

    /// Writes an answer of the server's own: with its line if that leaves at once, which no window and no memory is
    /// waited for, else without.
    fn put_failure(&mut self, stream: StreamKey, failure: Failure) -> Result<(), Error> {
        let bytes = failure.line.len();
        let mut whole = Response::from(failure);
        let room = head_bytes_max(whole.fields()) + FRAME_HEADER_BYTES + bytes;
        if self.codec.data_room(stream, bytes, &self.storage) == bytes
            && self.output.reserve(&self.env.pool, room).is_ok()
        {
            let length = whole.length();
            return self.put_answer(stream, &mut whole, length);
        }
        self.put_answer(stream, &mut whole.body(Body::Empty), BodyLength::Empty)
    }
}
