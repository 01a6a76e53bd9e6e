//! WebSockets: from a request to a socket of a task.
//!
//! ```text
//!  handler: Request::upgrade_websocket --> 101 --> sent --> the connection leaves the table --> task of its own: WebSocket
//! ```
//!
//! The connection goes on counting for the limits on connections, and the server's stop waits for it (up to
//! [`Config::drain_timeout`](crate::Config::drain_timeout)) while it says good-bye.

use ::core::future::Future;
use ::core::time::Duration;

use http::StatusCode;
use plimsoll_codec::h1::RequestView;
use plimsoll_codec::ws::{Handshake, Limits};

use crate::upgrade::{Seat, Upgrade};
use crate::{Error, Response};

mod message;
mod socket;

pub use message::Message;
pub use socket::WebSocket;

/// How a WebSocket behaves.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_http::{OriginCheck, WebSocketConfig};
///
/// let config = WebSocketConfig {
///     subprotocols: &["chat.v2", "chat.v1"],
///     origin: OriginCheck::Ask(|origin| origin == b"https://chat.example"),
///     ping_interval: Some(Duration::from_secs(50)),
///     ..WebSocketConfig::default()
/// };
/// assert_eq!(config.limits.message_bytes_max, 1 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WebSocketConfig {
    /// What a message may be.
    pub limits: Limits,
    /// What we speak; the first of the client's that is among them is taken.
    pub subprotocols: &'static [&'static str],
    /// Whose pages may open it.
    pub origin: OriginCheck,
    /// A peer that is silent for so long is asked whether it is there; if it is silent once more for as long, it is gone. 30 s.
    pub ping_interval: Option<Duration>,
    /// From the first byte of a message to its last. 30 s.
    pub message_timeout: Duration,
    /// For the peer to take a message. 30 s.
    pub send_timeout: Duration,
    /// For the peer to close after we did. 5 s.
    pub close_timeout: Duration,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            subprotocols: &[],
            origin: OriginCheck::SameHost,
            ping_interval: Some(Duration::from_secs(30)),
            message_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
        }
    }
}

/// Whose pages may open a WebSocket (RFC 6455 10.2). A browser lets any page try, and sends our cookies along; it always says which page. Clients
/// that are no browsers say nothing and are let in.
#[derive(Clone, Copy, Debug)]
pub enum OriginCheck {
    /// Pages of the host and port that the request is for.
    SameHost,
    /// What the function says of the value of `Origin`.
    Ask(fn(&[u8]) -> bool),
    /// All.
    Any,
}

impl OriginCheck {
    fn admits(self, origin: Option<&[u8]>, host: Option<&str>) -> bool {
        let Some(origin) = origin else { return true };
        match self {
            Self::Any => true,
            Self::Ask(ask) => ask(origin),
            Self::SameHost => {
                let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
                authority.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host.as_bytes()))
            }
        }
    }
}

/// The answer to a handshake, and what is done after it.
pub(crate) fn accept<F>(
    view: &RequestView<'_>,
    config: &WebSocketConfig,
    run: impl FnOnce(WebSocket) -> F + 'static,
) -> Result<(Response, Upgrade), Error>
where
    F: Future<Output = ()> + 'static,
{
    let response = answer(view, config)?;
    let config = *config;
    let upgrade = move |stream, seat: Seat| {
        seat.core.counters().websocket();
        let Ok(socket) = WebSocket::new(stream, seat, config) else {
            tracing::warn!("no room for the state of a WebSocket: its connection is closed");
            return;
        };
        if plimsoll_runtime::spawn(run(socket)).is_err() {
            tracing::warn!("no room for the task of a WebSocket: its connection is closed");
        }
    };
    Ok((response, Box::new(upgrade)))
}

/// The answer to a handshake.
pub(crate) fn answer(view: &RequestView<'_>, config: &WebSocketConfig) -> Result<Response, Error> {
    let handshake = Handshake::check(view)?;
    if !config.origin.admits(handshake.origin(), view.host()) {
        return Err(Error::OriginRefused);
    }
    let mut response = Response::new(StatusCode::SWITCHING_PROTOCOLS)
        .try_header("upgrade", "websocket")?
        .try_header("sec-websocket-accept", handshake.accept().as_str())?;
    if let Some(subprotocol) = handshake.choose_subprotocol(config.subprotocols) {
        response = response.try_header("sec-websocket-protocol", subprotocol)?;
    }
    Ok(response)
}
