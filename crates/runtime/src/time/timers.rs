//! The timers of one worker: the wheel, with wakers in it and its pages from the pool.
#![forbid(unsafe_code)]

use core::task::Waker;

use plimsoll_pool::{OverBudget, Pool};
use plimsoll_reactor::{Instant, PoolPage};

use super::{TimerKey, Wheel};

/// Timers of one worker at most, in pages.
const CHUNKS_MAX: u32 = 1 << 15;

/// The timers of one worker. Wakers are made and dropped by their owners' code, so they come and go as values: nothing
/// is borrowed then.
pub(crate) struct Timers(Wheel<Waker, PoolPage>);

/// The first whole millisecond at or after an instant: a timer never fires early.
fn due_ms(deadline: Instant) -> u64 {
    deadline.as_nanos().div_ceil(1_000_000)
}

impl Timers {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Wheel::new(now.as_millis(), CHUNKS_MAX))
    }

    /// Wakes `waker` at `deadline`.
    pub(crate) fn insert(&mut self, pool: &Pool, deadline: Instant, waker: Waker) -> Result<TimerKey, OverBudget> {
        if self.0.needs_chunk() {
            PoolPage::add(pool, |page| self.0.grow(page))?;
        }
        let inserted = self.0.insert(due_ms(deadline), waker);
        Ok(inserted.unwrap_or_else(|_| unreachable!("there is room")))
    }

    /// Whether the timer that has not fired yet will wake the same task as `waker`; `None` if it has fired.
    pub(crate) fn will_wake(&mut self, key: TimerKey, waker: &Waker) -> Option<bool> {
        self.0.get_mut(key).map(|known| known.will_wake(waker))
    }

    /// Gives the timer another waker; the one that is not needed any more comes back.
    pub(crate) fn remember(&mut self, key: TimerKey, waker: Waker) -> Waker {
        match self.0.get_mut(key) {
            Some(known) => core::mem::replace(known, waker),
            None => waker,
        }
    }

    /// Moves a timer's deadline; `false` if it has fired, and then it is let go.
    pub(crate) fn reset(&mut self, key: TimerKey, deadline: Instant) -> bool {
        self.0.reset(key, due_ms(deadline))
    }

    /// Lets a timer go, fired or not; the waker, unless it was woken.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<Waker> {
        self.0.remove(key)
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        self.0.advance(now.as_millis());
    }

    /// The next waker whose time has come.
    pub(crate) fn pop(&mut self) -> Option<Waker> {
        self.0.pop_expired().map(|(_, waker)| waker)
    }

    /// No timer fires before this instant.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline_ms().map(Instant::from_millis)
    }

    /// Timers that are set, and those that have fired and were not let go yet.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn has_empty_pages(&self) -> bool {
        self.0.has_empty_chunks()
    }

    /// Gives back at most `pages_max` pages without a timer.
    pub(crate) fn release_some_pages(&mut self, pages_max: usize) {
        for _ in 0..pages_max {
            if self.0.release_empty().is_none() {
                break;
            }
        }
    }

    pub(crate) fn release_pages(&mut self) {
        while self.0.release_empty().is_some() {}
    }
}

#[cfg(test)]
mod tests;
