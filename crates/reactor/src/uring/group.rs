//! A group of provided buffers: the ring of entries that the kernel takes receive buffers from, and where each buffer
//! stands.
//!
//! ```text
//!   used up -- nothing lent from it, recycle --> published -- completion without "more" --> used up
//!                                                 |     ^
//!                                                 \-----/ completion with "more": the cursor moves behind its bytes
//! ```
//!
//! In an *incremental* group a buffer serves one receive after the other, back to back, until it is full; the kernel
//! moves the entry's address, we move a cursor, for every completion in order. In a *classic* group a buffer is used up
//! by one receive, so the shelf's buffers are cut into smaller ones.
//!
//! **I-GROUP**: the ring of entries and the buffers stay in place until the group is unregistered: the group owns the
//! lease of the one, and a share of the shelf that owns the others; it is unregistered before it is dropped, or leaked.
//!
//! **I-CURSOR**: the kernel writes to a published buffer only from the cursor on, and to a used-up one not at all.
//! [`Group::audit`] compares the cursors with the kernel's before anything is lent; a group that fails is leaked by its
//! owner. While the completion queue overflows, it does not show where the kernel is: the driver takes completions out
//! of it until all are to be seen, and a group that could not be compared is given up like one that failed.
//!
//! **I-RECYCLED**: a buffer is published only while nothing is lent from its part of the shelf.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};
use std::collections::VecDeque;
use std::rc::Rc;

use io_uring::{cqueue, types};
use plimsoll_pool::{Kind, Lease, Pool, page_bytes};

use super::ring::Ring;
use crate::received::{RECEIVE_BUFFER_BYTES, Shelf};
use crate::{Error, RECEIVE_BYTES_MAX, Received};

/// How receives share buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    Incremental,
    Classic,
}

/// A registered group of buffers.
pub(super) struct Group {
    shelf: Rc<Shelf>,
    /// The ring of entries: page-aligned, as long as there are buffers.
    page: Lease,
    entries: NonNull<Slot>,
    /// Its number with the kernel.
    id: u16,
    /// The number of its first buffer; the numbers of all groups of a ring are distinct.
    first: u16,
    sharing: Sharing,
    /// Entries published so far, wrapping.
    tail: u16,
    buffers: Box<[Buffer]>,
    used_up: u16,
}

/// `struct io_uring_buf`. In the first entry of a ring, `reserved` is the ring's tail.
#[repr(C)]
struct Slot {
    address: u64,
    len: u32,
    buffer: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Slot>() == 16 && align_of::<Slot>() == 8);

#[derive(Clone, Copy, Debug)]
struct Buffer {
    place: Place,
    /// What completions that nobody has looked at yet say about it.
    ahead: Ahead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// With the kernel, in an entry of the ring; filled up to `cursor`.
    Published { entry: u16, cursor: u32 },
    /// With us.
    UsedUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Filled(u32),
    UsedUp(u32),
}

/// Bytes that a completion brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    index: u16,
    at: u32,
    len: u32,
}

impl Span {
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// What [`Group::audit`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sound,
    /// The kernel has put bytes elsewhere than its completions say.
    Astray,
}

impl Group {
    /// Registers a group with all its buffers: `count` of [`RECEIVE_BUFFER_BYTES`], which a classic group cuts into
    /// pieces.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`]; [`Error::System`] when the kernel does not know such groups.
    pub(super) fn new(
        ring: &Ring,
        pool: &Pool,
        count: u16,
        sharing: Sharing,
        id: u16,
        first: u16,
    ) -> Result<Self, Error> {
        let shelf = Shelf::new(pool, count)?;
        let pieces = count * sharing.pieces();
        let mut page = pool.try_acquire((usize::from(pieces) * size_of::<Slot>()).max(page_bytes()), Kind::Rings)?;
        while page.spare_capacity() > 0 {
            page.extend(&[0; 512]);
        }
        let entries = NonNull::from(page.as_mut_slice()).cast::<Slot>();
        assert_eq!(entries.as_ptr().addr() % page_bytes(), 0, "classes from the page up are page-aligned");
        let buffer = Buffer { place: Place::UsedUp, ahead: Ahead::Filled(0) };
        let buffers = vec![buffer; usize::from(pieces)].into_boxed_slice();
        let mut group = Self { shelf, page, entries, id, first, sharing, tail: 0, buffers, used_up: pieces };
        // SAFETY: I-GROUP: page-aligned as asserted, as long as `pieces` entries, and owned by the group.
        unsafe { ring.register_group(entries.cast(), pieces, id, sharing.flags()) }
            .map_err(|errno| Error::system("io_uring_register (buffer ring)", errno))?;
        group.recycle();
        Ok(group)
    }

