//! The driver: operation slots in front, one of the three backends behind.
#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_pool::{Charge, Kind, Lease, OverBudget, Pool};
use plimsoll_slab::Key;

use crate::backend::Backend;
use crate::mio::Mio;
use crate::net::{ListenOptions, SocketKind, SocketOption};
use crate::op::{Completion, Errno, Fd, Op, Shutdown, Token};
use crate::sim::{self, Sim};
use crate::slots::{Finished, Slot, SlotState, Slots};
use crate::uring::Uring;
use crate::{Blocking, Doorbell, DriverKind, Error, Instant, RECEIVE_LEASES_MAX, Selected, Wait, sys};

/// Sizes of a driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Entries of the submission queue, a power of two; the completion queue has four times as many. Default 1,024.
    pub entries: u32,
    /// Receive buffers of 64 KiB in the small group, 1 to 64, a power of two. Default 4. mio and sim use one.
    pub receive_buffers: u16,
    /// How long dropping a driver waits for operations in flight before it leaks what they hold. Default 1 s.
    pub drop_deadline: Duration,
}

impl Default for DriverConfig {
    fn default() -> Self {
        Self { entries: 1_024, receive_buffers: 4, drop_deadline: Duration::from_secs(1) }
    }
}

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

/// How a driver ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Operations that were still in flight at the deadline.
    pub in_flight: usize,
    /// Bytes leaked, because the kernel may still write to them: leases, slots and rings.
    pub leaked_bytes: u64,
}

/// A completion driver. See the [crate] for its verbs.
///
/// ```
/// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
/// use plimsoll_reactor::{Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, Op, Token, Wait, ListenOptions, Payload, SocketKind};
/// use std::net::{SocketAddr, TcpStream};
///
/// let budget = Budget::new(MemoryLimit::mib(8));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
/// let blocking = Blocking::new(BlockingConfig::default(), &budget);
/// let selected = plimsoll_reactor::select(DriverChoice::Auto)?;
/// let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking)?;
///
/// let listener = driver.listen("127.0.0.1:0".parse()?, &ListenOptions::default())?;
/// driver.submit(Op::Accept { listener }, Token(7)).map_err(|(over, _)| over)?;
/// let client = TcpStream::connect(driver.local_address(listener)?)?;
/// let completion = loop {
///     driver.enter(Wait::Forever)?;
///     if let Some(completion) = driver.reap() { break completion; }
/// };
/// assert_eq!(completion.token, Token(7));
/// let Payload::Fd(accepted) = completion.payload else { panic!("an accept brings a descriptor") };
/// assert_eq!(driver.peer_address(accepted)?, client.local_addr()?);
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

/// The shutdowns in flight. A backend may make their call after the turn in which they were submitted, by the descriptor's number: when
/// that is closed before, it must not, because the number may be another file's. A close ends both halves anyway.
#[derive(Default)]
struct Shutdowns {
    /// Mostly empty, and in the order of their completions.
    keys: VecDeque<(Fd, Key)>,
    /// For the memory of `keys`.
    charge: Option<Charge>,
}

impl Shutdowns {
    /// Makes sure that one more has room.
    fn reserve(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let len = self.keys.len();
        if len < self.keys.capacity() {
            return Ok(());
        }
        let capacity = (2 * len).max(SHUTDOWNS_MIN);
        // The old memory is charged until the new one has replaced it.
        let charge = pool.charge(Kind::Slots, (capacity * size_of::<(Fd, Key)>()) as u64)?;
        self.keys.reserve_exact(capacity - len);
        self.charge = Some(charge);
        Ok(())
    }

    fn remove(&mut self, key: Key) {
        if let Some(at) = self.keys.iter().position(|(_, other)| *other == key) {
            self.keys.remove(at);
        }
    }

    /// Makes those of a descriptor end without their call.
    fn revoke(&self, fd: Fd, slots: &mut Slots) {
        for (_, key) in self.keys.iter().filter(|(of, _)| *of == fd) {
            if let Some(slot) = slots.get_mut(*key) {
                slot.state = slot.state.cancelled();
            }
        }
    }

    /// Gives the memory back if there are none.
    fn shrink(&mut self) {
        if self.keys.is_empty() {
            *self = Self::default();
        }
    }
}

/// For how many shutdowns there is room when there is the first one.
const SHUTDOWNS_MIN: usize = 16;

