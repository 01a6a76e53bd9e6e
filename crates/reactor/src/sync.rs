//! The lock, the condition, the atomics and the handles of threads of what loom checks: its own under `cfg(loom)`, the
//! language's otherwise.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub(crate) use self::language::*;
#[cfg(loom)]
pub(crate) use self::model::*;

#[cfg(not(loom))]
mod language {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::JoinHandle;

    use core::time::Duration;
    use std::sync::PoisonError;

    /// Waits for the condition, at most so long; whether that time has passed. The guard is of the lock.
    pub(crate) fn wait_timeout<'a, T>(
        condition: &Condvar,
        _lock: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, waited) = condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        (guard, waited.timed_out())
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::JoinHandle;

    use core::time::Duration;
    use std::sync::PoisonError;

    /// As the other one. There is no clock in a model: no time at all passes as soon as others had their turns, any
    /// other never.
    pub(crate) fn wait_timeout<'a, T>(
        condition: &Condvar,
        lock: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        if !time.is_zero() {
            return (condition.wait(guard).unwrap_or_else(PoisonError::into_inner), false);
        }
        drop(guard);
        loom::thread::yield_now();
        (lock.lock().unwrap_or_else(PoisonError::into_inner), true)
    }
}
