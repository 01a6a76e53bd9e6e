//! What a request pays, piece by piece, each beside what one would take instead.
//!
//! `cargo xtask bench --criterion [NAME]`, where a name is that of a group: `slab`, `pool`, `h1-head`, `h1-chunked`,
//! `timers`, `wakes`, `spawn`. Times are for one element where the report has a throughput, and for one call else.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod h1;
mod pool;
mod slab;
mod tasks;
mod timers;
mod wakes;

use criterion::{criterion_group, criterion_main};

criterion_group!(benches, slab::bench, pool::bench, h1::heads, h1::chunked, timers::bench, wakes::bench, tasks::bench);
criterion_main!(benches);

/// The runtime that is measured: one worker, the driver that is chosen here.
fn plimsoll() -> plimsoll::Runtime {
    plimsoll::Runtime::builder().workers(1).build().expect("a runtime starts")
}

/// What one would take instead: one thread, with timers.
fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts")
}
