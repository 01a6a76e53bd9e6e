//! The driver over io_uring: entries below, completions above.
//!
//! ```text
//!   start -> the submission queue, or behind it in the backlog
//!   enter -> recycles buffers, restarts blocked receives, and enters the kernel once
//!   next  -> one completion at a time; accepts, shutdowns and polled receives end here with a call that does not wait
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the verbs of the backend, and where an operation can be |
//! | `ring.rs` | set-up, queues, the enter |
//! | `entry.rs` | operations as submission queue entries |
//! | `complete.rs` | what a completion means for its operation |
//! | `cancel.rs` | operations that end before their time |
//! | `late.rs` | ends and closes that wait for the kernel to take what is queued |
//! | `receive.rs`, `group.rs` | receive buffers |
//! | `watch.rs` | descriptors that the kernel watches for receives |
//!
//! # Where an operation is
//!
//! ```text
//!  start --> kernel --------------------------------------> next: its completion
//!    |        ^  |  \-- a receive found no buffer --> blocked
//!    |        |  |                                     |  |
//!    |        |  \-- cancel asked, queue full --> cancels |
//!    |        |                                        |  \-- cancelled --> ended --> next: ECANCELED
//!    \--> backlog <--- (queue full) --- a buffer is back                      ^
//!             \------------ cancelled ----------------------------------------/
//! ```
//!
//! An operation whose cancel still waits is with the kernel, and in the list `cancels`; all others are in one of the
//! places only. Lists are threaded through the slots, so no list can be full and nothing is dropped.
#![deny(unsafe_code)]

mod cancel;
mod complete;
mod entry;
mod group;
mod late;
mod receive;
mod ring;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;

use io_uring::cqueue;
use plimsoll_pool::{Charge, Lease, Pool};
use plimsoll_slab::Key;

use crate::fd::{Life, Number};
use crate::list::{self, List};
use crate::net::{ListenOptions, SocketKind};
use crate::op::{Errno, Interest, Op};
use crate::slots::Slots;
use crate::{Address, Doorbell, DriverConfig, Error, Instant, ReceiveMode, Wait, sys};

use entry::{Entry, Form};
use late::LateList;
use receive::Receiver;
use ring::{RETRY_DELAY, Ring, Submitted, Timeout};
use watch::{Begin, Watches};

pub(crate) use ring::kernel_release;

/// Bytes that this driver keeps of a descriptor with operations, beside those in flight.
pub const WATCH_BYTES: usize = watch::WATCH_BYTES;

/// The io_uring driver of one worker.
pub(crate) struct Uring {
    receiver: Receiver,
    watches: Watches,
    ring: Ring,
    doorbell: Doorbell,
    bell: Bell,
    /// Operations that wait for room in the submission queue, in order.
    backlog: List,
    /// Operations with the kernel whose cancel waits for room in the submission queue.
    cancels: List,
    /// Receives that wait for a buffer, in order.
    blocked: List,
    /// Receives for which there may be bytes, in order; and how many of them this turn may still try.
    readable: List,
    tries: usize,
    /// Operations that were cancelled while the kernel did not have them.
    ended: List,
    blocked_cancels: BlockedCancels,
    unknown_lives: UnknownLives,
    /// What has to be done when the kernel has taken what is queued.
    late: LateList,
    /// Completions that were taken out of the queue because it overflowed, in order, before those in the queue; and the
    /// charge for their memory.
    spill: VecDeque<cqueue::Entry>,
    spill_charge: Option<Charge>,
    /// Completions that this turn may still take: those that were there when it began.
    batch: u32,
    now: Instant,
    enobufs_total: u64,
    pool: Pool,
    receive_buffers: u16,
}

/// Whether the kernel waits for the doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bell {
    Armed,
    Unarmed,
}

/// Whether some of the blocked receives have been cancelled since the last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockedCancels {
    None,
    Some,
}

/// Whether there may be operations in flight for which there was no memory to note the life of their descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownLives {
    None,
    Some,
}

impl Uring {
    /// # Errors
    ///
    /// [`Error::OverBudget`] when its queues and buffers do not fit; [`Error::System`] when the system has no ring for
    /// us.
    pub(crate) fn new(
        receive: ReceiveMode,
        config: &DriverConfig,
        pool: &Pool,
        doorbell: &Doorbell,
    ) -> Result<Self, Error> {
        Self::with_ring(Ring::new(config.entries, pool.budget())?, receive, config, pool, doorbell)
    }

    fn with_ring(
        ring: Ring,
        receive: ReceiveMode,
        config: &DriverConfig,
        pool: &Pool,
        doorbell: &Doorbell,
    ) -> Result<Self, Error> {
        let receiver = Receiver::new(receive, &ring, pool, config.receive_buffers)?;
        Ok(Self {
            receiver,
            watches: Watches::new(pool),
            ring,
            doorbell: doorbell.clone(),
            bell: Bell::Unarmed,
            backlog: List::default(),
            cancels: List::default(),
            blocked: List::default(),
            readable: List::default(),
            tries: 0,
            ended: List::default(),
            blocked_cancels: BlockedCancels::None,
            unknown_lives: UnknownLives::None,
            late: LateList::default(),
            spill: VecDeque::new(),
            spill_charge: None,
            batch: 0,
            now: sys::now(),
            enobufs_total: 0,
            pool: pool.clone(),
            receive_buffers: config.receive_buffers,
        })
    }

