//! What a server must do with what a client sends, as data.
//!
//! | module | what it is |
//! |---|---|
//! | [`h1`] | the cases of HTTP/1.1: rule, section, bytes, expected answers |
//! | [`answers`] | a client's reading of what came back, independent of our codec |
//! | [`differential`] | a fuzz target: our codec beside two other parsers |
//! | [`frames`] | frames of HTTP/2 as clients send and read them |
//! | [`table`] | cases and results as Markdown |
//! | `tls_records` | a fuzz target, with the feature `tls`: compact sessions of TLS beside those of rustls |
//!
//! The tests of this package run the cases on the codec and on the whole server; `cargo xtask conformance h1` sends
//! them to other servers.
#![forbid(unsafe_code)]

pub mod answers;
pub mod differential;
pub mod frames;
pub mod h1;
pub mod table;
#[cfg(feature = "tls")]
pub mod tls_records;
