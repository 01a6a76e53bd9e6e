//! The relays of one worker: a table of connections in pairs, and the task that moves their bytes.
//!
//! ```text
//!            bytes                        taken
//!  receive --------> send to the partner -------> receive ...
//!     | end                  | not all: send the rest
//!     v
//!  end the partner's half; when both have ended, close both
//! ```
//!
//! A side receives only while nothing it has sent is under way to its partner: a slow reader slows its writer down, and
//! each direction holds one buffer at most. A side that waits is armed without a buffer; after a receive that brought
//! much, the next one has a lease of its own, of the size that [`AdaptiveSize`] wishes, and gives it back if nothing
//! comes for [`BULK_IDLE_MS`].
#![forbid(unsafe_code)]

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::rc::Rc;

use plimsoll_pool::{AdaptiveSize, Class, Kind, OverBudget, catch_panic};
use plimsoll_reactor::{Errno, Instant, PoolPage, RECEIVE_BYTES_MAX, SendBytes};
use plimsoll_slab::{Key, Slab};

use super::relay::{RelayEnd, Relayed};
use crate::net::table::Adopted;
use crate::net::{Bytes, Event, Stream, Table, TableConfig};
use crate::worker::Worker;
use crate::{Result, spawn};

/// How long a side may wait with a buffer of its own.
const BULK_IDLE_MS: u32 = 1_000;
/// Relays that somebody awaits at most, in pages of the pool.
const OUTCOME_CHUNKS_MAX: u32 = 1 << 14;

/// One connection of a relay.
#[derive(Debug, Default)]
struct Side {
    /// `None` only while the pair is put in or taken out.
    partner: Option<Key>,
    /// Received from this side's peer so far.
    received_bytes: u64,
    /// When bytes last moved from here, in milliseconds of the worker's clock; wraps.
    moved_ms: u32,
    /// After so long without a byte in either direction the relay ends; 0 for never.
    idle_ms: u32,
    size: Size,
    /// Where the result goes, if somebody awaits it.
    outcome: Option<Key>,
    /// Which of the two was given first.
    is_first: bool,
    /// The peer has sent all it will send.
    ended: bool,
    inbound: Inbound,
}

#[derive(Clone, Copy, Debug)]
struct Size(AdaptiveSize);

impl Default for Size {
    fn default() -> Self {
        Self(AdaptiveSize::new(Class::K16, Class::K128))
    }
}

/// What a side's receive has to fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inbound {
    /// The driver's shared buffers, or nothing is armed.
    #[default]
    Small,
    /// A lease.
    Bulk { room_bytes: u32 },
    /// A lease that is asked back.
    Cancelled { room_bytes: u32 },
}

/// A relay that somebody awaits.
pub(super) enum Outcome {
    Open(Option<Waker>),
    Ended(Relayed),
}

/// All relays of a worker.
pub(crate) struct Relays {
    table: RefCell<Table<Side>>,
    outcomes: RefCell<Slab<Outcome, PoolPage>>,
    worker: Rc<Worker>,
    /// The task's, when it waits: a new relay may have the first deadline.
    engine: RefCell<Option<Waker>>,
    pairs: Cell<usize>,
}

impl Relays {
    /// This worker's; made, with their task, when they are first asked for.
    pub(super) fn current() -> Result<Rc<Self>> {
        let worker = Worker::current();
        if let Some(relays) = Self::of(&worker) {
            return Ok(relays);
        }
        let relays = Rc::new(Self {
            table: RefCell::new(Table::detached(TableConfig::default())?),
            outcomes: RefCell::new(Slab::new(OUTCOME_CHUNKS_MAX)),
            engine: RefCell::default(),
            pairs: Cell::new(0),
            worker: Rc::clone(&worker),
        });
        let task = Rc::clone(&relays);
        let _detached = spawn(async move { task.run().await })?;
        let known: Rc<dyn Any> = Rc::clone(&relays) as _;
        worker.relays.replace(Rc::downgrade(&known));
        Ok(relays)
    }

    /// This worker's, if there were any.
    pub(super) fn existing() -> Option<Rc<Self>> {
        Self::of(&Worker::current())
    }

    fn of(worker: &Worker) -> Option<Rc<Self>> {
        let known = worker.relays.borrow().upgrade()?;
        known.downcast().ok()
    }

