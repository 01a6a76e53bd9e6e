//! The connection table: a slot for each connection, and events for the server that steps them.
//!
//! A connection in a [`Table`] has no task and no buffer. It has an entry with the server's own state `C` in it, one
//! armed receive, and a link in a coarse timer. The server takes [`Event`]s and answers with verbs:
//! [`receive`](Table::receive), [`send`](Table::send), [`schedule`](Table::schedule), [`close`](Table::close).
//!
//! ```text
//!            accept                     receive            send
//!  listener --------> Event::Accepted --------> Received -------> Sent --> receive ...
//!                          |                       |                |
//!                          +-- Due (timer) --------+--- Failed -----+--> close
//! ```
#![forbid(unsafe_code)]

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::rc::Rc;

use plimsoll_pool::{Charge, Kind, Lease, OverBudget};
use plimsoll_reactor::op::Shutdown;
use plimsoll_reactor::{Address, Errno, Fd, FdRef, Interest, Op, Payload, PoolPage, Received, SendBytes, SocketOption};
use plimsoll_slab::{Key, Slab};

use super::transport::{Handshake, MakeTransport};
use super::{Listener, kernel};
use crate::Result;
use crate::time::{Coarse, Link, Sleep};
use crate::token::{INDEX_MAX, Purpose, Target};
use crate::worker::Worker;

mod accept;
mod adopt;
mod carried;
mod ending;
mod events;
mod handshakes;
mod pages;
mod partial;
mod readable;
mod release;
mod slot;
mod timers;

use accept::Accepting;
pub use adopt::Adopted;
pub(crate) use events::Events;
use events::{EVENTS_MAX, RawEvent};
use slot::Slot;
pub use timers::TIMER_STEP;

/// Why a key must be in the table.
const OPEN: &str = "a connection is used before it is closed";

/// A connection's entry.
struct Entry<C> {
    link: Link,
    fd: Fd,
    inbound: Inbound,
    /// The send in flight.
    send: Option<Key>,
    state: Slot<C>,
}

/// What is armed to hear from the peer: never two at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inbound {
    None,
    Receive(Key),
    /// A receive of what a [transport](super::transport::Transport) has opened already.
    ReceiveOpened,
    Watch(Key),
    /// Tells when bytes are there.
    Readable(Key),
    /// Tells of what a transport has opened already.
    ReadableOpened,
}

/// What happened on a connection. After [`Failed`](Event::Failed) the connection is good for nothing but
/// [`Table::close`].
#[derive(Debug)]
pub enum Event {
    /// A new connection; nothing is armed on it yet.
    Accepted(Key),
    /// A connection was accepted and closed at once: there was no room for it, below the line or among
    /// [`connections_max`](TableConfig::connections_max).
    TurnedAway,
    /// Bytes have come; the receive is over.
    Received(Key, Bytes),
    /// The peer has sent all it will send; the receive is over.
    Ended(Key),
    /// The socket has taken bytes; the rest (often none) comes back. The send is over.
    Sent(Key, SendBytes),
    /// There is something for [`Table::receive_now`], as [`Table::await_readable`] asked to be told.
    Readable(Key),
    /// The peer has closed or reset the connection, as [`Table::watch`] asked to be told.
    PeerClosed(Key),
    /// A record has begun to come on a connection that a transport carries, and is not whole: its owner knows how long
    /// that may take.
    Partial(Key),
    /// It was not whole in that time.
    Stalled(Key),
    /// The time set by [`Table::schedule`] has come.
    Due(Key),
    /// A receive or send failed.
    Failed(Key, Errno),
}

/// Received bytes.
#[derive(Debug)]
pub enum Bytes {
    /// Inside the driver's buffers: to be used and dropped at once.
    Borrowed(Received),
    /// In the lease that was given to [`Table::receive_into`].
    Owned(Lease),
}

impl Bytes {
    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Borrowed(received) => received.as_mut_slice(),
            Self::Owned(lease) => lease.as_mut_slice(),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Borrowed(received) => received.truncate(len),
            Self::Owned(lease) => lease.truncate(len),
        }
    }
}

impl core::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(received) => received,
            Self::Owned(lease) => lease,
        }
    }
}

/// Limits of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableConfig {
    /// Connections at most, 1 to 16,777,215; the memory line may allow fewer.
    pub connections_max: u32,
    /// `TCP_NODELAY` on every connection.
    pub no_delay: bool,
    /// Said to a connection that is accepted and closed for want of room, as far as its socket takes it at once; for
    /// instance the 503 of HTTP/1.1.
    pub turned_away: &'static [u8],
}

