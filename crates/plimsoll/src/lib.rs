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
//! | module | what is in it |
//! |---|---|
//! | the root | [`Runtime`], [`spawn`], [`sleep`] and the like |
//! | [`net`] | TCP streams, listeners, the connection table |
//! | [`fs`] | files |
//! | [`io`] | traits for streams, relays |
//! | [`time`], [`signal`] | timers, the orderly stop |
//! | [`plan`] | what the fixed parts and each connection will take |
//! | [`http`] | the HTTP server |
//! | [`memory`] | waiting for memory, the level |
//! | [`alloc`] | a global allocator that counts |
//! | [`pool`](mod@pool) | the budget, leases, `TieredBuf`: useful without the rest |
//! | [`reactor`], [`sim`] | the completion driver, and the simulated world |
//!
//! | feature | what it adds |
//! |---|---|
//! | `router` (default) | [`http::Router`] |
//! | `deflate` | permessage-deflate for WebSockets |
//! | `tokio-io`, `futures-io` | `AsyncRead` and `AsyncWrite` of tokio or of the futures crates, for streams |
//! | `tokio-context` | a runtime of tokio beside this one, for crates that panic without it |
//! | `hyper` | hyper's `Read` and `Write` for streams, its timer and executor: clients and servers of hyper run as they are |
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;

pub use plimsoll_http as http;
pub use plimsoll_macros::{main, test};
pub use plimsoll_pool as pool;
pub use plimsoll_pool::alloc;
pub use plimsoll_reactor as reactor;
pub use plimsoll_reactor::sim;
pub use plimsoll_runtime::*;
