//! What a handler holds of its exchange, and how its answer comes back.

use ::core::any::Any;
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_codec::h1::{BodyLength, Fields};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{JoinHandle, Lease, OverBudget, Pool};

use crate::base::config::Config;
use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::collect::Collected;
use crate::exchange::head::{HeadCallback, HeadCallbacks};
#[cfg(feature = "router")]
use crate::exchange::paths::Paths;
use crate::exchange::response::{Body, Kind as ResponseKind, Refusal, Response};
use crate::memory::desk::Desk;
use crate::memory::lasting::ExchangeId;

/// What a handler asks for that only a connection of the server has, where the program itself has called it.
pub(crate) const WITHOUT_CONNECTION: Error = Error::Unsupported(
    "upgrades, tunnels, WebSockets and hubs for a request that came through another service, whose connection is not \
     here to be given away: have the server answer this route itself; here they",
);

/// The exchanges of a worker, for those who hold one of them: the only way from a handler to whatever carries it. Each
/// call finds the exchange by its id; one that is over says [`Error::Disconnected`], or nothing.
pub(crate) trait Exchanges: Any {
    /// What the connections of a worker have together; `None` where the program itself has called the handler.
    fn desk(&self) -> Option<&Desk>;

    fn config(&self) -> &Config;

    fn pool(&self) -> &Pool;

    /// Whose request it is.
    fn peer_address(&self, id: ExchangeId) -> Option<SocketAddr>;

    /// The paths of the routes, where there are some.
    #[cfg(feature = "router")]
    fn paths(&self) -> Option<&dyn Paths>;

    /// For whom an exchange is: the client that a trusted proxy names, or the peer.
    fn host(&self, id: ExchangeId) -> u64;

    /// A handler begins.
    fn begun(&self);

    /// Counts pieces of work that must be finished.
    fn must_finish(&self, id: ExchangeId, by: i32);

    /// Who wants to see heads before they are encoded.
    fn heads(&self) -> &HeadCallbacks;

    /// Runs `act` on the room for the body that the handler collects.
    fn with_collected(&self, id: ExchangeId, act: &mut dyn FnMut(&mut Option<PoolBox<Collected>>));

