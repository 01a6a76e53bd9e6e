//! A stream that carries bytes of another protocol (RFC 8441, RFC 9113 8.5).
//!
//! ```text
//!  CONNECT -> handler: Request::accept_tunnel -> 200, the stream stays open -> task of its own: Tunnel
//!                                                                               | finish        -> END_STREAM
//!                                                                               | dropped before -> RST_STREAM
//! ```
//!
//! The stream's exchange is *held* by the tunnel as it is by a handler: its slot is not free before both have let go.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll, Waker};

use http::{Method, StatusCode};
use plimsoll_codec::h1::BodyLength;
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_runtime::Lease;
use plimsoll_slab::Key;

use super::Http2;
use super::streams::{Outgoing, find};
use crate::exchange::handle::Ticket;
use crate::exchange::response::{Body, Response};
use crate::worker::connection::Connection;
use crate::worker::state::Core;
use crate::worker::stay::Stay;
use crate::{Error, Request};

/// Bytes both ways over one stream of an HTTP/2 connection, with the stream's flow control; see
/// [`Request::accept_tunnel`].
///
/// While it waits it holds no buffer. Dropped before both sides have ended it, it resets the stream with `CANCEL`. It
/// has no time limit of its own for bytes that come; a peer that takes nothing for
/// [`Config::send_timeout`](crate::Config::send_timeout) loses it.
pub struct Tunnel {
    ticket: Ticket,
    stay: Stay,
}

impl Tunnel {
    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] when the connection is no more.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.ticket.peer_addr()
    }

    /// The next bytes, one or more; `None` after the peer has ended its side. The peer's window grows again by what was
    /// taken.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] after a reset, or when the connection is no more; [`Error::OverBudget`] when there was no room
    /// for what came for [`memory_timeout`](crate::Config::memory_timeout): it is dropped, and what still comes.
    pub async fn recv(&mut self) -> Result<Option<Lease>, Error> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Self::recv), for futures written by hand. The waker of the last call is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        self.ticket.poll_chunk(cx)
    }

    /// Ready when others wait for memory, and of what connections that stay hold this one is to be given back first:
    /// end it as its protocol ends. If it goes on, its stream may be reset.
    ///
    /// Cancel safe.
    pub async fn told_to_end(&self) {
        poll_fn(|cx| self.poll_told(cx)).await;
    }

    /// What still comes is dropped: there is no room for it, and was none for too long.
    pub(crate) fn give_up_rest(&self) {
        let ticket = &self.ticket;
        let Some(stream) = ticket.stream else { return };
        let _gone = ticket.core().on_stream(ticket.key, stream, |parts| {
            if let Some(exchange) = find(parts.exchanges, stream) {
                exchange.give_up_rest(ticket.core());
            }
            Ok(())
        });
    }

    /// Has the task woken when it is its turn among those that wait for memory.
    pub(crate) fn await_turn(&self, cx: &Context<'_>) {
        self.ticket.await_turn(cx);
    }

    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.stay.poll_told(cx)
    }

    /// Sends the bytes of a lease: waits until those of the call before have left within the peer's windows, and takes
    /// these. [`flush`](Self::flush) waits for them, too.
    ///
    /// Not cancel safe: after a drop midway nobody knows whether the bytes were taken.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] as for [`recv`](Self::recv), [`Error::Misuse`] after [`finish`](Self::finish).
    pub async fn send(&mut self, bytes: Lease) -> Result<(), Error> {
        self.put(Body::Lease(bytes)).await
    }

    /// Sends bytes that live for ever.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_static(&mut self, bytes: &'static [u8]) -> Result<(), Error> {
        self.put(Body::Static(bytes)).await
    }

    /// Sends shared bytes.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn send_shared(&mut self, bytes: bytes::Bytes) -> Result<(), Error> {
        self.put(Body::Bytes(bytes)).await
    }

    async fn put(&mut self, body: Body) -> Result<(), Error> {
        if body.as_slice().is_empty() {
            return Ok(());
        }
        let mut body = Some(body);
        poll_fn(|cx| self.ticket.poll_write(cx, &mut body)).await
    }

    /// Waits until all that was sent has left within the peer's windows.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], as for [`recv`](Self::recv).
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.ticket.poll_tunnel_flush(cx)).await
    }

    /// Ends our side behind what was sent. The peer may go on.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], as for [`recv`](Self::recv).
    pub fn finish(&mut self) -> Result<(), Error> {
        self.ticket.finish()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.ticket.let_go_of_tunnel();
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tunnel")
    }
}

impl Request {
    /// The protocol of an extended CONNECT (RFC 8441), such as `websocket`; `None` for every other request.
    pub fn connect_protocol(&self) -> Option<&str> {
        let is_extended = self.version() == http::Version::HTTP_2 && self.method() == Method::CONNECT;
        let protocol = self.view().upgrade().filter(|_| is_extended)?;
        ::core::str::from_utf8(protocol).ok()
    }

