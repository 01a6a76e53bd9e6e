//! Who waits for which readiness, and what epoll has told.
//!
//! A descriptor is registered once, edge-triggered for reading and writing, when something first has to wait on it.
//! Registering reports the readiness of that moment as a first edge, so a call that would have blocked just before is
//! never forgotten. From then on an edge comes for everything that arrives, at the first wait after it arrived, also
//! for what arrived while an earlier edge was being dealt with. Hence:
//!
//! * after a call said `EAGAIN`, waiting for the next edge is right, whenever that call was made;
//! * an edge that came while nobody waited is not repeated: [`Flags::READABLE`] remembers it until a call has used it
//!   up. Writing needs no such memory, because a send is always tried before it waits.
//!
//! Closing a descriptor makes epoll forget it, with two consequences. Events are dealt with as soon as epoll hands them
//! over, before any descriptor can be closed, so an event never meets a later descriptor of the same number. And if a
//! copy of the descriptor is open elsewhere (a forked process), epoll does not forget and its edges go to whoever has
//! the number now: that costs them a call in vain, no more, because readiness is a hint here and every call may answer
//! `EAGAIN`. So there is no call to unregister.
//!
//! What is remembered of a number is dropped when this driver closes it and when the system hands it out to this
//! driver. So a descriptor may be handed to another driver only before anything has waited on it here.
#![forbid(unsafe_code)]

use ::mio::event::Event;
use ::mio::unix::SourceFd;
use ::mio::{Interest, Poll, Token};
use plimsoll_pool::Pool;

use super::list::Waiters;
use super::queues::Queues;
use super::table::{Entry, Flags, Table};
use crate::fd::Number;
use crate::op::Errno;
use crate::slots::Slots;

/// What an operation waits for on its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
    Either,
}

/// Descriptors, waiting operations, and those that may go on.
pub(super) struct Watch {
    poll: Poll,
    pub(super) table: Table,
    pub(super) queues: Queues,
    /// Operations that waited on descriptors that were closed behind the driver's back.
    abandoned: Vec<Waiters>,
    /// As if the user had no more watches.
    #[cfg(test)]
    pub(super) is_full: bool,
    /// How often that was said.
    #[cfg(test)]
    pub(super) refusals: u32,
}

impl Watch {
    pub(super) fn new(poll: Poll, pool: &Pool) -> Self {
        Self {
            poll,
            table: Table::new(pool),
            queues: Queues::default(),
            abandoned: Vec::new(),
            #[cfg(test)]
            is_full: false,
            #[cfg(test)]
            refusals: 0,
        }
    }

    pub(super) fn poll_mut(&mut self) -> &mut Poll {
        &mut self.poll
    }

    /// Has an operation wait that is in no list.
    pub(super) fn wait(
        &mut self,
        slots: &mut Slots,
        index: u32,
        fd: Number,
        direction: Direction,
    ) -> Result<(), Errno> {
        let mut entry = self.register(fd)?;
        let is_readable = entry.flags.has(Flags::READABLE);
        debug_assert!(direction != Direction::Read || !is_readable, "what an edge told of is used up before the next");
        self.push_waiter(slots, index, fd, direction, &mut entry);
        Ok(())
    }

    /// Has a close wait for the file jobs of its descriptor.
    pub(super) fn wait_for_jobs(&mut self, slots: &mut Slots, index: u32, fd: Number) {
        let mut entry = self.table.get(fd);
        assert!(entry.jobs > 0, "something to wait for");
        self.push_waiter(slots, index, fd, Direction::Read, &mut entry);
    }

    fn push_waiter(&mut self, slots: &mut Slots, index: u32, fd: Number, direction: Direction, entry: &mut Entry) {
        let waiters = match direction {
            Direction::Read => &mut entry.readers,
            Direction::Write => &mut entry.writers,
            Direction::Either => &mut entry.polls,
        };
        waiters.push(slots, index);
        self.table.set(fd, *entry);
    }

    /// Makes sure that edges of the descriptor are told.
    fn register(&mut self, fd: Number) -> Result<Entry, Errno> {
        let mut entry = self.table.get(fd);
        if entry.flags.has(Flags::REGISTERED) {
            return Ok(entry);
        }
        self.table.reserve(fd).map_err(|_| Errno(libc::ENOMEM))?;
        let raw = fd.raw();
        let mut source = SourceFd(&raw);
        let registry = self.poll.registry();
        let token = Token(raw as usize);
        let interest = Interest::READABLE.add(Interest::WRITABLE).add(Interest::PRIORITY);
        #[cfg(test)]
        if self.is_full {
            self.refusals += 1;
            self.table.set(fd, entry);
            return Err(Errno(libc::ENOSPC));
        }
        let registered = registry.register(&mut source, token, interest).or_else(|error| match Errno::from(error) {
            // Known from before its entry was cleared: once more, for the first edge.
            Errno(libc::EEXIST) => registry.reregister(&mut source, token, interest).map_err(Errno::from),
            errno => Err(errno),
        });
        if let Err(errno) = registered {
            // Gives the page back, if it is of no use.
            self.table.set(fd, entry);
            return Err(errno);
        }
        entry.flags = entry.flags.with(Flags::REGISTERED);
        self.table.set(fd, entry);
        Ok(entry)
    }

