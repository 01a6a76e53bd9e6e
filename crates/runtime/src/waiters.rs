//! Who waits for which operation: one entry for each operation that a future has in flight.
#![forbid(unsafe_code)]

use core::task::Waker;

use plimsoll_pool::{Kind, OverBudget, Pool};
use plimsoll_reactor::{Completion, Errno, Payload, PoolPage};
use plimsoll_slab::{Key, Slab};

/// Waiters of one worker at most; an index must fit a token.
const CHUNKS_MAX: u32 = 1 << 14;

/// What is known of one operation.
pub(crate) enum Waiter {
    /// In flight; the waker of the future that polled last, if one still cares.
    Waiting(Option<Waker>),
    /// Answered, not yet taken.
    Done(Completion),
}

/// What is there of an answer.
pub(crate) enum Taken {
    Answer(Completion),
    /// Nothing yet, and the waker is the one that is remembered.
    Pending,
    /// Nothing yet, and the waker has to be remembered.
    Unknown,
}

/// The table. Wakers are made and dropped by their owners' code, so they come and go as values: the worker does that
/// while it borrows nothing.
pub(crate) struct Waiters(Slab<Waiter, PoolPage>);

impl Waiters {
    pub(crate) fn new() -> Self {
        Self(Slab::new(CHUNKS_MAX))
    }

    /// A waiter for an operation that is about to be submitted.
    pub(crate) fn insert(&mut self, pool: &Pool) -> Result<Key, OverBudget> {
        PoolPage::insert(&mut self.0, pool, Waiter::Waiting(None)).map_err(|(over, _)| over)
    }

    /// Takes the answer, if there is one.
    pub(crate) fn take(&mut self, key: Key, waker: &Waker) -> Taken {
        match self.0.get(key).expect("a waiter lives as long as its owner") {
            Waiter::Waiting(Some(known)) if known.will_wake(waker) => Taken::Pending,
            Waiter::Waiting(_) => Taken::Unknown,
            Waiter::Done(_) => match self.0.remove(key) {
                Some(Waiter::Done(completion)) => Taken::Answer(completion),
                _ => unreachable!("matched above"),
            },
        }
    }

    /// Whether the answer is there.
    pub(crate) fn is_answered(&self, key: Key) -> bool {
        matches!(self.0.get(key), Some(Waiter::Done(_)))
    }

    /// Remembers who wants the answer; the waker that is not needed any more.
    pub(crate) fn remember(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        match self.0.get_mut(key) {
            Some(Waiter::Waiting(known)) => known.replace(waker),
            _ => Some(waker),
        }
    }

    /// Stores an answer; the waker to be woken for it.
    pub(crate) fn complete(&mut self, index: u32, completion: Completion) -> Result<Option<Waker>, Completion> {
        match self.0.get_at_mut(index) {
            Some(waiter @ Waiter::Waiting(_)) => match core::mem::replace(waiter, Waiter::Done(completion)) {
                Waiter::Waiting(waker) => Ok(waker),
                Waiter::Done(_) => unreachable!("matched above"),
            },
            _ => Err(completion),
        }
    }

    /// Copies the bytes of an answer that nobody has taken, so that the driver has its buffer back: its kind of payload
    /// is then that of a receive into a lease. `false` when the line leaves no room, and the buffer stays with the
    /// answer.
    pub(crate) fn copy_out(&mut self, index: u32, pool: &Pool) -> bool {
        let Some(Waiter::Done(completion)) = self.0.get_at_mut(index) else { return true };
        let Payload::Received(bytes) = &completion.payload else { return true };
        match pool.try_copy(bytes, Kind::Buffers) {
            Ok(lease) => {
                completion.payload = Payload::Lease(lease);
                true
            }
            Err(_) => false,
        }
    }

    /// Drops the bytes of an answer that nobody has taken and that could not be copied: from now on it says
    /// [`Errno::NOBUFS`], which no driver says of a receive.
    pub(crate) fn lose_bytes(&mut self, index: u32) {
        if let Some(Waiter::Done(completion)) = self.0.get_at_mut(index)
            && let Payload::Received(_) = completion.payload
        {
            completion.payload = Payload::None;
            completion.result = Err(Errno::NOBUFS);
        }
    }

    /// Removes a waiter; an answer that was not taken comes back with it.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Waiter> {
        self.0.remove(key)
    }

    pub(crate) fn has_empty_pages(&self) -> bool {
        self.0.empty_chunks() > 0
    }

    /// Gives back at most `pages_max` pages that nobody waits in.
    pub(crate) fn release_some_pages(&mut self, pages_max: usize) {
        for _ in 0..pages_max {
            if self.0.release_empty().is_none() {
                break;
            }
        }
    }

    /// Gives back the pages that nobody waits in.
    pub(crate) fn release_pages(&mut self) {
        while self.0.release_empty().is_some() {}
    }
}
