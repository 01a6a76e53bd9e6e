//! Where wakes from other threads arrive: an intrusive stack and the worker's sleep in one atomic word.
//!
//! ```text
//!                  prepare_sleep                    push: rings
//!   EMPTY (null) <---------------> SLEEPING ------------------------+
//!        |              woke                                        v
//!        +------------------------- push ---------------------> newest node -> ... -> null
//!        ^                                                          |
//!        +------------------------- take ---------------------------+        close: CLOSED, for ever
//! ```
//!
//! Because one word holds both, a push either comes before the worker announced its sleep, which then fails, or it
//! finds the announcement and rings: there is no order of two loads and two stores to get right. The push that finds
//! SLEEPING replaces it, so a sleep is ended by one ring however many wakes come.
//!
//! This file only passes pointers around; what they point to is its user's business (`cell.rs`).
#![forbid(unsafe_code)]

use core::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, Ordering};

/// What became of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Pushed {
    /// It is on the stack, and the worker is awake.
    Queued,
    /// It is on the stack, and the worker sleeps: its bell has to be rung, by this caller.
    Ring,
    /// It is not on the stack: the worker has ended.
    Closed,
}

/// A stack of nodes that any thread pushes and one thread takes whole.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Inject<N> {
    head: AtomicPtr<N>,
}

impl<N> Inject<N> {
    /// Empty, with its worker awake.
    pub(super) fn new() -> Self {
        const { assert!(align_of::<N>() > CLOSED, "the marks are no addresses of nodes") };
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Pushes a node that is on no stack. `link` is the node's own.
    pub(super) fn push(&self, node: NonNull<N>, link: &AtomicPtr<N>) -> Pushed {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == mark(CLOSED) {
                return Pushed::Closed;
            }
            let asleep = head == mark(SLEEPING);
            link.store(if asleep { ptr::null_mut() } else { head }, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, node.as_ptr(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if asleep => return Pushed::Ring,
                Ok(_) => return Pushed::Queued,
                Err(now) => head = now,
            }
        }
    }

    /// Takes every node: the newest first, linked, the last link null.
    pub(super) fn take(&self) -> *mut N {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // Only the worker, which is here, changes a head with nodes into one without.
        self.head.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Whether a look sees no nodes. A push that has not happened before this call may be missed.
    pub(super) fn is_empty(&self) -> bool {
        !is_node(self.head.load(Ordering::Relaxed))
    }

    /// Announces that the worker will sleep; `false` if there are nodes, and then it must not.
    pub(super) fn prepare_sleep(&self) -> bool {
        let announced =
            self.head.compare_exchange(ptr::null_mut(), mark(SLEEPING), Ordering::AcqRel, Ordering::Acquire);
        announced.map_or_else(|head| !is_node(head), |_| true)
    }

    /// The worker is awake, whether it slept or not.
    pub(super) fn woke(&self) {
        if self.head.load(Ordering::Relaxed) == mark(SLEEPING) {
            // A push may have come in between; it rang for nothing, and its node is found by the next take.
            let _ = self.head.compare_exchange(mark(SLEEPING), ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Takes every node, as [`take`](Self::take) does, and refuses all that come later.
    pub(super) fn close(&self) -> *mut N {
        let head = self.head.swap(mark(CLOSED), Ordering::AcqRel);
        if is_node(head) { head } else { ptr::null_mut() }
    }
}

/// The worker sleeps, and there are no nodes.
const SLEEPING: usize = 1;
/// The worker has ended.
const CLOSED: usize = 2;

fn mark<N>(mark: usize) -> *mut N {
    ptr::without_provenance_mut(mark)
}

fn is_node<N>(head: *mut N) -> bool {
    head.addr() > CLOSED
}
