//! Tower services on Plimsoll's HTTP server: routers of axum, servers that tonic generates, layers of tower-http.
//!
//! A service of `http` requests is given to [`serve`] with a server. Each request goes to a clone of it, on the worker
//! of its connection; its futures need not be [`Send`]. Connections are the server's own: some hundred bytes while they
//! are parked, HTTP/1.1 and HTTP/2, everything that the server holds under the memory line.
//!
//! ```
//! use axum::{Router, routing::get};
//! use plimsoll_http::Server;
//! use plimsoll_runtime::Runtime;
//! # use plimsoll_runtime::{Spawner, net::TcpStream};
//!
//! # let runtime = Runtime::builder().workers(1).build()?;
//! # let answer = runtime.block_on(async {
//! let router = Router::new().route("/", get(async || "hello"));
//! let server = Server::bind("127.0.0.1:0")?;
//! # let address = server.local_addr();
//! let serving = plimsoll_runtime::spawn(plimsoll_tower::serve(server, router))?;
//! # let mut client = TcpStream::connect(address).await?;
//! # client.send_bytes(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await?;
//! # let mut answer = Vec::new();
//! # while let Some(bytes) = client.recv().await? { answer.extend_from_slice(&bytes); }
//! # Spawner::current().stop();
//! # serving.await.expect("the server ends")?;
//! # Ok::<_, plimsoll_runtime::Error>(answer) })?;
//! # assert!(answer.ends_with(b"hello"));
//! # Ok::<(), plimsoll_runtime::Error>(())
//! ```
//!
//! # The way back
//!
//! [`HandlerService`] is a handler or a router of ours as a tower service: to be nested in a router of axum while a
//! service moves from one to the other, wrapped by tower's layers, and tested by `oneshot` without a socket.
//!
//! # What is under the line and what is not
//!
//! The server's own memory is, as always: connections, heads, bodies on their way, the cells of handlers' tasks. What a
//! service allocates by itself is the program's heap: its futures' boxes, header maps, a decoder's buffers. For that
//! each request is charged a flat [footprint](Options::footprint_bytes) while it is worked on, and at the line it hears
//! 503. A service that needs much more should say so there.
//!
//! # What is the server's
//!
//! `Content-Length`, `Transfer-Encoding`, `Connection`, `Keep-Alive`, `Proxy-Connection` and `Date` of a response are
//! left out: the server says them. A body whose length is known goes out with it; `Content-Length` of a response
//! stands for it where the body does not know its own. Answers to HEAD and those with status 204, 205 and 304 go out
//! without their body, which is not polled. Trailers that HTTP does not allow behind a body, such as `Set-Cookie`, are
//! left out.
//!
//! Requests of HTTP/2 have one `Cookie` field, however many theirs was cut into.
//!
//! | a service | its client |
//! |---|---|
//! | panics | 500, and its connection ends; others go on |
//! | returns an error | 500; the error is logged |
//! | answers with an interim status (1xx), and no upgrade | 500; it is logged |
//! | has a body that is longer or shorter than its length says | the answer is cut short |
//! | is not ready | waits, as long as [`Config::handler_timeout`](plimsoll_http::Config::handler_timeout) allows |
//! | has a body that fails | 500 if nothing was sent, else the answer is cut short: HTTP/1.1 closes, HTTP/2 resets |
//! | takes longer than a call's `grpc-timeout` | `grpc-status: 4` |
//! | is called by gRPC over HTTP/1.0 | 505, before the service sees it: a status behind the body has no place there |
//!
//! A client that goes away ends the service's future at its next await. When an answer has begun, one of HTTP/1.1 that
//! closes its connection looks as one that has only sent its last request, until more of the answer is sent: see
//! [`HalfClose`](plimsoll_http::HalfClose). So give events that are rare a keep-alive.
//!
//! # What needs tokio
//!
//! Nothing here runs tokio. Code that asks for its context, as `tokio::time` and `tokio::net` do, and with them axum's
//! keep-alive of events and tower-http's `ServeDir` and `timeout`, panics with a text of tokio's ("there is no reactor
//! running"). Either take [`plimsoll_runtime::sleep`] and its streams in their place, or turn on the feature
//! `tokio-context` of the runtime and ask its builder for `tokio_context()`.
//!
//! # Features
//!
//! `axum`: [`ws::WebSocketUpgrade`]. `axum-connect-info`: axum's `ConnectInfo` with the peer's address.
#![cfg_attr(not(feature = "axum"), allow(rustdoc::broken_intra_doc_links))]
#![forbid(unsafe_code)]

mod answer;
mod body;
mod grpc;
mod handler;
mod head;
mod slot;
#[cfg(feature = "axum")]
pub mod ws;

use core::net::SocketAddr;

pub use body::Body;
pub use handler::{AnswerBody, Answering, HandlerService};
use http_body::Body as HttpBody;
use plimsoll_http::Server;
use tower_service::Service;

/// Any error of a service.
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// How a service is served.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What a request is charged, in bytes, for what the service allocates by itself while it works on it. 8 KiB at
    /// first.
    pub footprint_bytes: u64,
    /// Whether requests get their peer's address among their extensions, as [`PeerAddress`] (with the feature
    /// `axum-connect-info` also as axum's `ConnectInfo`). `true` at first.
    pub peer_address: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { footprint_bytes: 8 * 1_024, peer_address: true }
    }
}

impl Options {
    /// Sets [`footprint_bytes`](Self::footprint_bytes).
    #[must_use]
    pub fn footprint_bytes(mut self, bytes: u64) -> Self {
        self.footprint_bytes = bytes;
        self
    }

    /// Sets [`peer_address`](Self::peer_address): without it, a request is three allocations cheaper.
    #[must_use]
    pub fn peer_address(mut self, is_told: bool) -> Self {
        self.peer_address = is_told;
        self
    }
}

/// The peer's address, among a request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// Serves a tower service on every worker, until the runtime is asked to stop and what runs has finished.
///
/// # Errors
///
/// As [`Server::serve`].
pub async fn serve<S, B>(server: Server, service: S) -> plimsoll_runtime::Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: HttpBody + 'static,
    B::Error: Into<BoxError>,
{
    serve_with(server, service, Options::default()).await
}

/// As [`serve`], with options.
///
/// # Errors
///
/// As [`Server::serve`].
pub async fn serve_with<S, B>(server: Server, service: S, options: Options) -> plimsoll_runtime::Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: HttpBody + 'static,
    B::Error: Into<BoxError>,
{
    // Each request has a clone of its own, which it waits for and calls: a service that counts what it lets in keeps
    // its permit in the instance that was ready.
    server.serve(move |request| answer::answer(request, service.clone(), options)).await
}
