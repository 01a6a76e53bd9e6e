//! Streams that wait to be begun: their heads were decoded when there was no room for their requests, or it was the
//! turn of others.
//!
//! ```text
//!            a place, and room for the head          its turn: there was room
//!  decoded ---------------------------------> waits ---------------------------> begun
//!     | none                                    | admission_timeout; with a body memory_timeout;
//!     v                                         v no room for what comes of its body
//!  503, mostly without being decoded           503
//! ```
//!
//! A head cannot go back into the socket, as the frames behind it may be what lets other streams go on. So a stream
//! that waits holds its exchange, its head, and a little of its body if that comes. All of this is charged, and
//! bounded: together those of a worker hold at most a part of its share, and those of one address half of that.
//!
//! Each has a place of its own in the [queue](crate::relief), under the name of the client that it is for. Streams of
//! its connection that were begun go on meanwhile.

use ::core::cell::Cell;
use std::rc::Rc;

use plimsoll_codec::h1::RequestHead;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{Instant, Lease, OverBudget};

use crate::memory_wait::MemoryWait;

/// A request that waits to be begun.
pub(super) struct Waiting {
    pub(super) memory: MemoryWait,
    /// When it is begun, or refused.
    pub(super) until: Instant,
    pub(super) parsed: RequestHead,
    /// As `Request::keep_head` keeps it.
    pub(super) kept: Lease,
    pub(super) head_bytes: u16,
    pub(super) held: Held,
}

/// What all streams of a worker hold that wait, in bytes.
#[derive(Default)]
pub(crate) struct HeldByWaiting(Rc<Cell<u64>>);

/// The part of one.
pub(super) struct Held {
    all: Rc<Cell<u64>>,
    bytes: u64,
}

impl HeldByWaiting {
    pub(super) fn bytes(&self) -> u64 {
        self.0.get()
    }

    /// Of one more, which holds nothing yet.
    pub(super) fn add(&self) -> Held {
        Held { all: Rc::clone(&self.0), bytes: 0 }
    }
}

impl Held {
    pub(super) fn grow(&mut self, bytes: u64, bytes_max: u64) -> Result<(), OverBudget> {
        if self.all.get() + bytes > bytes_max {
            return Err(OverBudget::new(bytes));
        }
        self.all.set(self.all.get() + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.bytes);
    }
}

impl Waiting {
    /// Bytes of the pool that it holds beside its exchange.
    pub(super) fn held_bytes(&self) -> usize {
        PoolBox::<Self>::CLASS.bytes() + self.kept.class().bytes()
    }
}

const _: () = assert!(size_of::<Waiting>() <= 128, "what docs/memory.md says of it");