    pub(crate) fn start(&mut self, key: Key, slots: &mut Slots) {
        let op = &mut slots.get_mut(key).expect("placed before it is started").op;
        let form = Form::first(op);
        match op {
            // It ends the life, and is not done by the number later.
            Op::Close { .. } => {}
            // It is found by its descriptor's record.
            Op::Receive { .. } if self.receiver.group().is_none() => {}
            _ => self.note_life(op),
        }
        self.place(key, form, slots);
    }

    /// Notes which life of its descriptor an operation belongs to, which may be done by the number once more.
    fn note_life(&mut self, op: &mut Op<'static>) {
        let Some(fd) = op.number() else { return };
        match self.watches.life(fd) {
            Some(life) => op.set_life(life),
            None => {
                op.set_life(Life::UNKNOWN);
                self.unknown_lives = UnknownLives::Some;
            }
        }
    }

    /// Queues an operation for the kernel, behind those that wait for that already.
    fn place(&mut self, key: Key, form: Form, slots: &mut Slots) {
        if !self.backlog.is_empty() || !self.push(key, form, slots) {
            self.backlog.push(slots, key.index());
        }
    }

    fn push(&mut self, key: Key, form: Form, slots: &mut Slots) -> bool {
        let slot = slots.get_mut(key).expect("an operation is in its slot until its last completion");
        debug_assert!(!list::is_listed(slot), "in one place only");
        match slot.op {
            Op::Receive { fd } | Op::Poll { fd, interest: Interest::Readable } if self.receiver.group().is_none() => {
                match self.watches.begin(fd, key.index()) {
                    Begin::Wait => return true,
                    Begin::Try => {
                        self.watches.set_queued(fd, true);
                        self.readable.push(slots, key.index());
                        return true;
                    }
                    Begin::Watch(name) => {
                        let is_pushed = self.ring.push(&Entry::watch(fd, name));
                        if is_pushed {
                            self.watches.watched(fd, key.index());
                        } else {
                            self.watches.unwatched(fd);
                        }
                        return is_pushed;
                    }
                    Begin::Alone => {
                        if fd.life() == Life::UNNOTED {
                            self.note_life(&mut slot.op);
                        }
                        return self.ring.push(&Entry::wait(key, &slot.op));
                    }
                }
            }
            // What comes meanwhile is no news.
            Op::ReceiveInto { fd, .. } => self.unwatch_idle(fd),
            _ => {}
        }
        let entry = match form {
            Form::Wait => Entry::wait(key, &slot.op),
            Form::Stay => Entry::stay(key, &slot.op),
            Form::Call => Entry::call(key, &mut slot.op, self.receiver.group()),
        };
        self.ring.push(&entry)
    }

    pub(crate) fn enter(&mut self, wait: Wait, slots: &mut Slots) -> Result<(), Errno> {
        self.end_cancelled(slots);
        self.receiver.recycle(&self.pool);
        self.restart_blocked(slots);
        self.arm_bell();
        let backlog = self.submit_backlog(slots);
        let entered = self.ring.enter(self.timeout(wait, backlog));
        self.drain_overflow();
        self.receiver.audit(&mut self.ring, &self.spill, &self.pool, self.receive_buffers);
        self.batch = self.spill.len() as u32 + self.ring.visible();
        self.tries = self.readable.len();
        self.now = sys::now();
        entered
    }

    /// Brings all completions to light when the queue was full, because receives that share buffers are believed only
    /// when all of them are seen. As many may come as operations are in flight. Without memory for them it leaves the
    /// queue as it is.
    fn drain_overflow(&mut self) {
        if self.spill.is_empty() && self.spill_charge.is_some() {
            (self.spill, self.spill_charge) = (VecDeque::new(), None);
        }
        while self.receiver.is_shared() && self.ring.is_overflown() {
            if !self.make_room_to_spill() {
                return;
            }
            while let Some(completion) = self.ring.pop() {
                self.spill.push_back(completion);
            }
            if self.ring.enter(Timeout::None).is_err() {
                return;
            }
        }
    }

    /// Makes room in the spill for what the queue shows; whether there is memory for it.
    fn make_room_to_spill(&mut self) -> bool {
        let wanted = self.spill.len() + self.ring.visible() as usize;
        if wanted <= self.spill.capacity() {
            return true;
        }
        let capacity = wanted.next_power_of_two();
        // The old memory is charged until the new one has replaced it.
        let bytes = (capacity * size_of::<cqueue::Entry>()) as u64;
        let Ok(charge) = self.pool.charge(plimsoll_pool::Kind::Rings, bytes) else { return false };
        self.spill.reserve_exact(capacity - self.spill.len());
        self.spill_charge = Some(charge);
        true
    }

