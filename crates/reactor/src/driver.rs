//! The driver: operation slots in front, one of the three backends behind.
//!
//! | file | what is in it |
//! |---|---|
//! | `driver.rs` | operations: submitted, cancelled, waited for, reaped |
//! | `driver/sockets.rs` | what is done at once, without an operation |
//! | `driver/shutdowns.rs` | shutdowns in flight, which a close has to find |
//! | `driver/ending.rs` | the end: reaped or leaked |
#![forbid(unsafe_code)]

mod ending;
mod shutdowns;
mod sockets;

use core::ffi::CStr;
use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use plimsoll_pool::{OverBudget, Pool};
use plimsoll_slab::Key;

use crate::backend::Backend;
use crate::fd::Number;
use crate::mio::Mio;
use crate::op::{Completion, Errno, Op, Token};
use crate::sim::{self, Sim};
use crate::slots::{Finished, Slot, SlotState, Slots};
use crate::uring::Uring;
use crate::{Blocking, Doorbell, DriverConfig, DriverKind, Error, Instant, Selected, Wait, sys};

pub use ending::ShutdownReport;
use shutdowns::Shutdowns;

/// What a driver has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations handed to the backend.
    pub submitted: u64,
    /// Operations whose last completion came.
    pub completed: u64,
    /// Of those, the ones nobody waited for any more.
    pub orphaned: u64,
    /// Completions whose operation was not in the table; always 0 unless a kernel misbehaves.
    pub stale: u64,
    /// Times the backend was entered.
    pub turns: u64,
}

/// A completion driver. See the [crate] for its verbs.
///
/// ```
/// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
/// use plimsoll_reactor::{Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, ListenOptions, Op, Payload};
/// use plimsoll_reactor::{SocketKind, Token, Wait};
/// use std::net::{SocketAddr, TcpStream};
///
/// let budget = Budget::new(MemoryLimit::mib(8));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
/// let blocking = Blocking::new(BlockingConfig::default(), &budget);
/// let selected = plimsoll_reactor::select(DriverChoice::Auto)?;
/// let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking)?;
///
/// let listener = driver.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
/// driver.submit(Op::Accept { listener: listener.at() }, Token(7)).map_err(|(over, _)| over)?;
/// let address = driver.local_address(listener.at())?.ip().expect("of TCP");
/// let client = TcpStream::connect(address)?;
/// let completion = loop {
///     driver.enter(Wait::Forever)?;
///     if let Some(completion) = driver.reap() { break completion; }
/// };
/// assert_eq!(completion.token, Token(7));
/// let Payload::Fd(accepted) = completion.payload else { panic!("an accept brings a descriptor") };
/// assert_eq!(driver.peer_address(accepted.at())?, client.local_addr()?.into());
/// driver.close_now(accepted);
/// driver.close_now(listener);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver {
    slots: Slots,
    /// `None` once it was shut down.
    backend: Option<Backend>,
    pool: Pool,
    doorbell: Doorbell,
    counters: Counters,
    drop_deadline: Duration,
    /// Whether descriptors are the system's and not those of a simulated kernel.
    is_real: bool,
    shutdowns: Shutdowns,
}

impl Driver {
    /// A driver of the kind that [`select`](crate::select) found. Must be called on the thread that will use it.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when its rings and buffers do not fit under the line; [`Error::System`] when the system
    /// refuses.
    pub fn new(
        selected: &Selected,
        config: &DriverConfig,
        pool: &Pool,
        blocking: &Arc<Blocking>,
    ) -> Result<Self, Error> {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        let doorbell = Doorbell::new()?;
        let backend = match selected.kind {
            DriverKind::Uring => Backend::Uring(Box::new(Uring::new(selected.receive, config, pool, &doorbell)?)),
            DriverKind::Mio => Backend::Mio(Box::new(Mio::new(config, pool, &doorbell, blocking)?)),
            DriverKind::Sim => panic!("a simulated driver is made by Driver::simulated"),
        };
        Ok(Self::from_backend(backend, pool, doorbell, config))
    }

    /// A driver inside a simulated world.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when its buffer does not fit under the line.
    pub fn simulated(world: &sim::World, config: &DriverConfig, pool: &Pool) -> Result<Self, Error> {
        let doorbell = Doorbell::simulated();
        let backend = Backend::Sim(Box::new(Sim::new(world, pool, &doorbell)?));
        Ok(Self::from_backend(backend, pool, doorbell, config))
    }

