//! The table of operations in flight.
//!
//! **I-FLIGHT**: from [`Slots::insert`] until [`Slots::finish`] an operation's slot exists and its lease neither moves
//! nor is used by anybody but the backend; `finish` is called once, for its last completion. Bytes that are shared are
//! only read, by everybody, and stay for as long as the slot has its clone of them.
//!
//! **I-FILLED**: a backend that reports `Ok(n)` for an operation that fills a lease has written (or the kernel has) the
//! first `n` bytes of the lease's spare room.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_pool::{Lease, OverBudget, Pool};
use plimsoll_slab::{Key, Slab};

use crate::fd::Number;
use crate::op::{Completion, Errno, Op, Payload, SendBytes, Token};
use crate::{PoolPage, Received};

/// Operation slots of one driver at most: 2^22 of them are 180 MiB.
const CHUNKS_MAX: u32 = 1 << 16;

/// Slots that only sends get: what was begun is sent also when there is no page for another operation.
const SLOTS_FOR_SENDS: usize = 64;

/// One operation in flight.
pub(crate) struct Slot {
    pub(crate) op: Op<'static>,
    pub(crate) token: Token,
    pub(crate) state: SlotState,
    /// The next slot of the backend's list that this one is in; in no list until the backend puts it in one.
    pub(crate) link: Link,
}

/// Bytes of an operation in flight: its slot and the slot's generation.
pub const OPERATION_BYTES: usize = size_of::<Slot>() + size_of::<u32>();

const _: () = assert!(size_of::<Slot>() <= 40, "a parked connection pays for one of these");

/// The index of a slot, or none, in the three bytes that a slot has to spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link([u8; 3]);

impl Link {
    pub(crate) const NONE: Self = Self([0xff; 3]);

    /// A link to the slot at `index`.
    pub(crate) fn to(index: u32) -> Self {
        debug_assert!(index < Self::INDEX_END);
        let [a, b, c, _] = index.to_le_bytes();
        Self([a, b, c])
    }

    pub(crate) fn index(self) -> Option<u32> {
        let Self([a, b, c]) = self;
        (self != Self::NONE).then_some(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Every index of a slot is below it.
    pub(crate) const INDEX_END: u32 = (1 << 24) - 1;
}

const _: () = assert!(CHUNKS_MAX as u64 * Slab::<Slot, PoolPage>::ENTRIES_PER_CHUNK as u64 <= Link::INDEX_END as u64);

/// Who still waits for the last completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The owner.
    InFlight,
    /// The owner, who has asked for it to end.
    Cancelling,
    /// Nobody; it goes on all the same.
    Disowned,
    /// Nobody, and its end was asked for.
    Orphaned,
}

/// A backend's report that an operation's last completion has come.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) key: Key,
    /// For accept and open the descriptor, else a count.
    pub(crate) result: Result<u32, Errno>,
    /// What a [`Op::Receive`] brought.
    pub(crate) received: Option<Received>,
}

impl SlotState {
    /// Whether the end of the operation was asked for.
    pub(crate) fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelling | Self::Orphaned)
    }

    /// The same, with its end asked for.
    pub(crate) fn cancelled(self) -> Self {
        match self {
            Self::InFlight | Self::Cancelling => Self::Cancelling,
            Self::Disowned | Self::Orphaned => Self::Orphaned,
        }
    }
}

/// What became of an operation.
#[derive(Debug)]
pub(crate) enum Finished {
    /// The owner gets it.
    Completed(Completion),
    /// Nobody wanted it; a descriptor that came of it must be closed.
    Orphan(Option<Number>),
}

