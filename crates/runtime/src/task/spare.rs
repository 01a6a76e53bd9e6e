//! Cells kept ready, for those who start many tasks of one kind that mostly end at once.
#![forbid(unsafe_code)]

use core::any::Any;
use core::fmt;
use core::future::Future;

use super::cell::Vacant;
use super::join::JoinHandle;

/// A cell that is charged and waits for a future of type `F`.
///
/// A server has one before it takes a request, so that starting the handler cannot be refused. Dropping it gives its
/// memory back.
pub struct Spare<F: Future>(pub(super) Vacant<F>);

impl<F: Future> fmt::Debug for Spare<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare").finish_non_exhaustive()
    }
}

/// What became of a future that was started in a [`Spare`].
pub enum Started<F: Future> {
    /// It was ready at its first poll; the cell, or a fresh one, is ready for the next.
    Ready(F::Output, Spare<F>),
    /// It was ready, but wakers of it are left, so its cell cannot be used again, and the memory line has no room for
    /// another.
    ReadyNoSpare(F::Output),
    /// It is an ordinary task from now on.
    Pending(JoinHandle<F::Output>),
    /// It panicked, in the making or in its first poll; with what the panic carried, and a cell as for the other
    /// outcomes.
    Panicked(Box<dyn Any + Send + 'static>, Option<Spare<F>>),
}

impl<F: Future> fmt::Debug for Started<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready(..) => "Ready",
            Self::ReadyNoSpare(..) => "ReadyNoSpare",
            Self::Pending(..) => "Pending",
            Self::Panicked(..) => "Panicked",
        })
    }
}