    fn from_backend(backend: Backend, pool: &Pool, doorbell: Doorbell, config: &DriverConfig) -> Self {
        Self {
            is_real: backend.kind() != DriverKind::Sim,
            shutdowns: Shutdowns::default(),
            slots: Slots::new(),
            backend: Some(backend),
            pool: pool.clone(),
            doorbell,
            counters: Counters::default(),
            drop_deadline: config.drop_deadline,
        }
    }

    fn backend(&self) -> &Backend {
        self.backend.as_ref().expect("a driver is not used after its shutdown")
    }

    fn backend_mut(&mut self) -> &mut Backend {
        self.backend.as_mut().expect("a driver is not used after its shutdown")
    }

    /// Which kind it is.
    pub fn kind(&self) -> DriverKind {
        self.backend().kind()
    }

    /// The driver's name in its simulated world; `None` outside of one.
    pub fn node(&self) -> Option<sim::NodeId> {
        self.backend().node()
    }

    /// Whether it was shut down. Only this may be asked of it then, and descriptors may be closed.
    pub fn is_shut_down(&self) -> bool {
        self.backend.is_none()
    }

    /// The driver's time; moves at [`enter`](Self::enter) and stays put within a turn.
    pub fn now(&self) -> Instant {
        self.backend().now()
    }

    /// The pool its slots and buffers come from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A bell that ends this driver's wait from any thread.
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of the pool that an operation in flight holds alone: its lease's class. None for a send of
    /// [`SharedBytes`](crate::SharedBytes), which belong to all that send them.
    pub fn held_bytes(&self, key: Key) -> usize {
        self.slots.get(key).and_then(|slot| slot.op.lease()).map_or(0, |lease| lease.class().bytes())
    }

    /// Bytes that a send in flight has left, as far as the driver was told; 0 for any other operation.
    pub fn unsent_bytes(&self, key: Key) -> usize {
        match self.slots.get(key).map(|slot| &slot.op) {
            Some(Op::Send { bytes, .. }) => bytes.as_slice().len(),
            _ => 0,
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Times that a receive found no buffer and had to queue for one.
    pub fn enobufs_total(&self) -> u64 {
        self.backend().enobufs_total()
    }

    /// Bytes of its rings and receive buffers, charged from the start to the end.
    pub fn fixed_bytes(&self) -> u64 {
        self.backend().fixed_bytes()
    }

    /// Starts an operation.
    ///
    /// # Errors
    ///
    /// Gives the operation back when its slot does not fit under the line.
    ///
    /// # Panics
    ///
    /// When the bytes of a send, or the spare room of a receive or a read, are empty; when a path does not end with its
    /// only NUL.
    pub fn submit<'fd>(&mut self, op: Op<'fd>, token: Token) -> Result<Key, (OverBudget, Op<'fd>)> {
        let op = op.detached();
        match &op {
            Op::Send { bytes, .. } => assert!(!bytes.is_empty(), "an empty send"),
            Op::ReceiveInto { lease, .. } | Op::ReadAt { lease, .. } => {
                assert!(lease.spare_capacity() > 0, "no room to fill")
            }
            Op::Stat { lease, .. } => assert!(lease.spare_capacity() >= sys::STATX_BYTES, "room for a struct statx"),
            // The kernel would read on, in memory that the lease does not show.
            Op::Open { path, .. } => assert!(CStr::from_bytes_with_nul(path).is_ok(), "a path ends with its only NUL"),
            _ => {}
        }
        let shuts_down = match op {
            Op::Shutdown { fd, .. } => Some(fd),
            _ => None,
        };
        if shuts_down.is_some()
            && let Err(over) = self.shutdowns.reserve(&self.pool)
        {
            return Err((over, op));
        }
        if let Op::Close { fd } = &op {
            self.closes(fd.number());
        }
        let key = self.slots.insert(&self.pool, op, token)?;
        self.counters.submitted += 1;
        if let Some(fd) = shuts_down {
            self.shutdowns.keys.push_back((fd, key));
        }
        let backend = self.backend.as_mut().expect("a driver is not used after its shutdown");
        backend.start(key, &mut self.slots);
        Ok(key)
    }

    /// Nothing must be done by this descriptor's number any more, which may soon be another file's.
    fn closes(&mut self, fd: Number) {
        self.shutdowns.revoke(fd, &mut self.slots);
        if let Some(backend) = &mut self.backend {
            backend.closes(fd, &mut self.slots);
        }
    }

    /// Asks for an operation to end; its owner still gets the completion. Does nothing when it has ended already.
    pub fn cancel(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.state != SlotState::InFlight {
            return;
        }
        slot.state = SlotState::Cancelling;
        let backend = self.backend.as_mut().expect("a driver is not used after its shutdown");
        backend.cancel(key, &mut self.slots);
    }

    /// Gives an operation up: it is cancelled, and what it holds or brings is disposed of when its last completion
    /// comes.
    ///
    /// A close, once started, is not cancelled.
    pub fn orphan(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let before = core::mem::replace(&mut slot.state, SlotState::Orphaned);
        let wants_cancel = !before.is_cancelled() && !matches!(slot.op, Op::Close { .. });
        if wants_cancel {
            let backend = self.backend.as_mut().expect("a driver is not used after its shutdown");
            backend.cancel(key, &mut self.slots);
        }
    }

    /// Gives up the answer of an operation, but lets the operation go on: for shutdowns and the like.
    pub fn disown(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.state = if slot.state.is_cancelled() { SlotState::Orphaned } else { SlotState::Disowned };
        }
    }

