//! Why a WebSocket ended.

use plimsoll_codec::ws::CloseCode;

/// Why a WebSocket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebSocketEnd {
    /// The peer closed it, and perhaps said why.
    ByPeer(Option<CloseCode>),
    /// We did: the handler or task, or the server when it stops (1001).
    ByUs(CloseCode),
    /// The peer went away without a word.
    Disconnected,
    /// The peer is silent, or takes nothing, for too long.
    TimedOut,
    /// The peer broke the protocol or a limit; the codec says how.
    Broken(plimsoll_codec::Error),
    /// There was no room under the memory line: closed with 1013.
    NoRoom,
}
