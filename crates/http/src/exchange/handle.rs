//! What a handler holds of its exchange, and how its answer comes back.

use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use http::{Method, StatusCode};
use plimsoll_codec::h1::{self, BodyLength, Fields, RequestState, ResponseState};
use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{JoinHandle, Lease, OverBudget};
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::exchange::collect::Collected;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::response::{Body, Kind as ResponseKind, Response};
use crate::face::upgrade::Upgrade;
use crate::h1::active::Active;
use crate::h1::request_body::Decoded;
use crate::memory::lasting::Sort;
use crate::websocket::Opening;
use crate::worker::closing::take_handler;
use crate::worker::state::Core;
use crate::worker::stay::Stay;

/// A handler's hold on its exchange: the connection, and which of its requests.
pub(crate) struct Ticket {
    core: Rc<Core>,
    pub(crate) key: Key,
    /// The number of the request among those of its connection.
    pub(crate) number: u32,
    /// Its stream, in HTTP/2.
    pub(crate) stream: Option<StreamKey>,
}

impl Clone for Ticket {
    fn clone(&self) -> Self {
        Self { core: Rc::clone(&self.core), ..*self }
    }
}

impl Ticket {
    pub(crate) fn new(core: &Rc<Core>, key: Key, number: u32) -> Self {
        Self { core: Rc::clone(core), key, number, stream: None }
    }

    pub(crate) fn of_stream(core: &Rc<Core>, key: Key, stream: StreamKey) -> Self {
        Self { stream: Some(stream), ..Self::new(core, key, 0) }
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.core.peer_address(self.key).ok_or(Error::Gone)
    }

    /// Counts a piece of work that must be finished, for this exchange and for the stop of the server.
    pub(crate) fn begin_must_finish(&self) {
        self.core.must_finish(1);
        if let Some(stream) = self.stream {
            return self.core.h2_must_finish(self.key, stream, 1);
        }
        self.core.with(self, |active| active.must_finish += 1);
    }

    /// One that was counted is done. The exchange may have forgotten it: it may be over.
    pub(crate) fn end_must_finish(&self) {
        if let Some(stream) = self.stream {
            self.core.h2_must_finish(self.key, stream, -1);
        } else {
            self.core.with(self, |active| active.must_finish = active.must_finish.saturating_sub(1));
        }
        self.core.must_finish(-1);
    }

    #[cfg(feature = "router")]
    pub(crate) fn routes(&self) -> Option<&crate::face::router::Table> {
        self.core.routes.get().map(Rc::as_ref)
    }

    pub(crate) fn collect_bytes_max(&self) -> usize {
        self.core.config.collect_bytes_max
    }

    /// Runs `act` on the room for the body that the handler collects, if the exchange is still there.
    pub(crate) fn with_collected<R>(&self, act: impl FnOnce(&mut Option<PoolBox<Collected>>) -> R) -> Option<R> {
        match self.stream {
            Some(stream) => self.core.h2_collected(self.key, stream, act),
            None => self.core.with(self, |active| act(&mut active.collected)),
        }
    }

    pub(crate) fn interim_responses_max(&self) -> u32 {
        self.core.config.interim_responses_max
    }

    /// Writes an informational response.
    pub(crate) fn poll_inform(&self, cx: &mut Context<'_>, response: &Response) -> Poll<Result<(), Error>> {
        match self.stream {
            Some(stream) => self.core.h2_poll_inform(self.key, stream, cx, response),
            None => self.core.poll_inform(self, cx, response),
        }
    }

    /// The next part of the request's body.
    pub(crate) fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        if let Some(stream) = self.stream {
            return self.core.h2_poll_chunk(self.key, stream, cx);
        }
        self.core.redeem(self.key);
        let polled = self.core.with(self, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            match self.core.decode(active)? {
                Decoded::Data(lease) => {
                    active.memory.get_on();
                    return Ok(Some(Some(lease)));
                }
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
            Some(Err(Error::OverBudget(over))) if self.waits_for_room(Priority::Body, &over) => {
                self.core.with(self, |active| active.reader = Some(cx.waker().clone()));
                Poll::Pending
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(Some(chunk))) => Poll::Ready(Ok(chunk)),
            Some(Ok(None)) => Poll::Pending,
        }
    }

