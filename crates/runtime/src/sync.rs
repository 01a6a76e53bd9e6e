//! What loom checks in its model tests, else the language's: the atomics and locks that other threads reach, the cells
//! that they must not reach, and the mark of a thread.
#![forbid(unsafe_code)]

pub(crate) use core::sync::atomic::Ordering;

#[cfg(not(all(test, loom)))]
pub(crate) use self::language::*;
#[cfg(all(test, loom))]
pub(crate) use self::model::*;

#[cfg(not(all(test, loom)))]
mod language {
    pub(crate) use core::cell::Cell;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, fence};
    pub(crate) use std::sync::Mutex;

    thread_local! {
        /// The mark of this thread, see `task/core.rs`.
        pub(crate) static THREAD: Cell<u64> = const { Cell::new(0) };
    }

    /// Memory that is used while somebody counts on it: loom checks that every use happens before the end. Nothing
    /// otherwise.
    #[derive(Debug)]
    pub(crate) struct Life;

    impl Life {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn used(&self) {}

        pub(crate) fn ended(&self) {}
    }
}

#[cfg(all(test, loom))]
mod model {
    pub(crate) use loom::cell::Cell;
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, fence};

    loom::thread_local! {
        /// The mark of this thread, see `task/core.rs`.
        pub(crate) static THREAD: Cell<u64> = Cell::new(0);
    }

    /// As the other one: whether it exists, in a cell that loom watches.
    #[derive(Debug)]
    pub(crate) struct Life(Cell<bool>);

    impl Life {
        pub(crate) fn new() -> Self {
            Self(Cell::new(true))
        }

        /// Whatever it belongs to is looked at.
        pub(crate) fn used(&self) {
            assert!(self.0.get(), "used after its end");
        }

        /// Its memory goes.
        pub(crate) fn ended(&self) {
            assert!(self.0.replace(false), "ended twice");
        }
    }
}
