//! Connections that leave HTTP: after a 101 to an Upgrade (RFC 9110 7.8), or a 2xx to CONNECT (RFC 9110 9.3.6).
//!
//! ```text
//!  handler: Request::upgrade, tunnel --> 101 or 200 --> sent --> the connection leaves the table
//!                                                              --> a task of its own: Upgraded
//! ```
//!
//! Bytes that came behind the request's head are the first that the task receives. The connection goes on counting for
//! the limits on connections, and the server's stop waits for it (up to
//! [`Config::drain_timeout`](crate::Config::drain_timeout)); the server's deadlines are over for it.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::ops::{Deref, DerefMut};
use ::core::task::Poll;

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::RequestView;
use plimsoll_runtime::net::Stream;

use crate::exchange::guard::ConnectionGuard;
use crate::h1::active::Active;
use crate::h1::actives::Http1;
use crate::memory::lasting::Sort;
use crate::websocket::Opening;
use crate::worker::released::{Successor, Upgrade};
use crate::worker::state::WorkerState;
use crate::worker::stay::Listing;
use crate::{Error, Misuse, Request, Response};

/// A connection that speaks HTTP no more, in a task of its own; see [`Request::upgrade`](crate::Request::upgrade) and
/// [`Request::tunnel`](crate::Request::tunnel).
///
/// It is a [`Stream`] for all purposes. What the peer sent behind its request is received first. Dropping it closes
/// the connection.
pub struct Upgraded {
    stream: Stream,
    guard: ConnectionGuard,
    listing: Option<Listing>,
}

impl Upgraded {
    /// The stream itself, to be split or given to a relay, and the connection's place among those of the server: drop
    /// that last.
    pub fn into_parts(self) -> (Stream, ConnectionGuard) {
        (self.stream, self.guard)
    }

    /// Whether the server was asked to stop: it waits for this connection as long as it waits for requests. To be told,
    /// await [`signal::stopped`](plimsoll_runtime::signal::stopped).
    pub fn is_stopping(&self) -> bool {
        self.guard.desk().is_stopping()
    }

    /// Ready when others wait for memory, and of what connections that stay hold this one is to be given back first:
    /// end it as its protocol ends. Nothing else ends it. One that is split by [`into_parts`](Self::into_parts) is not
    /// asked.
    ///
    /// Cancel safe.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    ///
    /// async fn line(req: Request) -> Result<Response, Error> {
    ///     req.upgrade("lines/1", |mut peer| async move {
    ///         peer.told_to_end().await;
    ///         let _gone = peer.send_static(b"bye: memory is short\n").await;
    ///     })
    /// }
    /// ```
    pub async fn told_to_end(&self) {
        poll_fn(|cx| self.listing.as_ref().map_or(Poll::Pending, |listing| listing.poll_told(cx))).await;
    }
}

impl Deref for Upgraded {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl DerefMut for Upgraded {
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// The answer to a client that offered `protocol`.
pub(crate) fn to(view: &RequestView<'_>, protocol: &'static str) -> Result<Response, Error> {
    // Without Connection: upgrade, and in HTTP/1.0 and HTTP/2, the field means nothing.
    let is_offered = view.upgrade().is_some()
        && view
            .fields_named("upgrade")
            .flat_map(|list| list.split(|&byte| byte == b','))
            .any(|offer| offer.trim_ascii().eq_ignore_ascii_case(protocol.as_bytes()));
    if !is_offered {
        return Err(Error::UpgradeRequired(protocol));
    }
    Response::new(StatusCode::SWITCHING_PROTOCOLS).try_header("Upgrade", protocol)
}

/// The answer to a client that asked for a tunnel.
pub(crate) fn tunnel(view: &RequestView<'_>) -> Result<Response, Error> {
    if view.method() != Method::CONNECT {
        return Err(Error::Misuse(Misuse::NotConnect));
    }
    if view.version() > Version::HTTP_11 {
        return Err(Error::Unsupported(
            "tunnels of HTTP/2 as whole connections (Request::accept_tunnel takes them as streams)",
        ));
    }
    Ok(Response::new(StatusCode::OK))
}

/// What is done with the connection: `run`, in a task of its own.
pub(crate) fn task<F>(run: impl FnOnce(Upgraded) -> F + 'static) -> Upgrade
where
    F: Future<Output = ()> + 'static,
{
    Box::new(move |stream, guard| {
        let worker = WorkerState::of_port(guard.port());
        let listing = worker.ok().and_then(|worker| Listing::new(&worker, Sort::Released, guard.columns()));
        if plimsoll_runtime::spawn(run(Upgraded { stream, guard, listing })).is_err() {
            tracing::warn!("no room for the task of a connection that left HTTP: it is closed");
        }
    })
}

impl Request {
    /// Whether the connection may leave HTTP now.
    fn may_leave(&self) -> Result<(), Error> {
        Ok(WorkerState::of(self.handle())?.may_stay()?)
    }

    /// Says who gets the connection if the answer is a 101.
    pub(crate) fn set_upgrade(&self, upgrade: Upgrade) -> Result<(), Error> {
        self.may_leave()?;
        self.before_upgrade(|active| active.successor.replace(Box::new(Successor::Upgrade(upgrade))))
    }

    /// Says which WebSocket the connection becomes if the answer is a 101.
    pub(crate) fn set_websocket(&self, opening: Opening) -> Result<(), Error> {
        self.before_upgrade(|active| active.successor.replace(Box::new(Successor::WebSocket(opening))))
    }

    fn before_upgrade<T>(&self, set: impl FnOnce(&mut Active) -> T) -> Result<(), Error> {
        Http1(WorkerState::of(self.handle())?).before_upgrade(self.handle().id, set)
    }

    /// Writes the head of a streamed answer whose rest is sent by whoever gets the connection.
    pub(crate) fn begin_member(&self, response: Response, upgrade: Upgrade) -> Result<(), Error> {
        let (handle, worker) = (self.handle(), WorkerState::of(self.handle())?);
        debug_assert!(handle.id.stream().is_none(), "a stream has no connection of its own");
        self.may_leave()?;
        worker.with(handle.id, |active| active.exchange.close_after());
        handle.begin(response, None)?;
        worker
            .with(handle.id, |active| active.successor.replace(Box::new(Successor::Upgrade(upgrade))))
            .map(drop)
            .ok_or(Error::Disconnected)
    }
}