    /// Remembers what an event tells, and lets those go on who waited for it.
    pub(super) fn wake(&mut self, slots: &mut Slots, event: &Event) {
        let fd = Number::from_raw(event.token().0 as i32);
        let mut entry = self.table.get(fd);
        if !entry.flags.has(Flags::REGISTERED) {
            return;
        }
        let ended = event.is_read_closed() || event.is_error() || event.is_priority();
        if ended {
            entry.flags = entry.flags.with(Flags::ENDED);
        }
        if event.is_readable() || ended {
            entry.flags = entry.flags.with(Flags::READABLE);
            while let Some(index) = entry.readers.pop(slots) {
                self.queues.ready(slots, index);
            }
        }
        if event.is_writable() || event.is_write_closed() || event.is_error() {
            while let Some(index) = entry.writers.pop(slots) {
                self.queues.ready(slots, index);
            }
        }
        while let Some(index) = entry.polls.pop(slots) {
            self.queues.ready(slots, index);
        }
        self.table.set(fd, entry);
    }

    /// Whether an edge told of something to receive that nobody has used up.
    pub(super) fn is_readable(&self, fd: Number) -> bool {
        self.table.get(fd).flags.has(Flags::READABLE)
    }

    /// Remembers what a receive into so much room tells about the next one.
    pub(super) fn tried(&mut self, fd: Number, received: Result<usize, Errno>, room: usize) {
        debug_assert!(room > 0);
        match received {
            Err(Errno(libc::EAGAIN)) => self.used_up(fd),
            // After the end of the stream every receive sees the end again; no edge will tell.
            Ok(bytes) if bytes > 0 && bytes < room => self.cut_short(fd),
            _ => {}
        }
    }

    /// A receive or accept has found nothing more.
    pub(super) fn used_up(&mut self, fd: Number) {
        self.clear(fd, Flags::READABLE.with(Flags::ENDED));
    }

    /// A receive brought less than there was room for: there is nothing more, unless the end is there, of which no edge
    /// will tell again.
    fn cut_short(&mut self, fd: Number) {
        if !self.table.get(fd).flags.has(Flags::ENDED) {
            self.clear(fd, Flags::READABLE);
        }
    }

    /// A connect waits: its next try asks how it ended.
    pub(super) fn connects(&mut self, fd: Number) {
        let entry = self.table.get(fd);
        self.table.set(fd, Entry { flags: entry.flags.with(Flags::CONNECTING), ..entry });
    }

    pub(super) fn clear(&mut self, fd: Number, flags: Flags) {
        let entry = self.table.get(fd);
        self.table.set(fd, Entry { flags: entry.flags.without(flags), ..entry });
    }

    /// Ends an operation whose cancellation was asked for, if it waits on its descriptor.
    pub(super) fn cancel(&mut self, slots: &mut Slots, index: u32, fd: Number, direction: Direction) {
        let mut entry = self.table.get(fd);
        let waiters = match direction {
            Direction::Read => &mut entry.readers,
            Direction::Write => &mut entry.writers,
            Direction::Either => &mut entry.polls,
        };
        if waiters.remove(slots, index) {
            self.table.set(fd, entry);
            self.queues.end(slots, index);
        }
    }

    /// A descriptor is about to be closed: what waits on it, or is queued for it, ends.
    pub(super) fn closes(&mut self, slots: &mut Slots, fd: Number) {
        self.queues.closes(slots, fd);
        let entry = self.table.get(fd);
        if entry == Entry::default() {
            return;
        }
        let vacant = Waiters::default();
        for mut waiters in [entry.readers, entry.writers, entry.polls] {
            while let Some(index) = waiters.pop(slots) {
                self.queues.end(slots, index);
            }
        }
        self.table.set(fd, Entry { readers: vacant, writers: vacant, polls: vacant, ..entry });
    }

    /// Forgets what is known of a descriptor number that is free, or that the system has just handed out. Operations
    /// that still wait on it will be cancelled: their owner should have done that.
    pub(super) fn forget(&mut self, fd: Number) {
        let entry = self.table.get(fd);
        if entry == Entry::default() {
            return;
        }
        let waiters = [entry.readers, entry.writers, entry.polls];
        self.abandoned.extend(waiters.into_iter().filter(|waiters| *waiters != Waiters::default()));
        self.table.set(fd, Entry { jobs: entry.jobs, ..Entry::default() });
    }

    /// Whether operations go on without an edge.
    pub(super) fn has_ready(&self) -> bool {
        self.queues.has_ready() || !self.abandoned.is_empty()
    }

    /// Cancels the operations that waited on descriptors that are gone.
    pub(super) fn cancel_abandoned(&mut self, slots: &mut Slots) {
        while let Some(mut waiters) = self.abandoned.pop() {
            while let Some(index) = waiters.pop(slots) {
                self.queues.end(slots, index);
            }
        }
    }
}