impl Default for TableConfig {
    /// As many as fit under the line, without Nagle's delay.
    fn default() -> Self {
        Self { connections_max: INDEX_MAX, no_delay: true, turned_away: &[] }
    }
}

/// A table of connections of one worker, with one listener.
pub struct Table<C: Default> {
    worker: Rc<Worker>,
    id: u8,
    events: Rc<Events>,
    entries: Slab<Entry<C>, PoolPage>,
    timers: Coarse,
    sleep: Option<Sleep>,
    listener: Option<Listener>,
    accepting: Accepting,
    config: TableConfig,
    accepted_total: u64,
    /// The kernel's part of the next connection is charged.
    is_next_charged: bool,
    /// What carries the bytes of connections that are accepted, if they are not carried as they are.
    make_transport: Option<MakeTransport>,
    /// Whether there may be connections that a transport carries.
    carries: bool,
    /// Connections that wait for what is opened already.
    opened: VecDeque<Key>,
    /// Connections on which a record has begun to come, as is to be told.
    partials: VecDeque<Key>,
    /// The queue of events.
    _charge: Charge,
}

impl<C: Default> Table<C> {
    /// Bytes of a connection's entry, its share of the table's bookkeeping included.
    pub const ENTRY_BYTES: usize = size_of::<Entry<C>>() + 4;

    /// Bytes of a table's queue of events, which is there from the start.
    pub const QUEUE_BYTES: usize = EVENTS_MAX * size_of::<RawEvent>();

    /// Bytes of what a table keeps of a connection that a transport carries, beside its entry and the transport.
    #[doc(hidden)]
    pub const CARRIED_BYTES: usize = size_of::<slot::Carried<C>>();

    /// A table that accepts from a listener.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`](crate::Error::OverBudget); [`Error::Misuse`](crate::Error::Misuse) for more than 16 tables
    /// on a worker.
    pub fn new(listener: impl Into<Listener>, config: TableConfig) -> Result<Self> {
        let listener = listener.into();
        Self::build(Rc::clone(listener.worker()), Some(listener), config)
    }

    fn build(worker: Rc<Worker>, listener: Option<Listener>, config: TableConfig) -> Result<Self> {
        let charge = plimsoll_pool::Budget::charge(worker.pool.budget(), Kind::Fixed, Self::QUEUE_BYTES as u64)?;
        let events = Events::new();
        let id = worker.add_table(&events)?;
        let per_chunk = Slab::<Entry<C>, PoolPage>::ENTRIES_PER_CHUNK;
        let timers = Coarse::new(timers::tick(worker.now()));
        Ok(Self {
            id,
            events,
            entries: Slab::new(config.connections_max.min(INDEX_MAX).div_ceil(per_chunk)),
            timers,
            sleep: Some(timers::reserved(&worker)),
            accepting: if listener.is_some() { Accepting::Idle } else { Accepting::Off },
            listener,
            config,
            accepted_total: 0,
            is_next_charged: false,
            make_transport: None,
            carries: false,
            opened: VecDeque::new(),
            partials: VecDeque::new(),
            worker,
            _charge: charge,
        })
    }

    /// Connections in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Connections accepted so far.
    pub fn accepted_total(&self) -> u64 {
        self.accepted_total
    }

