//! The calls of handlers, as they come through their tickets.

use ::core::task::{Context, Poll};

use http::{StatusCode, Version};
use plimsoll_codec::h1::{BodyLength, Fields, ResponseHead, check_trailers};
use plimsoll_codec::h2::{ErrorCode, FRAME_HEADER_BYTES, StreamKey, block_bytes_max, head_bytes_max};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{JoinHandle, Lease, OverBudget};
use plimsoll_slab::Key;

use super::output::Growing;
use super::room::{END_BYTES_MAX, make};
use super::streams::{Exchange, Incoming, Outgoing, find, note};
use super::window::shrink_window;
use super::{ENCODING_BYTES, Http2, Parts};
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::collect::Collected;
use crate::exchange::failure::Failure;
use crate::exchange::response::{Body, Response};
use crate::exchange::user_code::{self, UserBody, UserWaker};
use crate::worker::connection::Connection;
use crate::worker::state::Core;

impl Core {
    /// Runs `act` on a connection whose stream a ticket is for, while that stream is worked on; the engine looks after
    /// it then.
    pub(super) fn on_stream<R>(
        &self,
        key: Key,
        stream: StreamKey,
        act: impl FnOnce(&mut Parts<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.redeem(key);
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return Err(Error::Gone) };
        let is_there = http2.slots.exchange(stream).is_some_and(|exchange| {
            // It says again whether it finds room.
            exchange.starved = false;
            !exchange.is_reset
        });
        if http2.closing || !is_there {
            return Err(Error::Gone);
        }
        let result = self.with_parts(http2, act);
        self.list_http2(key, http2);
        result
    }

    /// Counts a piece of work that must be finished. The exchange may have forgotten it: it may be over.
    pub(crate) fn h2_must_finish(&self, key: Key, stream: StreamKey, by: i32) {
        if let Some(Connection::Http2(http2)) = self.table.borrow_mut().get_mut(key)
            && let Some(exchange) = http2.slots.exchange(stream)
        {
            exchange.must_finish = exchange.must_finish.saturating_add_signed(by);
        }
    }