    /// Accepts a CONNECT of HTTP/2, plain or extended: the stream carries bytes both ways from now on, and `run` gets
    /// it in a task of its own. The handler returns what this gives and is over then. `response` is a 2xx without a
    /// body.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    ///
    /// async fn echo(req: Request) -> Result<Response, Error> {
    ///     if req.connect_protocol() != Some("echo") {
    ///         return Ok(Response::new(StatusCode::NOT_IMPLEMENTED));
    ///     }
    ///     req.accept_tunnel(Response::new(StatusCode::OK), |mut tunnel| async move {
    ///         while let Ok(Some(bytes)) = tunnel.recv().await {
    ///             if tunnel.send(bytes).await.is_err() {
    ///                 return;
    ///             }
    ///         }
    ///         let _the_peer_went_away = tunnel.finish();
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for what is no CONNECT of HTTP/2, and for an answer that cannot begin a tunnel;
    /// [`Error::Gone`] when the request was answered or its peer went away, [`Error::OverBudget`].
    pub fn accept_tunnel<F>(
        &self,
        response: Response,
        run: impl FnOnce(Tunnel) -> F + 'static,
    ) -> Result<Response, Error>
    where
        F: Future<Output = ()> + 'static,
    {
        self.open_tunnel(response, |tunnel| {
            drop(plimsoll_runtime::spawn(run(tunnel))?);
            Ok(())
        })
    }

    /// As [`accept_tunnel`](Self::accept_tunnel), with `start` called in here to hand the tunnel to whom it is for: the
    /// answer leaves if that is done, and after an error nothing has been answered yet.
    pub(crate) fn open_tunnel(
        &self,
        response: Response,
        start: impl FnOnce(Tunnel) -> Result<(), Error>,
    ) -> Result<Response, Error> {
        let is_connect = self.version() == http::Version::HTTP_2 && self.method() == Method::CONNECT;
        if !is_connect {
            return Err(Error::Misuse("a tunnel begins with CONNECT, in HTTP/2"));
        }
        let is_empty = matches!(response.length(), BodyLength::Empty);
        let status = response.status();
        if !status.is_success() || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) || !is_empty {
            return Err(Error::Misuse("a tunnel begins with a 2xx that has no body, and may have one"));
        }
        let ticket = self.ticket().clone();
        let stay = ticket.hold_tunnel()?;
        start(Tunnel { ticket: ticket.clone(), stay })?;
        ticket.begin_tunnel(response)?;
        Ok(Response::streamed())
    }
}

impl Ticket {
    fn await_turn(&self, cx: &Context<'_>) {
        let mut table = self.core().table.borrow_mut();
        if let Some(stream) = self.stream
            && let Some(Connection::Http2(http2)) = table.get_mut(self.key)
            && let Some(exchange) = http2.slots.exchange(stream)
        {
            exchange.writer = Some(cx.waker().clone());
        }
    }

    /// Has the engine look after the connection: something waits for memory there.
    pub(crate) fn look_after(&self) {
        if let Some(Connection::Http2(http2)) = self.core().table.borrow_mut().get_mut(self.key) {
            self.core().list_http2(self.key, http2);
        }
    }
}

impl Http2 {
    /// Whether a tunnel is open on a stream, by its identifier.
    pub(crate) fn is_held(&self, stream: u32) -> bool {
        self.slots.exchanges().iter().flatten().any(|exchange| exchange.id == stream && exchange.held)
    }
}

impl Core {
    /// It is the turn of what waits for memory on a tunnel; whether its task is woken for that.
    pub(crate) fn wake_held(&self, key: Key, stream: u32) -> bool {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return false };
        let mut exchanges = http2.slots.parts().1.iter_mut().flatten();
        let held = exchanges.find(|exchange| exchange.id == stream && exchange.held);
        let writer = held.and_then(|exchange| exchange.writer.take());
        writer.map(Waker::wake).is_some()
    }

    /// A tunnel is made for a request that was not answered yet.
    pub(crate) fn h2_hold(&self, key: Key, stream: StreamKey) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| match find(parts.exchanges, stream) {
            Some(exchange) if exchange.response == Outgoing::Head && !exchange.held => {
                exchange.held = true;
                Ok(())
            }
            _ => Err(Error::Misuse("the request was answered already")),
        })
    }

    /// Answers: what follows are the tunnel's bytes.
    pub(crate) fn h2_begin_tunnel(&self, key: Key, stream: StreamKey, response: &mut Response) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.held) else {
                return Err(Error::Gone);
            };
            // A 2xx to CONNECT says nothing of a length, and is followed by DATA all the same: as an answer to GET
            // whose length is not known.
            exchange.method = Method::GET;
            exchange.patience.pause(plimsoll_runtime::now());
            self.put_answer(parts, stream, response, BodyLength::Unknown)
        })
    }

    pub(crate) fn h2_poll_flush(&self, key: Key, stream: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
            if exchange.rest().is_empty() {
                return Ok(true);
            }
            exchange.writer = Some(cx.waker().clone());
            Ok(false)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }

    /// The tunnel was dropped. What it has sent before the end of its side still leaves.
    pub(crate) fn h2_let_go(&self, key: Key, stream: StreamKey) {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return };
        if http2.closing {
            return;
        }
        self.with_parts(http2, |parts| {
            let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.held) else { return };
            exchange.held = false;
            (exchange.reader, exchange.writer) = (None, None);
            match exchange.response {
                // The handler can still answer something else.
                Outgoing::Head => {}
                Outgoing::Body if !exchange.finished => self.break_off(parts, stream, ErrorCode::Cancel),
                Outgoing::Body | Outgoing::Complete => self.end_if_done(parts, stream),
            }
        });
        self.list_http2(key, http2);
    }
}