    pub(super) fn id(&self) -> u16 {
        self.id
    }

    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The number after its last buffer's.
    pub(super) fn end(&self) -> u16 {
        self.first + self.buffers.len() as u16
    }

    /// Bytes of its buffers and its ring of entries.
    pub(super) fn bytes(&self) -> u64 {
        self.shelf.bytes() + self.page.class().bytes() as u64
    }

    /// Publishes every used-up buffer that nothing is lent from.
    pub(super) fn recycle(&mut self) {
        if self.used_up == 0 {
            return;
        }
        let before = self.tail;
        for index in 0..self.buffers.len() as u16 {
            let free = self.shelf.lent(index / self.sharing.pieces()) == 0;
            if free && self.buffers[usize::from(index)].place == Place::UsedUp {
                self.publish(index);
            }
        }
        if self.tail != before {
            // SAFETY: I-GROUP: the tail lies in the first entry, and the kernel reads it while we write it: hence
            // atomic.
            let tail = unsafe { AtomicU16::from_ptr(&raw mut (*self.entries.as_ptr()).reserved) };
            tail.store(self.tail, Ordering::Release);
        }
    }

    /// Writes the entry of a buffer behind the tail; the kernel sees it once the tail is stored.
    fn publish(&mut self, index: u16) {
        let entry = self.tail & (self.buffers.len() as u16 - 1);
        let address = self.start(index).as_ptr().addr() as u64;
        let (len, number) = (self.sharing.piece_bytes() as u32, self.first + index);
        // SAFETY: I-GROUP: inside the ring of entries. The kernel does not look behind the tail, and no reference is
        // made. I-RECYCLED: the buffer is handed to a writer because nothing is lent from it, as the caller has
        // checked.
        unsafe {
            let slot = self.entries.as_ptr().add(usize::from(entry));
            (&raw mut (*slot).address).write_volatile(address);
            (&raw mut (*slot).len).write_volatile(len);
            (&raw mut (*slot).buffer).write_volatile(number);
        }
        self.buffers[usize::from(index)].place = Place::Published { entry, cursor: 0 };
        self.tail = self.tail.wrapping_add(1);
        self.used_up -= 1;
    }

    fn start(&self, index: u16) -> NonNull<u8> {
        let pieces = self.sharing.pieces();
        let offset = usize::from(index % pieces) * self.sharing.piece_bytes();
        // SAFETY: I-GROUP: the pieces of a buffer are inside it.
        unsafe { self.shelf.start(index / pieces).add(offset) }
    }

    /// How many receives find room for certain, the last perhaps for fewer bytes than it could take.
    pub(super) fn receives_that_fit(&self) -> usize {
        let fit = |buffer: &Buffer| match buffer.place {
            Place::Published { cursor, .. } => {
                (self.sharing.piece_bytes() - cursor as usize).div_ceil(RECEIVE_BYTES_MAX)
            }
            Place::UsedUp => 0,
        };
        self.buffers.iter().map(fit).sum()
    }