    pub(super) fn open(&self) -> usize {
        self.pairs.get()
    }

    /// A place for a result.
    pub(super) fn outcome(&self) -> Result<Key, OverBudget> {
        let inserted = PoolPage::insert(&mut self.outcomes.borrow_mut(), &self.worker.pool, Outcome::Open(None));
        inserted.map_err(|(over, _)| over)
    }

    /// The result, if it is there.
    pub(super) fn poll_outcome(&self, key: Key, cx: &mut Context<'_>) -> Poll<Relayed> {
        // Wakers are made and dropped by their owners' code: while nothing is borrowed.
        let mut waker = None;
        loop {
            let mut outcomes = self.outcomes.borrow_mut();
            let before = match outcomes.get_mut(key).expect("a place lives as long as its owner") {
                Outcome::Ended(relayed) => return Poll::Ready(*relayed),
                Outcome::Open(Some(known)) if known.will_wake(cx.waker()) => return Poll::Pending,
                Outcome::Open(known) if waker.is_some() => core::mem::replace(known, waker),
                Outcome::Open(_) => {
                    drop(outcomes);
                    waker = Some(cx.waker().clone());
                    continue;
                }
            };
            drop(outcomes);
            drop(before);
            return Poll::Pending;
        }
    }

    pub(super) fn forget_outcome(&self, key: Key) {
        let forgotten = self.outcomes.borrow_mut().remove(key);
        drop(forgotten);
    }

    /// Takes two connections on, on which nothing is in flight; gives the first one's key.
    ///
    /// # Errors
    ///
    /// [`OverBudget`]; both connections are closed then.
    pub(super) fn add(
        &self,
        first: Stream,
        second: Stream,
        idle: Option<Duration>,
        outcome: Option<Key>,
    ) -> Result<Key, OverBudget> {
        let idle_ms = idle.map_or(0, |idle| u32::try_from(idle.as_millis()).unwrap_or(u32::MAX / 2).max(1));
        let mut table = self.table.borrow_mut();
        table.reserve_entries(2)?;
        let side = |is_first| Side { is_first, idle_ms, moved_ms: self.now_ms(), ..Side::default() };
        let a = table.adopt(first, Side { outcome, ..side(true) })?;
        let b = match table.adopt(second, side(false)) {
            Ok(b) => b,
            Err(over) => {
                table.close(a.key);
                return Err(over);
            }
        };
        table.get_mut(a.key).expect("just put in").partner = Some(b.key);
        table.get_mut(b.key).expect("just put in").partner = Some(a.key);
        let key = a.key;
        if let Some(idle) = idle {
            table.schedule(key, idle);
        }
        drop(table);
        self.pairs.set(self.pairs.get() + 1);
        for adopted in [a, b] {
            self.begin(adopted);
        }
        if let Some(waker) = self.engine.take() {
            catch_panic(|| waker.wake());
        }
        Ok(key)
    }

    /// Starts what a side has to do first.
    fn begin(&self, side: Adopted) {
        // The relay may have ended while the other side began.
        if self.table.borrow().get(side.key).is_none() {
            return;
        }
        match side.unread {
            Some(bytes) => self.received(side.key, Bytes::Owned(bytes)),
            None if side.ended => self.ended(side.key),
            None => self.receive(side.key),
        }
    }

    /// Ends a relay that nobody waits for any more.
    pub(super) fn abandon(&self, first: Key) {
        if self.table.borrow().get(first).is_some_and(|side| side.is_first) {
            self.finish(first, RelayEnd::Dropped);
        }
    }

    /// The task: moves bytes for ever.
    async fn run(&self) {
        loop {
            poll_fn(|cx| {
                let ready = self.table.borrow_mut().poll_ready(cx);
                if ready.is_pending() {
                    self.engine.replace(Some(cx.waker().clone()));
                }
                ready
            })
            .await;
            loop {
                let event = self.table.borrow_mut().next();
                let Some(event) = event else { break };
                self.step(event);
            }
        }
    }

