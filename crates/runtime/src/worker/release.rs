//! Memory goes back while the runtime works or sleeps: the worker's side of the pool's [`Decay`].
//!
//! What the pool has free is the pool's to give back. Pages of the worker's own tables that nothing uses go to the pool
//! first: those of operations, waiters, timers and sockets here, those of connection tables when their owners look at
//! them next.
//!
//! | level | how long free memory stays |
//! |---|---|
//! | calm | between half and the whole of `slow` |
//! | yellow, orange | the same of `fast` |
//! | red | not at all: somebody waits, here or on another worker |
//!
//! What the level is, is asked eight times a second at the default times. Under red nobody has to wait for that: a
//! worker frees what its own waiters need when they are granted, and what others need in its next turn, for which they
//! ring it (see [`Admission`](plimsoll_pool::Admission)). However much is free, a turn gives back no more than
//! `tick_bytes_max` and `tick_ranges_max`, about 200 us, and the turns after it the rest.
//!
//! What transports had on the C heap was never in the pool, and the allocator keeps it when they are gone: between what
//! still lives there are pages that it gives back only when it is asked. It is asked once after many have gone, when no
//! more go.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::time::Duration;

use plimsoll_pool::{Decay, DecayConfig, DecaySpeed, Level};
use plimsoll_reactor::{Instant, Wait};

use crate::sys;
use crate::worker::Worker;

/// Pages that each table gives back at a time.
const TABLE_PAGES_MAX: usize = 2_048;

/// So many transports have had a MiB of the heap, or some.
const TRANSPORTS_MIN: u32 = 256;

/// A worker's timer for giving memory back.
pub(crate) struct Release {
    decay: RefCell<Decay>,
    /// Nothing is due before this instant, unless somebody is refused credit; `None` when that is not known.
    due: Cell<Option<Instant>>,
    /// Transports that have gone since the allocator was asked, now and at the last look.
    transports_gone: Cell<u32>,
    transports_seen: Cell<u32>,
}

impl Release {
    pub(crate) fn new(config: DecayConfig) -> Self {
        Self {
            decay: RefCell::new(Decay::new(config)),
            due: Cell::new(None),
            transports_gone: Cell::new(0),
            transports_seen: Cell::new(0),
        }
    }

    /// A connection is gone with what carried its bytes.
    pub(crate) fn note_transport_gone(&self) {
        self.transports_gone.set(self.transports_gone.get().saturating_add(1));
    }

    /// Whether many transports have gone, and none since the last look; they are counted anew then.
    fn is_heap_due(&self) -> bool {
        let (gone, seen) = (self.transports_gone.get(), self.transports_seen.get());
        let is_due = gone >= TRANSPORTS_MIN && gone == seen;
        if is_due {
            self.transports_gone.set(0);
        }
        self.transports_seen.set(self.transports_gone.get());
        is_due
    }

    /// Gives back what is due, and says how long the worker may sleep then: until more is due, at most as long as it
    /// wanted.
    pub(crate) fn turn(&self, worker: &Worker, wait: Wait) -> Wait {
        match self.due.get() {
            Some(due) if worker.now() < due && !self.decay.borrow().is_refused(&worker.pool) => sooner(wait, due),
            _ => self.look(worker, wait),
        }
    }

    /// A turn in which something may be due.
    #[inline(never)]
    fn look(&self, worker: &Worker, wait: Wait) -> Wait {
        let mut decay = self.decay.borrow_mut();
        let now = Duration::from_nanos(worker.now().as_nanos());
        let mut wakes = false;
        if decay.looks_at(now) {
            wakes = worker.release_tables();
            if self.is_heap_due() {
                sys::trim_heap();
            }
        } else if decay.next_deadline().is_none() && worker.has_spare_pages() {
            decay.arm(now);
        }
        decay.tick(&worker.pool, now, || speed(worker.pool.budget().level()));
        let due =
            decay.next_deadline().map(|due| Instant::from_nanos(u64::try_from(due.as_nanos()).unwrap_or(u64::MAX)));
        self.due.set(due);
        match due {
            _ if wakes => Wait::No,
            None => wait,
            Some(due) => sooner(wait, due),
        }
    }
}

/// The wait, until `due` at most. What was due from the start is not waited for.
pub(crate) fn sooner(wait: Wait, due: Instant) -> Wait {
    match wait {
        Wait::No => Wait::No,
        _ if due == Instant::from_nanos(0) => Wait::No,
        Wait::Until(earlier) if earlier <= due => wait,
        Wait::Until(_) | Wait::Forever => Wait::Until(due),
    }
}

/// How fast free memory has to go.
fn speed(level: Level) -> DecaySpeed {
    match level {
        Level::Calm => DecaySpeed::Slow,
        Level::Yellow | Level::Orange => DecaySpeed::Fast,
        Level::Red => DecaySpeed::Now,
    }
}

impl Worker {
    fn has_spare_pages(&self) -> bool {
        let mut has = self.driver.borrow().has_empty_pages()
            || self.waiters.borrow().has_empty_pages()
            || self.timers.borrow().has_empty_pages()
            || self.sockets.borrow().empty_chunks() > 0;
        self.for_each_table(|events| has |= events.has_spare_pages());
        has
    }

    /// Moves unused pages of the tables to the pool. Whether a table's owner was woken for that.
    fn release_tables(&self) -> bool {
        self.driver.borrow_mut().release_some_pages(TABLE_PAGES_MAX);
        self.waiters.borrow_mut().release_some_pages(TABLE_PAGES_MAX);
        self.timers.borrow_mut().release_some_pages(TABLE_PAGES_MAX);
        let mut sockets = self.sockets.borrow_mut();
        for _ in 0..TABLE_PAGES_MAX {
            if sockets.release_empty().is_none() {
                break;
            }
        }
        drop(sockets);
        let mut wakes = false;
        // What is woken is code of others: nothing is borrowed meanwhile.
        let tables = self.tables.borrow().len();
        for events in (0..tables).filter_map(|table| self.table(table)) {
            if events.has_spare_pages() {
                events.recall_pages();
                wakes = true;
            }
        }
        wakes
    }
}

#[cfg(test)]
mod tests;
