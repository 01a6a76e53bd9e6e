//! The calls of handlers, as they come through their handles.

use ::core::task::{Context, Poll};

use http::{StatusCode, Version};
use plimsoll_codec::h1::{BodyLength, Fields, ResponseHead, check_trailers};
use plimsoll_codec::h2::{FRAME_HEADER_BYTES, StreamKey, block_bytes_max, head_bytes_max};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{JoinHandle, Lease, OverBudget};
use plimsoll_slab::Key;

use super::Parts;
use super::calls::{Calls, Http2s};
use super::no_room::make;
use super::output::Growing;
use super::shared::ENCODING_BYTES;
use super::streams::{Exchange, Incoming, Outgoing, find};
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::misuse::Misuse;
use crate::exchange::collect::Collected;
use crate::exchange::failure::Failure;
use crate::exchange::response::{Body, Response};
use crate::exchange::user_code::{self, UserWaker};

impl<W: Http2s> Calls<'_, W> {
    /// Runs `act` on a connection whose stream a handle is for, while that stream is worked on; the worker looks after
    /// it then.
    pub(super) fn on_stream<R>(
        &self,
        key: Key,
        stream: StreamKey,
        act: impl FnOnce(&mut Parts<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.release_kept_for(key);
        let env = self.env();
        let done = self.0.with_http2(key, |http2| {
            let is_open = http2.phase.is_open();
            match http2.slots.exchange(stream) {
                None => return Err(Error::Disconnected),
                Some(exchange) if !is_open || exchange.response == Outgoing::Reset => {
                    return Err(exchange.course.error());
                }
                // It says again whether it finds room.
                Some(exchange) => exchange.needs_room = false,
            }
            let result = http2.with_parts(env, act);
            http2.list(&env, key);
            result
        });
        done.unwrap_or(Err(Error::Disconnected))
    }

    /// Counts a piece of work that must be finished. The exchange may have forgotten it: it may be over.
    pub(crate) fn must_finish(&self, key: Key, stream: StreamKey, by: i32) {
        self.0.with_http2(key, |http2| {
            if let Some(exchange) = http2.slots.exchange(stream) {
                exchange.must_finish = exchange.must_finish.saturating_add_signed(by);
            }
        });
    }

    /// Runs `act` on the room for the body that the handler of a stream collects.
    pub(crate) fn collected<R>(
        &self,
        key: Key,
        stream: StreamKey,
        act: impl FnOnce(&mut Option<PoolBox<Collected>>) -> R,
    ) -> Option<R> {
        self.0.with_http2(key, |http2| http2.slots.exchange(stream).map(|exchange| act(&mut exchange.collected)))?
    }

    pub(crate) fn poll_chunk(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Lease>, Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            if let Some(lease) = exchange.received.take() {
                exchange.taken_bytes += lease.len() as u64;
                parts.release(stream, lease.len());
                parts.grow_window(stream);
                return Ok(Some(Some(lease)));
            }
            match exchange.request {
                Incoming::Done => return Ok(Some(None)),
                Incoming::Gone => return Err(exchange.course.error()),
                Incoming::NoRoom => return Err(OverBudget::new(0).into()),
                Incoming::Body | Incoming::Withheld => {}
            }
            if exchange.request == Incoming::Withheld && exchange.response == Outgoing::Head {
                if make(parts.output, parts.need, parts.env, head_bytes_max(Fields::NONE)).is_err() {
                    (exchange.reader, exchange.needs_room) = (Some(UserWaker::of(cx)), true);
                    return Ok(None);
                }
                let mut out = Growing(parts.output, &parts.env.pool);
                let head =
                    ResponseHead::new(&exchange.method, Version::HTTP_2, StatusCode::CONTINUE, BodyLength::Empty)?;
                if let Err(error) = parts.codec.put_response(stream, &head, false, &mut parts.storage, &mut out) {
                    parts.phase.close();
                    return Err(error.into());
                }
            }
            exchange.request.let_come();
            exchange.reader = Some(UserWaker::of(cx));
            if exchange.min_rate.until().is_none() && !exchange.stage.is_tunnel() {
                exchange.min_rate.wait(plimsoll_runtime::now());
            }
            Ok(None)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(Some(chunk)) => Poll::Ready(Ok(chunk)),
            Ok(None) => Poll::Pending,
        }
    }

    pub(crate) fn begin(
        &self,
        key: Key,
        stream: StreamKey,
        response: &mut Response,
        length: BodyLength,
    ) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            if find(parts.exchanges, stream).is_none_or(|exchange| exchange.response != Outgoing::Head) {
                return Err(Error::Misuse(Misuse::AnsweredAlready));
            }
            parts.put_answer(stream, response, length)
        })
    }

    /// Takes a piece of an answer's body when the one before has left.
    pub(crate) fn poll_write(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        body: &mut Option<Body>,
    ) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            let bytes = body.as_ref().map_or(0, |body| body.as_slice().len() as u64);
            if exchange.due == Some(0) && exchange.method == http::Method::HEAD {
                user_code::drop_later(body.take().unwrap_or_default());
                return Ok(true);
            }
            if exchange.response != Outgoing::Body || exchange.due.is_some_and(|due| due < bytes) {
                return Err(Error::Misuse(Misuse::BodyTooLong));
            }
            if !exchange.rest().is_empty() {
                exchange.writer = Some(UserWaker::of(cx));
                return Ok(false);
            }
            exchange.due = exchange.due.map(|due| due - bytes);
            exchange.sent_bytes += bytes;
            (exchange.body, exchange.body_sent) = (body.take().unwrap_or_default().into(), 0);
            parts.put_body(stream);
            Ok(true)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }

    pub(crate) fn finish(&self, key: Key, stream: StreamKey) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            if exchange.due.is_some_and(|due| due > 0) {
                return Err(Error::Misuse(Misuse::BodyTooShort));
            }
            exchange.finished = true;
            if exchange.response == Outgoing::Body && exchange.rest().is_empty() {
                parts.put_end(stream);
            }
            Ok(())
        })
    }

    /// The handler of a stream whose answer is whole: the exchange is over without it.
    pub(crate) fn take_answered(&self, key: Key, stream: StreamKey) -> Option<JoinHandle<()>> {
        let taken = self.on_stream(key, stream, |parts| {
            let exchange = find(parts.exchanges, stream);
            let is_over =
                |exchange: &&mut Exchange| exchange.response == Outgoing::Complete && exchange.must_finish == 0;
            let Some(exchange) = exchange.filter(is_over) else { return Ok(None) };
            exchange.stage.leave_handler();
            let handler = exchange.handler.take();
            parts.end_if_done(stream);
            Ok(handler)
        });
        taken.ok().flatten()
    }

    /// Ends an answer with trailers, when its body has left and there is room for them.
    pub(crate) fn poll_finish_with(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        trailers: Fields<'_>,
    ) -> Poll<Result<(), Error>> {
        if let Err(error) = check_trailers(trailers) {
            return Poll::Ready(Err(Error::Misuse(Misuse::Protocol(error))));
        }
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            if exchange.due.is_some_and(|due| due > 0) && exchange.method != http::Method::HEAD {
                return Err(Error::Misuse(Misuse::BodyTooShort));
            }
            if block_bytes_max(trailers) > ENCODING_BYTES - FRAME_HEADER_BYTES {
                return Err(Error::Misuse(Misuse::TrailersTooLong));
            }
            if exchange.response != Outgoing::Body {
                exchange.finished = true;
                return Ok(true);
            }
            let has_left = exchange.rest().is_empty();
            if !has_left || make(parts.output, parts.need, parts.env, head_bytes_max(trailers)).is_err() {
                (exchange.writer, exchange.needs_room) = (Some(UserWaker::of(cx)), has_left);
                return Ok(false);
            }
            let mut out = Growing(parts.output, &parts.env.pool);
            if let Err(error) = parts.codec.put_trailers(stream, trailers, &mut parts.storage, &mut out) {
                parts.phase.close();
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
    pub(crate) fn take_trailers(&self, key: Key, stream: StreamKey) -> Option<Lease> {
        self.0.with_http2(key, |http2| http2.slots.exchange(stream)?.trailers.take())?
    }

    /// The answer of a handler. Ready when it has found room, or will never.
    pub(crate) fn poll_answer(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<()> {
        self.release_kept_for(key);
        let env = self.env();
        let polled = self.0.with_http2(key, |http2| {
            if !http2.phase.is_open() {
                return Poll::Ready(None);
            }
            let handler = http2.slots.exchange(stream).and_then(|exchange| exchange.handler.take());
            let answered = http2.with_parts(env, |parts| parts.answer_stream(stream, response));
            http2.list(&env, key);
            if answered.is_err()
                && let Some(exchange) = http2.slots.exchange(stream)
            {
                (exchange.handler, exchange.writer, exchange.needs_room) = (handler, Some(UserWaker::of(cx)), true);
                return Poll::Pending;
            }
            Poll::Ready(handler)
        });
        // A handler is dropped when the table is free.
        polled.map_or(Poll::Ready(()), |polled| polled.map(drop))
    }

    /// The handler is done, and cannot wait for room; without a response it went away without one.
    pub(crate) fn answer(&self, key: Key, stream: StreamKey, response: Option<&mut Response>) {
        let env = self.env();
        let handler = self.0.with_http2(key, |http2| {
            if !http2.phase.is_open() {
                return None;
            }
            let handler = http2.slots.exchange(stream).and_then(|exchange| exchange.handler.take());
            http2.with_parts(env, |parts| match response {
                Some(response) => {
                    if parts.answer_stream(stream, response).is_err() {
                        env.shed_for_room(Shed::Output);
                        parts.note(stream, ExchangeEnd::Overstay);
                        parts.fail_stream(stream, Failure::NO_ROOM);
                    }
                }
                // Its answer was ended for it: what is dropped now has nothing to add.
                None if find(parts.exchanges, stream).is_some_and(|exchange| !exchange.stage.is_running()) => {}
                None => parts.fail_stream(stream, StatusCode::INTERNAL_SERVER_ERROR),
            });
            http2.list(&env, key);
            handler
        });
        drop(handler);
    }
}
