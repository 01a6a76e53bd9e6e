//! Sans-IO HTTP codecs: bytes in, events with offsets out.
//!
//! There is no socket, clock, thread or buffer type in here. The caller owns the bytes; the codec says which of them
//! mean what, and remembers how far it has looked so that a peer that sends one byte at a time costs no more than one
//! that sends all at once. Every split of the same input gives the same events and the same errors.
//!
//! | module | what it does |
//! |---|---|
//! | [`h1`] | HTTP/1.0 and HTTP/1.1 for a server: heads, bodies, responses, the life of an exchange |
//! | [`h2`] | HTTP/2 for a server: frames, streams, windows, limits |
//! | [`hpack`] | header compression of HTTP/2, both ways |
//! | [`date`] | the 29 bytes of a `Date` field |
//! | [`misbehaviour`] | one counter of what a peer does wrong |
//! | [`ws`] | WebSocket for both ends: handshake, frames, messages, compression |
//! | [`query`] | pairs of a query string, without allocation |
//!
//! The codec allocates nothing, with one exception that belongs to [`http::Method`]: a method of 16 to
//! [`h1::METHOD_BYTES_MAX`] bytes that HTTP does not know is kept in a box. With the feature `deflate`, the compression
//! of WebSocket keeps its windows on the heap.
#![forbid(unsafe_code)]

pub mod date;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod h1;
pub mod h2;
pub mod hpack;
pub mod misbehaviour;
pub mod query;
pub mod ws;

pub use error::{Error, Fault};