impl Driver {
    /// A driver of the kind that [`select`](crate::select) found. Must be called on the thread that will use it.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when its rings and buffers do not fit under the line; [`Error::System`] when the system refuses.
    pub fn new(
        selected: &Selected,
        config: &DriverConfig,
        pool: &Pool,
        blocking: &Arc<Blocking>,
    ) -> Result<Self, Error> {
        assert!(
            config.entries.is_power_of_two() && config.receive_buffers.is_power_of_two(),
            "sizes of rings are powers of two"
        );
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

    /// Bytes of the pool that an operation in flight holds: its lease's class.
    pub fn held_bytes(&self, key: Key) -> usize {
        self.slots.get(key).and_then(|slot| slot.op.lease()).map_or(0, |lease| lease.class().bytes())
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
    /// When the bytes of a send, or the spare room of a receive or a read, are empty; when a path does not end with its only NUL.
    pub fn submit(&mut self, op: Op, token: Token) -> Result<Key, (OverBudget, Op)> {
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
        if let Op::Close { fd } = op {
            self.closes(fd);
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
    fn closes(&mut self, fd: Fd) {
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

    /// Gives an operation up: it is cancelled, and what it holds or brings is disposed of when its last completion comes.
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
                        self.backend_mut().close_now(fd);
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

    /// Binds and listens.
    ///
    /// # Errors
    ///
    /// [`Error::AddressInUse`] (also when another process shares the port with `SO_REUSEPORT`), [`Error::AddressForbidden`],
    /// [`Error::AddressNotAvailable`], else [`Error::System`].
    pub fn listen(&mut self, address: SocketAddr, options: &ListenOptions) -> Result<Fd, Error> {
        self.backend_mut().listen(address, options)
    }

    /// A fresh stream socket, to be connected.
    ///
    /// # Errors
    ///
    /// What `socket(2)` says.
    pub fn socket(&mut self, kind: SocketKind) -> Result<Fd, Errno> {
        self.backend_mut().socket(kind)
    }

    /// A connection that waits on a listener already, without waiting for one.
    ///
    /// # Errors
    ///
    /// What `accept4(2)` says; see [`Errno::is_transient_accept`].
    pub fn accept_now(&mut self, listener: Fd) -> Result<Option<Fd>, Errno> {
        self.backend_mut().accept_now(listener)
    }

    /// Closes a descriptor through the kernel's queue, or at once if there is no room for the operation.
    ///
    /// After the driver's shutdown, too: what owns a descriptor may be dropped late. Those of a simulated kernel are forgotten then.
    pub fn close(&mut self, fd: Fd) {
        if self.is_shut_down() {
            return self.close_now(fd);
        }
        match self.submit(Op::Close { fd }, Token(u32::MAX)) {
            Ok(key) => self.orphan(key),
            Err(_) => self.close_now(fd),
        }
    }

    /// Closes a descriptor at once; after the driver's shutdown, too.
    ///
    /// As [`Op::Close`] says, accepts and receives on it must have been cancelled before.
    pub fn close_now(&mut self, fd: Fd) {
        self.closes(fd);
        match &mut self.backend {
            Some(backend) => backend.close_now(fd),
            None if self.is_real => _ = sys::close(fd),
            None => {}
        }
    }

    /// Sends as much as the socket takes at once, without an operation: it needs no memory, so it tells a peer that there is none. What the
    /// peer gets is in order only when no send is in flight on the socket.
    ///
    /// # Errors
    ///
    /// What `send(2)` says; `EAGAIN` when the socket takes nothing now.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
    /// use plimsoll_reactor::sim::{SimConfig, World};
    /// use plimsoll_reactor::{Driver, DriverConfig, Errno, ListenOptions, Op, Shutdown, SocketKind, Token, Wait};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default())?;
    /// let world = World::new(SimConfig::new(7));
    /// let mut driver = Driver::simulated(&world, &DriverConfig::default(), &pool)?;
    /// let listener = driver.listen("127.0.0.1:80".parse()?, &ListenOptions::default())?;
    /// let client = driver.socket(SocketKind::Tcp4)?;
    /// assert!(!driver.is_readable_now(listener), "nobody waits to be accepted");
    /// let address = driver.address("127.0.0.1:80".parse()?)?;
    /// driver.submit(Op::Connect { fd: client, address }, Token(1)).map_err(|(over, _)| over)?;
    /// while driver.reap().is_none() {
    ///     driver.enter(Wait::Forever)?;
    /// }
    /// assert!(driver.is_readable_now(listener));
    /// let server = driver.accept_now(listener)?.expect("it is in the queue");
    /// assert_eq!(driver.send_now(server, b"no room"), Ok(7));
    /// driver.shutdown_now(server, Shutdown::Write)?;
    /// assert_eq!(driver.discard_now(server, 1_000), Err(Errno::AGAIN), "the client has sent nothing");
    /// for fd in [client, server, listener] { driver.close_now(fd); }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_now(&mut self, fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
        self.backend_mut().send_now(fd, bytes)
    }

    /// Ends a half of a connection, or both, without an operation: for when there is no room for one. No send may be in flight.
    ///
    /// # Errors
    ///
    /// What `shutdown(2)` says.
    pub fn shutdown_now(&mut self, fd: Fd, how: Shutdown) -> Result<(), Errno> {
        self.backend_mut().shutdown_now(fd, how)
    }

    /// Drops at most `bytes_max` received bytes that nobody has read, without a buffer; how many there were, 0 at the end of the stream. A
    /// socket that is closed with unread bytes resets the connection, and the peer may lose what it was sent. No receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recv(2)` says; `EAGAIN` when nothing is there.
    pub fn discard_now(&mut self, fd: Fd, bytes_max: usize) -> Result<usize, Errno> {
        self.backend_mut().discard_now(fd, bytes_max)
    }

    /// Receives what is there into the spare rooms of leases, without an operation: each is filled before the next one is begun, with at most
    /// `bytes_max` bytes in all; places without a lease count for nothing. How many bytes there were, by which the leases are longer; 0 at the
    /// end of the stream. A peer that sends much is
    /// received from with far fewer calls than by one lease at a time. No receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recvmsg(2)` says; `EAGAIN` when nothing is there: wait for that with [`Op::Poll`].
    ///
    /// # Panics
    ///
    /// When there are more places than [`RECEIVE_LEASES_MAX`], and when there is no room to fill.
    pub fn receive_now(&mut self, fd: Fd, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno> {
        assert!(leases.len() <= RECEIVE_LEASES_MAX, "at most so many leases at a time");
        let is_room = |lease: &Lease| lease.spare_capacity() > 0;
        assert!(bytes_max > 0 && leases.iter().flatten().any(is_room), "no room to fill");
        self.backend_mut().receive_now(fd, leases, bytes_max)
    }

    /// Whether there is something to receive, or to accept, right now.
    pub fn is_readable_now(&mut self, fd: Fd) -> bool {
        self.backend_mut().is_readable_now(fd)
    }

    /// The address a socket is bound to.
    ///
    /// # Errors
    ///
    /// What `getsockname(2)` says.
    pub fn local_address(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        self.backend().local_address(fd)
    }

    /// The address of a socket's peer.
    ///
    /// # Errors
    ///
    /// What `getpeername(2)` says.
    pub fn peer_address(&self, fd: Fd) -> Result<SocketAddr, Errno> {
        self.backend().peer_address(fd)
    }

    /// Sets a socket option.
    ///
    /// # Errors
    ///
    /// What `setsockopt(2)` says.
    pub fn set_option(&mut self, fd: Fd, option: SocketOption) -> Result<(), Errno> {
        self.backend_mut().set_option(fd, option)
    }

    /// A socket address in the system's form, for [`Op::Connect`].
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line.
    pub fn address(&self, address: SocketAddr) -> Result<Lease, OverBudget> {
        sys::with_sockaddr(address, |bytes| self.pool.try_copy(bytes, Kind::Slots))
    }

    /// Cancels everything in flight and waits until it has ended, until `deadline` at most. What is still in flight then is leaked, with
    /// the rings, because the kernel may still write to it. The driver is of no use afterwards.
    pub fn shutdown(&mut self, deadline: Instant) -> ShutdownReport {
        let Some(backend) = &mut self.backend else { return ShutdownReport::default() };
        for key in self.slots.keys() {
            if let Some(slot) = self.slots.get_mut(key) {
                let before = core::mem::replace(&mut slot.state, SlotState::Orphaned);
                if !before.is_cancelled() && !matches!(slot.op, Op::Close { .. }) {
                    backend.cancel(key, &mut self.slots);
                }
            }
        }
        while self.slots.len() > 0 && self.now() < deadline {
            if self.enter(Wait::Until(deadline)).is_err() {
                break;
            }
            let orphan = self.reap();
            debug_assert!(orphan.is_none(), "everything was orphaned");
        }
        let mut backend = self.backend.take().expect("checked above");
        if self.slots.len() == 0 {
            drop(backend);
            return ShutdownReport::default();
        }
        let report = ShutdownReport {
            in_flight: self.slots.len(),
            leaked_bytes: self.slots.held_bytes() + self.slots.table_bytes() + backend.fixed_bytes(),
        };
        tracing::error!(
            in_flight = report.in_flight,
            leaked_bytes = report.leaked_bytes,
            "operations outlived the driver: leaking what they hold"
        );
        backend.abandon();
        core::mem::forget(backend);
        core::mem::forget(core::mem::replace(&mut self.slots, Slots::new()));
        report
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.backend.is_some() {
            let deadline = self.now() + self.drop_deadline;
            self.shutdown(deadline);
        }
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
