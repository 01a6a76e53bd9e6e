//! How a WebSocket behaves, as its handler says.

use ::core::time::Duration;

use plimsoll_codec::ws::Limits;

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
    /// A peer that is silent for so long is asked whether it is there; if it is silent once more for as long, it is
    /// gone. 30 s. While a message waits to be taken by its task, nothing is read: the peer is asked as often, and no
    /// answer is waited for. That it is gone shows when its system refuses what is sent, or takes none of it
    /// ([`TcpOptions::user_timeout`](crate::TcpOptions::user_timeout)).
    pub ping_interval: Option<Duration>,
    /// From the first byte of a message to its last. 30 s.
    pub message_timeout: Duration,
    /// For the peer to take a message. 30 s.
    pub send_timeout: Duration,
    /// For the peer to close after we did. 5 s.
    pub close_timeout: Duration,
    /// permessage-deflate with peers that offer it, as near to this as they offer; `None`: never. A window that is
    /// taken over from message to message costs memory for as long as the connection lives:
    /// [`Deflater::heap_bytes`](plimsoll_codec::ws::Deflater::heap_bytes) and
    /// [`Inflater::HEAP_BYTES`](plimsoll_codec::ws::Inflater::HEAP_BYTES), charged; it is not agreed on unless memory
    /// is calm. With the feature `deflate`. `None`.
    #[cfg(feature = "deflate")]
    pub compression: Option<plimsoll_codec::ws::Compression>,
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
            #[cfg(feature = "deflate")]
            compression: None,
        }
    }
}

/// Whose pages may open a WebSocket (RFC 6455 10.2). A browser lets any page try, and sends our cookies along; it
/// always says which page. Clients that are no browsers say nothing and are let in.
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
    pub(super) fn admits(self, origin: Option<&[u8]>, host: Option<&str>) -> bool {
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
