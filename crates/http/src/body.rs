//! The body of an answer that is streamed.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::task::Poll;

use plimsoll_runtime::Lease;

use crate::response::Body;
use crate::ticket::Ticket;
use crate::{Error, Response};

/// Writes the body of an answer piece by piece, as fast as the peer takes it. See [`Request::respond`](crate::Request::respond).
///
/// Dropped before [`finish`](Self::finish), it leaves the answer cut short: the connection is closed, or in HTTP/2 the stream reset, so that the peer can tell.
pub struct BodyWriter {
    ticket: Ticket,
}

impl BodyWriter {
    pub(crate) fn new(ticket: Ticket) -> Self {
        Self { ticket }
    }

    /// Writes the bytes of a lease. Waits while more than the configured output waits for the socket.
    ///
    /// Not cancel safe: after a drop midway nobody knows whether the piece was written.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], [`Error::OverBudget`], [`Error::Misuse`] for more bytes than were announced.
    pub async fn write(&mut self, lease: Lease) -> Result<(), Error> {
        self.put(Body::Lease(lease)).await
    }

    /// Writes bytes that live for ever, without a copy where they are many.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_static(&mut self, bytes: &'static [u8]) -> Result<(), Error> {
        self.put(Body::Static(bytes)).await
    }

    /// Writes shared bytes.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_bytes(&mut self, bytes: bytes::Bytes) -> Result<(), Error> {
        self.put(Body::Bytes(bytes)).await
    }

    async fn put(&mut self, body: Body) -> Result<(), Error> {
        if body.as_slice().is_empty() {
            return Ok(());
        }
        let mut body = Some(body);
        poll_fn(|cx| match self.ticket.poll_write(cx, &mut body) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(written) => Poll::Ready(written),
        })
        .await
    }

    /// Ends the body. The handler returns what this gives.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for fewer bytes than were announced, [`Error::Gone`], [`Error::OverBudget`].
    pub async fn finish(self) -> Result<Response, Error> {
        self.ticket.finish()?;
        Ok(Response::streamed())
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyWriter")
    }
}
