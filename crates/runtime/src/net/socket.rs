//! What a worker keeps of a stream.
#![forbid(unsafe_code)]

use plimsoll_pool::Lease;
use plimsoll_reactor::{Fd, Received};
use plimsoll_slab::Key;

/// One entry for both halves.
pub(crate) struct Socket {
    pub(super) fd: Fd,
    pub(super) receiving: Receiving,
    /// Bytes received that a smaller read left over.
    pub(super) rest: Option<Lease>,
    pub(super) sending: Sending,
    /// The last receive filled what it had.
    pub(super) bulk: bool,
    pub(super) halves: u8,
    /// Calls that were done at once since the last wait.
    pub(super) calls: u8,
}

/// The receive of a stream. It belongs to the stream, not to the future that waits for it.
pub(super) enum Receiving {
    Idle,
    /// In flight, or answered and not yet taken.
    Armed {
        waiter: Key,
        op: Key,
    },
    /// Nothing is received: a wait until there is something, which holds no buffer.
    Awaited {
        waiter: Key,
        op: Key,
    },
    /// Received, but there was no room under the line to copy it to.
    Held(Received),
    /// Received, but dropped, because there was no room and too many buffers were held, or a receive waited for one
    /// that nobody looked at: there is a hole in the stream.
    Lost,
    /// The peer has sent all it will send.
    Ended,
}

impl Receiving {
    pub(super) fn waiter(&self) -> Option<Key> {
        match self {
            Self::Armed { waiter, .. } | Self::Awaited { waiter, .. } => Some(*waiter),
            Self::Idle | Self::Held(_) | Self::Lost | Self::Ended => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Ready,
    /// A wait until the socket takes bytes: none are on their way.
    Awaited {
        waiter: Key,
        op: Key,
    },
    /// A send is in flight, or was dropped midway.
    Interrupted,
}
