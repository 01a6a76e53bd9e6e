//! The lock of what workers share: loom's in its model tests, else the language's.

#[cfg(all(test, loom))]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{Mutex, MutexGuard};

/// Takes the lock. Nothing that panics runs under it, so what a panic elsewhere left is whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
