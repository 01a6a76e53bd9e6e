//! The atomics of what loom checks: its own under `cfg(loom)`, the ordinary ones otherwise.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
