//! The real server in a simulated world, with clients that do what a seed says: pipelined requests in pieces, bodies in
//! both framings, slow readers, early closes, half closes, bad input, idling; a third of them speak HTTP/2. For each
//! seed:
//!
//! * what a client has received is what the requests it sent are answered with: to the last byte in a clean world, a
//!   legal beginning of it (or an error that closes) in one with faults;
//! * where the server stops and nothing else fails, no request is lost that a client with a kept connection has sent;
//! * every connection ends, every handler's future ends, no descriptor and no byte is left, and the counters add up;
//! * the same seed does the same again, to the byte and the nanosecond: the hashes of both runs' traces are equal.
//!
//! A seed decides its weather: half of them are clean, a quarter has an ordinary bad day, a quarter everything at once.
//! In a quarter of them a limit of the server is so tight that it is reached: connections in all and of an address, the
//! rate of a body, ages, the time of handlers, memory.
//!
//! `cargo xtask sim` sweeps; see [`scenario::run`] for one seed. `--of tls` runs the same over TLS, with clients that
//! shake hands badly, not at all, or break off within a record. `--of relay` and `--of fanout` do the same for
//! [relays](relay) and for [hubs](fanout).

#![forbid(unsafe_code)]

mod busy;
mod dial;
pub mod fanout;
mod hostile;
mod http2;
pub mod limits;
pub mod oracle;
mod plan;
pub mod relay;
pub mod scenario;
mod service;
mod tls;
mod websocket;
pub mod world;
