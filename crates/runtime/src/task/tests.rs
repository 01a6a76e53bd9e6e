//! Tests of the task cells and their executor. The model test and what it checks: `tests/model.rs`; other threads: `tests/threads.rs`; all
//! interleavings of the lock-free parts: `tests/interleavings.rs`, under `--cfg loom`.
#![allow(unsafe_code)]

#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod heap;
#[cfg(loom)]
mod interleavings;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod order;
#[cfg(not(loom))]
mod rig;
#[cfg(not(loom))]
mod spares;
#[cfg(not(loom))]
mod threads;
