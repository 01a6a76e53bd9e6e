//! A record of each request, with its duration.

use ::core::cell::Cell;
use ::core::fmt;
use ::core::net::SocketAddr;
use ::core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use http::{Method, StatusCode};
use plimsoll_runtime::{Instant, clock};

use crate::face::layer::{Endpoint, Id, Layer};
use crate::{Request, Response};

/// What [`Log`] tells of a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogRecord<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, percent-encoded as it came.
    pub path: &'a str,
    /// The status that was sent; `None` when the handler was dropped before it answered: its client went away, it took
    /// too long, or it panicked.
    pub status: Option<StatusCode>,
    /// From the call of the layer until the handler was done: with a streamed answer, until all of it was written.
    pub duration: Duration,
    /// The id that a [`RequestId`](crate::layer::RequestId) around this layer has given.
    pub id: Option<&'a Id>,
    /// The peer, if it was still there when the request came.
    pub peer: Option<SocketAddr>,
}

/// Tells of each request once it is done, also of those whose handler was dropped. For a file with a line for each
/// answer of the server, of whatever comes, see [`AccessLog`](crate::AccessLog).
///
/// ```
/// use plimsoll_http::layer::{Log, RequestId};
/// use plimsoll_http::{Request, Router};
///
/// let log = Log::new(|record| eprintln!("{} {} {:?} {:?}", record.method, record.path, record.status,
/// record.duration)); // The id is outside: the log knows it.
/// let routes = Router::new().get("/", async |_: Request| "ok\n").layer((RequestId::new(), log));
/// # assert!(routes.check().is_ok());
/// ```
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&LogRecord<'_>) + Send + Sync>);

impl Log {
    /// Calls `write` with each record, on the worker of its connection.
    pub fn new(write: impl Fn(&LogRecord<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Tells `tracing` of each, at its level of information.
    pub fn tracing() -> Self {
        Self::new(|record| {
            let &LogRecord { method, path, status, duration, id, peer } = record;
            let (status, id, peer) =
                (status.map(|status| status.as_u16()), id.map(Id::as_str), peer.map(|peer| peer.to_string()));
            tracing::info!(%method, path, status, ?duration, id, peer, "request");
        })
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl Layer for Log {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        let status = Rc::new(Cell::new(None));
        let seen = Rc::clone(&status);
        request.on_head(move |head| seen.set(Some(head.status())));
        let open = Open {
            log: self,
            method: request.method().clone(),
            path: request.path().into(),
            peer: request.peer_addr().ok(),
            id: request.extensions().get::<Id>().cloned(),
            begun: clock(),
            status,
        };
        let response = next.call(request).await;
        open.status.set(open.status.get().or(Some(response.status())));
        response
    }
}

/// A request that is worked on. Its end is told when this is dropped, however that comes.
struct Open<'a> {
    log: &'a Log,
    method: Method,
    path: Box<str>,
    peer: Option<SocketAddr>,
    id: Option<Id>,
    begun: Instant,
    status: Rc<Cell<Option<StatusCode>>>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Self { method, path, peer, id, .. } = self;
        let (status, duration) = (self.status.get(), clock() - self.begun);
        let record = LogRecord { method, path, status, duration, id: id.as_ref(), peer: *peer };
        if plimsoll_pool::catch_panic(|| (self.log.0)(&record)).is_none() {
            tracing::error!("the log of requests panicked");
        }
    }
}