    /// Restarts as many blocked receives as find room for certain, so that hardly one is blocked twice.
    fn restart_blocked(&mut self, slots: &mut Slots) {
        if self.blocked.is_empty() {
            return;
        }
        for _ in 0..self.receiver.receives_that_fit() {
            let Some(key) = self.blocked.pop(slots) else { return };
            self.place(key, Form::Call, slots);
        }
    }

    fn arm_bell(&mut self) {
        if self.bell == Bell::Unarmed
            && let Some(eventfd) = self.doorbell.as_raw()
            && self.ring.push(&Entry::doorbell(eventfd))
        {
            self.bell = Bell::Armed;
        }
    }

    /// Hands over what waited for room, in order: what was put off, operations, then cancels.
    fn submit_backlog(&mut self, slots: &mut Slots) -> Submitted {
        if self.catch_up() == Submitted::Some {
            return Submitted::Some;
        }
        while let Some(index) = self.backlog.first() {
            let key = self.backlog.pop(slots).expect("it has a first one");
            debug_assert_eq!(key.index(), index);
            // One that was to wait and found no room finds out once more that it has to.
            let form = Form::first(&slots.get(key).expect("a listed operation is in flight").op);
            if !self.push(key, form, slots) {
                self.backlog.push_front(slots, index);
                return Submitted::Some;
            }
        }
        while let Some(index) = self.cancels.first() {
            let key = slots.key_at(index).expect("a listed operation is in flight");
            let slot = slots.get(key).expect("a listed operation is in flight");
            if !self.ring.push(&Entry::cancel(key, &slot.op)) {
                return Submitted::Some;
            }
            self.cancels.pop(slots);
        }
        Submitted::All
    }

    fn timeout(&self, wait: Wait, backlog: Submitted) -> Timeout {
        // A blocked receive for which there is room has no completion to wait for.
        let restartable = !self.blocked.is_empty() && self.receiver.receives_that_fit() > 0;
        if !self.ended.is_empty() || !self.readable.is_empty() || restartable {
            return Timeout::None;
        }
        let timeout = match wait {
            Wait::No => Timeout::None,
            Wait::Forever => Timeout::Unlimited,
            Wait::Until(deadline) => match deadline.since(sys::now()) {
                time if time.is_zero() => Timeout::None,
                time => Timeout::For(time),
            },
        };
        // Without room for the doorbell's entry nothing would end the wait when another thread rings.
        let is_deaf = self.bell == Bell::Unarmed && self.doorbell.as_raw().is_some();
        // Nothing would tell that there is memory for a buffer.
        let lacks_memory = !self.blocked.is_empty() && self.receiver.is_without_memory();
        if is_deaf || lacks_memory || backlog == Submitted::Some {
            return timeout.at_most(RETRY_DELAY);
        }
        timeout
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.batch > 0 || self.tries > 0 || !self.ended.is_empty()
    }

    pub(crate) fn is_short_of_buffers(&self) -> bool {
        !self.blocked.is_empty() && self.receiver.is_lent_out()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.ring.bytes() + self.receiver.bytes()
    }

    pub(crate) fn enobufs_total(&self) -> u64 {
        self.enobufs_total
    }

    pub(crate) fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Number, Error> {
        let fd = sys::listen(address, options, true)?;
        self.opened(fd);
        Ok(fd)
    }

    /// Not blocking, for [`Op::Connect`].
    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Number, Errno> {
        let fd = sys::socket(kind, true)?;
        self.opened(fd);
        Ok(fd)
    }

    pub(crate) fn accept_now(&mut self, listener: Number) -> Result<Option<Number>, Errno> {
        let accepted = sys::accept(listener, false)?;
        if let Some(fd) = accepted {
            self.opened(fd);
        }
        Ok(accepted)
    }

    /// Receives what is there into leases.
    pub(crate) fn receive_now(
        &mut self,
        fd: Number,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        let room = leases.iter().flatten().map(Lease::spare_capacity).sum::<usize>().min(bytes_max);
        let received = sys::receive_scattered(fd, leases, bytes_max);
        self.tried(fd, received, room);
        received
    }

    /// The same into a buffer.
    pub(crate) fn read_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        let received = sys::receive(fd, room);
        self.tried(fd, received, room.len());
        received
    }

    /// Remembers what a receive into so much room tells about the next one.
    fn tried(&mut self, fd: Number, received: Result<usize, Errno>, room: usize) {
        match received {
            Err(Errno::AGAIN) => self.watches.used_up(fd),
            Ok(bytes) if bytes > 0 && bytes < room => self.watches.cut_short(fd),
            _ => {}
        }
    }

    /// The system has handed out this number: what was known of it is of a descriptor that was closed behind the
    /// driver's back.
    pub(super) fn opened(&mut self, fd: Number) {
        if let (Some(name), _) = self.watches.forget(fd) {
            self.end_watch(name);
        }
    }
}

impl Drop for Uring {
    /// Nothing is in flight but the doorbell and watches, which have no memory; see I-GROUP of [`group`].
    fn drop(&mut self) {
        self.close_late();
        if let Some(group) = self.receiver.group() {
            let _gone = self.ring.unregister_group(group);
        }
    }
}
