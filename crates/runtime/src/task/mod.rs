//! Tasks: futures in cells of the pool, polled by the one worker they belong to.
//!
//! | file | what |
//! |---|---|
//! | `cell.rs` | the cell, its states, polling and dropping (unsafe) |
//! | `remote.rs` | wakers, wakes from other threads, giving memory back (unsafe) |
//! | `count.rs` | the reference count, plain for the worker, atomic for others |
//! | `inject.rs` | the stack of wakes from other threads, and the worker's sleep |
//! | `lists.rs` | lists whose links are in the tasks: ready ones, live ones |
//! | `core.rs` | what the cells of a worker share |
//! | `tasks.rs` | [`Tasks`]: starting, running, closing |
//! | `join.rs`, `join_error.rs`, `spare.rs` | [`JoinHandle`]; [`JoinError`]; [`Spare`] and [`Started`] |
//!
//! The waking of a sleeping worker is one atomic word, see `inject.rs`. Nothing here allocates on the heap after
//! [`Tasks::new`], except that a panic's payload is a box.
// Forbidding it here would forbid it to the two files that are made of it.
#![deny(unsafe_code)]

mod cell;
mod core;
mod count;
mod inject;
#[cfg(all(test, loom))]
#[path = "tests/interleavings.rs"]
mod interleavings;
mod join;
mod join_error;
mod lists;
mod remote;
mod spare;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;

pub use self::join::{AbortOnDrop, JoinHandle};
pub use self::join_error::JoinError;
pub(crate) use self::remote::is_of_task;
pub use self::spare::{Spare, Started};
pub(crate) use self::tasks::Tasks;
