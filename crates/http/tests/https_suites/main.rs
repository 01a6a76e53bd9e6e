//! The suites of HTTP/1.1, HTTP/2 and WebSockets over TLS (`rig/secured.rs`): the same list as over the transport for
//! tests, on each driver and in the simulation.

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "the rigs of suites that are not all here")]

#[path = "../rig/mod.rs"]
mod rig;
#[path = "../records/suites.rs"]
mod suites;
