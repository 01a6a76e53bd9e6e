//! A count of references that is cheap for the thread that owns the thing, and right for all others.
//!
//! The owner counts in a plain cell, the others in an atomic; either part may be negative, because a reference made on
//! one side may be dropped on the other. Only the sum means something, so while the owner holds the thing too, nobody
//! frees it. When the owner lets go it adds its part to the atomic one ([`Count::merge`]); from then on there is one
//! count, and whoever takes it to zero is the last.
//!
//! ```text
//!  owned:   references = local + remote >> 1      remote is odd      only merge() can find "last"
//!  merged:  references = remote >> 1              remote is even     the drop that reaches 0 is last
//! ```
//!
//! References that are always made on one side and dropped on the other move the two parts apart though hardly one is
//! alive. The owner moves its part to the atomic one whenever it gets as large as [`BALANCE_MAX`]. So the plain part is
//! smaller than that, and the atomic one differs by less than that from the number of references that are alive: only
//! references that are alive in that number can reach a limit.
#![forbid(unsafe_code)]

use crate::sync::{AtomicI32, Cell, Ordering, fence};

/// Where a reference is made or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// On the owner's thread.
    Owner,
    /// On any other thread.
    Other,
}

/// References to a thing, without the owner's own.
#[derive(Debug)]
pub(super) struct Count {
    /// References made on the owner's thread minus those dropped there, since they were last moved to `remote`: between
    /// -[`BALANCE_MAX`] and [`BALANCE_MAX`], both excluded. Touched by the owner alone; meaningless once merged.
    local: Cell<i32>,
    /// The same for all other threads and what the owner has moved here, times two, plus [`OWNED`].
    remote: AtomicI32,
}

impl Count {
    /// No references, owned.
    pub(super) fn new() -> Self {
        Self { local: Cell::new(0), remote: AtomicI32::new(OWNED) }
    }

    /// Counts a reference. Its maker has one already, or is the owner.
    pub(super) fn add(&self, side: Side) {
        if self.is_local(side) {
            let local = self.local.get() + 1;
            self.local.set(local);
            if local >= BALANCE_MAX {
                self.settle();
            }
        } else {
            let before = self.remote.fetch_add(ONE, Ordering::Relaxed);
            abort_if(before >= REFERENCES_MAX * ONE);
        }
    }

    /// Uncounts a reference; whether it was the last of all, the owner's included. Everything that other threads did
    /// with theirs has happened before a `true`.
    #[must_use]
    pub(super) fn remove(&self, side: Side) -> bool {
        if self.is_local(side) {
            let local = self.local.get() - 1;
            self.local.set(local);
            if local <= -BALANCE_MAX {
                self.settle();
            }
            return false;
        }
        let last = self.remote.fetch_sub(ONE, Ordering::Release) == ONE;
        if last {
            fence(Ordering::Acquire);
        }
        last
    }

    /// Moves the owner's part to the atomic one, so that neither drifts further from the number of references that are
    /// alive.
    ///
    /// Relaxed is enough. The mark stays, so nobody frees until [`merge`](Self::merge) publishes what the owner has
    /// done; and a read-modify-write goes on with the release sequences of the drops before it, so whoever acquires
    /// later acquires those as well.
    ///
    /// The sum afterwards is exact at this point of the atomic's order: what made a reference comes before what drops
    /// it, on either side.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        let moved = self.local.replace(0) * ONE;
        let before = self.remote.fetch_add(moved, Ordering::Relaxed);
        debug_assert!(before & OWNED != 0, "settled by the owner, before it lets go");
        debug_assert!(before + moved > 0, "more references dropped than made");
        abort_if(before + moved >= REFERENCES_MAX * ONE);
    }

    /// The owner lets go, once; whether nobody else has a reference.
    #[must_use]
    pub(super) fn merge(&self) -> bool {
        // Without references nobody is left who could make one, so the atomic needs no change.
        if self.is_unshared() {
            return true;
        }
        let change = self.local.get() * ONE - OWNED;
        let before = self.remote.fetch_add(change, Ordering::AcqRel);
        debug_assert!(before & OWNED != 0, "merged once");
        debug_assert!(before + change >= 0, "more references dropped than made");
        before + change == 0
    }

    /// Whether there are no references, asked by the owner before it lets go.
    ///
    /// The load may be old, but never older than what has happened before it: it belongs to a consistent cut in which
    /// the owner is at this point. A sum of zero in such a cut means that no reference exists in it, held or on its
    /// way, and so none can come after it.
    pub(super) fn is_unshared(&self) -> bool {
        let remote = self.remote.load(Ordering::Acquire);
        debug_assert!(remote & OWNED != 0, "asked by the owner");
        self.local.get() + (remote >> 1) == 0
    }

    /// Whether `side` counts in the plain cell. Only the owner clears the mark, so on its own thread a relaxed load is
    /// exact.
    fn is_local(&self, side: Side) -> bool {
        side == Side::Owner && self.remote.load(Ordering::Relaxed) & OWNED != 0
    }
}

/// Ends the process when references have been leaked by the hundred million, before the count can overflow.
fn abort_if(overflowing: bool) {
    if overflowing {
        std::process::abort();
    }
}

/// The mark of an owner that has not let go.
const OWNED: i32 = 1;
/// A reference in the atomic part.
const ONE: i32 = 2;
/// What the owner counts in its plain cell before it moves that to the atomic. Tests move it all the time.
const BALANCE_MAX: i32 = if cfg!(test) { 2 } else { 1 << 20 };
/// References that are alive at most: a quarter of what fits, so that threads which race past it still do not overflow.
const REFERENCES_MAX: i32 = if cfg!(test) { 1 << 16 } else { 1 << 28 };

const _: () = assert!(REFERENCES_MAX as i64 * ONE as i64 * 4 <= 1 << 31, "threads that race past it do not overflow");
const _: () = assert!(BALANCE_MAX < REFERENCES_MAX, "what is settled is not taken for a leak");

#[cfg(all(test, not(loom)))]
mod tests;
