//! Memory goes back while the runtime works or sleeps: the worker's side of the pool's [`Decay`].
//!
//! What the pool has free is the pool's to give back. Pages of the worker's own tables that nothing uses go to the pool first: those of operations,
//! waiters, timers and sockets here, those of connection tables when their owners look at them next.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use core::time::Duration;

use plimsoll_pool::{Budget, Decay, DecayConfig, DecaySpeed};
use plimsoll_reactor::{Instant, Wait};

use crate::worker::Worker;

/// From this part of the line on, memory goes back fast.
const FAST_PERCENT: u64 = 75;
/// Pages that each table gives back at a time.
const TABLE_PAGES_MAX: usize = 2_048;

/// A worker's timer for giving memory back.
pub(crate) struct Release(RefCell<Decay>);

impl Release {
    pub(crate) fn new(config: DecayConfig) -> Self {
        Self(RefCell::new(Decay::new(config)))
    }

    /// Gives back what is due, and says how long the worker may sleep then: until more is due, at most as long as it wanted.
    pub(crate) fn turn(&self, worker: &Worker, wait: Wait) -> Wait {
        let mut decay = self.0.borrow_mut();
        let now = Duration::from_nanos(worker.now().as_nanos());
        let mut wakes = false;
        if decay.looks_at(now) {
            wakes = worker.release_tables();
        } else if decay.next_deadline().is_none() && worker.has_spare_pages() {
            decay.arm(now);
        }
        decay.tick(&worker.pool, now, || speed(worker.pool.budget()));
        if wakes {
            return Wait::No;
        }
        match (wait, decay.next_deadline()) {
            (wait, None) | (wait @ Wait::No, _) => wait,
            (_, Some(Duration::ZERO)) => Wait::No,
            (wait, Some(deadline)) => {
                let deadline = Instant::from_nanos(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
                match wait {
                    Wait::Until(earlier) if earlier <= deadline => wait,
                    _ => Wait::Until(deadline),
                }
            }
        }
    }
}

/// How fast free memory has to go.
fn speed(budget: &Budget) -> DecaySpeed {
    let near = u128::from(budget.charged()) * 100 >= u128::from(budget.limit().as_bytes()) * u128::from(FAST_PERCENT);
    if near { DecaySpeed::Fast } else { DecaySpeed::Slow }
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
        let mut wakes = false;
        self.for_each_table(|events| {
            if events.has_spare_pages() {
                events.recall_pages();
                wakes = true;
            }
        });
        wakes
    }
}

#[cfg(test)]
mod tests;
