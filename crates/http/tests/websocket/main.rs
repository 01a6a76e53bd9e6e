//! WebSockets, event streams and hubs.

#![forbid(unsafe_code)]

mod codes;
mod fanout;
mod http2;
mod lasting;
mod lasting_ending;
mod lasting_told;
mod line;
mod messages;
mod reentry;
#[path = "../rig/mod.rs"]
mod rig;
mod room;
mod sse;
