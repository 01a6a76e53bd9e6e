//! What has to wait until the kernel has taken the entries that are queued: it takes none when it has no memory for
//! them.
//!
//! A watch is ended by an entry behind its own, and a full queue has no room for that. A descriptor is closed when no
//! entry names it any more: the kernel looks a number up when it takes the entry, and the number would be another
//! file's by then.
#![forbid(unsafe_code)]

use plimsoll_pool::{Charge, Kind, Pool};

use crate::fd::Number;

/// Put off until the queue was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The end of the watch with this name.
    EndWatch(u64),
    Close(Number),
}

/// Everything that was put off: mostly nothing.
#[derive(Default)]
pub(super) struct LateList {
    list: Vec<Late>,
    /// For the memory of `list`.
    charge: Option<Charge>,
}

impl LateList {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Puts something off. At the line its 16 bytes are not charged: to forget it would cost more, and a descriptor
    /// that is closed has just given back more than that.
    pub(super) fn push(&mut self, late: Late, pool: &Pool) {
        let len = self.list.len();
        if len == self.list.capacity() {
            let capacity = (2 * len).max(LATE_MIN);
            // The old memory is charged until the new one has replaced it.
            let charge = pool.charge(Kind::Slots, (capacity * size_of::<Late>()) as u64);
            self.list.reserve_exact(capacity - len);
            self.charge = charge.ok().or(self.charge.take());
        }
        self.list.push(late);
    }

    pub(super) fn pop(&mut self) -> Option<Late> {
        let last = self.list.pop();
        if last.is_none() {
            *self = Self::default();
        }
        last
    }
}

/// For how many there is room when there is the first one.
const LATE_MIN: usize = 16;

const _: () = assert!(size_of::<Late>() == 16);
