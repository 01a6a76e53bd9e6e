//! What a handler holds of its exchange, and how its answer comes back.

use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_codec::h1::{BodyLength, Fields};
use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{JoinHandle, Lease};
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::exchange::collect::Collected;
use crate::exchange::response::{Body, Kind as ResponseKind, Response};
use crate::face::upgrade::Upgrade;
use crate::memory::lasting::Sort;
use crate::websocket::Opening;
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
        self.must_finish(1);
    }

    /// One that was counted is done. The exchange may have forgotten it: it may be over.
    pub(crate) fn end_must_finish(&self) {
        self.must_finish(-1);
        self.core.must_finish(-1);
    }

    fn must_finish(&self, by: i32) {
        match self.stream {
            Some(stream) => self.core.h2_must_finish(self.key, stream, by),
            None => self.core.h1_must_finish(self, by),
        }
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
        match self.stream {
            Some(stream) => self.core.h2_poll_chunk(self.key, stream, cx),
            None => self.core.h1_poll_chunk(self, cx),
        }
    }

    /// Writes the head of an answer that is streamed.
    pub(crate) fn begin(&self, mut response: Response, length: Option<u64>) -> Result<(), Error> {
        if response.kind() == ResponseKind::Streamed || response.length() != BodyLength::Empty {
            return Err(Error::Misuse("an answer that is streamed has no body of its own"));
        }
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        self.core.tick_for(self.key);
        match self.stream {
            Some(stream) => self.core.h2_begin(self.key, stream, &mut response, length),
            None => self.core.h1_begin(self, &mut response, length),
        }
    }

    /// Writes a piece of an answer's body: at once if it is small and there is room, else when the socket has taken
    /// what is before it.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        match self.stream {
            Some(stream) => self.core.h2_poll_write(self.key, stream, cx, body),
            None => self.core.h1_poll_write(self, cx, body),
        }
    }

    /// Ends an answer's body.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        match self.stream {
            Some(stream) => self.core.h2_finish(self.key, stream),
            None => self.core.h1_finish(self),
        }
    }

    /// The handler of an exchange whose answer is whole, so that it can be dropped: it has nothing more to say.
    pub(crate) fn take_answered_handler(&self) -> Option<JoinHandle<()>> {
        match self.stream {
            Some(stream) => self.core.h2_take_answered(self.key, stream),
            None => self.core.h1_take_answered_handler(self),
        }
    }

    /// Ends an answer's body with trailers, as soon as there is room for them behind it.
    pub(crate) fn poll_finish_with(&self, cx: &mut Context<'_>, trailers: Fields<'_>) -> Poll<Result<(), Error>> {
        match self.stream {
            Some(stream) => self.core.h2_poll_finish_with(self.key, stream, cx, trailers),
            None => self.core.h1_poll_finish_with(self, cx, trailers),
        }
    }

    /// The fields that came after the request's body, once.
    pub(crate) fn take_trailers(&self) -> Option<Lease> {
        match self.stream {
            Some(stream) => self.core.h2_take_trailers(self.key, stream),
            None => self.core.h1_take_trailers(self),
        }
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
        self.core.h1_before_upgrade(self, |active| active.upgrade = Some(upgrade))
    }

    /// Says which WebSocket the connection becomes if the answer is a 101.
    pub(crate) fn set_websocket(&self, opening: Opening) -> Result<(), Error> {
        self.core.h1_before_upgrade(self, |active| active.websocket = Some(opening))
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
        match self.stream {
            Some(stream) => self.core.h2_answer(self.key, stream, Some(&mut response)),
            None => self.core.h1_answer(self, response),
        }
    }

    /// The handler is done. Ready when its answer has found room, or will never.
    pub(crate) fn poll_answer(&self, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        self.core.tick_for(self.key);
        match self.stream {
            Some(stream) => self.core.h2_poll_answer(self.key, stream, cx, response),
            None => self.core.h1_poll_answer(self, cx, response),
        }
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
            match ticket.stream {
                Some(stream) => ticket.core.h2_answer(ticket.key, stream, None),
                None => ticket.core.h1_fail(&ticket),
            }
        }
    }
}
