//! The runtime of Plimsoll: workers, tasks, timers and sockets on one thread per core, everything under one memory
//! line.
//!
//! Futures are `!Send` and stay on the worker that started them. Every task, connection and buffer is charged to the
//! runtime's [`Budget`] before its memory is touched; at the line, [`spawn`] answers [`Error::OverBudget`] and
//! listeners accept later.
//!
//! ```
//! use plimsoll_runtime::{Runtime, MemoryLimit, net::{TcpListener, TcpStream}};
//!
//! let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build()?;
//! let echoed = runtime.block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr();
//!     let server = plimsoll_runtime::spawn(async move {
//!         let (mut stream, _peer) = listener.accept().await?;
//!         while let Some(lease) = stream.recv().await? {
//!             stream.send_all(lease).await?;
//!         }
//!         Ok::<(), plimsoll_runtime::Error>(())
//!     })?;
//!     let mut client = TcpStream::connect(address).await?;
//!     client.send_bytes(b"over the line").await?;
//!     client.shutdown_write().await?;
//!     let mut echoed = Vec::new();
//!     while let Some(lease) = client.recv().await? {
//!         echoed.extend_from_slice(&lease);
//!     }
//!     server.await.expect("the server ends")?;
//!     Ok::<_, plimsoll_runtime::Error>(echoed)
//! })?;
//! assert_eq!(echoed, b"over the line");
//! let report = runtime.shutdown();
//! assert_eq!(report.leaked_bytes, 0);
//! # Ok::<(), plimsoll_runtime::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod config_error;
mod container;
mod error;
pub mod fs;
mod gauges;
#[cfg(feature = "hyper")]
pub mod hyper;
mod inbox;
pub mod io;
mod main_waker;
pub mod memory;
pub mod net;
mod on_worker;
mod operation;
pub mod plan;
mod resident;
mod runtime;
mod shared;
pub mod signal;
mod soon;
mod spawn;
mod stall;
mod sync;
mod sys;
mod task;
mod time;
mod token;
#[cfg(feature = "tokio-context")]
mod tokio_runtime;
#[cfg(not(feature = "tokio-context"))]
#[path = "no_tokio_runtime.rs"]
mod tokio_runtime;
mod waiters;
mod worker;
pub mod worker_tasks;
mod workers;

pub use builder::Builder;
pub use config_error::{ConfigError, Misuse};
pub use container::ContainerLimit;
pub use error::Error;
pub use gauges::Metrics;
pub use on_worker::OnWorker;
pub use plimsoll_pool::{
    Budget, DecayConfig, Kind, Lease, LimitTooLow, MemoryLimit, OutOfRange, OverBudget, Pool, PoolBox,
};
pub use plimsoll_reactor::{
    DriverChoice, DriverKind, Errno, Instant, ReceiveMode, Received, Selected, SendBytes, SharedBytes,
};
pub use resident::Resident;
pub use runtime::{Report, Runtime, Simulation};
pub use spawn::{
    RemoteHandle, Spawner, budget, clock, coarse_now, metrics, now, pool, pool_stats, spawn, spawn_blocking, spawn_on,
    try_worker_index, unix_seconds, worker_index, workers, yield_now,
};
pub use task::{AbortOnDrop, JoinError, JoinHandle, Spare, Started};
pub use time::{Interval, Sleep, interval, sleep, sleep_until, timeout};

/// The result of the runtime's calls.
pub type Result<T, E = Error> = core::result::Result<T, E>;
