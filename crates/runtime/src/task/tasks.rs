//! Starting tasks, running them, and their end.
#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::num::NonZero;

use plimsoll_pool::{OverBudget, Pool};

use super::cell::{Begun, Vacant};
use super::core::{Bell, Stage};
use super::join::JoinHandle;
use super::remote::CoreRef;
use super::spare::{Spare, Started};

/// A task's number: from 1, never used again by its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskId(NonZero<u64>);

/// The tasks of one worker. Dropping it closes it.
pub(crate) struct Tasks {
    core: CoreRef,
    pool: Pool,
}

impl Tasks {
    /// No tasks, for a worker on this thread. `bell` is called by other threads, when they wake a task while the worker
    /// sleeps.
    pub(crate) fn new(pool: &Pool, bell: Bell) -> Self {
        Self { core: CoreRef::new(bell), pool: pool.clone() }
    }

    /// Starts a task; its first poll is in a later [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// The future, when the cell has no room under the memory line, or would be larger than the largest class (128
    /// KiB).
    pub(crate) fn spawn<F: Future + 'static>(&self, future: F) -> Result<JoinHandle<F::Output>, (OverBudget, F)> {
        let vacant = match Vacant::new(&self.pool, &self.core) {
            Ok(vacant) => vacant,
            Err(over) => return Err((over, future)),
        };
        Ok(JoinHandle::new(vacant.fill(future)))
    }

    /// A cell for futures of type `F`, kept ready.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    pub(crate) fn spare<F: Future + 'static>(&self) -> Result<Spare<F>, OverBudget> {
        Vacant::new(&self.pool, &self.core).map(Spare)
    }

    /// Makes a future in the cell and polls it once, on the spot. If it is ready, nothing is queued, counted or
    /// allocated.
    pub(crate) fn start<F: Future + 'static>(&self, spare: Spare<F>, make: impl FnOnce() -> F) -> Started<F> {
        match spare.0.begin(make) {
            Begun::Ready(output, vacant) => match self.renew(vacant) {
                Some(spare) => Started::Ready(output, spare),
                None => Started::ReadyNoSpare(output),
            },
            Begun::Pending(join) => Started::Pending(JoinHandle::new(join)),
            Begun::Panicked(payload, vacant) => Started::Panicked(payload, self.renew(vacant)),
        }
    }

    fn renew<F: Future + 'static>(&self, vacant: Vacant<F>) -> Option<Spare<F>> {
        if vacant.is_unshared() {
            return Some(Spare(vacant));
        }
        vacant.retire();
        self.spare().ok()
    }

    /// Polls ready tasks, the longest waiting first, and `polls_max` times at most. A task that wakes itself goes to
    /// the back.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn run(&self, polls_max: usize) -> usize {
        self.run_observed(polls_max, |_| false)
    }

    /// Polls ready tasks, the longest waiting first, and `polls_max` times at most. A task that wakes itself goes to
    /// the back.
    ///
    /// `stalled` is called after each poll with the name of the future's type; when it says `true`, the rest waits for
    /// the next call. Returns how many polls there were: 0 within a poll.
    pub(crate) fn run_observed(&self, polls_max: usize, mut stalled: impl FnMut(&'static str) -> bool) -> usize {
        if self.current().is_some() {
            // A task that is being polled must not come off the list: it would lose a wake.
            return 0;
        }
        self.core.receive();
        let mut polls = 0;
        while polls < polls_max {
            let Some(task) = self.core.ready.pop() else { break };
            if task.run() {
                polls += 1;
                if stalled(task.name()) {
                    break;
                }
            }
        }
        polls
    }

    /// Whether a task waits for its poll, as far as this thread can see now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.core.ready.is_empty() || !self.core.inject.is_empty()
    }

    /// Announces that the worker is about to sleep: from now until [`woke`](Self::woke) the first wake from another
    /// thread rings the bell. `false` when a task is ready; then nothing is announced.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.core.ready.is_empty() && self.core.inject.prepare_sleep()
    }

    /// The worker is awake, whether it slept or not.
    pub(crate) fn woke(&self) {
        self.core.inject.woke();
    }

    /// Live tasks.
    pub(crate) fn len(&self) -> usize {
        self.core.live.len()
    }

    /// Polls so far.
    pub(crate) fn polls_total(&self) -> u64 {
        self.core.polls.get()
    }

    /// The task that is being polled.
    pub(crate) fn current(&self) -> Option<TaskId> {
        NonZero::new(self.core.current.get()).map(TaskId)
    }

    /// Drops the future of every live task, in the order of spawning. Whoever joins gets
    /// [`JoinError::Cancelled`](super::JoinError::Cancelled); a task that is being polled ends after its poll. Panics
    /// are caught. Tasks that are started from now on end at once in the same way, and wakes do nothing. Cells stay
    /// until their last handle or waker goes.
    pub(crate) fn close(&self) {
        if self.core.stage.get() != Stage::Closing {
            self.core.receive_last();
            self.core.drop_tasks();
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("len", &self.len())
            .field("polls_total", &self.polls_total())
            .finish_non_exhaustive()
    }
}
