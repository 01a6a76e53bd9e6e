//! Answers of HTTP/1.1 as they are written to the output: a handler's, and those of the server itself.

use ::core::net::SocketAddr;

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::{
    self, BodyEncoder, BodyLength, BodyOut, Fields, Persistence, RequestState, ResponseHead, ResponseState,
};
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::base::access_record::{AccessRecord, LogHook};
use crate::base::config::HalfClose;
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
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

impl Desk {
    /// Has the engine look after a connection, unless it does so anyway.
    pub(crate) fn list(&self, key: Key, active: &mut Active) {
        if active.look != Look::Listed && self.enlist(key) {
            active.look = Look::Listed;
        }
    }

    /// Whether a peer that has ended its half gets the answer that is worked on: one that was begun it always gets.
    pub(crate) fn outlasts_half_close(&self, active: &Active) -> bool {
        self.config.half_close == HalfClose::Answered || active.has_begun_answer()
    }

    /// Answers 503 to a request that was not begun, from the answer reserve if there is no other room.
    pub(crate) fn refuse(&self, line: &mut impl Line, key: Key, active: &mut Active) -> Result<(), Error> {
        let date = self.date();
        let Failure { status, line: text } = Failure::NO_ROOM;
        let text_and_retry = TEXT_AND_RETRY[key.index() as usize % TEXT_AND_RETRY.len()];
        let head = ResponseHead::new(&active.method, active.version, status, BodyLength::Known(text.len() as u64))?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(Fields::assume_checked(text_and_retry));
        let is_lent = match active.output.reserve(&self.pool, HEAD_BYTES_MAX + text_and_retry.len() + text.len()) {
            Ok(()) => false,
            Err(over) => {
                let lease = self.reserve_for(line, active).ok_or(over)?;
                active.output.lend(lease);
                true
            }
        };
        active.exchange.head_sent(&head)?;
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        self.counters().response(status.as_u16());
        let body = if head.body() == BodyOut::None { &[] } else { text.as_bytes() };
        self.log(active, status, body.len() as u64);
        if !body.is_empty() {
            active.output.push(body);
            active.exchange.body_sent()?;
        }
        if is_lent && let Some(lease) = line.send_lent(&mut active.output) {
            self.reserve.put_back(lease);
        }
        Ok(())
    }

