//! Answers of HTTP/1.1 as they are written to the output: a handler's, and those of the server itself.

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::{
    self, BodyEncoder, BodyLength, BodyOut, Fields, Persistence, RequestState, ResponseHead, ResponseState,
};
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::base::config::HalfClose;
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::misuse::Misuse;
use crate::exchange::failure::Failure;
use crate::exchange::line::Line;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::h1::active::{Active, Look, Phase};
use crate::memory::desk::Desk;

/// The most that a head takes beside the program's own fields: status line, Date, Content-Length or Transfer-Encoding,
/// Connection.
const HEAD_BYTES_MAX: usize = 224;

/// What an answer of the server's own says besides, and a 503.
const TEXT: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";
/// Not the same to all, so that they do not come again together.
const TEXT_AND_RETRY: [&[u8]; 3] = [
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 2\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 3\r\n",
];

impl Active {
    /// Has the engine look after a connection, unless it does so anyway.
    pub(crate) fn list(&mut self, desk: &Desk, key: Key) {
        if self.look != Look::Listed && desk.enlist(key) {
            self.look = Look::Listed;
        }
    }

    /// Whether a peer that has ended its half gets the answer that is worked on: one that was begun it always gets.
    pub(crate) fn outlasts_half_close(&self, desk: &Desk) -> bool {
        desk.config.half_close == HalfClose::Answered || self.has_begun_answer()
    }

    /// Answers 503 to a request that was not begun, from the answer reserve if there is no other room.
    pub(crate) fn answer_refusal(&mut self, desk: &Desk, line: &mut impl Line, key: Key) -> Result<(), Error> {
        let date = desk.date();
        let Failure { status, line: text } = Failure::NO_ROOM;
        let text_and_retry = TEXT_AND_RETRY[key.index() as usize % TEXT_AND_RETRY.len()];
        let head = ResponseHead::new(&self.method, self.version, status, BodyLength::Known(text.len() as u64))?
            .persistence(self.exchange.persistence())
            .date(&date)
            .fields(Fields::assume_checked(text_and_retry));
        let is_lent = match self.output.reserve(&desk.pool, HEAD_BYTES_MAX + text_and_retry.len() + text.len()) {
            Ok(()) => false,
            Err(over) => {
                let lease = self.reserve_for(desk, line).ok_or(over)?;
                self.output.lend(lease);
                true
            }
        };
        self.exchange.head_sent(&head)?;
        head.encode(&mut self.output)?;
        self.body = BodyEncoder::new(head.body());
        desk.counters().response(status.as_u16());
        let body = if head.body() == BodyOut::None { &[] } else { text.as_bytes() };
        self.log(desk, status, body.len() as u64);
        if !body.is_empty() {
            self.output.push(body);
            self.exchange.body_sent()?;
        }
        if is_lent && let Some(lease) = line.send_lent(&mut self.output) {
            desk.reserve.put_back(lease);
        }
        Ok(())
    }

    /// Writes a response, whole or only its head. One that finds no room is left as it is.
    pub(crate) fn write(&mut self, desk: &Desk, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let date = desk.date();
        if self.exchange.request() == RequestState::Body && !self.will_drain(desk, response.length() == length) {
            self.exchange.close_after();
        }
        let head = ResponseHead::new(&self.method, self.version, response.status(), length)?
            .persistence(self.exchange.persistence())
            .date(&date)
            .fields(response.fields());
        let body_bytes = if head.body() == BodyOut::None { 0 } else { response.body_bytes() };
        let copied = if body_bytes <= COPY_BYTES_MAX { body_bytes } else { 0 };
        self.output.reserve(&desk.pool, HEAD_BYTES_MAX + response.fields().as_bytes().len() + copied)?;
        self.exchange.head_sent(&head)?;
        self.output.begin_answer();
        head.encode(&mut self.output)?;
        self.body = BodyEncoder::new(head.body());
        if body_bytes == 0 && self.exchange.response() == ResponseState::Body {
            // Streamed: how long it is is known at its end.
            (self.status, self.uncounted) = (Some(response.status()), Some(response.status()));
            return Ok(());
        }
        desk.counters().response(response.status().as_u16());
        self.log(desk, response.status(), body_bytes as u64);
        if body_bytes == 0 {
            return Ok(());
        }
        self.sent_bytes = body_bytes as u64;
        match copied {
            0 => self.output.follow(::core::mem::take(response.body_mut())),
            _ => self.output.push(response.body_slice()),
        }
        self.exchange.body_sent()?;
        Ok(())
    }

    #[inline]
    fn log(&mut self, desk: &Desk, status: StatusCode, body_bytes: u64) {
        if let (Some(log), Some(line)) = (&desk.log, self.line.take()) {
            log.write_line(&line, status, body_bytes, self.peer);
        }
    }

