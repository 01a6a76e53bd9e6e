//! The completion driver of Plimsoll: one [`Op`] goes down, one [`Completion`] comes back, on io_uring, on epoll (mio)
//! or in a deterministic simulation, with one meaning.
//!
//! A [`Driver`] belongs to one thread. Its verbs are [`submit`](Driver::submit), [`enter`](Driver::enter) (hand
//! everything to the kernel and wait, one system call a turn) and [`reap`](Driver::reap); nothing ever calls upward.
//! What the kernel may write to is held by the driver from `submit` to the last completion, so that dropping the owner
//! of an operation is always safe; see [`op`] for the life of an operation.
//!
//! Received bytes are *borrowed*: [`Received`] shows bytes inside the driver's small receive buffers, to be parsed in
//! place and dropped in the same turn. A connection that waits for bytes therefore holds no buffer.

#[cfg(not(target_os = "linux"))]
compile_error!("plimsoll-reactor runs on Linux only: io_uring and epoll are its drivers");

mod address;
mod backend;
mod blocking;
mod choice;
mod config;
mod descriptors;
mod doorbell;
mod driver;
mod error;
mod fd;
mod inherit;
mod list;
mod mio;
mod net;
pub mod op;
mod page;
mod probe;
mod received;
mod select;
mod shared;
pub mod sim;
mod slots;
mod sync;
mod sys;
mod time;
mod uring;

pub use crate::mio::READINESS_BYTES;
pub use crate::uring::WATCH_BYTES;
pub use address::{Address, InvalidAddress, UnixAddress};
pub use blocking::{Blocking, BlockingConfig};
pub use choice::{DriverChoice, DriverKind, ReceiveMode, Selected};
pub use config::DriverConfig;
pub use doorbell::Doorbell;
pub use driver::{Counters, Driver, ShutdownReport};
pub use error::Error;
pub use fd::{Fd, FdRef};
pub use inherit::{InheritError, Inherited, PassedOn, inherited, pass_on};
pub use net::{ListenOptions, SharedListener, SocketKind, SocketOption};
pub use op::{Completion, Errno, Interest, Op, Payload, SendBytes, Shutdown, Token};
pub use page::PoolPage;
pub use received::Received;
pub use select::select;
pub use shared::SharedBytes;
pub use slots::OPERATION_BYTES;
pub use time::{Instant, Wait};

/// The most bytes that one [`Op::Receive`] brings.
pub const RECEIVE_BYTES_MAX: usize = 16 * 1024;

/// Slices that one [`Driver::send_vectored_now`] sends from at most: Linux's own limit (`UIO_MAXIOV`).
pub const SEND_SLICES_MAX: usize = 1_024;

/// Leases that one [`Driver::receive_now`] fills at most.
pub const RECEIVE_LEASES_MAX: usize = sys::SCATTERED_MAX;