    fn step(&self, event: Event) {
        match event {
            Event::Received(key, bytes) => self.received(key, bytes),
            Event::Sent(key, rest) => self.sent(key, rest),
            Event::Ended(key) => self.ended(key),
            Event::Failed(key, Errno::CANCELED) if self.is_cancelled(key) => self.receive(key),
            Event::Failed(key, errno) => self.finish(key, RelayEnd::Failed(errno)),
            Event::Due(key) => self.due(key),
            // What is idle for too long ends, whatever has come.
            Event::Partial(_) => {}
            Event::PeerClosed(_) | Event::Readable(_) | Event::Stalled(_) | Event::Accepted(_) | Event::TurnedAway => {
                debug_assert!(false, "never asked for");
            }
        }
    }

    fn is_cancelled(&self, key: Key) -> bool {
        let table = self.table.borrow();
        table.get(key).is_some_and(|side| matches!(side.inbound, Inbound::Cancelled { .. }))
    }

    /// Arms a side: with a lease of its own if it has been busy and there is room.
    fn receive(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let Some(side) = table.get_mut(key) else { return };
        let was_busy = matches!(side.inbound, Inbound::Bulk { .. });
        let wish = side.size.0.wish().bytes();
        let lease = if was_busy { self.worker.pool.try_acquire(wish, Kind::Buffers).ok() } else { None };
        let armed = match lease {
            Some(lease) => {
                side.inbound = Inbound::Bulk { room_bytes: lease.spare_capacity() as u32 };
                let next_ms = if side.idle_ms == 0 { BULK_IDLE_MS } else { BULK_IDLE_MS.min(side.idle_ms) };
                table.schedule(key, milliseconds(next_ms));
                table.receive_into(key, lease)
            }
            None => {
                side.inbound = Inbound::Small;
                table.receive(key)
            }
        };
        drop(table);
        if armed.is_err() {
            self.finish(key, RelayEnd::OverBudget);
        }
    }

    fn received(&self, key: Key, bytes: Bytes) {
        let now_ms = self.now_ms();
        let mut table = self.table.borrow_mut();
        let Some(side) = table.get_mut(key) else { return };
        let room = match side.inbound {
            Inbound::Small => RECEIVE_BYTES_MAX,
            Inbound::Bulk { room_bytes } | Inbound::Cancelled { room_bytes } => room_bytes as usize,
        };
        side.received_bytes += bytes.len() as u64;
        side.moved_ms = now_ms;
        side.size.0.observe(bytes.len().min(room), room, false);
        // Much has come: more of it is worth a buffer of its own.
        let is_busy = bytes.len() >= RECEIVE_BYTES_MAX;
        side.inbound = if is_busy { Inbound::Bulk { room_bytes: 0 } } else { Inbound::Small };
        let Some(partner) = side.partner else { return };
        // A socket has room, nearly always: bytes that lie in the driver's buffers need no other then, and no
        // operation.
        let taken = match &bytes {
            Bytes::Borrowed(bytes) => table.send_now(partner, bytes),
            Bytes::Owned(_) => Ok(0),
        };
        drop(table);
        let taken = match taken {
            Ok(taken) => taken,
            Err(Errno::AGAIN) => 0,
            Err(errno) => return self.finish(key, RelayEnd::Failed(errno)),
        };
        let lease = match bytes {
            Bytes::Owned(lease) => Ok(lease),
            Bytes::Borrowed(bytes) if taken == bytes.len() => {
                drop(bytes);
                return self.receive(key);
            }
            Bytes::Borrowed(bytes) => self.worker.pool.try_copy(&bytes[taken..], Kind::Buffers),
        };
        match lease {
            Ok(lease) => self.send(partner, SendBytes::Lease(lease)),
            Err(_) => self.finish(key, RelayEnd::OverBudget),
        }
    }

    fn send(&self, to: Key, bytes: SendBytes) {
        let sent = self.table.borrow_mut().send(to, bytes);
        if sent.is_err() {
            self.finish(to, RelayEnd::OverBudget);
        }
    }

    /// A side's socket has taken what its partner had sent.
    fn sent(&self, key: Key, rest: SendBytes) {
        let now_ms = self.now_ms();
        let mut table = self.table.borrow_mut();
        let Some(partner) = table.get(key).and_then(|side| side.partner) else { return };
        let Some(source) = table.get_mut(partner) else { return };
        source.moved_ms = now_ms;
        drop(table);
        if !rest.is_empty() {
            return self.send(key, self.compact(rest));
        }
        drop(rest);
        self.receive(partner);
    }