    /// Whether the exchange waits for room now; its handler is woken when there is some, or when it has waited for too
    /// long.
    pub(crate) fn waits_for_room(&self, want: Priority, over: &OverBudget) -> bool {
        let is_ours = self.core.with(self, |_active| ()).is_some();
        is_ours && self.core.starve_in_table(self.key, want, usize::try_from(over.wanted_bytes()).unwrap_or(usize::MAX))
    }

    /// Writes the head of an answer that is streamed.
    pub(crate) fn begin(&self, mut response: Response, length: Option<u64>) -> Result<(), Error> {
        if response.kind() == ResponseKind::Streamed || response.length() != BodyLength::Empty {
            return Err(Error::Misuse("an answer that is streamed has no body of its own"));
        }
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        self.core.tick_for(self.key);
        if let Some(stream) = self.stream {
            return self.core.h2_begin(self.key, stream, &mut response, length);
        }
        let begun = self.core.with_reserve(self, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            if let Some(error) = active.malformed_for(response.status()) {
                return Err(Error::Peer(error));
            }
            if !matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue) {
                return Err(Error::Misuse("the request was answered already"));
            }
            self.core.write(active, &mut response, length)?;
            // Another answer than the one that would have changed the protocol.
            (active.upgrade, active.websocket) = (None, None);
            self.core.list(self.key, active);
            Ok(())
        });
        begun.unwrap_or(Err(Error::Gone))
    }

    /// Writes a piece of an answer's body: at once if it is small and there is room, else when the socket has taken
    /// what is before it.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        if let Some(stream) = self.stream {
            return self.core.h2_poll_write(self.key, stream, cx, body);
        }
        self.core.redeem(self.key);
        let polled = self.core.with_reserve(self, |active| {
            let piece = body.as_ref().expect("not polled after it was ready").as_slice().len();
            self.core.may_go_on(self.key, active)?;
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
            if !discard {
                self.core.put_piece(active, body.as_mut().expect("checked above"))?;
                active.memory.get_on();
                self.core.list(self.key, active);
            }
            *body = None;
            Ok(Some(()))
        });
        match polled {
            None => Poll::Ready(Err(Error::Gone)),
            Some(Err(Error::OverBudget(over))) if self.waits_for_output(cx, &over) => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(Some(()))) => Poll::Ready(Ok(())),
            Some(Ok(None)) => Poll::Pending,
        }
    }

    /// Ends an answer's body.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        if let Some(stream) = self.stream {
            return self.core.h2_finish(self.key, stream);
        }
        let finished = self.core.with(self, |active| {
            self.core.may_go_on(self.key, active)?;
            let mut encoder = active.body;
            let Ok(end) = encoder.finish() else {
                self.core.abandon(active);
                return Err(Error::Misuse("fewer bytes than were announced"));
            };
            if !end.is_empty() {
                active.output.append_last(end);
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

    /// The handler of an exchange whose answer is whole, so that it can be dropped: it has nothing more to say.
    pub(crate) fn take_answered_handler(&self) -> Option<JoinHandle<()>> {
        if let Some(stream) = self.stream {
            return self.core.h2_take_answered(self.key, stream);
        }
        let take = |active: &mut Active| match active.exchange.response() {
            ResponseState::Done => take_handler(active),
            _ => None,
        };
        self.core.with(self, take).flatten()
    }

    /// Ends an answer's body with trailers, as soon as there is room for them behind it.
    pub(crate) fn poll_finish_with(&self, cx: &mut Context<'_>, trailers: Fields<'_>) -> Poll<Result<(), Error>> {
        if let Some(stream) = self.stream {
            return self.core.h2_poll_finish_with(self.key, stream, cx, trailers);
        }
        let polled = self.core.with_reserve(self, |active| {
            self.core.may_go_on(self.key, active)?;
            let bytes = h1::LAST_CHUNK.len() + trailers.as_bytes().len();
            if !active.output.has_room(bytes, self.core.config.output_bytes_max) {
                active.writer = Some(cx.waker().clone());
                self.core.list(self.key, active);
                return Ok(false);
            }
            active.output.reserve(&self.core.pool, bytes)?;
            if let Err(error) = active.body.finish_with(trailers, &mut active.output) {
                self.core.abandon(active);
                return Err(match error {
                    plimsoll_codec::Error::BodyTooShort => Error::Misuse("fewer bytes than were announced"),
                    other => other.into(),
                });
            }
            if active.exchange.response() == ResponseState::Body {
                active.exchange.body_sent()?;
            }
            self.core.list(self.key, active);
            Ok(true)
        });
        match polled {
            None => Poll::Ready(Err(Error::Gone)),
            Some(Err(Error::OverBudget(over))) if self.waits_for_output(cx, &over) => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(true)) => Poll::Ready(Ok(())),
            Some(Ok(false)) => Poll::Pending,
        }
    }

    /// The fields that came after the request's body, once.
    pub(crate) fn take_trailers(&self) -> Option<Lease> {
        if let Some(stream) = self.stream {
            return self.core.h2_take_trailers(self.key, stream);
        }
        self.core.with(self, |active| active.trailers.take()).flatten()
    }

    /// The exchange goes on for as long as its peer likes.
    pub(crate) fn stay(&self, sort: Sort) -> Stay {
        Stay::new(&self.core, self, sort)
    }

    /// A tunnel will use the stream.
    pub(crate) fn hold_tunnel(&self) -> Result<Stay, Error> {
        let Some(stream) = self.stream else { return Err(Error::Misuse(NO_STREAM)) };
        self.core.may_stay()?;
        self.core.h2_hold(self.key, stream)?;
        Ok(self.stay(Sort::Tunnel))
    }

    /// Writes the head behind which a tunnel's bytes follow.
    pub(crate) fn begin_tunnel(&self, mut response: Response) -> Result<(), Error> {
        self.core.tick_for(self.key);
        let Some(stream) = self.stream else { return Err(Error::Misuse(NO_STREAM)) };
        self.core.h2_begin_tunnel(self.key, stream, &mut response)
    }

    /// Ready when all that a tunnel wrote has left.
    pub(crate) fn poll_tunnel_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(stream) = self.stream else { return Poll::Ready(Err(Error::Misuse(NO_STREAM))) };
        self.core.h2_poll_flush(self.key, stream, cx)
    }

    /// The tunnel is no more.
    pub(crate) fn let_go_of_tunnel(&self) {
        if let Some(stream) = self.stream {
            self.core.h2_let_go(self.key, stream);
        }
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Says who gets the connection if the answer is a 101.
    pub(crate) fn set_upgrade(&self, upgrade: Upgrade) -> Result<(), Error> {
        self.core.may_stay()?;
        self.before_upgrade(|active| active.upgrade = Some(upgrade))
    }

    /// Says which WebSocket the connection becomes if the answer is a 101.
    pub(crate) fn set_websocket(&self, opening: Opening) -> Result<(), Error> {
        self.before_upgrade(|active| active.websocket = Some(opening))
    }

    fn before_upgrade(&self, set: impl FnOnce(&mut Active)) -> Result<(), Error> {
        let set = self.core.with(self, |active| {
            let is_due = matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
            if active.closing || !is_due {
                return Err(Error::Gone);
            }
            if active.exchange.request() == RequestState::Body {
                return Err(Error::Misuse("the request's body is read before the connection changes its protocol"));
            }
            set(active);
            Ok(())
        });
        set.unwrap_or(Err(Error::Gone))
    }

    /// Writes the head of a streamed answer whose rest is sent by whoever gets the connection.
    pub(crate) fn begin_member(&self, response: Response, upgrade: Upgrade) -> Result<(), Error> {
        debug_assert!(self.stream.is_none(), "a stream has no connection of its own");
        self.core.may_stay()?;
        self.core.with(self, |active| active.exchange.close_after());
        self.begin(response, None)?;
        self.core.with(self, |active| active.upgrade = Some(upgrade)).ok_or(Error::Gone)
    }

    /// The handler is done, and cannot wait for room.
    pub(crate) fn answer(&self, mut response: Response) {
        self.core.tick_for(self.key);
        if let Some(stream) = self.stream {
            return self.core.h2_answer(self.key, stream, Some(&mut response));
        }
        if let Some(Err(Error::OverBudget(over))) = self.try_answer(&mut response) {
            self.answer_no_room(over);
        }
    }

    /// Writes an answer; [`Error::OverBudget`] when there is no room for it, and it may be given once more.
    fn try_answer(&self, response: &mut Response) -> Option<Result<(), Error>> {
        self.core.with_reserve(self, |active| {
            self.core.answer(active, response)?;
            self.core.list(self.key, active);
            Ok(())
        })
    }

    fn answer_no_room(&self, over: OverBudget) {
        self.core.with(self, |active| {
            self.core.answer_no_room(active, over);
            self.core.list(self.key, active);
        });
    }

    /// Whether what found no room for its output waits: for the output that is on its way, or for memory. Its handler
    /// is woken.
    pub(crate) fn waits_for_output(&self, cx: &Context<'_>, over: &OverBudget) -> bool {
        let is_sending = self.core.with(self, |_active| ()).is_some() && self.core.table.borrow().is_sending(self.key);
        let waits = is_sending || self.waits_for_room(Priority::Output, over);
        if waits {
            self.core.with(self, |active| active.writer = Some(cx.waker().clone()));
        }
        waits
    }

    /// The handler is done. Ready when its answer has found room, or will never.
    pub(crate) fn poll_answer(&self, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        self.core.tick_for(self.key);
        if let Some(stream) = self.stream {
            return self.core.h2_poll_answer(self.key, stream, cx, response);
        }
        self.core.redeem(self.key);
        if let Some(Err(Error::OverBudget(over))) = self.try_answer(response) {
            if self.waits_for_output(cx, &over) {
                return Poll::Pending;
            }
            self.answer_no_room(over);
        }
        Poll::Ready(())
    }
}

/// Why a request of HTTP/1 has no tunnel.
const NO_STREAM: &str = "only a request of HTTP/2 has a stream";

/// Answers 500 when the handler's future goes away without an answer: when it panics.
pub(crate) struct Delivery {
    ticket: Option<Ticket>,
}

impl Delivery {
    /// For the handler that is made now.
    pub(crate) fn new(ticket: Ticket) -> Self {
        ticket.core.count_handler(1);
        ticket.core.counters().exchange_begun();
        Self { ticket: Some(ticket) }
    }

    pub(crate) fn answer(mut self, response: Response) {
        if let Some(ticket) = self.ticket.take() {
            ticket.core.count_handler(-1);
            ticket.answer(response);
        }
    }

    /// As [`answer`](Self::answer), and waits for room if there is none. To be polled until it is ready.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        if let Some(ticket) = &self.ticket {
            if ticket.poll_answer(cx, response).is_pending() {
                return Poll::Pending;
            }
            ticket.core.count_handler(-1);
            self.ticket = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.core.count_handler(-1);
            if let Some(stream) = ticket.stream {
                return ticket.core.h2_answer(ticket.key, stream, None);
            }
            ticket.core.with(&ticket, |active| {
                active.handler = None;
                ticket.core.fail(active, StatusCode::INTERNAL_SERVER_ERROR);
                ticket.core.list(ticket.key, active);
            });
        }
    }
}