    /// The server's state of a connection.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut C> {
        self.entries.get_mut(key).map(|entry| entry.state.get_mut())
    }

    /// The server's state of a connection.
    pub fn get(&self, key: Key) -> Option<&C> {
        self.entries.get(key).map(|entry| entry.state.get())
    }

    /// How many places there are, those included whose page was given back; connections take the lowest that is free.
    pub fn places(&self) -> u32 {
        self.entries.index_bound()
    }

    /// The connection at a place, counted from 0.
    pub fn key_at(&self, place: u32) -> Option<Key> {
        self.entries.key_at(place)
    }

    /// All connections, as they are now.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Waits until [`next`](Self::next) may have something.
    ///
    /// Cancel safe.
    pub async fn ready(&mut self) {
        poll_fn(|cx| self.poll_ready(cx)).await;
    }

    /// As [`ready`](Self::ready), for futures that wait for other things too.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.events.recalled.replace(false) {
            self.release_spare_pages();
        }
        if !self.events.queue.borrow().is_empty() || !self.opened.is_empty() || !self.partials.is_empty() {
            return Poll::Ready(());
        }
        self.try_accept();
        if matches!(self.accepting, Accepting::Burst(_) | Accepting::Last) {
            return Poll::Ready(());
        }
        if self.poll_timer(cx).is_ready() {
            return Poll::Ready(());
        }
        self.events.remember(cx.waker());
        Poll::Pending
    }

    /// The next event, if one is there.
    ///
    /// Take all of them before anything else is awaited, or soon: the worker first holds back what others wait for
    /// while 256 events wait here. When the owner has left them for some turns, it goes on without, and bytes in events
    /// that are left then may be copied, or at the memory line lost: [`Event::Failed`] with `ENOBUFS`.
    #[allow(
        clippy::should_implement_trait,
        reason = "a table is not an iterator: what is next depends on what was done with the last"
    )]
    pub fn next(&mut self) -> Option<Event> {
        if self.carries {
            return self.next_carried();
        }
        loop {
            if let Some(event) = self.next_accepted() {
                return Some(event);
            }
            let raw = self.events.queue.borrow_mut().pop_front();
            let Some(raw) = raw else { return self.next_due() };
            if let Some(event) = self.event(raw) {
                return Some(event);
            }
        }
    }

    // In each turn: without a frame of its own.
    #[inline(always)]
    fn event(&mut self, raw: RawEvent) -> Option<Event> {
        if raw.purpose == Purpose::Accept {
            return self.accepted(raw.completion);
        }
        // The connection may have been closed while this was queued, and its place taken. The operation's key tells: it
        // never comes twice.
        let key = self.entries.key_at(raw.index)?;
        let entry = self.entries.get_mut(key).expect("just found");
        let op = raw.completion.key;
        match raw.purpose {
            Purpose::Receive if entry.inbound == Inbound::Receive(op) => entry.inbound = Inbound::None,
            Purpose::Watch if entry.inbound == Inbound::Watch(op) => entry.inbound = Inbound::None,
            Purpose::Watch if entry.inbound == Inbound::Readable(op) => {
                entry.inbound = Inbound::None;
                // Of a wait that fails, the receive finds out why.
                return Some(Event::Readable(key));
            }
            Purpose::Send if entry.send == Some(op) => entry.send = None,
            _ => return None,
        }
        Some(match (raw.purpose, raw.completion.result, raw.completion.payload) {
            (Purpose::Watch, _, _) => Event::PeerClosed(key),
            (_, Err(errno), _) => Event::Failed(key, errno),
            (Purpose::Receive, Ok(0), _) => Event::Ended(key),
            (Purpose::Receive, Ok(_), Payload::Received(bytes)) => Event::Received(key, Bytes::Borrowed(bytes)),
            (Purpose::Receive, Ok(_), Payload::Lease(lease)) => Event::Received(key, Bytes::Owned(lease)),
            (Purpose::Send, Ok(_), Payload::Sent(rest)) => Event::Sent(key, rest),
            (purpose, _, payload) => unreachable!("{purpose:?} brought {payload:?}"),
        })
    }

    fn entry(&mut self, key: Key) -> &mut Entry<C> {
        self.entries.get_mut(key).expect(OPEN)
    }

    fn fd(&self, key: Key) -> FdRef<'_> {
        self.entries.get(key).expect(OPEN).fd.at()
    }

    fn token(&self, purpose: Purpose, key: Key) -> plimsoll_reactor::Token {
        Target::Table { table: self.id, purpose, index: key.index() }.token()
    }

    /// Whether a receive is armed.
    ///
    /// # Panics
    ///
    /// This and all following methods: when the connection was closed.
    pub fn is_receiving(&self, key: Key) -> bool {
        matches!(self.entries.get(key).expect(OPEN).inbound, Inbound::Receive(_) | Inbound::ReceiveOpened)
    }

    /// Whether a send is in flight.
    #[inline]
    pub fn is_sending(&self, key: Key) -> bool {
        if self.is_carried(key) {
            return self.is_sending_sealed(key);
        }
        self.entries.get(key).expect(OPEN).send.is_some()
    }

    /// Bytes of the pool that the send in flight holds alone; 0 without one, and for bytes that are
    /// [shared](SendBytes::Shared) with others.
    pub fn sending_bytes(&self, key: Key) -> usize {
        let send = self.entries.get(key).expect(OPEN).send;
        send.map_or(0, |op| self.worker.driver.borrow().held_bytes(op))
    }

    /// Bytes of the send in flight; 0 without one.
    pub fn unsent_bytes(&self, key: Key) -> usize {
        let send = self.entries.get(key).expect(OPEN).send;
        send.map_or(0, |op| {
            self.worker.driver.borrow().unsent_bytes(op) + if self.carries { self.unsealed_bytes(key) } else { 0 }
        })
    }

    /// Arms a receive, unless one is armed: a connection that waits holds no buffer. Ends a [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when its operation has no room.
    pub fn receive(&mut self, key: Key) -> Result<(), OverBudget> {
        debug_assert_eq!(self.handshake(key), Handshake::Over, "what comes before is received by steps");
        if self.is_receiving(key) {
            return Ok(());
        }
        if self.carries && self.arm_opened(key, Inbound::ReceiveOpened) {
            return Ok(());
        }
        self.arm(key, Purpose::Receive, |fd| Op::Receive { fd })
    }

    /// Arms a receive into the spare room of a lease. Ends a [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when its operation has no room.
    ///
    /// # Panics
    ///
    /// When a receive is armed, or the lease is full.
    pub fn receive_into(&mut self, key: Key, lease: Lease) -> Result<(), OverBudget> {
        assert!(!self.is_receiving(key), "one receive at a time");
        if self.carries && self.arm_opened(key, Inbound::ReceiveOpened) {
            return Ok(());
        }
        self.arm(key, Purpose::Receive, |fd| Op::ReceiveInto { fd, lease })
    }

    /// Asks to be told when the peer goes away; only while no receive is armed, which would tell too.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when the operation has no room.
    pub fn watch(&mut self, key: Key) -> Result<(), OverBudget> {
        match self.entry(key).inbound {
            Inbound::None | Inbound::Readable(_) => {
                self.arm(key, Purpose::Watch, |fd| Op::Poll { fd, interest: Interest::PeerClosed })
            }
            Inbound::ReadableOpened => {
                self.unwatch(key);
                self.watch(key)
            }
            Inbound::Receive(_) | Inbound::ReceiveOpened | Inbound::Watch(_) => Ok(()),
        }
    }

    fn arm(&mut self, key: Key, purpose: Purpose, op: impl FnOnce(FdRef<'_>) -> Op<'_>) -> Result<(), OverBudget> {
        self.unwatch(key);
        let token = self.token(purpose, key);
        let op = op(self.fd(key));
        let submitted = self.worker.driver.borrow_mut().submit(op, token);
        let op = submitted.map_err(|(over, _op)| over)?;
        self.entry(key).inbound = if purpose == Purpose::Watch { Inbound::Watch(op) } else { Inbound::Receive(op) };
        Ok(())
    }

    /// Whether the connection was reset, or has failed otherwise: what a [`watch`](Self::watch) cannot tell any more of
    /// a peer that has ended its half. A peer that was closed in silence is there until something is sent to it.
    pub fn is_gone(&self, key: Key) -> bool {
        self.worker.driver.borrow_mut().is_gone_now(self.fd(key))
    }

    /// Takes [`watch`](Self::watch) and [`await_readable`](Self::await_readable) back.
    pub fn unwatch(&mut self, key: Key) {
        let entry = self.entry(key);
        if let Inbound::Watch(op) | Inbound::Readable(op) = entry.inbound {
            entry.inbound = Inbound::None;
            self.worker.driver.borrow_mut().orphan(op);
        } else if entry.inbound == Inbound::ReadableOpened {
            entry.inbound = Inbound::None;
        }
    }

    /// Sends bytes. At most one send is in flight: the next one after [`Event::Sent`].
    ///
    /// # Errors
    ///
    /// Gives the bytes back when the operation has no room.
    ///
    /// # Panics
    ///
    /// When a send is in flight, or there is nothing to send.
    pub fn send(&mut self, key: Key, bytes: SendBytes) -> Result<(), (OverBudget, SendBytes)> {
        assert!(!self.is_sending(key), "one send at a time");
        if self.is_carried(key) {
            return self.send_sealed(key, bytes);
        }
        self.submit_send(key, bytes)
    }

    #[inline(always)]
    fn submit_send(&mut self, key: Key, bytes: SendBytes) -> Result<(), (OverBudget, SendBytes)> {
        let (fd, token) = (self.fd(key), self.token(Purpose::Send, key));
        let submitted = self.worker.driver.borrow_mut().submit(Op::Send { fd, bytes }, token);
        match submitted {
            Ok(op) => {
                self.entry(key).send = Some(op);
                Ok(())
            }
            Err((over, Op::Send { bytes, .. })) => Err((over, bytes)),
            Err((_, op)) => unreachable!("a refused send comes back as it was, not as {op:?}"),
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// What `getpeername(2)` says, such as `ENOTCONN` after a reset.
    pub fn peer_address(&mut self, key: Key) -> Result<Address, Errno> {
        let fd = self.fd(key);
        self.worker.driver.borrow().peer_address(fd)
    }

    /// Sets a socket option.
    ///
    /// # Errors
    ///
    /// What `setsockopt(2)` says.
    pub fn set_option(&mut self, key: Key, option: SocketOption) -> Result<(), Errno> {
        let fd = self.fd(key);
        self.worker.driver.borrow_mut().set_option(fd, option)
    }

    /// Sends as much as the socket takes at once, without an operation and so without memory: how an answer reaches a
    /// peer for which there is no room. How many bytes were taken.
    ///
    /// # Errors
    ///
    /// What `send(2)` says; `EAGAIN` when the socket takes nothing now.
    ///
    /// # Panics
    ///
    /// When a send is in flight: its bytes come first.
    pub fn send_now(&mut self, key: Key, bytes: &[u8]) -> Result<usize, Errno> {
        assert!(!self.is_sending(key), "one send at a time");
        if self.is_carried(key) {
            return Err(Errno::AGAIN);
        }
        let fd = self.fd(key);
        self.worker.driver.borrow_mut().send_now(fd, bytes)
    }

    /// Drops at most `bytes_max` bytes that have come and that nobody has read, without memory, so that a close does
    /// not become a reset which overtakes what was sent. Does nothing while a receive is armed, which takes them.
    pub fn discard_now(&mut self, key: Key, bytes_max: usize) {
        if !self.is_receiving(key) {
            if self.has_transport(key) {
                self.drop_opened(key);
            }
            let fd = self.fd(key);
            let _nothing_there = self.worker.driver.borrow_mut().discard_now(fd, bytes_max);
        }
    }

    /// Ends our half of the connection, after what was sent: at once when there is no room for the operation, which no
    /// send may be in flight for.
    pub fn shutdown_write(&mut self, key: Key) {
        if self.has_transport(key) {
            return self.end_carried(key);
        }
        self.shut_down(key);
    }

    fn shut_down(&mut self, key: Key) {
        let fd = self.fd(key);
        let mut driver = self.worker.driver.borrow_mut();
        match driver.submit(Op::Shutdown { fd, how: Shutdown::Write }, Target::Unknown.token()) {
            Ok(op) => driver.disown(op),
            // One that fails has no connection any more: the next receive tells.
            Err(_) => _ = driver.shutdown_now(fd, Shutdown::Write),
        }
    }

    /// Closes a connection and gives its state back. Operations in flight on it are cancelled, and what they hold is
    /// released when the kernel is done with it.
    pub fn close(&mut self, key: Key) -> C {
        if self.has_transport(key) {
            self.discard_end(key);
        }
        self.timers.cancel(&mut self.entries, key.index());
        let Entry { fd, inbound, send, state, .. } = self.entries.remove(key).expect(OPEN);
        let inbound = match inbound {
            Inbound::None | Inbound::ReceiveOpened | Inbound::ReadableOpened => None,
            Inbound::Receive(op) | Inbound::Watch(op) | Inbound::Readable(op) => Some(op),
        };
        for op in [inbound, send].into_iter().flatten() {
            self.worker.driver.borrow_mut().orphan(op);
        }
        self.worker.close(fd);
        kernel::uncharge(&self.worker);
        self.note_spare_pages();
        if matches!(state, Slot::Carried(_)) {
            self.worker.release.note_transport_gone();
        }
        state.into_parts().0
    }
}

impl<C: Default> Drop for Table<C> {
    fn drop(&mut self) {
        if let Accepting::Armed(key) = self.accepting {
            self.worker.driver.borrow_mut().orphan(key);
        }
        self.worker.remove_table(self.id);
        let keys: Vec<Key> = self.keys().collect();
        for key in keys {
            self.close(key);
        }
        self.uncharge_next();
        let queued = core::mem::take(&mut *self.events.queue.borrow_mut());
        for raw in queued {
            self.worker.dispose(raw.completion);
        }
    }
}

impl<C: Default> fmt::Debug for Table<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("connections", &self.len()).field("accepted", &self.accepted_total).finish()
    }
}