    /// The rest of a send, in the smallest class that it fits: a slow reader shall not hold a large buffer for a few
    /// bytes.
    fn compact(&self, rest: SendBytes) -> SendBytes {
        match rest {
            SendBytes::Lease(lease) if lease.len() * 4 <= lease.class().bytes() => {
                match self.worker.pool.try_copy(&lease, Kind::Buffers) {
                    Ok(smaller) => SendBytes::Lease(smaller),
                    Err(_) => SendBytes::Lease(lease),
                }
            }
            rest => rest,
        }
    }

    fn ended(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let Some(side) = table.get_mut(key) else { return };
        side.ended = true;
        side.inbound = Inbound::Small;
        let Some(partner) = side.partner else { return };
        if table.get(partner).is_some_and(|partner| partner.ended) {
            drop(table);
            return self.finish(key, RelayEnd::Closed);
        }
        table.shutdown_write(partner);
    }

    /// A side has waited for long with a buffer of its own, or the relay has been idle.
    fn due(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let Some(side) = table.get_mut(key) else { return };
        let idle_ms = side.idle_ms;
        let own_moved = side.moved_ms;
        let is_bulk = matches!(side.inbound, Inbound::Bulk { .. });
        let waited_ms = self.now_ms().wrapping_sub(own_moved);
        let Some(partner) = side.partner else { return };
        let other_moved = table.get(partner).map_or(own_moved, |partner| partner.moved_ms);
        let idle_for = waited_ms.min(self.now_ms().wrapping_sub(other_moved));
        if idle_ms > 0 && idle_for >= idle_ms {
            drop(table);
            return self.finish(key, RelayEnd::Idle);
        }
        let idle_left_ms = (idle_ms > 0).then(|| idle_ms - idle_for);
        let mut bulk_left_ms = None;
        if is_bulk && table.is_receiving(key) {
            if waited_ms < BULK_IDLE_MS {
                bulk_left_ms = Some(BULK_IDLE_MS - waited_ms);
            } else {
                let side = table.get_mut(key).expect("found above");
                if let Inbound::Bulk { room_bytes } = side.inbound {
                    side.inbound = Inbound::Cancelled { room_bytes };
                }
                table.cancel_receive(key);
            }
        }
        if let Some(next_ms) = [idle_left_ms, bulk_left_ms].into_iter().flatten().min() {
            table.schedule(key, milliseconds(next_ms));
        }
    }

    /// Closes both sides and says how it ended.
    fn finish(&self, key: Key, end: RelayEnd) {
        let mut table = self.table.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let side = table.close(key);
        let Some(partner) = side.partner else { return };
        let partner = table.close(partner);
        drop(table);
        let (first, second) = if side.is_first { (side, partner) } else { (partner, side) };
        let relayed = Relayed { first_bytes: first.received_bytes, second_bytes: second.received_bytes, end };
        tracing::debug!(?relayed, "a relay ended");
        self.pairs.set(self.pairs.get() - 1);
        if let Some(waker) = first.outcome.and_then(|key| self.tell(key, relayed)) {
            // A panic of one who waits shall not end the relays of the others.
            catch_panic(|| waker.wake());
        }
    }

    /// Stores a result; the waker of whoever awaits it.
    fn tell(&self, key: Key, relayed: Relayed) -> Option<Waker> {
        let mut outcomes = self.outcomes.borrow_mut();
        match core::mem::replace(outcomes.get_mut(key)?, Outcome::Ended(relayed)) {
            Outcome::Open(waker) => waker,
            Outcome::Ended(_) => None,
        }
    }

    fn now_ms(&self) -> u32 {
        wrapped_ms(self.worker.now())
    }
}

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(u64::from(count))
}

/// Milliseconds of the worker's clock; differences are right up to 24 days.
fn wrapped_ms(instant: Instant) -> u32 {
    instant.as_millis() as u32
}

/// Memory of one connection of a relay: its entry. Its armed receive comes on top.
pub(super) const SIDE_BYTES: usize = Table::<Side>::ENTRY_BYTES;

const _: () = assert!(size_of::<Side>() <= 56, "a side that waits has no room for a buffer");
