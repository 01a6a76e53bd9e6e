//! What SETTINGS offer at each memory level.

use plimsoll_codec::h2::{Connection as Codec, Limits};
use plimsoll_runtime::memory::Level;

/// A connection whose first SETTINGS fit the level.
pub(super) fn offering(limits: &Limits, level: Level) -> Codec {
    let (streams, window) = offer(limits, level);
    Codec::new(limits).offering(streams, window)
}

/// The streams and the window of each that a peer is to have.
pub(super) fn offer(limits: &Limits, level: Level) -> (u16, u32) {
    match level {
        Level::Calm | Level::Yellow => (limits.streams(), limits.window()),
        Level::Orange => (limits.streams() / 8, limits.window() / 4),
        Level::Red => (limits.streams() / 32, limits.window() / 8),
    }
}

/// Levels at which the same is offered.
pub(super) fn offered(level: Level) -> Level {
    level.max(Level::Yellow)
}
