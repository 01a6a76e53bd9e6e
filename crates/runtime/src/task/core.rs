//! What a worker's tasks share: its lists, its place for wakes from other threads, its bell.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::cell::{Header, Task};
use super::count::{Count, Side};
use super::inject::Inject;
use super::lists::{Live, Ready};
use crate::sync::{Cell, Life, THREAD};

/// Ends a worker's sleep, from any thread.
pub(crate) type Bell = Arc<dyn Fn() + Send + Sync>;

/// How far a worker's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// Its tasks are being dropped.
    Closing,
    Closed,
}

/// The part of a worker that its cells point to. It lives until the worker and every cell are gone.
///
/// Other threads touch `owner`, `bell`, `inject` and `references`, which are immutable or atomic; the rest belongs to
/// the worker's thread.
pub(super) struct Core {
    /// The mark of the worker's thread, never 0.
    owner: u64,
    pub(super) bell: Bell,
    pub(super) inject: Inject<Header>,
    /// The cells; the worker itself is the owner.
    pub(super) references: Count,
    pub(super) ready: Ready<Task>,
    pub(super) live: Live<Task>,
    pub(super) stage: Cell<Stage>,
    /// The task that is being polled, or 0.
    pub(super) current: Cell<u64>,
    pub(super) polls: Cell<u64>,
    /// Tasks started so far.
    tasks: Cell<u64>,
    /// Used by whoever has a cell, ended with the core.
    pub(super) life: Life,
}

impl Core {
    /// Of a worker on this thread.
    pub(super) fn new(bell: Bell) -> Self {
        Self {
            owner: claim_thread(),
            bell,
            inject: Inject::new(),
            references: Count::new(),
            ready: Ready::new(),
            live: Live::new(),
            stage: Cell::new(Stage::Open),
            current: Cell::new(0),
            polls: Cell::new(0),
            tasks: Cell::new(0),
            life: Life::new(),
        }
    }

    /// Whether the caller is on the worker's thread.
    pub(super) fn side(&self) -> Side {
        if THREAD.with(Cell::get) == self.owner { Side::Owner } else { Side::Other }
    }

    /// Drops the futures of all tasks, in the order of spawning, and of those that are started meanwhile.
    pub(super) fn drop_tasks(&self) {
        self.stage.set(Stage::Closing);
        while let Some(task) = self.live.pop() {
            task.cancel();
        }
        while let Some(task) = self.ready.pop() {
            task.leave_queue();
        }
        self.stage.set(Stage::Closed);
    }

    /// A number for a new task, from 1.
    pub(super) fn next_id(&self) -> u64 {
        let id = self.tasks.get() + 1;
        self.tasks.set(id);
        id
    }
}

/// Marks that were given out.
static THREADS: AtomicU64 = AtomicU64::new(0);

/// The mark of this thread, which has none unless a worker was made on it. Unlike the address of something it is never
/// used again, so that a thread which comes after a worker's is not taken for it.
fn claim_thread() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
