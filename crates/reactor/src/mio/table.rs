//! What the driver remembers per descriptor: who waits, and the readiness that an edge told of and nobody has used up.
//!
//! An entry is [`ENTRY_BYTES`] long:
//!
//! ```text
//!   word 0: 24 bits first waiter to read   | 8 bits flags
//!   word 1: 24 bits first waiter to write  | 8 bits file jobs, high half
//!   word 2: 24 bits first poll             | 8 bits file jobs, low half
//! ```
//!
//! Waiters are slot indexes plus one, so that zeroed memory is a table of vacant entries.
#![forbid(unsafe_code)]

use plimsoll_pool::{OverBudget, Pool};

use super::list::Waiters;
use crate::descriptors::Descriptors;
use crate::fd::Number;

/// Bytes of an entry: what an open descriptor costs on this driver, beside its operation slot.
pub(super) const ENTRY_BYTES: usize = 12;

const _: () = assert!(ENTRY_BYTES == 3 * size_of::<u32>());

/// Readiness and duties of a descriptor, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// epoll knows the descriptor.
    pub(super) const REGISTERED: Self = Self(1);
    /// There may be something to receive or accept: told by an edge, and not used up since.
    pub(super) const READABLE: Self = Self(2);
    /// The peer's half has ended, or there is an error: a receive will see it, and no further edge tells of it. Or
    /// there is an urgent byte, at which receives stop: an edge has told of what is behind it.
    pub(super) const ENDED: Self = Self(4);
    /// A connect is on its way.
    pub(super) const CONNECTING: Self = Self(8);
    /// To be closed when the last file job on it is done.
    pub(super) const CLOSING: Self = Self(16);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// What is known of one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) flags: Flags,
    /// Accepts and receives that wait for readability, and closes that wait for file jobs.
    pub(super) readers: Waiters,
    /// Sends and connects that wait for writability.
    pub(super) writers: Waiters,
    pub(super) polls: Waiters,
    /// File operations of this descriptor that are with the blocking pool or wait for it.
    pub(super) jobs: u16,
}

impl Entry {
    fn to_words(self) -> [u32; 3] {
        let pack = |waiters: Waiters, byte: u8| waiters.0.map_or(0, |index| index + 1) | u32::from(byte) << 24;
        let [high, low] = self.jobs.to_be_bytes();
        [pack(self.readers, self.flags.0), pack(self.writers, high), pack(self.polls, low)]
    }

    fn from_words(words: [u32; 3]) -> Self {
        let waiters = |word: u32| Waiters((word & 0xff_ffff).checked_sub(1));
        let byte = |word: u32| (word >> 24) as u8;
        let [readers, writers, polls] = words;
        Self {
            flags: Flags(byte(readers)),
            readers: waiters(readers),
            writers: waiters(writers),
            polls: waiters(polls),
            jobs: u16::from_be_bytes([byte(writers), byte(polls)]),
        }
    }
}

/// The table.
pub(super) struct Table(Descriptors<3>);

impl Table {
    pub(super) fn new(pool: &Pool) -> Self {
        Self(Descriptors::new(pool))
    }

    /// What is known of a descriptor; the vacant entry if nothing is.
    pub(super) fn get(&self, fd: Number) -> Entry {
        Entry::from_words(self.0.get(fd))
    }

    /// Makes sure that [`set`](Self::set) has room for the descriptor.
    pub(super) fn reserve(&mut self, fd: Number) -> Result<(), OverBudget> {
        self.0.reserve(fd)
    }

    /// Remembers an entry.
    ///
    /// # Panics
    ///
    /// When the entry is not vacant and its room was not reserved.
    pub(super) fn set(&mut self, fd: Number, entry: Entry) {
        self.0.set(fd, entry.to_words());
    }

    #[cfg(test)]
    pub(super) fn pages_held(&self) -> usize {
        self.0.pages_held()
    }
}