/// The table.
pub(crate) struct Slots {
    table: Slab<Slot, PoolPage>,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self::with_chunks_max(CHUNKS_MAX)
    }

    /// A table of at most so many pages.
    fn with_chunks_max(chunks_max: u32) -> Self {
        Self { table: Slab::new(chunks_max) }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Places an operation; it is in flight from now on.
    pub(crate) fn insert(
        &mut self,
        pool: &Pool,
        op: Op<'static>,
        token: Token,
    ) -> Result<Key, (OverBudget, Op<'static>)> {
        let kept = if matches!(op, Op::Send { .. }) { 0 } else { SLOTS_FOR_SENDS };
        if self.table.len() + kept >= self.table.capacity()
            && let Err(over) = PoolPage::add(pool, |page| self.table.grow(page))
        {
            return Err((over, op));
        }
        let slot = Slot { op, token, state: SlotState::InFlight, link: Link::NONE };
        match self.table.insert(slot) {
            Ok(key) => Ok(key),
            Err(_) => unreachable!("a table that has room or has just grown takes one more"),
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Slot> {
        self.table.get_mut(key)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Slot> {
        self.table.get(key)
    }

    /// The key of the operation in flight at an index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        self.table.key_at(index)
    }

    /// The operation in flight at an index, for the lists of a backend.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.table.get_at_mut(index)
    }

    /// All operations in flight.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.table.iter().map(|(key, _)| key).collect()
    }

    /// Whether an operation in flight is such. Looks at all of them: for assertions.
    pub(crate) fn any(&self, mut is_such: impl FnMut(&Slot) -> bool) -> bool {
        self.table.iter().any(|(_, slot)| is_such(slot))
    }

    /// Bytes that operations in flight keep from the pool: of their leases, and once of each message that some of them
    /// share.
    pub(crate) fn held_bytes(&self) -> u64 {
        let leases = self.table.iter().filter_map(|(_, slot)| slot.op.lease());
        let shared = self.table.iter().filter_map(|(_, slot)| match &slot.op {
            Op::Send { bytes: SendBytes::Shared(bytes), .. } => Some(bytes.kept()),
            _ => None,
        });
        let messages: BTreeMap<usize, u64> = shared.collect();
        leases.map(|lease| lease.class().bytes() as u64).sum::<u64>() + messages.values().sum::<u64>()
    }

    /// Bytes of the table's own pages.
    pub(crate) fn table_bytes(&self) -> u64 {
        u64::from(self.table.chunks()) * plimsoll_slab::CHUNK_BYTES as u64
    }

    /// Whether a page could go without which there are still the slots for sends.
    #[inline]
    pub(crate) fn has_empty_page(&self) -> bool {
        self.table.empty_chunks() > 0 && !self.is_short_without_a_page()
    }

    /// Whether what would be free after a page is gone is less than what is kept for sends. In an empty table nothing
    /// is kept.
    fn is_short_without_a_page(&self) -> bool {
        let used = self.table.len();
        used > 0 && used + SLOTS_FOR_SENDS + Slab::<Slot, PoolPage>::ENTRIES_PER_CHUNK as usize > self.table.capacity()
    }

    /// Gives back one page that no operation uses and that is not kept for sends.
    pub(crate) fn release_page(&mut self) -> bool {
        self.has_empty_page() && self.table.release_empty().is_some()
    }

    /// Frees the slot of an operation whose last completion has come. `None` for a key that is not in flight.
    pub(crate) fn finish(&mut self, raw: Raw) -> Option<Finished> {
        let Slot { op, token, state, link: _ } = self.table.remove(raw.key)?;
        let opens = matches!(op, Op::Accept { .. } | Op::Open { .. });
        let (result, fd) = match raw.result {
            Ok(fd) if opens => (Ok(0), Some(Number::from_raw(fd as i32))),
            other => (other, None),
        };
        if matches!(state, SlotState::Disowned | SlotState::Orphaned) {
            return Some(Finished::Orphan(fd));
        }
        let payload = match op {
            Op::Accept { .. } | Op::Open { .. } => fd.map_or(Payload::None, |fd| Payload::Fd(fd.owned())),
            Op::Receive { .. } => raw.received.map_or(Payload::None, Payload::Received),
            Op::ReceiveInto { lease, .. } | Op::ReadAt { lease, .. } | Op::Stat { lease, .. } => {
                Payload::Lease(filled(lease, result))
            }
            Op::WriteAt { lease, .. } => Payload::Lease(lease),
            Op::Send { mut bytes, .. } => {
                bytes.consume(result.unwrap_or(0) as usize);
                Payload::Sent(bytes)
            }
            Op::Connect { .. } | Op::Shutdown { .. } | Op::Close { .. } | Op::Poll { .. } | Op::Fsync { .. } => {
                Payload::None
            }
        };
        Some(Finished::Completed(Completion { token, key: raw.key, result, payload }))
    }
}

/// The lease, longer by what the operation brought.
fn filled(mut lease: Lease, result: Result<u32, Errno>) -> Lease {
    let written = result.unwrap_or(0) as usize;
    assert!(written <= lease.spare_capacity(), "no more than there was room for");
    // SAFETY: I-FILLED: the first `written` bytes of the spare room are initialised.
    unsafe { lease.advance_written(written) };
    lease
}