    /// Writes a response, whole or only its head. One that finds no room is left as it is.
    pub(crate) fn write(&self, active: &mut Active, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let date = self.date();
        if active.exchange.request() == RequestState::Body && !self.will_drain(active, response.length() == length) {
            active.exchange.close_after();
        }
        let head = ResponseHead::new(&active.method, active.version, response.status(), length)?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(response.fields());
        let body_bytes = if head.body() == BodyOut::None { 0 } else { response.body_bytes() };
        let copied = if body_bytes <= COPY_BYTES_MAX { body_bytes } else { 0 };
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + response.fields().as_bytes().len() + copied)?;
        active.exchange.head_sent(&head)?;
        active.output.begin_answer();
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        if body_bytes == 0 && active.exchange.response() == ResponseState::Body {
            // Streamed: how long it is is known at its end.
            (active.status, active.uncounted) = (Some(response.status()), Some(response.status()));
            return Ok(());
        }
        self.counters().response(response.status().as_u16());
        self.log(active, response.status(), body_bytes as u64);
        if body_bytes == 0 {
            return Ok(());
        }
        active.sent_bytes = body_bytes as u64;
        match copied {
            0 => active.output.follow(::core::mem::take(response.body_mut())),
            _ => active.output.push(response.body_slice()),
        }
        active.exchange.body_sent()?;
        Ok(())
    }

    fn log(&self, active: &mut Active, status: StatusCode, body_bytes: u64) {
        if let (Some(log), Some(line)) = (&self.log, active.line.take()) {
            write_line(log, &line, status, body_bytes, active.peer);
        }
    }

    /// Writes a line of the access log.
    pub(crate) fn log_line(&self, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
        if let Some(log) = &self.log {
            write_line(log, line, status, body_bytes, peer);
        }
    }

    /// Writes the line of a streamed answer that is over, complete or not.
    pub(crate) fn log_streamed(&self, active: &mut Active) {
        self.count_begun(active);
        if let Some(status) = active.status.take() {
            self.log(active, status, active.sent_bytes);
        }
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when there is no room for it: nothing has been done, and it may be given once more.
    pub(crate) fn answer(&self, active: &mut Active, response: &mut Response) -> Result<(), OverBudget> {
        let is_due = matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
        if !active.is_closing() && response.kind() == ResponseKind::Whole && is_due {
            if let Some(error) = active.malformed_for(response.status()) {
                active.handler = None;
                self.fail(active, error.status());
                return Ok(());
            }
            let length = response.length();
            match self.write(active, response, length) {
                Ok(()) => {}
                Err(Error::OverBudget(over)) => return Err(over),
                Err(error) => {
                    tracing::error!(%error, "a response could not be written");
                    self.fail(active, error.into_response().status());
                }
            }
            active.handler = None;
            return Ok(());
        }
        active.handler = None;
        let is_whole = response.kind() == ResponseKind::Whole;
        // What another goes on with is not cut short.
        let is_cut_short = active.exchange.response() == ResponseState::Body && active.successor.is_none();
        if !active.is_closing()
            && is_cut_short
            && let Some(error) = active.decoder.failure()
        {
            self.fail(active, error.status());
        }
        self.log_streamed(active);
        if !active.is_closing() && (is_whole || is_cut_short) {
            // A second answer, or one that is cut short: the peer can only be told by closing.
            if response.kind() == ResponseKind::Whole {
                self.warn_of_second(response.status().as_u16());
            }
            self.abandon(active);
        }
        Ok(())
    }

    /// The answer of a handler found no room, and cannot wait for it.
    pub(crate) fn answer_no_room(&self, active: &mut Active, over: OverBudget) {
        active.handler = None;
        active.course.note(ExchangeEnd::Overstay);
        self.shed_for_room(Shed::Output);
        tracing::debug!(%over, "a response found no room");
        self.fail(active, Failure::NO_ROOM);
    }

    /// Answers with an error in static bytes, if nothing of an answer has left, and closes afterwards.
    pub(crate) fn fail(&self, active: &mut Active, failure: impl Into<Failure>) {
        let has_left = match active.exchange.response() {
            ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue => false,
            ResponseState::Body => active.is_closing() || !self.take_back(active),
            ResponseState::Done | ResponseState::Upgraded => true,
        };
        if has_left || active.is_closing() || active.output.has_tail() {
            return self.abandon(active);
        }
        let failure = failure.into();
        self.counters().response(failure.status.as_u16());
        let sent_bytes = match self.write_failure(active, failure) {
            Ok(bytes) => bytes,
            Err(_) => {
                active.output.follow(Body::Static(h1::error_response(&active.method, failure.status)));
                if active.method == Method::HEAD { 0 } else { h1::error_line(failure.status).len() as u64 }
            }
        };
        self.log(active, failure.status, sent_bytes);
        active.phase = Phase::Closing;
    }

    /// Takes a streamed answer back that was begun, and of which nothing has left; whether it could be.
    fn take_back(&self, active: &mut Active) -> bool {
        let is_back = active.output.take_back();
        if is_back {
            (active.status, active.uncounted) = (None, None);
        }
        is_back
    }

    /// Counts a streamed answer that was begun, as it is not taken back any more: a counter never falls.
    pub(crate) fn count_begun(&self, active: &mut Active) {
        if let Some(status) = active.uncounted.take() {
            self.counters().response(status.as_u16());
        }
    }

    /// An answer that closes the connection, and how many bytes its body has.
    fn write_failure(&self, active: &mut Active, Failure { status, line }: Failure) -> Result<u64, Error> {
        let date = self.date();
        let length = BodyLength::Known(line.len() as u64);
        let head = ResponseHead::new(&active.method, Version::HTTP_11, status, length)?;
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + TEXT_AND_RETRY[0].len() + line.len())?;
        let fields = if status == StatusCode::SERVICE_UNAVAILABLE { TEXT_AND_RETRY[0] } else { TEXT };
        let fields = Fields::assume_checked(fields);
        head.persistence(Persistence::Close).date(&date).fields(fields).encode(&mut active.output)?;
        if head.body() == BodyOut::None {
            return Ok(0);
        }
        active.output.push(line.as_bytes());
        Ok(line.len() as u64)
    }

    /// The answer cannot be completed: what was gathered may still leave, then the connection is closed.
    pub(crate) fn abandon(&self, active: &mut Active) {
        active.phase = Phase::Closing;
    }

    /// Appends a piece of an answer's body, and takes it: all of it or nothing.
    pub(crate) fn put_piece(&self, active: &mut Active, body: &mut Body) -> Result<(), Error> {
        let bytes = body.as_slice().len() as u64;
        let mut encoder = active.body;
        let frame = encoder.piece(bytes).map_err(|error| match error {
            plimsoll_codec::Error::BodyTooLong => Error::Misuse("more bytes than were announced"),
            _ => Error::Misuse("this answer has no body"),
        })?;
        active.output.append_piece(&self.pool, frame.before(), body, frame.after())?;
        // A piece that found no room was not sent.
        active.body = encoder;
        active.sent_bytes += bytes;
        Ok(())
    }
}

fn write_line(log: &LogHook, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
    let unix_seconds = plimsoll_runtime::unix_seconds();
    log.write(&AccessRecord { request_line: line, status, body_bytes, unix_seconds, peer });
}