    /// Writes an informational response.
    fn poll_inform(&self, id: ExchangeId, cx: &mut Context<'_>, response: &Response) -> Poll<Result<(), Error>>;

    /// The next part of the request's body.
    fn poll_chunk(&self, id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>>;

    /// The fields that came after the request's body, once.
    fn take_trailers(&self, id: ExchangeId) -> Option<Lease>;

    /// Writes the head of an answer that is streamed.
    fn begin(&self, id: ExchangeId, response: &mut Response, length: BodyLength) -> Result<(), Error>;

    /// Writes a piece of an answer's body: at once if it is small and there is room, else when the socket has taken
    /// what is before it.
    fn poll_write(&self, id: ExchangeId, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>>;

    /// Ends an answer's body.
    fn finish(&self, id: ExchangeId) -> Result<(), Error>;

    /// Ends an answer's body with trailers, as soon as there is room for them behind it.
    fn poll_finish_with(&self, id: ExchangeId, cx: &mut Context<'_>, trailers: Fields<'_>) -> Poll<Result<(), Error>>;

    /// The handler of an exchange whose answer is whole, so that it can be dropped: it has nothing more to say.
    fn take_answered_handler(&self, id: ExchangeId) -> Option<JoinHandle<()>>;

    /// The handler is done, and cannot wait for room. Without an answer it went away.
    fn answer(&self, id: ExchangeId, response: Option<&mut Response>);

    /// The handler is done. Ready when its answer has found room, or will never.
    fn poll_answer(&self, id: ExchangeId, cx: &mut Context<'_>, response: &mut Response) -> Poll<()>;

    /// A tunnel is made for an exchange that was not answered yet. Only HTTP/2 has them.
    fn hold_tunnel(&self, id: ExchangeId) -> Result<(), Error>;

    /// Answers: what follows are the tunnel's bytes.
    fn begin_tunnel(&self, id: ExchangeId, response: &mut Response) -> Result<(), Error>;

    /// Ready when all that a tunnel wrote has left.
    fn poll_flush(&self, id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<(), Error>>;

    /// What still comes on a tunnel is dropped.
    fn give_up_rest(&self, id: ExchangeId);

    /// Has a tunnel's task woken when it is its turn among those that wait for memory.
    fn await_turn(&self, id: ExchangeId, cx: &Context<'_>);

    /// Has a tunnel's connection looked after: something waits for memory there.
    fn look_after(&self, id: ExchangeId);

    /// The tunnel was dropped. What it has sent before the end of its side still leaves.
    fn release_tunnel(&self, id: ExchangeId);
}

/// A handler's hold on its exchange: the connection, and which of its requests.
#[derive(Clone)]
pub(crate) struct ExchangeHandle {
    port: Rc<dyn Exchanges>,
    pub(crate) id: ExchangeId,
}

impl ExchangeHandle {
    pub(crate) fn new(port: Rc<dyn Exchanges>, id: ExchangeId) -> Self {
        Self { port, id }
    }

    pub(crate) fn port(&self) -> &Rc<dyn Exchanges> {
        &self.port
    }

    pub(crate) fn desk(&self) -> Option<&Desk> {
        self.port.desk()
    }

    /// That of an exchange which a connection has: one that leaves HTTP.
    pub(crate) fn connection_desk(&self) -> &Desk {
        self.desk().expect("what leaves HTTP came by a connection")
    }

    pub(crate) fn config(&self) -> &Config {
        self.port.config()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.port.pool()
    }

    pub(crate) fn host(&self) -> u64 {
        self.port.host(self.id)
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.port.peer_address(self.id).ok_or(Error::Disconnected)
    }

    /// Counts a piece of work that must be finished, for this exchange and for the stop of the server.
    pub(crate) fn begin_must_finish(&self) {
        if let Some(desk) = self.desk() {
            desk.must_finish(1);
        }
        self.port.must_finish(self.id, 1);
    }

    /// One that was counted is done. The exchange may have forgotten it: it may be over.
    pub(crate) fn end_must_finish(&self) {
        self.port.must_finish(self.id, -1);
        if let Some(desk) = self.desk() {
            desk.must_finish(-1);
        }
    }

    /// Runs `act` on the room for the body that the handler collects, if the exchange is still there.
    pub(crate) fn with_collected<R>(&self, act: impl FnOnce(&mut Option<PoolBox<Collected>>) -> R) -> Option<R> {
        let (mut act, mut result) = (Some(act), None);
        self.port.with_collected(self.id, &mut |place| result = act.take().map(|act| act(place)));
        result
    }

    /// Writes an informational response.
    pub(crate) fn poll_inform(&self, cx: &mut Context<'_>, response: &Response) -> Poll<Result<(), Error>> {
        self.port.poll_inform(self.id, cx, response)
    }

    /// The next part of the request's body.
    pub(crate) fn poll_chunk(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        self.port.poll_chunk(self.id, cx)
    }

    /// The fields that came after the request's body, once.
    pub(crate) fn take_trailers(&self) -> Option<Lease> {
        self.port.take_trailers(self.id)
    }

    /// Has a callback called with the head of the answer, if that was not begun.
    pub(crate) fn on_head(&self, callback: HeadCallback) {
        let heads = self.port.heads();
        // More of them than exchanges: some came too late, which nobody else has noticed.
        if self.desk().is_some_and(|desk| heads.len() as u64 > desk.counters().exchanges_now()) {
            heads.retain(|id| {
                let mut is_there = false;
                self.port.with_collected(id, &mut |_| is_there = true);
                is_there
            });
        }
        heads.push(self.id, callback);
    }

    /// Writes the head of an answer that is streamed.
    pub(crate) fn begin(&self, mut response: Response, length: Option<u64>) -> Result<(), Error> {
        match response.refusal() {
            Some(Refusal::NoRoom) => return Err(OverBudget::new(0).into()),
            Some(Refusal::Misuse) => return Err(Error::Misuse(Misuse::ResponseRefused)),
            None => {}
        }
        if response.kind() == ResponseKind::Streamed || response.length() != BodyLength::Empty {
            return Err(Error::Misuse(Misuse::StreamedWithBody));
        }
        self.port.heads().run(self.id, &mut response);
        self.port.begin(self.id, &mut response, length.map_or(BodyLength::Unknown, BodyLength::Known))
    }

    /// Writes a piece of an answer's body.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        self.port.poll_write(self.id, cx, body)
    }

    /// Ends an answer's body.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        self.port.finish(self.id)
    }

    /// The same with trailers, as soon as there is room for them.
    pub(crate) fn poll_finish_with(&self, cx: &mut Context<'_>, trailers: Fields<'_>) -> Poll<Result<(), Error>> {
        self.port.poll_finish_with(self.id, cx, trailers)
    }
}

/// Answers 500 when the handler's future goes away without an answer: when it panics.
pub(crate) struct Responder {
    handle: Option<ExchangeHandle>,
}

impl Responder {
    /// For the handler that is made now.
    pub(crate) fn new(handle: ExchangeHandle) -> Self {
        handle.port.begun();
        Self { handle: Some(handle) }
    }

    pub(crate) fn answer(mut self, mut response: Response) {
        self.end(Some(&mut response));
    }

    /// As [`answer`](Self::answer), and waits for room if there is none. To be polled until it is ready.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        if let Some(handle) = &self.handle {
            handle.port.heads().run(handle.id, response);
            let refusal = response.refusal();
            if handle.port.poll_answer(handle.id, cx, response).is_pending() {
                return Poll::Pending;
            }
            count_refused(handle, refusal);
            self.handle = None;
        }
        Poll::Ready(())
    }

    fn end(&mut self, mut response: Option<&mut Response>) {
        if let Some(handle) = self.handle.take() {
            match &mut response {
                Some(response) => {
                    handle.port.heads().run(handle.id, response);
                    count_refused(&handle, response.refusal());
                }
                None => handle.port.heads().forget(handle.id),
            }
            handle.port.answer(handle.id, response);
        }
    }
}

/// Counts an answer that could not be said for want of memory, as one that found no room.
fn count_refused(handle: &ExchangeHandle, refusal: Option<Refusal>) {
    if refusal == Some(Refusal::NoRoom)
        && let Some(desk) = handle.desk()
    {
        desk.shed_for_room(Shed::Output);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end(None);
    }
}
