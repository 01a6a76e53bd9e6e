//! The cells of tasks, for servers that keep one ready.
#![forbid(unsafe_code)]

use core::future::Future;
use core::task::Waker;

use plimsoll_pool::OverBudget;

use crate::task::{self, Spare, Started};
use crate::worker::Worker;

/// A cell for a future of type `F`, charged to the pool, for [`start`].
///
/// # Errors
///
/// [`OverBudget`] at the memory line.
///
/// # Panics
///
/// Outside of a runtime.
pub fn spare<F: Future + 'static>() -> Result<Spare<F>, OverBudget> {
    Worker::current().tasks.spare()
}

/// Makes a future in a cell and polls it once, now. If it is ready, its cell can be used again; else it is a task from
/// now on.
///
/// # Panics
///
/// Outside of a runtime. A panic of the future is caught.
pub fn start<F: Future + 'static>(spare: Spare<F>, make: impl FnOnce() -> F) -> Started<F> {
    Worker::current().tasks.start(spare, make)
}

/// Whether it is the waker of a task. Waking and dropping one runs no code of the program; another one may do anything.
///
/// ```
/// use core::task::Waker;
///
/// assert!(!plimsoll_runtime::worker_tasks::is_of_task(Waker::noop()));
/// ```
#[must_use]
#[inline]
pub fn is_of_task(waker: &Waker) -> bool {
    task::is_of_task(waker)
}

/// Has the worker of this thread call `run` between tasks, once for however many times it was asked: nothing of the
/// runtime or of a task is borrowed then. Also at its end. `false` without a worker.
pub fn run_soon(run: fn()) -> bool {
    let Some(worker) = Worker::try_current() else { return false };
    worker.soon.ask(run);
    true
}
