//! How a handler's calls reach its exchange, whatever carries it: the one place where it is asked which protocol that
//! is.

use ::core::any::Any;
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_codec::h1::{BodyLength, Fields};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{JoinHandle, Lease, OverBudget, Pool};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::collect::Collected;
use crate::exchange::handle::{ExchangeHandle, Exchanges, WITHOUT_CONNECTION};
use crate::exchange::head::HeadCallbacks;
use crate::exchange::line::{Line, TableLine};
#[cfg(feature = "router")]
use crate::exchange::paths::Paths;
use crate::exchange::response::{Body, Response};
use crate::h1::active::Active;
use crate::h1::actives::{Actives, Http1};
use crate::h2::{Calls, Http2, Http2s, Shared};
use crate::memory::desk::Desk;
use crate::memory::lasting::ExchangeId;
use crate::worker::connection::Connection;
use crate::worker::state::WorkerState;

impl WorkerState {
    /// A hold on an exchange, for its handler.
    pub(crate) fn handle(self: &Rc<Self>, id: ExchangeId) -> ExchangeHandle {
        let port: Rc<dyn Exchanges> = self.clone();
        ExchangeHandle::new(port, id)
    }

    /// Whose exchange it is, for what the rooms above ask of the worker itself: an upgrade, a WebSocket, a hub.
    ///
    /// # Errors
    ///
    /// [`WITHOUT_CONNECTION`] where the program itself has called the handler.
    pub(crate) fn of(handle: &ExchangeHandle) -> Result<&Self, Error> {
        let port: &dyn Any = &**handle.port();
        port.downcast_ref().ok_or(WITHOUT_CONNECTION)
    }

    /// The same, to be kept.
    pub(crate) fn of_port(port: &Rc<dyn Exchanges>) -> Result<Rc<Self>, Error> {
        let port: Rc<dyn Any> = port.clone();
        port.downcast().map_err(|_| WITHOUT_CONNECTION)
    }
}

/// Why a request of HTTP/1 has no tunnel.
const NO_STREAM: Error = Error::Misuse(Misuse::NotConnectInStream);

