//! How the calls of a handler reach the request that the program brought itself. There is one for each request, so that
//! nothing is looked up.

use ::core::cell::{Cell, RefCell};
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};
use std::sync::Arc;

use http::{Method, Version};
use plimsoll_codec::h1::{BodyLength, Fields};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{JoinHandle, Lease, Pool};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::error::Error;
use crate::base::peers::host_number;
use crate::call::incoming::{CallBody, Incoming};
use crate::call::outgoing::Outgoing;
use crate::exchange::collect::Collected;
use crate::exchange::handle::{Exchanges, WITHOUT_CONNECTION};
use crate::exchange::head::HeadCallbacks;
#[cfg(feature = "router")]
use crate::exchange::paths::Paths;
use crate::exchange::response::{Body, Response};
use crate::memory::desk::Desk;
use crate::memory::lasting::ExchangeId;

/// What the handlers of a service have together.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    #[cfg(feature = "router")]
    pub(crate) paths: Option<Arc<dyn Paths>>,
}

/// See the module.
pub(crate) struct Called {
    shared: Shared,
    pool: Pool,
    peer: Option<SocketAddr>,
    heads: HeadCallbacks,
    collected: RefCell<Option<PoolBox<Collected>>>,
    must_finish: Cell<u32>,
    pub(super) incoming: Incoming,
    pub(super) outgoing: RefCell<Outgoing>,
}

impl Called {
    pub(crate) fn new(
        shared: Shared,
        peer: Option<SocketAddr>,
        (method, version): (Method, Version),
        body: impl CallBody + 'static,
    ) -> Self {
        Self {
            shared,
            pool: plimsoll_runtime::pool(),
            peer,
            heads: HeadCallbacks::default(),
            collected: RefCell::default(),
            must_finish: Cell::new(0),
            incoming: Incoming::new(body),
            outgoing: RefCell::new(Outgoing::new(method, version)),
        }
    }

    /// The one exchange that there is.
    pub(crate) fn id() -> ExchangeId {
        ExchangeId::new(Key::unpack(0).1, 0, None)
    }

    /// Whether the handler does something that must be finished.
    pub(super) fn must_go_on(&self) -> bool {
        self.must_finish.get() > 0
    }
}

impl Exchanges for Called {
    fn desk(&self) -> Option<&Desk> {
        None
    }

    fn config(&self) -> &Config {
        &self.shared.config
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn peer_address(&self, _id: ExchangeId) -> Option<SocketAddr> {
        self.peer
    }

    #[cfg(feature = "router")]
    fn paths(&self) -> Option<&dyn Paths> {
        self.shared.paths.as_deref()
    }

    fn host(&self, _id: ExchangeId) -> u64 {
        self.peer.map_or(0, |peer| host_number(peer.ip()))
    }

    fn begun(&self) {}

    fn must_finish(&self, _id: ExchangeId, by: i32) {
        self.must_finish.set(self.must_finish.get().saturating_add_signed(by));
        if !self.must_go_on() {
            self.outgoing.borrow_mut().tell_taker();
        }
    }

    fn heads(&self) -> &HeadCallbacks {
        &self.heads
    }

    fn with_collected(&self, _id: ExchangeId, act: &mut dyn FnMut(&mut Option<PoolBox<Collected>>)) {
        act(&mut self.collected.borrow_mut());
    }

    /// Nobody waits for them here: as in HTTP/1.0, they are not sent.
    fn poll_inform(&self, _id: ExchangeId, _cx: &mut Context<'_>, _response: &Response) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_chunk(&self, _id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        self.incoming.poll_chunk(&self.pool, self.shared.config.limits.trailer_bytes(), cx)
    }

    fn take_trailers(&self, _id: ExchangeId) -> Option<Lease> {
        self.incoming.take_trailers()
    }

    fn begin(&self, _id: ExchangeId, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        self.outgoing.borrow_mut().begin(response, length)
    }

    fn poll_write(&self, _id: ExchangeId, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        self.outgoing.borrow_mut().poll_write(cx, body)
    }

    fn finish(&self, _id: ExchangeId) -> Result<(), Error> {
        self.outgoing.borrow_mut().finish(None)
    }

    fn poll_finish_with(
        &self,
        _id: ExchangeId,
        _cx: &mut Context<'_>,
        trailers: Fields<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(self.outgoing.borrow_mut().finish(Some(trailers)))
    }

    /// The call has its handler itself.
    fn take_answered_handler(&self, _id: ExchangeId) -> Option<JoinHandle<()>> {
        None
    }

    fn answer(&self, _id: ExchangeId, response: Option<&mut Response>) {
        self.outgoing.borrow_mut().answer(response);
    }

    fn poll_answer(&self, id: ExchangeId, _cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        self.answer(id, Some(response));
        Poll::Ready(())
    }

    fn hold_tunnel(&self, _id: ExchangeId) -> Result<(), Error> {
        Err(WITHOUT_CONNECTION)
    }

    fn begin_tunnel(&self, _id: ExchangeId, _response: &mut Response) -> Result<(), Error> {
        Err(WITHOUT_CONNECTION)
    }

    fn poll_flush(&self, _id: ExchangeId, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Err(WITHOUT_CONNECTION))
    }

    // No tunnel was held, so what follows is not called.

    fn give_up_rest(&self, _id: ExchangeId) {}

    fn await_turn(&self, _id: ExchangeId, _cx: &Context<'_>) {}

    fn look_after(&self, _id: ExchangeId) {}

    fn release_tunnel(&self, _id: ExchangeId) {}
}
