//! Where the bytes of small receives come from: a buffer ring, or a scratch buffer that is filled when bytes are there.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::rc::Rc;

use io_uring::cqueue;
use plimsoll_pool::Pool;

use super::group::{Group, Sharing, Span, Verdict};
use super::ring::Ring;
use crate::fd::Number;
use crate::received::{RECEIVE_BUFFER_BYTES, Shelf};
use crate::{Errno, Error, RECEIVE_BYTES_MAX, ReceiveMode, Received, sys};

/// How this driver receives.
pub(super) enum Receiver {
    /// The kernel takes a buffer from the ring when bytes are there.
    Ring(Group),
    /// The kernel says when bytes are there, and we receive them.
    Poll(Scratch),
}

/// What came of a receive into the scratch buffer.
#[derive(Debug)]
pub(super) enum Scratched {
    /// As many as there was room for.
    Full(Received),
    /// Fewer than there was room for.
    Short(Received),
    EndOfFile,
    /// The bytes were gone.
    Nothing,
    /// Everything is lent.
    NoRoom,
}

impl Receiver {
    pub(super) fn new(mode: ReceiveMode, ring: &Ring, pool: &Pool, buffers: u16) -> Result<Self, Error> {
        let sharing = match mode {
            // Only where completions come while we enter can we tell whether the cursors are right.
            ReceiveMode::Incremental if ring.is_deferred() => Sharing::Incremental,
            ReceiveMode::Incremental | ReceiveMode::Classic => Sharing::Classic,
            ReceiveMode::Poll => return Ok(Self::Poll(Scratch::new(pool, buffers)?)),
        };
        Ok(Self::Ring(Group::new(ring, pool, buffers, sharing, 0, 0)?))
    }

    /// The buffer ring that receives draw from, if there is one.
    pub(super) fn group(&self) -> Option<u16> {
        match self {
            Self::Ring(group) => Some(group.id()),
            Self::Poll(_) => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Ring(group) => group.bytes(),
            Self::Poll(scratch) => scratch.shelf.as_ref().map_or(0, |shelf| shelf.bytes()),
        }
    }

    /// Makes every buffer available again that nothing is lent from.
    pub(super) fn recycle(&mut self, pool: &Pool) {
        match self {
            Self::Ring(group) => group.recycle(),
            Self::Poll(scratch) => scratch.recycle(pool),
        }
    }

    /// Whether there was no memory for any buffer: it asks again at each [`recycle`](Self::recycle).
    pub(super) fn is_without_memory(&self) -> bool {
        matches!(self, Self::Poll(Scratch { shelf: None, .. }))
    }

    /// Whether no receive can be started again until something that was lent comes back.
    pub(super) fn is_lent_out(&self) -> bool {
        match self {
            Self::Ring(group) => group.receives_that_fit() == 0 && group.is_lent_out(),
            Self::Poll(scratch) => scratch.receives_that_fit() == 0 && scratch.is_lent_out(),
        }
    }

    /// Whether receives share buffers, so that every completion has to be seen before one of them is believed.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Ring(group) if group.sharing() == Sharing::Incremental)
    }

    /// How many receives that wait for a buffer can be started again.
    pub(super) fn receives_that_fit(&self) -> usize {
        match self {
            Self::Ring(group) => group.receives_that_fit(),
            Self::Poll(scratch) => scratch.receives_that_fit(),
        }
    }

    /// Books what a completion says about a buffer. Every completion has to come by here, in order.
    pub(super) fn take(&mut self, completion: &cqueue::Entry) -> Taken {
        let flags = completion.flags();
        let Some(number) = cqueue::buffer_select(flags) else { return Taken::Nothing };
        let span = match self {
            Self::Ring(group) => group.take(number, completion.result().max(0) as u32, cqueue::buffer_more(flags)),
            Self::Poll(_) => None,
        };
        span.map_or(Taken::Lost, Taken::Bytes)
    }

    /// Checks the buffers against the completions that nobody has taken yet, those in `spill` and those in the queue; a
    /// group that fails is replaced by one whose receives do not share buffers, and what its receives have brought is
    /// lost.
    pub(super) fn audit(&mut self, ring: &mut Ring, spill: &VecDeque<cqueue::Entry>, pool: &Pool, buffers: u16) {
        let Self::Ring(group) = self else { return };
        if group.audit(ring, spill) == Verdict::Sound {
            return;
        }
        if let Err(errno) = ring.unregister_group(group.id()) {
            // Leaked below, it may stay where it is.
            tracing::error!(%errno, "the kernel does not give a group of buffers back");
        }
        let fresh = match Group::new(ring, pool, buffers, Sharing::Classic, group.id() + 1, group.end()) {
            Ok(group) => Self::Ring(group),
            Err(_) => Self::Poll(Scratch::new(pool, buffers).unwrap_or_else(|_| Scratch::without_memory())),
        };
        if let Self::Ring(astray) = core::mem::replace(self, fresh) {
            let leaked_bytes = astray.leak();
            tracing::error!(
                leaked_bytes,
                "the kernel received on a worker thread: incremental buffers are given up, some receives fail"
            );
        }
    }
}

