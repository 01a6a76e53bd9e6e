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
//! Each has a place of its own in the [queue](crate::memory::queue), under the name of the client that it is for.
//! Streams of its connection that were begun go on meanwhile.

use ::core::cell::Cell;
use std::rc::Rc;

use plimsoll_codec::h1::{FieldSlot, RequestHead, RequestView};
use plimsoll_pool::{PlaceKey, PoolBox};
use plimsoll_runtime::{Instant, Lease, OverBudget};

use crate::exchange::kept_head;
use crate::memory::wait::MemoryWait;

/// A request that waits to be begun.
pub(crate) struct Waiting {
    pub(super) memory: MemoryWait,
    /// Its place in the queue, which may be gone.
    pub(super) place: PlaceKey,
    /// When it is begun, or refused.
    pub(super) until: Instant,
    pub(super) parsed: RequestHead,
    /// Its head, as [`keep`](kept_head::keep) keeps it.
    pub(super) kept: Lease,
    pub(super) head_bytes: u16,
    /// What all of the worker hold that wait, and what this one does of that.
    pub(super) held_by_all: HeldByWaiting,
    pub(super) held_bytes: u32,
}

/// What all streams of a worker hold that wait, in bytes.
#[derive(Clone, Default)]
pub(super) struct HeldByWaiting(Rc<Cell<u64>>);

impl HeldByWaiting {
    pub(super) fn bytes(&self) -> u64 {
        self.0.get()
    }

    /// Whether they may hold so much more, of so many bytes.
    pub(super) fn may_grow(&self, bytes: usize, bytes_max: u64) -> Result<(), OverBudget> {
        if self.bytes() + bytes as u64 > bytes_max { Err(OverBudget::new(bytes as u64)) } else { Ok(()) }
    }
}

impl Waiting {
    /// The head, and its fields in these slots.
    pub(crate) fn head<'a>(&'a self, slots: &'a mut [FieldSlot]) -> (RequestView<'a>, &'a [FieldSlot]) {
        let (head, bytes) = kept_head::parts(&self.kept, self.head_bytes);
        let slots = &mut slots[..bytes.len()];
        slots.iter_mut().zip(bytes).for_each(|(slot, bytes)| *slot = FieldSlot::from_bytes(*bytes));
        (RequestView::new(head, &*slots, &self.parsed), slots)
    }

    /// It holds so much more.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.held_by_all.0.set(self.held_by_all.bytes() + bytes as u64);
        self.held_bytes += bytes as u32;
    }

    /// Bytes of the pool that it holds beside its exchange.
    pub(super) fn own_bytes(&self) -> usize {
        PoolBox::<Self>::CLASS.bytes() + self.kept.class().bytes()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let all = &self.held_by_all.0;
        debug_assert!(all.get() >= u64::from(self.held_bytes), "it is a part of that");
        all.set(all.get().saturating_sub(self.held_bytes.into()));
    }
}

const _: () = assert!(size_of::<Waiting>() <= 128, "what docs/memory.md says of it");