impl Exchanges for WorkerState {
    fn desk(&self) -> Option<&Desk> {
        Some(self)
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn peer_address(&self, id: ExchangeId) -> Option<SocketAddr> {
        Desk::peer_address(self, id.key())
    }

    #[cfg(feature = "router")]
    fn paths(&self) -> Option<&dyn Paths> {
        self.routes.get().map(|routes| &**routes)
    }

    fn host(&self, id: ExchangeId) -> u64 {
        self.host_of_exchange(id.key(), id.stream())
    }

    fn begun(&self) {
        self.count_handler(1);
        self.counters().exchange_begun();
    }

    fn heads(&self) -> &HeadCallbacks {
        &self.heads
    }

    fn must_finish(&self, id: ExchangeId, by: i32) {
        match id.stream() {
            Some(stream) => Calls(self).must_finish(id.key(), stream, by),
            None => Http1(self).must_finish(id, by),
        }
    }

    fn with_collected(&self, id: ExchangeId, act: &mut dyn FnMut(&mut Option<PoolBox<Collected>>)) {
        match id.stream() {
            Some(stream) => Calls(self).collected(id.key(), stream, act),
            None => self.with(id, |active| act(&mut active.collected)),
        };
    }

    fn poll_inform(&self, id: ExchangeId, cx: &mut Context<'_>, response: &Response) -> Poll<Result<(), Error>> {
        match id.stream() {
            Some(stream) => Calls(self).poll_inform(id.key(), stream, cx, response),
            None => Http1(self).poll_inform(id, cx, response),
        }
    }

    fn poll_chunk(&self, id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        match id.stream() {
            Some(stream) => Calls(self).poll_chunk(id.key(), stream, cx),
            None => Http1(self).poll_chunk(id, cx),
        }
    }

    fn take_trailers(&self, id: ExchangeId) -> Option<Lease> {
        match id.stream() {
            Some(stream) => Calls(self).take_trailers(id.key(), stream),
            None => Http1(self).take_trailers(id),
        }
    }

    fn begin(&self, id: ExchangeId, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        self.tick_for(id.key());
        match id.stream() {
            Some(stream) => Calls(self).begin(id.key(), stream, response, length),
            None => Http1(self).begin(id, response, length),
        }
    }

    fn poll_write(&self, id: ExchangeId, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        match id.stream() {
            Some(stream) => Calls(self).poll_write(id.key(), stream, cx, body),
            None => Http1(self).poll_write(id, cx, body),
        }
    }

    fn finish(&self, id: ExchangeId) -> Result<(), Error> {
        match id.stream() {
            Some(stream) => Calls(self).finish(id.key(), stream),
            None => Http1(self).finish(id),
        }
    }

    fn poll_finish_with(&self, id: ExchangeId, cx: &mut Context<'_>, trailers: Fields<'_>) -> Poll<Result<(), Error>> {
        match id.stream() {
            Some(stream) => Calls(self).poll_finish_with(id.key(), stream, cx, trailers),
            None => Http1(self).poll_finish_with(id, cx, trailers),
        }
    }

    fn take_answered_handler(&self, id: ExchangeId) -> Option<JoinHandle<()>> {
        match id.stream() {
            Some(stream) => Calls(self).take_answered(id.key(), stream),
            None => Http1(self).take_answered_handler(id),
        }
    }

    fn answer(&self, id: ExchangeId, response: Option<&mut Response>) {
        self.count_handler(-1);
        if response.is_some() {
            self.tick_for(id.key());
        }
        match (id.stream(), response) {
            (Some(stream), response) => Calls(self).answer(id.key(), stream, response),
            (None, Some(response)) => Http1(self).answer(id, response),
            (None, None) => Http1(self).fail(id),
        }
    }

    fn poll_answer(&self, id: ExchangeId, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        self.tick_for(id.key());
        let polled = match id.stream() {
            Some(stream) => Calls(self).poll_answer(id.key(), stream, cx, response),
            None => Http1(self).poll_answer(id, cx, response),
        };
        if polled.is_ready() {
            self.count_handler(-1);
        }
        polled
    }

    fn hold_tunnel(&self, id: ExchangeId) -> Result<(), Error> {
        Calls(self).hold(id.key(), id.stream().ok_or(NO_STREAM)?)
    }

    fn begin_tunnel(&self, id: ExchangeId, response: &mut Response) -> Result<(), Error> {
        self.tick_for(id.key());
        Calls(self).begin_tunnel(id.key(), id.stream().ok_or(NO_STREAM)?, response)
    }

    fn poll_flush(&self, id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match id.stream() {
            Some(stream) => Calls(self).poll_flush(id.key(), stream, cx),
            None => Poll::Ready(Err(NO_STREAM)),
        }
    }

    fn give_up_rest(&self, id: ExchangeId) {
        if let Some(stream) = id.stream() {
            Calls(self).give_up_rest(id.key(), stream);
        }
    }

    fn await_turn(&self, id: ExchangeId, cx: &Context<'_>) {
        if let Some(stream) = id.stream() {
            Calls(self).await_turn(id.key(), stream, cx);
        }
    }

    fn look_after(&self, id: ExchangeId) {
        Calls(self).look_after(id.key());
    }

    fn release_tunnel(&self, id: ExchangeId) {
        if let Some(stream) = id.stream() {
            Calls(self).release(id.key(), stream);
        }
    }
}

impl Actives for WorkerState {
    fn with<R>(&self, id: ExchangeId, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        self.with(id, act)
    }

    fn take(&self, key: Key) -> Option<PoolBox<Active>> {
        self.take(key)
    }

    fn put_back(&self, key: Key, active: PoolBox<Active>) {
        self.put(key, Connection::Active(active));
    }

    fn line(&self, key: Key) -> impl Line {
        TableLine::new(&self.table, key)
    }

    fn enqueue_in_table(&self, key: Key, want: Priority, over: &OverBudget) -> bool {
        self.enqueue_in_table(key, want, over)
    }
}

impl Http2s for WorkerState {
    #[inline]
    fn with_http2<R>(&self, key: Key, act: impl FnOnce(&mut Http2) -> R) -> Option<R> {
        match self.table.borrow_mut().get_mut(key) {
            Some(Connection::Http2(http2)) => Some(act(http2)),
            _ => None,
        }
    }

    fn shared(&self) -> &Shared {
        &self.http2
    }
}
