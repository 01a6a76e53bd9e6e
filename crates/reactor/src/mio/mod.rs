//! The driver over epoll, through mio: readiness below, completions above.
//!
//! ```text
//!   start -> the run queue, or at once to wait for an edge
//!   enter -> epoll: edges move those who wait to the queues
//!   next  -> tries the call of each queued operation: it completes, or waits again
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the verbs of the backend |
//! | `attempt.rs` | the try of each operation |
//! | `sockets.rs` | what is done at once |
//! | `watch.rs` | who waits for which edge; why none is lost |
//! | `table.rs` | 12 bytes per descriptor |
//! | `queues.rs` | whose turn it is |
//! | `list.rs` | queues and wait lists through the operation slots |
//! | `files.rs`, `jobs.rs` | file operations on the blocking pool |
//!
//! Calls are made in `next`, in the order of submission, so that sends are gathered in one place and a turn is bounded:
//! it tries what was queued when it began, nothing twice. What waits for its descriptor or for its turn when that is
//! closed ends without a call. A receive on a descriptor whose bytes were used up is not tried: it waits for the edge.
//! On a descriptor that is new to epoll it waits as well: registering costs its call anyway, and tells of bytes that
//! are there already by the first wait.
//!
//! Received bytes go into one scratch buffer, back to back, and are lent from there. When less than
//! [`SCRATCH_BYTES_MIN`] of it is free, receives stay in their queue until everything lent has come back.
#![deny(unsafe_code)]

mod attempt;
mod files;
mod jobs;
mod list;
mod queues;
mod sockets;
mod table;
#[cfg(test)]
mod tests;
mod watch;

use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use ::mio::unix::SourceFd;
use ::mio::{Events, Interest, Poll, Token};
use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_slab::Key;

use crate::fd::Number;
use crate::op::{Errno, Op};
use crate::received::{RECEIVE_BUFFER_BYTES, Shelf};
use crate::slots::{Raw, Slot, Slots};
use crate::{Blocking, Doorbell, DriverConfig, Error, Instant, RECEIVE_BYTES_MAX, Received, Wait, sys};

use files::Files;
use watch::{Direction, Watch};

/// Bytes that this driver keeps of an open descriptor, beside its operations in flight.
pub const READINESS_BYTES: usize = table::ENTRY_BYTES;

/// The epoll driver of one worker.
pub(crate) struct Mio {
    watch: Watch,
    events: Events,
    /// For the memory of `events`.
    _events_charge: Charge,
    events_bytes: u64,
    files: Files,
    scratch: Scratch,
    now: Instant,
    retry: Retry,
    last_turn: Turn,
}

/// How the last turn began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// With a look at epoll.
    Polled,
    /// With what was queued already.
    Queued,
}

/// What became of a try.
#[derive(Debug)]
enum Tried {
    Done(Result<u32, Errno>),
    Received(Received),
    /// Not now: it waits.
    Wait,
    /// It is out of the queues' hands: with the blocking pool, or behind it.
    Out,
}

impl Mio {
    /// # Errors
    ///
    /// [`Error::OverBudget`] when the scratch buffer and the event buffer do not fit; [`Error::System`] when the system
    /// has no epoll for us.
    pub(crate) fn new(
        config: &DriverConfig,
        pool: &Pool,
        doorbell: &Doorbell,
        blocking: &Arc<Blocking>,
    ) -> Result<Self, Error> {
        let events_bytes = u64::from(config.entries) * size_of::<libc::epoll_event>() as u64;
        let events_charge = pool.budget().charge(Kind::Rings, events_bytes)?;
        let scratch = Scratch { shelf: Shelf::new(pool, 1)?, cursor: 0 };
        let poll = Poll::new().map_err(|error| Error::system("epoll_create1", error.into()))?;
        let bell = doorbell.as_raw().expect("a real driver has a real bell");
        // Each ring is an edge of its own, so nothing has to be read from the bell.
        poll.registry()
            .register(&mut SourceFd(&bell), DOORBELL, Interest::READABLE)
            .map_err(|error| Error::system("epoll_ctl", error.into()))?;
        Ok(Self {
            watch: Watch::new(poll, pool),
            events: Events::with_capacity(config.entries as usize),
            _events_charge: events_charge,
            events_bytes,
            files: Files::new(blocking, doorbell),
            scratch,
            now: sys::now(),
            retry: Retry::new(),
            last_turn: Turn::Queued,
        })
    }