    /// Hands everything that was started to the kernel and waits as `wait` says, unless completions are there already.
    ///
    /// # Errors
    ///
    /// Only what cannot be waited out; interruptions and full queues are dealt with inside.
    pub fn enter(&mut self, wait: Wait) -> Result<(), Errno> {
        self.counters.turns += 1;
        let backend = self.backend.as_mut().expect("a driver is not used after its shutdown");
        let wait = if backend.has_ready() { Wait::No } else { wait };
        backend.enter(wait, &mut self.slots)
    }

    /// The next completion, if one is there. Take and drop received bytes before the next [`enter`](Self::enter).
    pub fn reap(&mut self) -> Option<Completion> {
        loop {
            let backend = self.backend.as_mut().expect("a driver is not used after its shutdown");
            let raw = backend.next(&mut self.slots)?;
            if !self.shutdowns.keys.is_empty()
                && matches!(self.slots.get(raw.key), Some(Slot { op: Op::Shutdown { .. }, .. }))
            {
                self.shutdowns.remove(raw.key);
            }
            match self.slots.finish(raw) {
                Some(Finished::Completed(completion)) => {
                    self.counters.completed += 1;
                    return Some(completion);
                }
                Some(Finished::Orphan(fd)) => {
                    self.counters.completed += 1;
                    self.counters.orphaned += 1;
                    if let Some(fd) = fd {
                        let backend = self.backend.as_mut().expect("it has just reported");
                        backend.close_now(fd, &mut self.slots);
                    }
                }
                None => self.counters.stale += 1,
            }
        }
    }

    /// Whether [`reap`](Self::reap) may have something without another [`enter`](Self::enter).
    pub fn has_ready(&self) -> bool {
        self.backend().has_ready()
    }

    /// Whether receives wait until [`Received`](crate::Received) bytes are dropped: all room that they could fill is
    /// lent. No other completion ends that, so whoever keeps such bytes for longer than a turn has to look.
    pub fn is_short_of_buffers(&self) -> bool {
        self.backend().is_short_of_buffers()
    }

    /// Gives back pages of the operation table that nothing uses; returns how many.
    pub fn release_pages(&mut self) -> usize {
        let mut released = 0;
        self.shutdowns.shrink();
        while self.slots.release_page() {
            released += 1;
        }
        released
    }

    /// Whether pages of the operation table are unused.
    #[inline]
    pub fn has_empty_pages(&self) -> bool {
        self.slots.has_empty_page()
    }

    /// Gives back at most `pages_max` pages of the operation table that nothing uses; returns how many.
    pub fn release_some_pages(&mut self, pages_max: usize) -> usize {
        (0..pages_max).take_while(|_| self.slots.release_page()).count()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("kind", &self.backend.as_ref().map(Backend::kind))
            .field("in_flight", &self.slots.len())
            .finish()
    }
}
