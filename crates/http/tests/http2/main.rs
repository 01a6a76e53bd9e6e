//! HTTP/2.

#![forbid(unsafe_code)]

mod attacks;
mod deadlines;
mod half_close;
mod landed;
mod line;
mod memory;
mod pressure;
mod requests;
#[path = "../rig/mod.rs"]
mod rig;
mod room;
mod tunnel;
mod waiting;
