//! Requests, bodies and answers, mostly of HTTP/1.1.

#![forbid(unsafe_code)]

mod answers;
mod attacks;
mod bulk;
mod deadlines;
mod exchanges;
#[cfg(feature = "router")]
mod files;
mod forwarded;
mod half_close;
mod interim;
mod landed;
mod limits;
mod listeners;
mod malformed;
#[path = "../rig/mod.rs"]
mod rig;
#[cfg(feature = "router")]
mod router;
mod server;
mod trailers;
mod unix;
mod unread;
mod upgrade;
