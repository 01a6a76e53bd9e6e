//! One relay, as its user sees it.
#![forbid(unsafe_code)]

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;
use std::rc::Rc;

use plimsoll_reactor::Errno;
use plimsoll_slab::Key;

use super::relays::{Relays, SIDE_BYTES};
use crate::net::Stream;
use crate::{Result, sleep, timeout};

/// How often one who waits for the end of all relays looks.
const DRAIN_STEP: Duration = Duration::from_millis(10);

/// Memory of a relay that waits, both connections together: their entries and their armed receives. The readiness of
/// their descriptors (8 bytes each, on epoll 12) comes on top; the descriptors' own cost is the kernel's.
pub const RELAY_BYTES: usize = 2 * (SIDE_BYTES + plimsoll_reactor::OPERATION_BYTES);

const _: () = assert!(RELAY_BYTES <= 320);

/// Copies bytes between two connections in both directions, until both peers have ended their halves, one of the
/// connections fails, or the relay was idle for too long.
///
/// * The end of one peer's stream ends the other connection's half, and the other direction goes on.
/// * A direction receives again when the other socket has taken what was received: a slow reader slows its writer down.
/// * While nothing comes, the relay holds no buffer: [`RELAY_BYTES`] for both connections together.
///
/// Bytes that were received on either stream and not read are sent first. [`Relay`] has an idle timeout, and runs
/// without a task.
///
/// Dropping the future closes both connections.
///
/// # Errors
///
/// [`Error::OverBudget`](crate::Error::OverBudget) and [`Error::SendInterrupted`](crate::Error::SendInterrupted),
/// before a byte was moved. How it ended otherwise, [`Relayed::end`] says.
///
/// ```
/// use plimsoll_runtime::{Runtime, io, net::{TcpListener, TcpStream}};
///
/// # Runtime::builder().workers(1).build()?.block_on(async {
/// // client <-> (left, right) <-> server
/// let front = TcpListener::bind("127.0.0.1:0")?;
/// let back = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(front.local_addr()).await?;
/// let (left, _) = front.accept().await?;
/// let right = TcpStream::connect(back.local_addr()).await?;
/// let (mut server, _) = back.accept().await?;
///
/// let relay = plimsoll_runtime::spawn(async move { io::relay(left, right).await })?;
/// client.send_static(b"ping").await?;
/// assert_eq!(&server.recv().await?.expect("four bytes")[..], b"ping");
/// drop(client);
/// drop(server);
/// let relayed = relay.await.expect("no panic")?;
/// assert_eq!((relayed.first_bytes, relayed.second_bytes), (4, 0));
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub async fn relay(first: impl Into<Stream>, second: impl Into<Stream>) -> Result<Relayed> {
    Relay::new(first, second).run().await
}

/// Two connections that are about to be joined, with options; see [`relay`].
#[must_use = "a relay does nothing until it is run or detached"]
#[derive(Debug)]
pub struct Relay {
    first: Stream,
    second: Stream,
    idle_timeout: Option<Duration>,
}

/// What a relay has moved, and why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes that came from the first connection.
    pub first_bytes: u64,
    /// Bytes that came from the second connection.
    pub second_bytes: u64,
    /// Why it ended.
    pub end: RelayEnd,
}

/// Why a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayEnd {
    /// Both peers had sent all they would send, and everything was passed on.
    Closed,
    /// No byte came or left in either direction for the idle timeout.
    Idle,
    /// One of the connections failed.
    Failed(Errno),
    /// There was no room under the memory line for what had come.
    OverBudget,
    /// Its future was dropped.
    Dropped,
}

impl Relay {
    /// Without an idle timeout.
    pub fn new(first: impl Into<Stream>, second: impl Into<Stream>) -> Self {
        Self { first: first.into(), second: second.into(), idle_timeout: None }
    }

    /// Ends the relay when nothing has moved in either direction for so long; at least 1 ms, to 64 ms,
    /// never early. None by default.
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle_timeout = Some(idle);
        self
    }

    /// Lets the relay run by itself, without a task. Its end is told by [`open_relays`] and a `tracing` event only.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`](crate::Error::OverBudget); both connections are closed then.
    pub async fn detach(self) -> Result<()> {
        let Self { mut first, mut second, idle_timeout } = self;
        let relays = Relays::current()?;
        first.quiesce().await?;
        second.quiesce().await?;
        relays.add(first, second, idle_timeout, None)?;
        Ok(())
    }

    /// Runs it to its end, as [`relay`].
    ///
    /// # Errors
    ///
    /// As [`relay`].
    pub async fn run(self) -> Result<Relayed> {
        let Self { mut first, mut second, idle_timeout } = self;
        let relays = Relays::current()?;
        first.quiesce().await?;
        second.quiesce().await?;
        let mut running = Running { outcome: relays.outcome()?, pair: None, relays };
        running.pair = Some(running.relays.add(first, second, idle_timeout, Some(running.outcome))?);
        Ok(poll_fn(|cx| running.poll(cx)).await)
    }
}

/// A relay that is awaited.
struct Running {
    relays: Rc<Relays>,
    outcome: Key,
    /// The first connection's key, while the relay may be open.
    pair: Option<Key>,
}

impl Running {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Relayed> {
        let ended = self.relays.poll_outcome(self.outcome, cx);
        if ended.is_ready() {
            self.pair = None;
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pair) = self.pair {
            self.relays.abandon(pair);
        }
        self.relays.forget_outcome(self.outcome);
    }
}

/// Relays of this worker that are open.
///
/// # Panics
///
/// Outside of a runtime.
pub fn open_relays() -> usize {
    Relays::existing().map_or(0, |relays| relays.open())
}

/// Waits until no relay of this worker is open, `time_max` at most; whether that is so.
///
/// Cancel safe.
///
/// # Panics
///
/// Outside of a runtime.
pub async fn drain_relays(time_max: Duration) -> bool {
    let drained = async {
        while open_relays() > 0 {
            sleep(DRAIN_STEP).await;
        }
    };
    timeout(time_max, drained).await.is_ok()
}

impl fmt::Display for RelayEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("both peers were done"),
            Self::Idle => f.write_str("idle for too long"),
            Self::Failed(errno) => write!(f, "a connection failed: {errno}"),
            Self::OverBudget => f.write_str("no room under the memory line"),
            Self::Dropped => f.write_str("given up"),
        }
    }
}
