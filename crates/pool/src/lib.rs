//! Memory with a hard line: a budget in bytes that a process never exceeds, and a pool whose every page is charged
//! before it is touched.
//!
//! * [`Budget`]: the line, and who holds how much. One for a process; any thread may read it and
//!   [charge](Budget::charge) it.
//! * [`Pool`]: one for each worker thread. Twelve size [classes](Class), from 64 bytes to 128 KiB; a free buffer is
//!   found by address, lowest first, and what is free goes back to the system with [`Pool::release_free`], or by itself
//!   with a [`Decay`].
//! * [`Lease`]: bytes with one owner, 16 bytes long itself, that may be dropped anywhere. [`PoolBox`]: the same for a
//!   value, in 8 bytes.
//!   [`TieredBuf`]: a few bytes inline, more in the class that fits, and back.
//! * [`AdaptiveSize`]: which class the next receive of a bulk connection is worth.
//!
//! Nothing here blocks, reads a clock or panics for want of memory: at the line there is an [`OverBudget`].
//!
//! ```
//! use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig, page_bytes};
//!
//! let budget = Budget::new("8MiB".parse::<MemoryLimit>().expect("a number and a unit"));
//! let pool = Pool::new(&budget, PoolConfig::default())?;
//! let head = pool.try_copy(b"GET / HTTP/1.1\r\n\r\n", Kind::Buffers)?;
//! let charged = budget.charged_by(Kind::Buffers);
//! assert_eq!(charged, page_bytes() as u64, "a lease of 64 bytes, and the rest of its page");
//!
//! let elsewhere = std::thread::spawn(move || head.len());
//! assert_eq!(elsewhere.join().expect("it does not panic"), 18);
//! assert_eq!(pool.drain_remote(), 1, "the lease that was dropped there");
//! # Ok::<(), plimsoll_pool::Error>(())
//! ```
//!
//! With the feature `bytes`, a [`Lease`] becomes a `bytes::Bytes`, without a copy.
//!
//! # What is charged
//!
//! The ledger is about residency. A page is charged when it may become resident, and uncharged when the system has
//! taken it back: pages that are free but kept stay charged, so what [`Budget::charged`] says is never less than what
//! the process holds through its pools. The pools' own bookkeeping is charged as [`Kind::Fixed`]: a header page for
//! each pool, then for each 2 MiB of addresses that a class opens 0.2 to 4.3 KiB.
//!
//! # How is this safe?
//!
//! `unsafe` is in `arena` (addresses and who owns them), `lease` and `boxed` (views and values), `remote` (the list of
//! other threads) and `sys`. The bookkeeping that decides which slot is whose, and which page may go, is safe code over
//! a page source, and is tested as a model with a source that fails.

mod account;
mod adaptive;
mod admission;
pub mod alloc;
mod arena;
mod bitmap;
mod boxed;
mod budget;
mod catch_panic;
mod class;
mod container;
mod credit;
mod credit_queue;
#[cfg(feature = "bytes")]
mod edge;
mod error;
mod footprint;
mod kind;
mod lease;
mod limit;
mod line;
mod local;
mod out_of_range;
mod page;
mod pages;
mod permit;
mod poison;
mod pool;
mod pressure;
mod priority;
mod queue;
mod remote;
mod segment;
mod segments;
mod sync;
mod sys;
mod thread;
mod tiered;
mod waiters;
mod watermarks;

pub use adaptive::AdaptiveSize;
pub use admission::{Admission, AdmissionConfig};
pub use boxed::PoolBox;
pub use budget::limits::LimitTooLow;
pub use budget::{Budget, Charge, adopted_arenas};
pub use catch_panic::catch_panic;
pub use class::Class;
pub use container::KERNEL_CONNECTION_BYTES;
pub use error::{Error, OverBudget, Shortage};
pub use footprint::Footprint;
pub use kind::Kind;
pub use lease::Lease;
pub use limit::{MemoryLimit, ParseLimitError};
pub use out_of_range::OutOfRange;
pub use page::page_bytes;
pub use pages::{PageChoice, SimCounts, SimPages};
pub use permit::{Acquire, Permit, Reserve};
pub use pool::{ClassStats, Closed, Decay, DecayConfig, DecaySpeed, Pool, PoolConfig, PoolStats};
pub use pressure::Watch;
pub use priority::Priority;
pub use queue::{Place, PlaceKey, Queue};
pub use tiered::TieredBuf;
pub use waiters::Shed;
pub use watermarks::{Level, Marks, Transition};