    pub(crate) fn start(&mut self, key: Key, slots: &mut Slots) {
        let index = key.index();
        let op = &slots.get(key).expect("placed before it is started").op;
        if let Op::Accept { listener: fd } | Op::Receive { fd } | Op::ReceiveInto { fd, .. } = *op
            && !self.watch.is_readable(fd)
            && self.watch.wait(slots, index, fd, Direction::Read).is_ok()
        {
            return;
        }
        self.watch.queues.ready(slots, index);
    }

    pub(crate) fn cancel(&mut self, key: Key, slots: &mut Slots) {
        let Some(slot) = slots.get(key) else { return };
        debug_assert!(slot.state.is_cancelled(), "marked before the backend is asked");
        match awaited(&slot.op) {
            Some((fd, direction)) => self.watch.cancel(slots, key.index(), fd, direction),
            None => self.files.cancel(),
        }
    }

    pub(crate) fn enter(&mut self, wait: Wait, slots: &mut Slots) -> Result<(), Errno> {
        // With work queued, every other turn is enough of a look at epoll: a turn's answers to what a look has brought
        // need no look themselves.
        if wait == Wait::No && self.last_turn == Turn::Polled && self.has_ready() {
            self.last_turn = Turn::Queued;
        } else {
            let wait = if self.watch.queues.aside() > 0 { wait.no_later_than(self.retry.at) } else { wait };
            self.poll(wait, slots)?;
            self.last_turn = Turn::Polled;
        }
        self.now = sys::now();
        if self.retry.is_due(self.now, self.watch.queues.aside()) {
            self.watch.queues.retry(slots);
        }
        self.watch.cancel_abandoned(slots);
        let Watch { table, queues, .. } = &mut self.watch;
        self.files.turn(slots, table, queues);
        queues.begin_turn();
        Ok(())
    }