    /// Whether [`recycle`](Self::recycle) would publish nothing.
    pub(super) fn is_lent_out(&self) -> bool {
        let pieces = self.sharing.pieces();
        let is_lent = |(index, _): (usize, &Buffer)| self.shelf.lent(index as u16 / pieces) > 0;
        self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.place == Place::UsedUp).all(is_lent)
    }

    /// Books what a completion says: `len` bytes in the buffer with this number, which serves `more` receives or no
    /// other. `None` if that cannot be: the bytes are nowhere.
    pub(super) fn take(&mut self, number: u16, len: u32, more: bool) -> Option<Span> {
        let index = number.checked_sub(self.first).filter(|index| usize::from(*index) < self.buffers.len())?;
        let buffer = &mut self.buffers[usize::from(index)];
        let Place::Published { entry, cursor: at } = buffer.place else { return None };
        let cursor = at + len;
        if cursor as usize > self.sharing.piece_bytes() {
            return None;
        }
        buffer.place = if more && self.sharing == Sharing::Incremental {
            Place::Published { entry, cursor }
        } else {
            self.used_up += 1;
            Place::UsedUp
        };
        Some(Span { index, at, len })
    }

    /// Lends the bytes of a completion.
    pub(super) fn lend(&self, span: Span) -> Received {
        let pieces = self.sharing.pieces();
        let at = usize::from(span.index % pieces) * self.sharing.piece_bytes() + span.at as usize;
        // SAFETY: I-LENT of `received`: by I-CURSOR the kernel writes behind the span at most, and by I-RECYCLED no
        // earlier than when nothing is lent.
        unsafe { self.shelf.lend(span.index / pieces, at, span.len as usize) }
    }

    /// Looks over the completions that nobody has taken yet, first those in `spill`, then those in the queue: would the
    /// cursors, moved by all of them, be where the kernel is?
    ///
    /// They are not when a receive ran on a worker thread of the kernel. Our entries tell the kernel not to wait, so
    /// none should. Such a receive takes all the room it may fill before it knows how many bytes come, and everything
    /// behind it moves.
    pub(super) fn audit(&mut self, ring: &mut Ring, spill: &VecDeque<cqueue::Entry>) -> Verdict {
        if self.sharing == Sharing::Classic {
            return Verdict::Sound;
        }
        if ring.is_overflown() {
            return Verdict::Astray;
        }
        let (first, buffers) = (self.first, &mut self.buffers);
        let mut seen = 0_u32;
        let mut see = |completion: &cqueue::Entry| {
            let Some(number) = cqueue::buffer_select(completion.flags()) else { return };
            let index = usize::from(number.wrapping_sub(first));
            let Some(buffer) = buffers.get_mut(index) else { return };
            seen += 1;
            let bytes = completion.result().max(0) as u32;
            let (Ahead::Filled(before) | Ahead::UsedUp(before)) = buffer.ahead;
            let filled = before.saturating_add(bytes);
            let more = cqueue::buffer_more(completion.flags());
            buffer.ahead = if more { Ahead::Filled(filled) } else { Ahead::UsedUp(filled) };
        };
        spill.iter().for_each(&mut see);
        ring.peek(see);
        if seen == 0 {
            return Verdict::Sound;
        }
        let mut verdict = Verdict::Sound;
        for index in 0..self.buffers.len() {
            if !self.agrees(index) {
                verdict = Verdict::Astray;
            }
            self.buffers[index].ahead = Ahead::Filled(0);
        }
        verdict
    }

    /// Whether the kernel is where the completions in the queue take the cursor of a buffer.
    fn agrees(&self, index: usize) -> bool {
        let Buffer { place, ahead } = self.buffers[index];
        match (place, ahead) {
            (Place::UsedUp, ahead) => ahead == Ahead::Filled(0),
            (Place::Published { cursor, .. }, Ahead::UsedUp(bytes)) => {
                (cursor + bytes) as usize == RECEIVE_BUFFER_BYTES
            }
            (Place::Published { entry, cursor }, Ahead::Filled(bytes)) => {
                // SAFETY: I-GROUP: inside the ring of entries; the kernel may write it, hence volatile.
                let address =
                    unsafe { (&raw const (*self.entries.as_ptr().add(usize::from(entry))).address).read_volatile() };
                let start = self.start(index as u16).as_ptr().addr() as u64;
                address == start + u64::from(cursor + bytes)
            }
        }
    }

    /// Gives the memory up for good, because the kernel may still write to it; how many bytes.
    pub(super) fn leak(self) -> u64 {
        let bytes = self.bytes();
        core::mem::forget(self);
        bytes
    }
}

impl Sharing {
    /// Into how many buffers of the group one of the shelf is cut.
    const fn pieces(self) -> u16 {
        match self {
            Self::Incremental => 1,
            Self::Classic => (RECEIVE_BUFFER_BYTES / CLASSIC_BYTES) as u16,
        }
    }

    const fn piece_bytes(self) -> usize {
        RECEIVE_BUFFER_BYTES / self.pieces() as usize
    }

    const fn flags(self) -> u16 {
        match self {
            Self::Incremental => types::IOU_PBUF_RING_INC as u16,
            Self::Classic => 0,
        }
    }
}

/// What one receive of a classic group brings at most: little, so that a shelf serves many at a time.
const CLASSIC_BYTES: usize = 4_096;

const _: () = assert!(CLASSIC_BYTES <= RECEIVE_BYTES_MAX && RECEIVE_BUFFER_BYTES.is_multiple_of(CLASSIC_BYTES));
