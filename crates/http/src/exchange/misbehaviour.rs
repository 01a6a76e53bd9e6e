//! What counts for a connection's [`Score`] beside what breaks the protocol.
//!
//! One score for each connection. A body that no handler wants adds points, an exchange that was completed takes some
//! away. At three quarters of [`POINTS_MAX`](plimsoll_codec::misbehaviour::POINTS_MAX) the peer is told to come again
//! on another connection (`Connection: close` with the next answer; GOAWAY in HTTP/2), at all of it the connection is
//! closed.

use plimsoll_codec::misbehaviour::GOAWAY_POINTS;
pub(crate) use plimsoll_codec::misbehaviour::{Score, Verdict};

/// What an exchange that was completed takes away.
pub(crate) const COMPLETED_POINTS: u32 = 1;
const MIB_BITS: u32 = 20;

/// A body of so many bytes that no handler wanted is nothing to note.
pub(crate) const UNWANTED_BYTES_FREE: u32 = 16 * 1024;

/// Points for a long body of so many bytes that was dropped because no handler wanted it: at least more than an
/// exchange takes away, and for each MiB behind the first one more. One alone, however long, is no reason to close at
/// once.
pub(crate) fn unwanted_points(bytes: u32) -> u32 {
    (2 + (bytes >> MIB_BITS).saturating_sub(1)).min(GOAWAY_POINTS)
}

#[cfg(test)]
mod tests;
