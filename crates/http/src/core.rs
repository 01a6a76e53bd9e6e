//! What the engine of a worker and the handlers it started share: the connection table and everything written to it.

use ::core::cell::{Cell, RefCell};
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::rc::Rc;

use http::{Method, StatusCode, Version};
use plimsoll_codec::date::{self, DATE_BYTES};
use plimsoll_codec::h1::{
    self, BodyEncoder, BodyEvent, BodyLength, BodyOut, Persistence, RequestState, ResponseHead, ResponseState,
};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool};
use plimsoll_slab::Key;

use crate::config::Config;
use crate::connection::{Active, Connection};
use crate::counters::{Counters, WorkerCounters};
use crate::error::Error;
use crate::output::COPY_BYTES_MAX;
use crate::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::server::{AccessLog, AccessRecord};

/// The most that a head takes beside the program's own fields: status line, Date, Content-Length or Transfer-Encoding, Connection.
const HEAD_BYTES_MAX: usize = 224;

/// What is gathered is one lease: this much, and another answer of the copied size with its fields.
const OUTPUT_BYTES_CEILING: usize = 64 * 1024;

/// The shared part of one worker's server.
pub(crate) struct Core {
    pub(crate) table: RefCell<Table<Connection>>,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    counters: Counters,
    worker: usize,
    /// Connections that a handler has changed and the engine must look after.
    listed: RefCell<VecDeque<Key>>,
    engine: RefCell<Option<Waker>>,
    /// The connection whose handler the engine is polling right now: it looks after it itself.
    current: Cell<Option<Key>>,
    date: Cell<(u64, [u8; DATE_BYTES])>,
    /// The runtime has been asked to stop; as of this turn.
    stopping: Cell<bool>,
    pub(crate) log: Option<AccessLog>,
}

impl Core {
    pub(crate) fn new(
        table: Table<Connection>,
        config: Config,
        counters: Counters,
        log: Option<AccessLog>,
    ) -> Rc<Self> {
        Rc::new(Self {
            table: RefCell::new(table),
            config: Config { output_bytes_max: config.output_bytes_max.min(OUTPUT_BYTES_CEILING), ..config },
            pool: plimsoll_runtime::pool(),
            counters,
            worker: plimsoll_runtime::worker_index(),
            listed: RefCell::default(),
            engine: RefCell::default(),
            current: Cell::new(None),
            date: Cell::new((0, date::format(0))),
            stopping: Cell::new(false),
            log,
        })
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counters.0[self.worker]
    }

    /// Whether the runtime has been asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Brings the Date field up to date; once a turn.
    pub(crate) fn tick(&self) {
        self.stopping.set(plimsoll_runtime::signal::is_stopping());
        let seconds = plimsoll_runtime::unix_seconds();
        if self.date.get().0 != seconds {
            self.date.set((seconds, date::format(seconds)));
        }
    }

    /// The same, for a handler that answers in a turn of its own.
    fn tick_for(&self, key: Key) {
        if self.current.get() != Some(key) {
            self.tick();
        }
    }

    /// Ready when a connection was listed.
    pub(crate) fn poll_listed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.listed.borrow().is_empty() {
            return Poll::Ready(());
        }
        let mut engine = self.engine.borrow_mut();
        if !engine.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *engine = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn next_listed(&self) -> Option<Key> {
        self.listed.borrow_mut().pop_front()
    }

