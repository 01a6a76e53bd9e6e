//! WebSockets for axum's handlers, on the server's own WebSockets.
//!
//! axum's own extractor asks for an upgrade that only hyper can make. This one is used in its place and in the same
//! way; what a handler gets is a [`WebSocket`] of the server: under the memory line, with compression where the
//! `deflate` feature is on, and some hundred bytes while it waits.

use core::future::Future;
use core::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum_core::body::Body;
use axum_core::extract::FromRequestParts;
use http::{HeaderName, Method, StatusCode, Version, header, request};
use plimsoll_http::{Request, Response};

pub use plimsoll_http::{Message, WebSocket, WebSocketConfig};

/// Answers a request with a WebSocket; an extractor, which comes last among a handler's arguments or before the body.
///
/// A request that is no handshake is answered by the server: 426 with what is missing, 400 for a broken one, 403 for a
/// page of another site (see [`WebSocketConfig`]).
///
/// ```
/// use axum::{Router, response::Response, routing::any};
/// use plimsoll_tower::ws::WebSocketUpgrade;
///
/// async fn echo(upgrade: WebSocketUpgrade) -> Response {
///     upgrade.on_upgrade(|mut socket| async move {
///         while let Ok(Some(message)) = socket.recv().await {
///             if socket.send(message).await.is_err() {
///                 break;
///             }
///         }
///     })
/// }
/// let router: Router = Router::new().route("/ws", any(echo));
/// # let _ = router;
/// ```
#[derive(Debug)]
#[must_use = "without `on_upgrade` the client gets no WebSocket"]
pub struct WebSocketUpgrade {
    config: WebSocketConfig,
}

impl WebSocketUpgrade {
    /// Sets everything: limits of messages, subprotocols, origins, compression, heartbeats.
    pub fn config(mut self, config: WebSocketConfig) -> Self {
        self.config = config;
        self
    }

    /// The settings, to be changed.
    pub fn config_mut(&mut self) -> &mut WebSocketConfig {
        &mut self.config
    }

    /// The answer of the handler. When it has left, `run` gets the WebSocket, in a task of its own on the connection's
    /// worker; the future that it makes need not be [`Send`].
    pub fn on_upgrade<F, R>(self, run: F) -> http::Response<Body>
    where
        F: FnOnce(WebSocket) -> R + Send + 'static,
        R: Future<Output = ()> + 'static,
    {
        let run: Run = Box::new(|socket| Box::pin(run(socket)));
        let mut response = http::Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.extensions_mut().insert(Pending(Arc::new(Mutex::new(Some((self.config, run))))));
        response
    }
}

impl<S: Sync> FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = NotServed;

    async fn from_request_parts(parts: &mut request::Parts, _state: &S) -> Result<Self, NotServed> {
        // What kind of request it is, the server judges.
        parts.extensions.get::<Upgradable>().map(|_| Self { config: WebSocketConfig::default() }).ok_or(NotServed)
    }
}

/// The request asks for no upgrade, or its server is another.
#[derive(Debug)]
pub struct NotServed;

impl core::fmt::Display for NotServed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "a WebSocket is offered here: the request must ask for an upgrade, and come through plimsoll_tower::serve",
        )
    }
}

impl core::error::Error for NotServed {}

impl axum_core::response::IntoResponse for NotServed {
    fn into_response(self) -> http::Response<Body> {
        let fields = [(header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, "13")];
        (StatusCode::UPGRADE_REQUIRED, fields, self.to_string()).into_response()
    }
}

type Run = Box<dyn FnOnce(WebSocket) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// In a response: what gets the WebSocket. Extensions have to be clones of each other.
#[derive(Clone)]
struct Pending(Arc<Mutex<Option<(WebSocketConfig, Run)>>>);

/// In a request: it may become a WebSocket.
#[derive(Clone, Copy)]
struct Upgradable;

/// Marks a request that asks for an upgrade.
pub(crate) fn note_upgradable<B>(request: &Request, asked: &mut http::Request<B>) {
    let extended = request.version() == Version::HTTP_2 && *request.method() == Method::CONNECT;
    if extended || request.view().upgrade().is_some() {
        asked.extensions_mut().insert(Upgradable);
    }
}

/// The server's answer where a handler has asked for a WebSocket, and no layer has said otherwise.
pub(crate) fn upgrade(request: &Request, parts: &http::response::Parts) -> Option<Response> {
    if parts.status != StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    let Pending(pending) = parts.extensions.get()?;
    let (config, run) = pending.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let accepted = request.upgrade_websocket(&config, run).and_then(|accepted| {
        let mut fields = parts.headers.iter().filter(|(name, _)| !is_handshakes(name));
        fields.try_fold(accepted, |accepted, (name, value)| accepted.try_header(name.as_str(), value.as_bytes()))
    });
    Some(accepted.unwrap_or_else(plimsoll_http::IntoResponse::into_response))
}

/// Fields that the server says itself when it takes up a WebSocket.
fn is_handshakes(name: &HeaderName) -> bool {
    crate::head::is_servers(name)
        || *name == header::CONTENT_LENGTH
        || *name == header::UPGRADE
        || name.as_str().starts_with("sec-websocket-")
}
