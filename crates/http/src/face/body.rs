//! The body of an answer that is streamed.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::task::Poll;

use plimsoll_codec::h1::Fields;
use plimsoll_runtime::Lease;

use crate::exchange::handle::ExchangeHandle;
use crate::exchange::response::Body;
use crate::exchange::trailers;
use crate::{Error, Response};

/// Writes the body of an answer piece by piece, as fast as the peer takes it. See
/// [`Request::respond`](crate::Request::respond).
///
/// Dropped before [`finish`](Self::finish), it leaves the answer cut short: the connection is closed, or in HTTP/2 the
/// stream reset, so that the peer can tell.
pub struct BodyWriter {
    handle: ExchangeHandle,
}

impl BodyWriter {
    pub(crate) fn new(handle: ExchangeHandle) -> Self {
        Self { handle }
    }

    /// Writes the bytes of a lease. Waits while more than the configured output waits for the socket.
    ///
    /// Not cancel safe: after a drop midway nobody knows whether the piece was written.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`], [`Error::OverBudget`], [`Error::Misuse`] for more bytes than were announced.
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
        poll_fn(|cx| match self.handle.poll_write(cx, &mut body) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(written) => Poll::Ready(written),
        })
        .await
    }

    /// Ends the body. The handler returns what this gives.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for fewer bytes than were announced, [`Error::Disconnected`], [`Error::OverBudget`].
    pub async fn finish(self) -> Result<Response, Error> {
        self.handle.finish()?;
        Ok(Response::streamed())
    }

    /// Leaves the answer cut short, so that the peer can tell: the connection is closed, or in HTTP/2 the stream reset.
    /// The handler returns what this gives.
    #[must_use = "the handler returns it"]
    pub fn abort(self) -> Response {
        Response::streamed()
    }

    /// Ends the body, and sends fields after it (RFC 9110 6.5). The handler returns what this gives.
    ///
    /// HTTP/2 has a place for them behind every body, HTTP/1.1 only behind one whose length was not announced. Behind
    /// another one, and in answers to HTTP/1.0 and to HEAD, they are left out, and anybody on the way may drop them:
    /// nothing may depend on them. A client that would like to have them says `TE: trailers`, and a field `Trailer` in
    /// the head tells it which to expect.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    ///
    /// async fn counted(mut req: Request) -> Result<Response, Error> {
    ///     let mut out = req.respond(Response::new(StatusCode::OK).header("trailer", "total"), None)?;
    ///     let mut total = 0;
    ///     while let Some(chunk) = req.chunk().await? {
    ///         total += chunk.len();
    ///         out.write(chunk).await?;
    ///     }
    ///     out.finish_with_trailers(&[("total", total.to_string().as_bytes())]).await
    /// }
    /// ```
    ///
    /// Not cancel safe: after a drop midway the answer is cut short.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish); [`Error::Misuse`] for a field that is not allowed at all (CR, LF, NUL, a name that
    /// is no token), or not after a body (`Content-Length`, `Set-Cookie`, ...): the answer is cut short then. The same
    /// on HTTP/2 for more than 15 KiB.
    pub async fn finish_with_trailers(self, trailers: &[(&str, &[u8])]) -> Result<Response, Error> {
        if trailers.is_empty() {
            return self.finish().await;
        }
        let block = trailers::encode(&plimsoll_runtime::pool(), trailers)?;
        poll_fn(|cx| self.handle.poll_finish_with(cx, Fields::assume_checked(&block))).await?;
        Ok(Response::streamed())
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyWriter")
    }
}