    /// Has the engine look after a connection, unless it does so anyway.
    fn list(&self, key: Key, active: &mut Active) {
        if active.listed || self.current.get() == Some(key) {
            return;
        }
        active.listed = true;
        self.listed.borrow_mut().push_back(key);
        if let Some(waker) = self.engine.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Runs `poll` as the handler of a connection that the engine looks after itself.
    pub(crate) fn as_current<R>(&self, key: Key, poll: impl FnOnce() -> R) -> R {
        self.current.set(Some(key));
        let result = poll();
        self.current.set(None);
        result
    }

    /// Takes an active connection out of the table.
    pub(crate) fn take(&self, key: Key) -> Option<PoolBox<Active>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Active(active) => Some(active),
            other => {
                *connection = other;
                None
            }
        }
    }

    /// Puts a connection back.
    pub(crate) fn put(&self, key: Key, connection: Connection) {
        if let Some(place) = self.table.borrow_mut().get_mut(key) {
            *place = connection;
        }
    }

    /// Runs `act` on the exchange that a ticket is for, if it is still the one that is worked on.
    fn with<R>(&self, ticket: &Ticket, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        let mut table = self.table.borrow_mut();
        match table.get_mut(ticket.key)? {
            Connection::Active(active) if active.requests == ticket.number => Some(act(active)),
            _ => None,
        }
    }

    /// Writes a response, whole or only its head.
    pub(crate) fn write(&self, active: &mut Active, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let (_, date) = self.date.get();
        let body = ::core::mem::take(response.body_mut());
        let head = ResponseHead::new(&active.method, active.version, response.status(), length)?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(response.fields());
        let body_bytes = if head.body() == BodyOut::None { 0 } else { body.as_slice().len() };
        let copied = if body_bytes <= COPY_BYTES_MAX { body_bytes } else { 0 };
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + response.fields().as_bytes().len() + copied)?;
        active.exchange.head_sent(&head)?;
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        self.counters().response(response.status().as_u16());
        if body_bytes == 0 && active.exchange.response() == ResponseState::Body {
            // Streamed: how long it is is known at its end.
            active.status = Some(response.status());
            return Ok(());
        }
        self.log(active, response.status(), body_bytes as u64);
        if body_bytes == 0 {
            return Ok(());
        }
        active.sent_bytes = body_bytes as u64;
        match copied {
            0 => active.output.follow(body),
            _ => active.output.push(body.as_slice()),
        }
        active.exchange.body_sent()?;
        Ok(())
    }

    fn log(&self, active: &mut Active, status: StatusCode, body_bytes: u64) {
        if let (Some(log), Some(line)) = (&self.log, active.line.take()) {
            log.write(&AccessRecord {
                request_line: &line,
                status,
                body_bytes,
                unix_seconds: plimsoll_runtime::unix_seconds(),
                peer: active.peer,
            });
        }
    }

    /// Writes the line of a streamed answer that is over, complete or not.
    pub(crate) fn log_streamed(&self, active: &mut Active) {
        if let Some(status) = active.status.take() {
            self.log(active, status, active.sent_bytes);
        }
    }

    /// The answer of a handler, or the lack of it.
    fn answer(&self, active: &mut Active, mut response: Response) {
        active.handler = None;
        self.log_streamed(active);
        if active.closing {
            return;
        }
        if response.kind() == ResponseKind::Streamed {
            if active.exchange.response() == ResponseState::Body {
                self.abandon(active);
            }
            return;
        }
        if !matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue) {
            // A second answer: the peer can only be told by closing.
            return self.abandon(active);
        }
        let length = response.length();
        if let Err(error) = self.write(active, &mut response, length) {
            tracing::error!(%error, "a response could not be written");
            self.fail(active, error.into_response().status());
        }
    }

    /// Answers with an error in static bytes, if no answer was begun, and closes afterwards.
    pub(crate) fn fail(&self, active: &mut Active, status: StatusCode) {
        let begun = !matches!(
            active.exchange.response(),
            ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue
        );
        if begun || active.closing || active.output.has_tail() {
            return self.abandon(active);
        }
        self.counters().response(status.as_u16());
        self.log(active, status, 0);
        if self.write_error(active, status).is_err() {
            active.output.follow(Body::Static(h1::error_response(status)));
        }
        active.closing = true;
    }

    /// An answer without a body that closes the connection.
    fn write_error(&self, active: &mut Active, status: StatusCode) -> Result<(), Error> {
        let (_, date) = self.date.get();
        let head = ResponseHead::new(&Method::GET, Version::HTTP_11, status, BodyLength::Empty)?;
        active.output.reserve(&self.pool, HEAD_BYTES_MAX)?;
        head.persistence(Persistence::Close).date(&date).encode(&mut active.output)?;
        Ok(())
    }

    /// The answer cannot be completed: what was gathered may still leave, then the connection is closed.
    fn abandon(&self, active: &mut Active) {
        active.closing = true;
    }

    fn decode(&self, active: &mut Active) -> Result<Decoded, Error> {
        loop {
            if active.exchange.request() == RequestState::Done {
                return Ok(Decoded::End);
            }
            if active.exchange.request() != RequestState::Body {
                // What broke the body is told again; a peer that was too slow broke nothing.
                return Err(active.decoder.failure().map_or(Error::Gone, Error::Peer));
            }
            let Some(mut input) = active.input.take() else { return Ok(Decoded::NeedMore) };
            active.exchange.body_started();
            let decoded = match active.decoder.decode(&input) {
                Ok(decoded) => decoded,
                Err(error) => {
                    let _failed_before = active.exchange.request_failed();
                    return Err(error.into());
                }
            };
            match decoded.event {
                BodyEvent::Data(range) if range.end == input.len() => {
                    input.consume(range.start);
                    self.note_end(active)?;
                    return Ok(Decoded::Data(input));
                }
                BodyEvent::Data(range) => {
                    let data = self.pool.try_copy(&input[range], Kind::Buffers);
                    match data {
                        Ok(data) => {
                            input.consume(decoded.consumed);
                            active.input = Some(input);
                            return Ok(Decoded::Data(data));
                        }
                        Err(over) => {
                            let _failed_before = active.exchange.request_failed();
                            return Err(over.into());
                        }
                    }
                }
                BodyEvent::Trailers(_) => {
                    input.consume(decoded.consumed);
                    active.input = Some(input);
                }
                BodyEvent::End => {
                    input.consume(decoded.consumed);
                    active.input = (!input.is_empty()).then_some(input);
                    active.exchange.body_received()?;
                    return Ok(Decoded::End);
                }
                BodyEvent::NeedMore => {
                    input.consume(decoded.consumed);
                    active.input = (!input.is_empty()).then_some(input);
                    return Ok(Decoded::NeedMore);
                }
            }
        }
    }

    /// After the last data of a body with a length nothing more comes.
    fn note_end(&self, active: &mut Active) -> Result<(), Error> {
        if active.decoder.is_done() {
            active.exchange.body_received()?;
        }
        Ok(())
    }
}

