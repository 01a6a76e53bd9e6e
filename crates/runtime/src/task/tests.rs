//! Tests of the task cells and their executor, but for `tests/interleavings.rs`, which takes the place of all of them
//! under `--cfg loom`.
//!
//! The model test and what it checks: `tests/model.rs`. Other threads: `tests/threads.rs`.

mod ends;
mod heap;
mod model;
mod order;
#[cfg(plimsoll_asan)]
mod poison;
mod rig;
mod spares;
mod threads;