/// What a completion says about the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It brought no bytes.
    Nothing,
    Bytes(Span),
    /// It brought bytes to buffers that were given up.
    Lost,
}

/// Buffers that the driver itself receives into, back to back.
pub(super) struct Scratch {
    /// `None` while there is no memory for one.
    shelf: Option<Rc<Shelf>>,
    /// The one that is being filled, up to `cursor`.
    buffer: u16,
    cursor: usize,
}

impl Scratch {
    fn new(pool: &Pool, buffers: u16) -> Result<Self, Error> {
        Ok(Self { shelf: Some(Shelf::new(pool, buffers)?), buffer: 0, cursor: 0 })
    }

    /// One whose receives are blocked until there is memory for a buffer.
    fn without_memory() -> Self {
        Self { shelf: None, buffer: 0, cursor: 0 }
    }

    fn recycle(&mut self, pool: &Pool) {
        match &self.shelf {
            Some(shelf) if shelf.lent(self.buffer) == 0 => self.cursor = 0,
            Some(_) => {}
            None => self.shelf = Shelf::new(pool, 1).ok(),
        }
    }

    fn receives_that_fit(&self) -> usize {
        let Some(shelf) = &self.shelf else { return 0 };
        let free = |buffer: &u16| *buffer != self.buffer && shelf.lent(*buffer) == 0;
        let others = (0..shelf.count()).filter(free).count();
        ((RECEIVE_BUFFER_BYTES - self.cursor) + others * RECEIVE_BUFFER_BYTES) / RECEIVE_BYTES_MAX
    }

    /// Whether the buffer that is being filled stays as it is at the next [`recycle`](Self::recycle).
    fn is_lent_out(&self) -> bool {
        self.shelf.as_ref().is_some_and(|shelf| shelf.lent(self.buffer) > 0)
    }

    /// Receives what is there.
    pub(super) fn receive(&mut self, fd: Number) -> Result<Scratched, Errno> {
        let Some(shelf) = &self.shelf else { return Ok(Scratched::NoRoom) };
        if RECEIVE_BUFFER_BYTES - self.cursor < SCRATCH_BYTES_MIN {
            let Some(free) = (0..shelf.count()).find(|buffer| shelf.lent(*buffer) == 0) else {
                return Ok(Scratched::NoRoom);
            };
            (self.buffer, self.cursor) = (free, 0);
        }
        let room_bytes = RECEIVE_BYTES_MAX.min(RECEIVE_BUFFER_BYTES - self.cursor);
        let received = shelf.fill(self.buffer, self.cursor, room_bytes, |room| sys::receive(fd, room));
        match received {
            Ok(Some(bytes)) => {
                self.cursor += bytes.len();
                debug_assert!(self.cursor <= RECEIVE_BUFFER_BYTES);
                let is_full = bytes.len() == room_bytes;
                Ok(if is_full { Scratched::Full(bytes) } else { Scratched::Short(bytes) })
            }
            Ok(None) => Ok(Scratched::EndOfFile),
            Err(Errno(libc::EAGAIN)) => Ok(Scratched::Nothing),
            Err(errno) => Err(errno),
        }
    }
}

/// A receive into less room is not worth its call.
const SCRATCH_BYTES_MIN: usize = 4_096;
