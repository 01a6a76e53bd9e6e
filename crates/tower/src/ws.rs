//! WebSockets for axum's handlers, on the server's own WebSockets.
//!
//! axum's own extractor asks for an upgrade that only hyper can make. This one is used in its place and in the same
//! way, with the methods of axum's but `accept_unmasked_frames`, which RFC 6455 5.1 does not allow. What a handler
//! gets is a [`WebSocket`] of the server: under the memory line, with compression where the `deflate` feature is on,
//! and some hundred bytes while it waits.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use axum_core::body::Body;
use axum_core::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, request};
use plimsoll_http::{Error, Request, Response};

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
#[must_use = "without `on_upgrade` the client gets no WebSocket"]
pub struct WebSocketUpgrade {
    config: WebSocketConfig,
    frame_bytes_max: u32,
    protocols: Protocols,
    failed: Option<Failed>,
}

/// What a client offers to speak, and what of it was chosen.
#[derive(Debug, Default)]
struct Protocols {
    requested: Vec<HeaderValue>,
    selected: Option<HeaderValue>,
}

impl Protocols {
    fn of(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
        let names = lists.flat_map(|list| list.as_bytes().split(|&byte| byte == b','));
        let requested = names.filter_map(|name| HeaderValue::from_bytes(name.trim_ascii()).ok()).collect();
        Self { requested, selected: None }
    }
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

    /// Sets the longest message, in bytes. 1 MiB.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.config.limits.message_bytes_max = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Sets the longest frame, in bytes, and so the longest message: the smaller of the two counts for both.
    pub fn max_frame_size(mut self, bytes: usize) -> Self {
        self.frame_bytes_max = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Taken for the sake of programs of axum, and without an effect: a WebSocket that waits has no buffer, and one
    /// that reads has those of the pool.
    pub fn read_buffer_size(self, _bytes: usize) -> Self {
        self
    }

    /// As [`read_buffer_size`](Self::read_buffer_size): a message is sent at once, with those that wait beside it.
    pub fn write_buffer_size(self, _bytes: usize) -> Self {
        self
    }

    /// As [`read_buffer_size`](Self::read_buffer_size): `send` waits while the peer does not take what was sent before.
    pub fn max_write_buffer_size(self, _bytes: usize) -> Self {
        self
    }

    /// Takes the first of these that the client offers to speak.
    pub fn protocols<I>(mut self, protocols: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Cow<'static, str>>,
    {
        let known = protocols.into_iter().filter_map(|name| HeaderValue::from_str(&name.into()).ok());
        let known = known.into_iter().find(|name| self.protocols.requested.contains(name));
        self.protocols.selected = known;
        self
    }

    /// What the client offers to speak.
    pub fn requested_protocols(&self) -> impl Iterator<Item = &HeaderValue> {
        self.protocols.requested.iter()
    }

    /// Takes a protocol; of this and [`protocols`](Self::protocols) the last call counts. A client may refuse one that
    /// it did not offer.
    pub fn set_selected_protocol(&mut self, protocol: HeaderValue) {
        self.protocols.selected = Some(protocol);
    }

    /// The protocol that was taken.
    #[must_use]
    pub fn selected_protocol(&self) -> Option<&HeaderValue> {
        self.protocols.selected.as_ref()
    }

    /// Has `callback` called when there will be no WebSocket although [`on_upgrade`](Self::on_upgrade) was answered:
    /// the request was no handshake, or there was no room under the memory line. The client hears why, too. It is not
    /// called for a client that is gone before its answer has left.
    pub fn on_failed_upgrade(mut self, callback: impl FnOnce(&Error) + Send + 'static) -> Self {
        self.failed = Some(Box::new(callback));
        self
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
        let Self { mut config, frame_bytes_max, protocols, failed } = self;
        config.limits.message_bytes_max = config.limits.message_bytes_max.min(frame_bytes_max);
        let accepted = Accepted { config, protocol: protocols.selected, failed, run };
        response.extensions_mut().insert(Pending(Arc::new(Mutex::new(Some(accepted)))));
        response
    }
}

impl fmt::Debug for WebSocketUpgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WebSocketUpgrade");
        shown.field("config", &self.config).field("protocols", &self.protocols).finish_non_exhaustive()
    }
}

impl<S: Sync> FromRequestParts<S> for WebSocketUpgrade {
    type Rejection = NotServed;

    async fn from_request_parts(parts: &mut request::Parts, _state: &S) -> Result<Self, NotServed> {
        // What kind of request it is, the server judges.
        parts.extensions.get::<Upgradable>().ok_or(NotServed)?;
        let (config, protocols) = (WebSocketConfig::default(), Protocols::of(&parts.headers));
        Ok(Self { config, frame_bytes_max: u32::MAX, protocols, failed: None })
    }
}

/// The request asks for no upgrade, or its server is another.
#[derive(Debug)]
pub struct NotServed;

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

type Failed = Box<dyn FnOnce(&Error) + Send>;

/// What a handler has made of the offer.
struct Accepted {
    config: WebSocketConfig,
    protocol: Option<HeaderValue>,
    failed: Option<Failed>,
    run: Run,
}

/// In a response: what gets the WebSocket. Extensions have to be clones of each other.
#[derive(Clone)]
struct Pending(Arc<Mutex<Option<Accepted>>>);

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
    let Accepted { config, protocol, failed, run } = pending.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let accepted = request.upgrade_websocket(&config, run).and_then(|mut accepted| {
        for (name, value) in parts.headers.iter().filter(|(name, _)| !is_handshakes(name)) {
            accepted.push_header(name.as_str(), value.as_bytes())?;
        }
        if let Some(protocol) = protocol {
            accepted.push_header("Sec-WebSocket-Protocol", protocol.as_bytes())?;
        }
        Ok(accepted)
    });
    Some(accepted.unwrap_or_else(|error| {
        if let Some(failed) = failed {
            failed(&error);
        }
        plimsoll_http::IntoResponse::into_response(error)
    }))
}

/// Fields that the server says itself when it takes up a WebSocket.
fn is_handshakes(name: &HeaderName) -> bool {
    crate::head::is_servers(name)
        || *name == header::CONTENT_LENGTH
        || *name == header::UPGRADE
        || name.as_str().starts_with("sec-websocket-")
}
