//! The suites of HTTP/1.1, HTTP/2 and WebSockets over a transport that carries bytes in records (`rig/records.rs`), as
//! TLS does: what they say holds beneath it, too, on each driver and in the simulation.

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "the rigs of suites that are not all here")]

#[path = "../rig/mod.rs"]
mod rig;
mod suites;
