//! The level of the process, as all workers see it, and who is told when it changes.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Budget;
use crate::contain::contained;
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
    wakers: Vec<Waker>,
}

impl Pressure {
    pub(crate) fn new(marks: Marks, limit_bytes: u64) -> Self {
        Self {
            level: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            entered: Default::default(),
            watched: Mutex::new(Watched { watermarks: Watermarks::new(marks, limit_bytes), wakers: Vec::new() }),
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
        for waker in wakers {
            contained(|| waker.wake());
        }
        Some(transition)
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
}

impl Watch {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        let seen = budget.pressure().transitions.load(Ordering::Acquire);
        Self { budget, seen }
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
                drop(watched);
                return Poll::Ready(pressure.level());
            }
            if watched.wakers.iter().any(|known| known.will_wake(cx.waker())) {
                drop(watched);
                return Poll::Pending;
            }
            match waker.take() {
                Some(waker) => watched.wakers.push(waker),
                None => {
                    drop(watched);
                    waker = Some(cx.waker().clone());
                }
            }
        }
    }

    /// Waits until the level has changed; several changes in between are one.
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn changed(&mut self) -> Level {
        core::future::poll_fn(|cx| self.poll_changed(cx)).await
    }
}
