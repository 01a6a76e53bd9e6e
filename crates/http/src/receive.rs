//! How a body is received: in the driver's shared buffers while little comes, else into leases whose size follows what comes.
//!
//! ```text
//!            a receive was full                       a receive brought less than half of its room
//!  Shared --------------------> Own, of the wished size -----------------------------------------> Shared
//! ```
//!
//! A lease is armed only where more is likely to be there already: it is filled at once, and hardly ever waits in the kernel for a slow peer.

use ::core::time::Duration;

use plimsoll_pool::{AdaptiveSize, Class};
use plimsoll_runtime::Instant;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::{Bytes, RECEIVE_BYTES_MAX};

/// Wishes do not grow beyond these while memory is short.
const YELLOW_MAX: Class = Class::K16;
const ORANGE_MAX: Class = Class::K4;
/// What was learnt before a pause of this length says nothing about after.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// What a connection has learnt about the bodies that it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    size: AdaptiveSize,
    from: Source,
    /// When bytes came last.
    at: Instant,
}

/// Where the next bytes of a body go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Shared,
    Own,
}

impl Receive {
    pub(crate) fn new(size: AdaptiveSize) -> Self {
        Self { size, from: Source::Shared, at: Instant::from_millis(0) }
    }

    /// Takes note of bytes that came, with `left` bytes of the body to come after them, if that is known.
    pub(crate) fn received(&mut self, bytes: &Bytes, left: Option<u64>, now: Instant) {
        if now.since(self.at) >= FORGET_AFTER {
            self.size.reset();
        }
        self.at = now;
        match bytes {
            Bytes::Borrowed(received) => self.came_shared(received.len()),
            Bytes::Owned(lease) => {
                let (received, room) = (lease.len(), lease.capacity());
                self.size.observe(received, room, left.is_some_and(|left| left >= room as u64));
                self.from = if received >= room / 2 { Source::Own } else { Source::Shared };
            }
        }
    }

    /// Takes note of bytes in a shared buffer. How much room there was is the driver's affair: full is what would have filled a lease, or the
    /// most that such a receive ever brings. Without the latter, a wish above that could not be had again after one receive that brought little.
    fn came_shared(&mut self, received: usize) {
        let full = self.size.wish().bytes().min(RECEIVE_BYTES_MAX);
        self.size.raise(received);
        self.from = if received >= full { Source::Own } else { Source::Shared };
    }

    /// The class of the lease that the next receive is worth, with `left` bytes to come; `None` for the driver's shared buffers.
    pub(crate) fn next(&self, left: Option<u64>, cap: Class) -> Option<Class> {
        if self.from == Source::Shared {
            return None;
        }
        let wish = self.size.wish_up_to(cap);
        let rest = left.and_then(|left| Class::for_len(usize::try_from(left).unwrap_or(usize::MAX).max(1)));
        Some(rest.map_or(wish, |rest| wish.min(rest.max(Class::K4))))
    }
}

/// The largest class that a wish may be granted at a level.
pub(crate) fn cap(level: Level) -> Class {
    match level {
        Level::Calm => Class::K128,
        Level::Yellow => YELLOW_MAX,
        Level::Orange | Level::Red => ORANGE_MAX,
    }
}

#[cfg(test)]
mod tests;