    fn poll(&mut self, wait: Wait, slots: &mut Slots) -> Result<(), Errno> {
        loop {
            // mio rounds up to the milliseconds of epoll_wait: a turn does not end just before its deadline, to spin
            // until it.
            let timeout = match wait {
                Wait::No => Some(Duration::ZERO),
                Wait::Until(deadline) => Some(deadline.since(sys::now())),
                Wait::Forever => None,
            };
            match self.watch.poll_mut().poll(&mut self.events, timeout) {
                Ok(()) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        for event in &self.events {
            if event.token() != DOORBELL {
                self.watch.wake(slots, event);
            }
        }
        Ok(())
    }

    pub(crate) fn next(&mut self, slots: &mut Slots) -> Option<Raw> {
        if let Some((done, idle)) = self.files.next(slots, &mut self.watch.table) {
            self.after_jobs(slots, idle);
            let opened = matches!(slots.get(done.key), Some(Slot { op: Op::Open { .. }, .. }));
            if opened && let Ok(fd) = done.result {
                self.watch.forget(Number::from_raw(fd as i32));
            }
            return Some(Raw { key: done.key, result: done.result, received: None });
        }
        if let Some(index) = self.watch.queues.next_ended(slots) {
            let key = slots.key_at(index).expect("a listed operation is in flight");
            return Some(Raw { key, result: Err(Errno::CANCELED), received: None });
        }
        while let Some(index) = self.watch.queues.next_run(slots) {
            if let Some(raw) = self.try_one(slots, index) {
                return Some(raw);
            }
        }
        while self.scratch.room().is_some()
            && let Some(index) = self.watch.queues.next_receive(slots)
        {
            if let Some(raw) = self.try_one(slots, index) {
                return Some(raw);
            }
        }
        None
    }

    /// Tries an operation that was taken from a queue; `None` if it waits again.
    fn try_one(&mut self, slots: &mut Slots, index: u32) -> Option<Raw> {
        let key = slots.key_at(index).expect("a queued operation is in flight");
        let slot = slots.get(key).expect("as just said");
        let raw = |result, received| Some(Raw { key, result, received });
        if slot.state.is_cancelled() && !matches!(slot.op, Op::Close { .. }) {
            return raw(Err(Errno::CANCELED), None);
        }
        let (awaited, connects) = (awaited(&slot.op), matches!(slot.op, Op::Connect { .. }));
        match self.attempt(slots, key) {
            Tried::Done(result) => raw(result, None),
            Tried::Received(received) => raw(Ok(received.len() as u32), Some(received)),
            Tried::Out => None,
            Tried::Wait => {
                let (fd, direction) = awaited.expect("only what has a descriptor waits for it");
                match self.watch.wait(slots, index, fd, direction) {
                    Ok(()) => {
                        if connects {
                            self.watch.connects(fd);
                        }
                        None
                    }
                    // A connect is under way all the same. When it is tried again, the call says whether it still is,
                    // or how it ended.
                    Err(errno) if is_want_of_room(errno) => {
                        if self.watch.queues.aside() == 0 {
                            self.retry.at = self.now + self.retry.delay;
                        }
                        self.watch.queues.put_aside(slots, index);
                        None
                    }
                    Err(errno) => raw(Err(errno), None),
                }
            }
        }
    }

    /// It will be leaked, and everything was cancelled. Descriptors that were to be closed, or that were opened for
    /// nobody, are closed, but for those on which the blocking pool still works: their numbers must not become other
    /// files' before it has ended.
    pub(crate) fn abandon(&mut self, slots: &mut Slots) {
        // Closes that waited for the last job go on in the turn after.
        let mut told = true;
        while told && self.enter(Wait::No, slots).is_ok() {
            told = false;
            while let Some(raw) = self.next(slots) {
                told = true;
                if let (Some(Slot { op: Op::Open { .. }, .. }), Ok(fd)) = (slots.get(raw.key), raw.result) {
                    let _closed = sys::close(Number::from_raw(fd as i32));
                }
            }
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.files.has_ready() || self.watch.has_ready()
    }

    pub(crate) fn is_short_of_buffers(&self) -> bool {
        self.watch.queues.has_receives() && self.scratch.is_used_up()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.scratch.shelf.bytes() + self.events_bytes
    }

    pub(crate) fn enobufs_total(&self) -> u64 {
        0
    }
}

/// When operations for whose waiting there was no room are tried again: the later, the more often it was in vain.
struct Retry {
    at: Instant,
    /// [`RETRY_DELAY_MIN`] to [`RETRY_DELAY_MAX`].
    delay: Duration,
    /// How many were tried last.
    tried: usize,
}

impl Retry {
    const fn new() -> Self {
        Self { at: Instant::from_nanos(0), delay: RETRY_DELAY_MIN, tried: 0 }
    }

    /// Whether the operations that wait for this, so many, are tried now.
    fn is_due(&mut self, now: Instant, aside: usize) -> bool {
        if aside == 0 {
            *self = Self::new();
        }
        if aside == 0 || now < self.at {
            return false;
        }
        let found_room = aside < self.tried;
        self.delay = if found_room { RETRY_DELAY_MIN } else { (2 * self.delay).min(RETRY_DELAY_MAX) };
        self.tried = aside;
        true
    }
}

/// The one buffer that receives go to.
struct Scratch {
    shelf: Rc<Shelf>,
    /// Everything lent lies before it.
    cursor: usize,
}

impl Scratch {
    /// How much the next receive may bring; `None` while too little is free.
    fn room(&mut self) -> Option<usize> {
        if self.shelf.lent(0) == 0 {
            self.cursor = 0;
        }
        let free = RECEIVE_BUFFER_BYTES - self.cursor;
        (free >= SCRATCH_BYTES_MIN).then_some(free.min(RECEIVE_BYTES_MAX))
    }

    /// Whether there is no room until everything lent has come back.
    fn is_used_up(&self) -> bool {
        self.shelf.lent(0) > 0 && RECEIVE_BUFFER_BYTES - self.cursor < SCRATCH_BYTES_MIN
    }
}

/// The descriptor that an operation may have to wait on, and for what.
fn awaited(op: &Op<'static>) -> Option<(Number, Direction)> {
    match op {
        Op::Accept { listener: fd } | Op::Receive { fd } | Op::ReceiveInto { fd, .. } => Some((*fd, Direction::Read)),
        Op::Close { fd } => Some((fd.number(), Direction::Read)),
        Op::Send { fd, .. } | Op::Connect { fd, .. } => Some((*fd, Direction::Write)),
        Op::Poll { fd, .. } => Some((*fd, Direction::Either)),
        Op::Shutdown { .. }
        | Op::Open { .. }
        | Op::Stat { .. }
        | Op::ReadAt { .. }
        | Op::WriteAt { .. }
        | Op::Fsync { .. } => None,
    }
}

/// Whether an operation has no place to wait in: the line is reached, the kernel's memory, or the user's share of
/// epoll's (epoll(7): `max_user_watches`). That is no fault of the connection.
fn is_want_of_room(errno: Errno) -> bool {
    matches!(errno, Errno(libc::ENOMEM | libc::ENOSPC))
}

/// A receive into less would cut most messages in two.
const SCRATCH_BYTES_MIN: usize = 4 * 1024;

/// After how long an operation that found no memory to wait in is tried again, at first and at most.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(100);

/// No descriptor has this number.
const DOORBELL: Token = Token(usize::MAX);
