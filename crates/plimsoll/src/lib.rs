//! Plimsoll is an async runtime with a load line: give the process a number of bytes and it never holds more.
//!
//! The mark on a ship's hull says how much it may carry. A Plimsoll runtime has one: buffers, connection slots, tasks,
//! codec state and rings are charged to a hard budget before their memory is touched. At the line it reads more slowly,
//! accepts later and finishes what it started; it does not get killed. It runs on io_uring where that works and on
//! epoll elsewhere, with one meaning, and in a deterministic simulation.
//!
//! ```no_run
//! use plimsoll::http::{Request, Response, Server};
//!
//! #[plimsoll::main(memory = "64MiB")]
//! async fn main() -> plimsoll::Result<()> {
//!     Server::bind("127.0.0.1:8080")?
//!         .serve(|req: Request| async move { Response::text(format!("hello {}\n", req.path())) })
//!         .await
//! }
//! ```
//!
//! A service has [routes](http::Router), [layers](http::layer) around them, data as types of its own (features `serde`
//! and `json`) and [metrics](http::metrics). It is tested without sockets:
//!
//! ```
//! use plimsoll::http::{Request, Router};
//! use plimsoll::testing::Client;
//!
//! let client = Client::new(Router::new().get("/", async |_req: Request| "afloat"));
//! assert_eq!(client.get("/").send().text(), "afloat");
//! client.finish();
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | the root | [`Runtime`], [`spawn`], [`sleep`], [`timeout`], [`interval`] and the like |
//! | [`net`] | TCP streams, listeners, the connection table |
//! | [`fs`] | files |
//! | [`io`] | traits for streams, relays |
//! | [`signal`] | the orderly stop |
//! | [`plan`] | what the fixed parts and each connection will take |
//! | [`http`] | the HTTP server |
//! | [`memory`] | waiting for memory, the level |
//! | [`alloc`] | a global allocator that counts |
//! | [`testing`] | a client for tests of a service, without sockets |
//! | [`sim`] | the simulated world |
//!
//! The crates `plimsoll-pool`, `plimsoll-codec` and `plimsoll-reactor` are there for those who want the memory budget,
//! the protocols or the driver alone.
//!
//! | feature | what it adds |
//! |---|---|
//! | `router` (default) | [`http::Router`] |
//! | `serde` | parameters of paths, queries and forms as types of your own |
//! | `json` | `serde`, and bodies of JSON both ways |
//! | `deflate` | permessage-deflate for WebSockets |
//! | `tls`, `tls-ring` | `http::tls` by rustls, with the cryptography of AWS-LC or of ring; `http::Server::tls` |
//! | `tokio-io`, `futures-io` | `AsyncRead` and `AsyncWrite` of tokio or of the futures crates, for streams |
//! | `tokio-context` | a runtime of tokio beside this one, for crates that panic without it |
//! | `hyper` | hyper's `Read` and `Write` for streams, its timer and executor: clients and servers of hyper run as they are |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;
pub mod testing;

pub use plimsoll_macros::{main, send, test};
pub use plimsoll_pool::{ClassStats, PoolStats, alloc};
pub use plimsoll_reactor::sim;
#[cfg(feature = "hyper")]
pub use plimsoll_runtime::hyper;
pub use plimsoll_runtime::{
    AbortOnDrop, Budget, Builder, ConfigError, ContainerLimit, DecayConfig, DriverChoice, DriverKind, Errno, Error,
    Instant, Interval, JoinError, JoinHandle, Kind, Lease, LimitTooLow, MemoryLimit, Metrics, Misuse, OnWorker,
    OutOfRange, OverBudget, Pool, PoolBox, ReceiveMode, Received, RemoteHandle, Report, Resident, Result, Runtime,
    Selected, SendBytes, SharedBytes, Simulation, Sleep, Spawner, budget, clock, coarse_now, fs, interval, io, memory,
    metrics, net, now, plan, pool, pool_stats, signal, sleep, sleep_until, spawn, spawn_blocking, spawn_on, timeout,
    unix_seconds, worker_index, workers, yield_now,
};

/// The HTTP server.
pub mod http {
    #[doc(inline)]
    pub use plimsoll_http::*;
}
