//! Marks of threads: which thread owns a pool.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// The mark of a thread that has never owned anything.
const NOBODY: u64 = 0;
/// The mark of what no thread owns. No thread ever has it.
pub(crate) const ORPHAN: u64 = u64::MAX;

static NEXT: AtomicU64 = AtomicU64::new(NOBODY + 1);

thread_local! {
    static MARK: Cell<u64> = const { Cell::new(NOBODY) };
}

/// The calling thread's mark: its own for ever, also after its end. 0 until it has called [`own`].
#[inline]
pub(crate) fn mark() -> u64 {
    MARK.get()
}

/// The calling thread's mark, never 0.
pub(crate) fn own() -> u64 {
    if mark() == NOBODY {
        MARK.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    debug_assert!(mark() != NOBODY && mark() != ORPHAN);
    mark()
}

#[cfg(test)]
mod tests;