    /// Writes the line of a streamed answer that is over, complete or not.
    pub(crate) fn log_streamed(&mut self, desk: &Desk) {
        self.count_begun(desk);
        if let Some(status) = self.status.take() {
            self.log(desk, status, self.sent_bytes);
        }
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when there is no room for it: nothing has been done, and it may be given once more.
    pub(crate) fn answer(&mut self, desk: &Desk, response: &mut Response) -> Result<(), OverBudget> {
        let is_due = matches!(self.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
        if !self.is_closing() && response.kind() != ResponseKind::Streamed && is_due {
            if let Some(error) = self.malformed_for(response.status()) {
                self.handler = None;
                self.fail(desk, error.status());
                return Ok(());
            }
            let length = response.length();
            match self.write(desk, response, length) {
                Ok(()) => {}
                Err(Error::OverBudget(over)) => return Err(over),
                Err(error) => {
                    tracing::error!(%error, "a response could not be written");
                    self.fail(desk, error.into_response().status());
                }
            }
            self.handler = None;
            return Ok(());
        }
        self.handler = None;
        let is_whole = response.kind() != ResponseKind::Streamed;
        // What another goes on with is not cut short.
        let is_cut_short = self.exchange.response() == ResponseState::Body && self.successor.is_none();
        if !self.is_closing()
            && is_cut_short
            && let Some(error) = self.decoder.failure()
        {
            self.fail(desk, error.status());
        }
        self.log_streamed(desk);
        if !self.is_closing() && (is_whole || is_cut_short) {
            // A second answer, or one that is cut short: the peer can only be told by closing.
            if is_whole {
                desk.warn_of_second(response.status().as_u16());
            }
            self.abandon();
        }
        Ok(())
    }

    /// The answer of a handler found no room, and cannot wait for it.
    pub(crate) fn answer_no_room(&mut self, desk: &Desk, over: OverBudget) {
        self.handler = None;
        self.course.note(ExchangeEnd::Overstay);
        desk.shed_for_room(Shed::Output);
        tracing::debug!(%over, "a response found no room");
        self.fail(desk, Failure::NO_ROOM);
    }

    /// Answers with an error in static bytes, if nothing of an answer has left, and closes afterwards.
    pub(crate) fn fail(&mut self, desk: &Desk, failure: impl Into<Failure>) {
        let has_left = match self.exchange.response() {
            ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue => false,
            ResponseState::Body => self.is_closing() || !self.take_back(),
            ResponseState::Done | ResponseState::Upgraded => true,
        };
        if has_left || self.is_closing() || self.output.has_tail() {
            return self.abandon();
        }
        let failure = failure.into();
        desk.counters().response(failure.status.as_u16());
        let sent_bytes = match self.write_failure(desk, failure) {
            Ok(bytes) => bytes,
            Err(_) => {
                self.output.follow(Body::Static(h1::error_response(&self.method, failure.status)));
                if self.method == Method::HEAD { 0 } else { h1::error_line(failure.status).len() as u64 }
            }
        };
        self.log(desk, failure.status, sent_bytes);
        self.phase = Phase::Closing;
    }

    /// Takes a streamed answer back that was begun, and of which nothing has left; whether it could be.
    fn take_back(&mut self) -> bool {
        let is_back = self.output.take_back();
        if is_back {
            (self.status, self.uncounted) = (None, None);
        }
        is_back
    }

    /// Counts a streamed answer that was begun, as it is not taken back any more: a counter never falls.
    pub(crate) fn count_begun(&mut self, desk: &Desk) {
        if let Some(status) = self.uncounted.take() {
            desk.counters().response(status.as_u16());
        }
    }

    /// An answer that closes the connection, and how many bytes its body has.
    fn write_failure(&mut self, desk: &Desk, Failure { status, line }: Failure) -> Result<u64, Error> {
        let date = desk.date();
        let length = BodyLength::Known(line.len() as u64);
        let head = ResponseHead::new(&self.method, Version::HTTP_11, status, length)?;
        self.output.reserve(&desk.pool, HEAD_BYTES_MAX + TEXT_AND_RETRY[0].len() + line.len())?;
        let fields = if status == StatusCode::SERVICE_UNAVAILABLE { TEXT_AND_RETRY[0] } else { TEXT };
        let fields = Fields::assume_checked(fields);
        head.persistence(Persistence::Close).date(&date).fields(fields).encode(&mut self.output)?;
        if head.body() == BodyOut::None {
            return Ok(0);
        }
        self.output.push(line.as_bytes());
        Ok(line.len() as u64)
    }

    /// The answer cannot be completed: what was gathered may still leave, then the connection is closed.
    pub(crate) fn abandon(&mut self) {
        self.phase = Phase::Closing;
    }

    /// Appends a piece of an answer's body, and takes it: all of it or nothing.
    pub(crate) fn put_piece(&mut self, desk: &Desk, body: &mut Body) -> Result<(), Error> {
        let bytes = body.as_slice().len() as u64;
        let mut encoder = self.body;
        let frame = encoder.piece(bytes).map_err(|error| match error {
            plimsoll_codec::Error::BodyTooLong => Error::Misuse(Misuse::BodyTooLong),
            _ => Error::Misuse(Misuse::BodyNotAllowed),
        })?;
        self.output.append_piece(&desk.pool, frame.before(), body, frame.after())?;
        // A piece that found no room was not sent.
        self.body = encoder;
        self.sent_bytes += bytes;
        Ok(())
    }
}
