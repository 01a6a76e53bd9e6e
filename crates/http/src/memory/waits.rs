//! Who waits for memory, and what is granted to it.

use ::core::num::NonZeroU32;

use plimsoll_pool::Permit;
use plimsoll_runtime::Lease;
use plimsoll_slab::Key;

/// A connection that was granted room, found none all the same, and would next need more than this, is refused.
pub(crate) const WAIT_BYTES_MAX: usize = 128 * 1024;
/// Connections and streams of a worker that wait for room at most; more are refused.
pub(crate) const PLACES: usize = 512;

/// So many of an address may wait with spare memory,
pub(crate) const SPARED_OF_HOST: usize = 4;
/// at most so much for each.
pub(crate) const SPARED_BYTES: usize = 1_024;

/// A connection that waits for room, or a stream of one that waits to be begun, or with a WebSocket on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) key: Key,
    /// The stream, by its identifier.
    pub(crate) stream: Option<NonZeroU32>,
    /// Bytes that have to be free before it is worth a try.
    pub(crate) bytes: u32,
}

impl Waits {
    /// For which nothing has to be free yet.
    pub(crate) fn new(key: Key, stream: Option<NonZeroU32>) -> Self {
        Self { key, stream, bytes: 0 }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.key, self.stream) == (other.key, other.stream)
    }

    /// Whether it is this connection itself.
    pub(crate) fn is_connection(&self, key: Key) -> bool {
        self.key == key && self.stream.is_none()
    }
}

/// There is no place: too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Memory for one that waited. It is free for that one when it is [released](Self::release), and what waits in the pool
/// gets none before this is dropped.
pub(crate) enum Grant {
    /// Of its turn in the pool's queue.
    Queued(Permit),
    /// Of the progress reserve, or `None` of what is kept for newcomers.
    Lent(Option<Lease>),
}

impl Grant {
    pub(crate) fn release(&mut self) {
        match self {
            Self::Queued(permit) => while permit.take(0).is_some() {},
            Self::Lent(lease) => drop(lease.take()),
        }
    }
}
