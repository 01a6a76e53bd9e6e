//! Waiting for memory, and the level: the load line as tasks see it.
//!
//! `spawn`, sockets and the pool refuse at the line at once. What is here waits instead: in turns over names (peers'
//! addresses, say), with a deadline, and without a deadlock among those who reserve all that they need as one
//! [`Footprint`].
//!
//! ```
//! use plimsoll_runtime::memory::{self, Footprint, Priority};
//!
//! # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
//! let mut permit = memory::reserve(Footprint::new().head(1024).out(4096), Priority::Head, 7).await?;
//! let mut out = permit.take(4096).expect("within the footprint: it cannot fail");
//! out.extend(b"hello");
//! drop((out, permit));
//! # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
//! ```
#![forbid(unsafe_code)]

use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;
pub use plimsoll_pool::{Admission, Footprint, Level, Marks, Permit, Priority, Shed, Transition, Watch};
use plimsoll_pool::{Lease, Reserve};
use plimsoll_reactor::Instant;

use crate::Result;
use crate::worker::Worker;

/// The waiting side of this worker's pool, for servers that keep waits in their own tables.
///
/// # Panics
///
/// Outside of a runtime, as everything here.
pub fn admission() -> Admission {
    Worker::current().admission.clone()
}

/// Waits for all buffers of a footprint, until the runtime's [`wait_timeout`](crate::Builder::wait_timeout). Of what
/// comes free, each name gets an even share of the bytes, whatever each of them asks for.
///
/// Cancel safe: dropping the future takes the waiter out of the queue; what it was granted goes to the next.
///
/// # Errors
///
/// [`Error::Shed`](crate::Error::Shed) at the deadline, [`Error::OverBudget`](crate::Error::OverBudget) when it can
/// never be given or there is no room to wait.
pub async fn reserve(footprint: Footprint, priority: Priority, name: u64) -> Result<Permit> {
    Ok(admission().reserve(footprint, priority, name).await?)
}

/// The same until an instant of [`now`](crate::now).
///
/// # Errors
///
/// As [`reserve`].
pub async fn reserve_until(deadline: Instant, footprint: Footprint, priority: Priority, name: u64) -> Result<Permit> {
    let reserve: Reserve = admission().reserve(footprint, priority, name);
    Ok(reserve.deadline(deadline.as_nanos()).await?)
}

/// Waits for one buffer of at least `len` bytes.
///
/// A task that holds some memory and waits here for more can wait for others that do the same, until the deadline; what
/// is needed together is better [reserved](reserve) together.
///
/// Cancel safe, as [`reserve`].
///
/// # Errors
///
/// As [`reserve`].
///
/// ```
/// # use plimsoll_runtime::memory::{self, Priority};
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let mut buffer = memory::acquire(100_000, Priority::Body, 7).await?;
/// assert_eq!(buffer.extend(b"abc"), 3);
/// # drop(buffer);
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub async fn acquire(len: usize, priority: Priority, name: u64) -> Result<Lease> {
    Ok(admission().acquire(len, priority, name).await?)
}

/// How full the process is, as this worker saw it in this turn: a plain read.
pub fn level() -> Level {
    Worker::current().admission.level()
}

/// Changes of the level, as a stream that does not end.
pub fn watch() -> Levels {
    Levels(crate::budget().watch())
}

/// See [`watch`].
#[derive(Debug)]
pub struct Levels(Watch);

impl Levels {
    /// Waits for the next change; several in between are one. Cancel safe.
    pub async fn changed(&mut self) -> Level {
        self.0.changed().await
    }
}

impl Stream for Levels {
    type Item = Level;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Level>> {
        self.0.poll_changed(cx).map(Some)
    }
}
