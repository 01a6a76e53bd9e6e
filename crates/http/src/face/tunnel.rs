//! Streams of HTTP/2 that carry bytes of another protocol: a [`Tunnel`], or a WebSocket.

use ::core::future::Future;

use http::{Method, StatusCode};
use plimsoll_codec::h1::BodyLength;

use crate::exchange::tunnel::Tunnel;
use crate::websocket::{self, Accepted};
use crate::{Error, Misuse, Request, Response};

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
    /// [`Error::Disconnected`] when the request was answered or its peer went away, [`Error::OverBudget`].
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
    fn open_tunnel(
        &self,
        mut response: Response,
        start: impl FnOnce(Tunnel) -> Result<(), Error>,
    ) -> Result<Response, Error> {
        let is_connect = self.version() == http::Version::HTTP_2 && self.method() == Method::CONNECT;
        if !is_connect {
            return Err(Error::Misuse(Misuse::NotConnectInStream));
        }
        let is_empty = matches!(response.length(), BodyLength::Empty);
        let status = response.status();
        if !status.is_success() || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) || !is_empty {
            return Err(Error::Misuse(Misuse::TunnelAnswer));
        }
        let handle = self.handle();
        start(Tunnel::hold(handle.clone())?)?;
        handle.port().heads().run(handle.id, &mut response);
        handle.port().begin_tunnel(handle.id, &mut response)?;
        Ok(Response::streamed())
    }

    /// Answers the handshake of a WebSocket, and has it opened when that has left.
    pub(crate) fn open_websocket(&self, accepted: Accepted) -> Result<Response, Error> {
        match accepted {
            Accepted::Refused(response) => Ok(response),
            Accepted::Connection(response, opening) => {
                self.set_websocket(opening)?;
                Ok(response)
            }
            Accepted::Stream(response, opening) => {
                self.open_tunnel(response, websocket::on_stream(self.handle(), opening)?)
            }
        }
    }
}