    /// Runs `act` on the room for the body that the handler of a stream collects.
    pub(crate) fn h2_collected<R>(
        &self,
        key: Key,
        stream: StreamKey,
        act: impl FnOnce(&mut Option<PoolBox<Collected>>) -> R,
    ) -> Option<R> {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return None };
        http2.slots.exchange(stream).map(|exchange| act(&mut exchange.collected))
    }

    pub(crate) fn h2_poll_chunk(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Lease>, Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
            if let Some(lease) = exchange.received.take() {
                exchange.taken_bytes += lease.len() as u64;
                self.release(parts, stream, lease.len());
                self.grow_window(parts, stream);
                return Ok(Some(Some(lease)));
            }
            match exchange.request {
                Incoming::Done => return Ok(Some(None)),
                Incoming::Gone => return Err(Error::Gone),
                Incoming::NoRoom => return Err(OverBudget::new(0).into()),
                Incoming::Body => {}
            }
            if exchange.expects && exchange.response == Outgoing::Head {
                if make(parts.output, parts.hunger, self, head_bytes_max(Fields::NONE)).is_err() {
                    (exchange.reader, exchange.starved) = (Some(UserWaker::of(cx)), true);
                    return Ok(None);
                }
                let mut out = Growing(parts.output, &self.pool);
                let head =
                    ResponseHead::new(&exchange.method, Version::HTTP_2, StatusCode::CONTINUE, BodyLength::Empty)?;
                if let Err(error) = parts.codec.put_response(stream, &head, false, &mut parts.storage, &mut out) {
                    *parts.closing = true;
                    return Err(error.into());
                }
            }
            exchange.expects = false;
            exchange.reader = Some(UserWaker::of(cx));
            if exchange.patience.until().is_none() && !exchange.held {
                exchange.patience.wait(plimsoll_runtime::now());
            }
            Ok(None)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(Some(chunk)) => Poll::Ready(Ok(chunk)),
            Ok(None) => Poll::Pending,
        }
    }

    pub(crate) fn h2_begin(
        &self,
        key: Key,
        stream: StreamKey,
        response: &mut Response,
        length: BodyLength,
    ) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            if find(parts.exchanges, stream).is_none_or(|exchange| exchange.response != Outgoing::Head) {
                return Err(Error::Misuse("the request was answered already"));
            }
            self.put_answer(parts, stream, response, length)
        })
    }

    /// Takes a piece of an answer's body when the one before has left.
    pub(crate) fn h2_poll_write(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        body: &mut Option<Body>,
    ) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
            let bytes = body.as_ref().map_or(0, |body| body.as_slice().len() as u64);
            if exchange.due == Some(0) && exchange.method == http::Method::HEAD {
                user_code::drop_later(body.take().unwrap_or_default());
                return Ok(true);
            }
            if exchange.response != Outgoing::Body || exchange.due.is_some_and(|due| due < bytes) {
                return Err(Error::Misuse("more bytes than were announced"));
            }
            if !exchange.rest().is_empty() {
                exchange.writer = Some(UserWaker::of(cx));
                return Ok(false);
            }
            exchange.due = exchange.due.map(|due| due - bytes);
            exchange.sent_bytes += bytes;
            (exchange.body, exchange.body_sent) = (body.take().unwrap_or_default().into(), 0);
            self.put_body(parts, stream);
            Ok(true)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }

    pub(crate) fn h2_finish(&self, key: Key, stream: StreamKey) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
            if exchange.due.is_some_and(|due| due > 0) {
                return Err(Error::Misuse("fewer bytes than were announced"));
            }
            exchange.finished = true;
            if exchange.response == Outgoing::Body && exchange.rest().is_empty() {
                self.put_end(parts, stream);
            }
            Ok(())
        })
    }

    /// The handler of a stream whose answer is whole: the exchange is over without it.
    pub(crate) fn h2_take_answered(&self, key: Key, stream: StreamKey) -> Option<JoinHandle<()>> {
        let taken = self.on_stream(key, stream, |parts| {
            let exchange = find(parts.exchanges, stream);
            let is_over =
                |exchange: &&mut Exchange| exchange.response == Outgoing::Complete && exchange.must_finish == 0;
            let Some(exchange) = exchange.filter(is_over) else { return Ok(None) };
            exchange.running = false;
            let handler = exchange.handler.take();
            self.end_if_done(parts, stream);
            Ok(handler)
        });
        taken.ok().flatten()
    }

    /// Ends an answer with trailers, when its body has left and there is room for them.
    pub(crate) fn h2_poll_finish_with(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        trailers: Fields<'_>,
    ) -> Poll<Result<(), Error>> {
        if let Err(error) = check_trailers(trailers) {
            return Poll::Ready(Err(error.into()));
        }
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
            if exchange.due.is_some_and(|due| due > 0) && exchange.method != http::Method::HEAD {
                return Err(Error::Misuse("fewer bytes than were announced"));
            }
            if block_bytes_max(trailers) > ENCODING_BYTES - FRAME_HEADER_BYTES {
                return Err(Error::Misuse("the trailers are too long: HTTP/2 has room for 15 KiB"));
            }
            if exchange.response != Outgoing::Body {
                exchange.finished = true;
                return Ok(true);
            }
            let has_left = exchange.rest().is_empty();
            if !has_left || make(parts.output, parts.hunger, self, head_bytes_max(trailers)).is_err() {
                (exchange.writer, exchange.starved) = (Some(UserWaker::of(cx)), has_left);
                return Ok(false);
            }
            let mut out = Growing(parts.output, &self.pool);
            if let Err(error) = parts.codec.put_trailers(stream, trailers, &mut parts.storage, &mut out) {
                *parts.closing = true;
                return Err(error.into());
            }
            (exchange.finished, exchange.response) = (true, Outgoing::Complete);
            Ok(true)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }

    /// The fields that came after a request's body, once.
    pub(crate) fn h2_take_trailers(&self, key: Key, stream: StreamKey) -> Option<Lease> {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return None };
        http2.slots.exchange(stream)?.trailers.take()
    }

    /// The answer of a handler. Ready when it has found room, or will never.
    pub(crate) fn h2_poll_answer(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<()> {
        self.redeem(key);
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return Poll::Ready(()) };
        if http2.closing {
            return Poll::Ready(());
        }
        let handler = http2.slots.exchange(stream).and_then(|exchange| exchange.handler.take());
        let answered = self.with_parts(http2, |parts| self.answer_stream(parts, stream, response));
        self.list_http2(key, http2);
        if answered.is_err()
            && let Some(exchange) = http2.slots.exchange(stream)
        {
            (exchange.handler, exchange.writer, exchange.starved) = (handler, Some(UserWaker::of(cx)), true);
            return Poll::Pending;
        }
        drop(table);
        drop(handler);
        Poll::Ready(())
    }

    /// The handler is done, and cannot wait for room; without a response it went away without one.
    pub(crate) fn h2_answer(&self, key: Key, stream: StreamKey, response: Option<&mut Response>) {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return };
        if http2.closing {
            return;
        }
        let handler = http2.slots.exchange(stream).and_then(|exchange| exchange.handler.take());
        self.with_parts(http2, |parts| match response {
            Some(response) => {
                if self.answer_stream(parts, stream, response).is_err() {
                    self.shed_for_room(Shed::Output);
                    note(parts, stream, ExchangeEnd::Overstay);
                    self.fail_stream(parts, stream, Failure::NO_ROOM);
                }
            }
            // Its answer was ended for it: what is dropped now has nothing to add.
            None if find(parts.exchanges, stream).is_some_and(|exchange| !exchange.running) => {}
            None => self.fail_stream(parts, stream, StatusCode::INTERNAL_SERVER_ERROR),
        });
        self.list_http2(key, http2);
        drop(table);
        drop(handler);
    }

    /// Ends a stream before its time: what the peer is told, and what is counted. Returns what has to be dropped while
    /// the connection is not in the table.
    pub(super) fn cut(
        &self,
        parts: &mut Parts<'_>,
        stream: StreamKey,
        (code, why): (ErrorCode, ExchangeEnd),
    ) -> Option<JoinHandle<()>> {
        let exchange = find(parts.exchanges, stream)?;
        exchange.course.note(why);
        if exchange.must_finish > 0 && exchange.running {
            // Its slot stays taken until it has finished.
            exchange.is_reset = true;
            // The end of its answer is not due any more.
            *parts.answers -= u16::from(exchange.ending.take().is_some());
            (exchange.body, exchange.body_sent, exchange.received, exchange.blocked_since) =
                (UserBody::default(), 0, None, None);
            exchange.patience.pause(plimsoll_runtime::now());
            exchange.wake();
            shrink_window(parts.codec, exchange);
            // Without its body it has nothing to send: the end of that would look like the end of a whole answer.
            parts.codec.set_waiting(stream, false, &mut parts.storage);
            if make(parts.output, parts.hunger, self, END_BYTES_MAX).is_err() {
                // Told when its slot is given free.
                return None;
            }
            let mut out = Growing(parts.output, &self.pool);
            if parts.codec.reset(stream, code, &mut parts.storage, &mut out).is_err() {
                *parts.closing = true;
            }
            return None;
        }
        let handler = exchange.handler.take();
        self.break_off(parts, stream, code);
        handler
    }

    /// Has the engine look after a connection, unless it does so anyway.
    pub(super) fn list_http2(&self, key: Key, http2: &mut Http2) {
        if !http2.listed && self.enlist(key) {
            http2.listed = true;
        }
    }

    /// Takes an HTTP/2 connection out of the table.
    pub(crate) fn take_http2(&self, key: Key) -> Option<PoolBox<Http2>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Http2(http2) => Some(http2),
            other => {
                *connection = other;
                None
            }
        }
    }
}