/// What a look at the received part of a body gave.
enum Decoded {
    Data(Lease),
    End,
    NeedMore,
}

/// A handler's hold on its exchange: the connection, and which of its requests.
pub(crate) struct Ticket {
    core: Rc<Core>,
    key: Key,
    number: u32,
}

impl Clone for Ticket {
    fn clone(&self) -> Self {
        Self { core: Rc::clone(&self.core), ..*self }
    }
}

impl Ticket {
    pub(crate) fn new(core: &Rc<Core>, key: Key, number: u32) -> Self {
        Self { core: Rc::clone(core), key, number }
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Error> {
        let mut table = self.core.table.borrow_mut();
        table.get(self.key).ok_or(Error::Gone)?;
        table.peer_address(self.key).map_err(|_| Error::Gone)
    }

    pub(crate) fn collect_bytes_max(&self) -> usize {
        self.core.config.collect_bytes_max
    }

    /// The next part of the request's body.
    pub(crate) fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        let polled = self.core.with(self, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            match self.core.decode(active)? {
                Decoded::Data(lease) => return Ok(Some(Some(lease))),
                Decoded::End => return Ok(Some(None)),
                Decoded::NeedMore => {}
            }
            if active.exchange.may_continue() {
                active.output.append(&self.core.pool, h1::CONTINUE)?;
                active.exchange.continue_sent()?;
            }
            active.reader = Some(cx.waker().clone());
            self.core.list(self.key, active);
            Ok(None)
        });
        match polled {
            None => Poll::Ready(Err(Error::Gone)),
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(Some(chunk))) => Poll::Ready(Ok(chunk)),
            Some(Ok(None)) => Poll::Pending,
        }
    }

    /// Writes the head of an answer that is streamed.
    pub(crate) fn begin(&self, mut response: Response, length: Option<u64>) -> Result<(), Error> {
        if response.kind() == ResponseKind::Streamed || response.length() != BodyLength::Empty {
            return Err(Error::Misuse("an answer that is streamed has no body of its own"));
        }
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        self.core.tick_for(self.key);
        let begun = self.core.with(self, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            if !matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue) {
                return Err(Error::Misuse("the request was answered already"));
            }
            self.core.write(active, &mut response, length)?;
            self.core.list(self.key, active);
            Ok(())
        });
        begun.unwrap_or(Err(Error::Gone))
    }

    /// Writes a piece of an answer's body: at once if it is small and there is room, else when the socket has taken what is before it.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        let polled = self.core.with(self, |active| {
            let piece = body.as_ref().expect("not polled after it was ready").as_slice().len();
            if active.closing {
                return Err(Error::Gone);
            }
            let discard = active.body.due() == Some(0) && active.method == Method::HEAD;
            if !discard && active.exchange.response() != ResponseState::Body {
                return Err(Error::Misuse("more bytes than were announced"));
            }
            let bytes_max = self.core.config.output_bytes_max;
            if !discard && !active.output.has_room(piece.min(COPY_BYTES_MAX), bytes_max) {
                active.writer = Some(cx.waker().clone());
                self.core.list(self.key, active);
                return Ok(None);
            }
            let body = body.take().expect("checked above");
            if !discard {
                self.core.put_piece(active, body)?;
                self.core.list(self.key, active);
            }
            Ok(Some(()))
        });
        match polled {
            None => Poll::Ready(Err(Error::Gone)),
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(Some(()))) => Poll::Ready(Ok(())),
            Some(Ok(None)) => Poll::Pending,
        }
    }

    /// Ends an answer's body.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let finished = self.core.with(self, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            let mut encoder = active.body;
            let Ok(end) = encoder.finish() else {
                self.core.abandon(active);
                return Err(Error::Misuse("fewer bytes than were announced"));
            };
            if !end.is_empty() {
                self.core.gather(active, end)?;
            }
            active.body = encoder;
            if active.exchange.response() == ResponseState::Body {
                active.exchange.body_sent()?;
            }
            self.core.list(self.key, active);
            Ok(())
        });
        finished.unwrap_or(Err(Error::Gone))
    }

    /// The handler is done.
    pub(crate) fn answer(&self, response: Response) {
        self.core.tick_for(self.key);
        self.core.with(self, |active| {
            self.core.answer(active, response);
            self.core.list(self.key, active);
        });
    }
}

impl Core {
    /// Appends to the output, behind a long body if there is one.
    fn gather(&self, active: &mut Active, bytes: &[u8]) -> Result<(), OverBudget> {
        active.output.append_behind(&self.pool, bytes)
    }

    fn put_piece(&self, active: &mut Active, body: Body) -> Result<(), Error> {
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

/// Answers 500 when the handler's future goes away without an answer: when it panics.
pub(crate) struct Delivery {
    ticket: Option<Ticket>,
}

impl Delivery {
    pub(crate) fn new(ticket: Ticket) -> Self {
        Self { ticket: Some(ticket) }
    }

    pub(crate) fn answer(mut self, response: Response) {
        if let Some(ticket) = self.ticket.take() {
            ticket.answer(response);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.core.with(&ticket, |active| {
                active.handler = None;
                ticket.core.fail(active, StatusCode::INTERNAL_SERVER_ERROR);
                ticket.core.list(ticket.key, active);
            });
        }
    }
}
