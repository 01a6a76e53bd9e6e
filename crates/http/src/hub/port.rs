//! Where messages for one reader arrive, from any thread: a task that asked for them, or a worker that has connections
//! to give them to.
//!
//! ```text
//!  publisher (any worker) --push--> queue --> wakes the reader, if it waits
//!                                     |
//!  reader (one worker) <----poll------+       closed: by either; what waits is still read, nothing comes any more
//! ```

use ::core::task::{Context, Poll, Waker};
use std::sync::Arc;

use plimsoll_pool::Budget;

use super::queue::{Bounds, Pushed, Queue, Weigh};
use super::sync::{Mutex, lock};

/// The shared part. Locks are held for a push or a pop, never while a waker is woken.
pub(super) struct Port<T> {
    wants: Wants,
    state: Mutex<State<T>>,
}

/// Which messages arrive at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    All,
    /// Those that were published here.
    Local,
}

struct State<T> {
    queue: Queue<T>,
    waker: Option<Waker>,
    /// Messages that were dropped for it, and of these those that it was told of.
    missed: u64,
    missed_told: u64,
    /// Messages that it got.
    taken: u64,
    /// Of the last one: how many there were for the reader up to it, those included that were dropped before.
    position: u64,
    end: End,
}

/// Whether more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The reader was too slow.
    Overrun,
    Closed,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Item(T),
    /// It was too slow, and its policy is to be closed.
    Overrun,
    Closed,
}

impl<T: Weigh> Port<T> {
    pub(super) fn new(wants: Wants) -> Self {
        let state = State {
            queue: Queue::default(),
            waker: None,
            missed: 0,
            missed_told: 0,
            taken: 0,
            position: 0,
            end: End::Open,
        };
        Self { wants, state: Mutex::new(state) }
    }

    /// Which messages are to be pushed.
    pub(super) fn wants(&self) -> Wants {
        self.wants
    }

    /// Puts a message in; [`wake`](Self::wake) when no lock is held.
    pub(super) fn push(&self, item: T, bounds: &Bounds, budget: &Arc<Budget>) -> Pushed {
        let mut state = lock(&self.state);
        if state.end != End::Open {
            return Pushed::Refused;
        }
        let pushed = state.queue.push(item, bounds, budget);
        match pushed {
            Pushed::Waits => {}
            Pushed::Replaced(dropped) => state.missed += u64::from(dropped),
            Pushed::Refused => state.missed += 1,
            Pushed::Overrun => {
                state.missed += 1;
                state.end = End::Overrun;
            }
        }
        pushed
    }

    /// Wakes the reader if it waits.
    pub(super) fn wake(&self) {
        let waker = lock(&self.state).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next message.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Taken<T>> {
        // Wakers are made and dropped by their owners' code: not under the lock.
        let mut mine = None;
        loop {
            let mut state = lock(&self.state);
            if let Some(item) = state.queue.pop() {
                state.taken += 1;
                state.position = state.taken + state.missed;
                return Poll::Ready(Taken::Item(item));
            }
            match state.end {
                End::Open => {}
                End::Overrun => return Poll::Ready(Taken::Overrun),
                End::Closed => return Poll::Ready(Taken::Closed),
            }
            if state.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if let Some(waker) = mine.take() {
                let before = state.waker.replace(waker);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
            drop(state);
            mine = Some(cx.waker().clone());
        }
    }

    /// Messages that the reader did not get since it was last asked.
    pub(super) fn take_missed(&self) -> u64 {
        let mut state = lock(&self.state);
        let missed = state.missed;
        missed - ::core::mem::replace(&mut state.missed_told, missed)
    }

    /// Of the last message that was taken.
    pub(super) fn position(&self) -> u64 {
        lock(&self.state).position
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        if state.end == End::Open {
            state.end = End::Closed;
        }
        drop(state);
        self.wake();
    }
}

#[cfg(test)]
mod tests;
