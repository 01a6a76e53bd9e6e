//! What a step of a WebSocket says: the worker does it.

use super::end::WebSocketEnd;

/// What becomes of a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do at once.
    GoOn,
    /// It waits for what was armed.
    Rest,
    /// Nothing can go on.
    Lost(WebSocketEnd),
    /// It is over, and nobody has its socket.
    Close,
}
