//! Servers at the line, with clients in threads of their own.

#![forbid(unsafe_code)]

mod attacks;
mod begin_within;
mod begun;
mod collect;
mod cpu;
mod fields;
mod half_heads;
mod marked;
mod moved;
mod overload;
#[path = "../rig/mod.rs"]
mod rig;
mod slow_peers;
mod turns;
mod uploads;
mod waiting;
mod waits;
