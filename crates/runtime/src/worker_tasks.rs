//! The cells of tasks, for servers that keep one ready.
#![forbid(unsafe_code)]

use core::future::Future;

use plimsoll_pool::OverBudget;

use crate::task::{Spare, Started};
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
