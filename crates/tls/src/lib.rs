//! TLS 1.2 and 1.3 under a memory line, by [rustls].
//!
//! | type | for |
//! |---|---|
//! | [`TlsConfig`] | a server's certificates and rules: read and checked once, read again by [`reload`](TlsConfig::reload) |
//! | [`Acceptor`], [`Connector`] | sessions of tasks, over a `TcpStream` or a `UnixStream` |
//! | [`TlsInfo`] | what was agreed on, and the peer's certificates |
//!
//! `plimsoll_http::Server::tls` speaks HTTP over it.
//!
//! A session that waits holds no buffer: only its state, charged by a maximum that tests count
//! ([`PARKED_BYTES_MAX`]). What it may hold until its handshake is over is charged when it begins
//! ([`HANDSHAKE_BYTES_MAX`]).
//!
//! # Who does what
//!
//! Handshakes, certificates, keys, ciphers and the rules of records are rustls's and its provider's. Ours are where
//! records end, what is kept of them, the limits on their number and size, deadlines, and memory.
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "aws-lc", feature = "ring")))]
compile_error!("TLS needs cryptography: the feature `aws-lc` or `ring`");

mod certificates;
#[cfg(feature = "aws-lc")]
mod compact;
mod config;
mod crypto;
mod error;
mod info;
mod machine;
mod pem;
mod records;
mod session;
mod sites;
mod streams;
mod version;

#[cfg(feature = "aws-lc")]
#[doc(hidden)]
pub use compact::nonces;
pub use config::{TlsConfig, TlsConfigBuilder};
pub use crypto::{Provider, Simulated};
pub use error::TlsError;
pub use info::TlsInfo;
pub use machine::PARKED_BYTES_MAX;
pub use session::{HANDSHAKE_BYTES_MAX, SESSION_BYTES};
pub use streams::{Acceptor, Connector, ConnectorBuilder, info};
pub use version::Version;
