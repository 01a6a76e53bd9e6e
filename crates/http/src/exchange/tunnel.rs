//! A stream that carries bytes of another protocol (RFC 8441, RFC 9113 8.5).
//!
//! ```text
//!  CONNECT -> handler: Request::accept_tunnel -> 200, the stream stays open -> task of its own: Tunnel
//!                                                                               | finish        -> END_STREAM
//!                                                                               | dropped before -> RST_STREAM
//! ```
//!
//! The exchange is *held* by the tunnel as it is by a handler: it is not over before both have let go.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};

use plimsoll_runtime::Lease;

use crate::base::error::Error;
use crate::exchange::handle::{ExchangeHandle, WITHOUT_CONNECTION};
use crate::exchange::response::Body;
use crate::memory::lasting::{Number, Sort};

/// Bytes both ways over one stream of an HTTP/2 connection, with the stream's flow control; see
/// [`Request::accept_tunnel`](crate::Request::accept_tunnel).
///
/// While it waits it holds no buffer. Dropped before both sides have ended it, it resets the stream with `CANCEL`. It
/// has no time limit of its own for bytes that come; a peer that takes nothing for
/// [`Config::send_timeout`](crate::Config::send_timeout) loses it.
pub struct Tunnel {
    handle: ExchangeHandle,
    /// In the list of those that can be told to end.
    at: Option<Number>,
}

impl Tunnel {
    /// On the stream of an exchange that was not answered yet.
    pub(crate) fn hold(handle: ExchangeHandle) -> Result<Self, Error> {
        let desk = handle.desk().ok_or(WITHOUT_CONNECTION)?;
        desk.may_stay()?;
        handle.port().hold_tunnel(handle.id)?;
        let at = desk.enter_stay(Sort::Tunnel, handle.host(), handle.id);
        Ok(Self { handle, at })
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] when the connection is no more.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.handle.peer_addr()
    }

    /// The next bytes, one or more; `None` after the peer has ended its side. The peer's window grows again by what was
    /// taken.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] after a reset, or when the connection is no more; [`Error::OverBudget`] when there was
    /// no room for what came for [`memory_timeout`](crate::Config::memory_timeout): it is dropped, and what still
    /// comes.
    pub async fn recv(&mut self) -> Result<Option<Lease>, Error> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Self::recv), for futures written by hand. The waker of the last call is woken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        self.handle.poll_chunk(cx)
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
        self.handle.port().give_up_rest(self.handle.id);
    }

    /// Has the task woken when it is its turn among those that wait for memory.
    pub(crate) fn await_turn(&self, cx: &Context<'_>) {
        self.handle.port().await_turn(self.handle.id, cx);
    }

    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.at.map_or(Poll::Pending, |at| self.handle.connection_desk().poll_told(at, cx))
    }

    /// Sends the bytes of a lease: waits until those of the call before have left within the peer's windows, and takes
    /// these. [`flush`](Self::flush) waits for them, too.
    ///
    /// Not cancel safe: after a drop midway nobody knows whether the bytes were taken.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] as for [`recv`](Self::recv), [`Error::Misuse`] after [`finish`](Self::finish).
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
        poll_fn(|cx| self.handle.poll_write(cx, &mut body)).await
    }

    /// Waits until all that was sent has left within the peer's windows.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`], as for [`recv`](Self::recv).
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.handle.port().poll_flush(self.handle.id, cx)).await
    }

    /// Ends our side behind what was sent. The peer may go on.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`], as for [`recv`](Self::recv).
    pub fn finish(&mut self) -> Result<(), Error> {
        self.handle.finish()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.handle.connection_desk().leave_stay(Sort::Tunnel, self.at);
        self.handle.port().release_tunnel(self.handle.id);
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tunnel")
    }
}
