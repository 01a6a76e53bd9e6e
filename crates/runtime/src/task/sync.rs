//! The atomics that other threads reach: loom's in its model tests, else the language's.
#![forbid(unsafe_code)]

#[cfg(not(all(test, loom)))]
pub(super) use core::sync::atomic::{AtomicI32, AtomicPtr, fence};

#[cfg(all(test, loom))]
pub(super) use loom::sync::atomic::{AtomicI32, AtomicPtr, fence};

pub(super) use core::sync::atomic::Ordering;
