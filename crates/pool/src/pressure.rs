//! The level of the process, as all workers see it, and who is told when it changes.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Budget;
use crate::catch_panic::catch_panic;
use crate::watermarks::{Level, Marks, Transition, Watermarks};

/// See the module.
#[derive(Debug)]
pub(crate) struct Pressure {
    level: AtomicU64,
    /// Waiters of all workers.
    waiting: AtomicU64,
    /// Grows with each transition.
    transitions: AtomicU64,
    /// Times that each level was entered.
    entered: [AtomicU64; 4],
    watched: Mutex<Watched>,
}

#[derive(Debug)]
struct Watched {
    watermarks: Watermarks,
    /// Of watches that wait, by their numbers.
    wakers: Vec<(u64, Waker)>,
    /// Watches that there were.
    watches: u64,
}

impl Pressure {
    pub(crate) fn new(marks: Marks, limit_bytes: u64) -> Self {
        Self {
            level: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            entered: Default::default(),
            watched: Mutex::new(Watched {
                watermarks: Watermarks::new(marks, limit_bytes),
                wakers: Vec::new(),
                watches: 0,
            }),
        }
    }

    pub(crate) fn level(&self) -> Level {
        Level::from_number(self.level.load(Ordering::Acquire))
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn entered(&self, level: Level) -> u64 {
        self.entered[level as usize].load(Ordering::Relaxed)
    }

    /// One worker has so many more, or fewer, waiters.
    pub(crate) fn change_waiting(&self, before: u32, now: u32) {
        if now >= before {
            self.waiting.fetch_add(u64::from(now - before), Ordering::AcqRel);
        } else {
            self.waiting.fetch_sub(u64::from(before - now), Ordering::AcqRel);
        }
    }

    /// Takes the figures of now in.
    pub(crate) fn observe(&self, in_use_bytes: u64) -> Option<Transition> {
        let mut watched = self.watched();
        let transition = watched.watermarks.observe(in_use_bytes, self.waiting())?;
        self.level.store(transition.to as u64, Ordering::Release);
        self.entered[transition.to as usize].fetch_add(1, Ordering::Relaxed);
        self.transitions.fetch_add(1, Ordering::Release);
        let wakers = core::mem::take(&mut watched.wakers);
        drop(watched);
        for (_, waker) in wakers {
            catch_panic(|| waker.wake());
        }
        Some(transition)
    }

    /// The line was moved; the next figures are looked at under the new one.
    pub(crate) fn set_limit(&self, limit_bytes: u64) {
        self.watched().watermarks.set_limit(limit_bytes);
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of changes of the level. From [`Budget::watch`](crate::Budget::watch).
///
/// ```
/// use plimsoll_pool::{Budget, Level, MemoryLimit};
///
/// let budget = Budget::new(MemoryLimit::mib(1));
/// let watch = budget.watch();
/// assert_eq!(watch.level(), Level::Calm);
/// ```
#[derive(Debug)]
pub struct Watch {
    budget: Arc<Budget>,
    seen: u64,
    number: u64,
}

impl Watch {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        let seen = budget.pressure().transitions.load(Ordering::Acquire);
        let mut watched = budget.pressure().watched();
        watched.watches += 1;
        let number = watched.watches;
        drop(watched);
        Self { budget, seen, number }
    }

    /// The level now.
    #[must_use]
    pub fn level(&self) -> Level {
        self.budget.level()
    }

    /// Ready with the level when it has changed since the last time; several changes in between are one.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Level> {
        let pressure = self.budget.pressure();
        // Made and dropped by its owner's code: not under the lock.
        let mut waker = None;
        loop {
            let mut watched = pressure.watched();
            let now = pressure.transitions.load(Ordering::Acquire);
            if now != self.seen {
                self.seen = now;
                return Poll::Ready(pressure.level());
            }
            let known = watched.wakers.iter().position(|(number, _)| *number == self.number);
            if known.is_some_and(|at| watched.wakers[at].1.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            let Some(fresh) = waker.take() else {
                drop(watched);
                waker = Some(cx.waker().clone());
                continue;
            };
            let outdated = match known {
                Some(at) => Some(core::mem::replace(&mut watched.wakers[at].1, fresh)),
                None => {
                    watched.wakers.push((self.number, fresh));
                    None
                }
            };
            drop(watched);
            drop(outdated);
            return Poll::Pending;
        }
    }

    /// Waits until the level has changed; several changes in between are one.
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn changed(&mut self) -> Level {
        core::future::poll_fn(|cx| self.poll_changed(cx)).await
    }
}

/// What waits is not kept by who would wake it.
impl Drop for Watch {
    fn drop(&mut self) {
        let forgotten = {
            let mut watched = self.budget.pressure().watched();
            let at = watched.wakers.iter().position(|(number, _)| *number == self.number);
            at.map(|at| watched.wakers.swap_remove(at))
        };
        // Its task may end with it, when nothing is locked any more.
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests;
