//! What the driver remembers per descriptor: who waits, and the readiness that an edge told of and nobody has used up.
//!
//! The table is indexed by descriptor number, in pages of the pool that are charged, opened when a first descriptor of
//! theirs comes into use and given back when the last one goes. An entry is [`ENTRY_BYTES`] long:
//!
//! ```text
//!   word 0: 24 bits first waiter to read   | 8 bits flags
//!   word 1: 24 bits first waiter to write  | 8 bits file jobs, high half
//!   word 2: 24 bits first poll             | 8 bits file jobs, low half
//! ```
//!
//! Waiters are slot indexes plus one, so that zeroed memory is a table of vacant entries.
#![forbid(unsafe_code)]

use plimsoll_pool::{Charge, Kind, Lease, OverBudget, Pool};

use super::list::Waiters;
use crate::Fd;

/// Bytes of an entry: what an open descriptor costs on this driver, beside its operation slot.
pub(super) const ENTRY_BYTES: usize = 12;

const _: () = assert!(ENTRY_BYTES == 3 * size_of::<u32>());

const PAGE_BYTES: usize = 4_096;
const ENTRIES_PER_PAGE: usize = PAGE_BYTES / ENTRY_BYTES;

/// Readiness and duties of a descriptor, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// epoll knows the descriptor.
    pub(super) const REGISTERED: Self = Self(1);
    /// There may be something to receive or accept: told by an edge, and not used up since.
    pub(super) const READABLE: Self = Self(2);
    /// The peer's half has ended, or there is an error: a receive will see it, and no further edge tells of it.
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
pub(super) struct Table {
    pool: Pool,
    pages: Vec<Page>,
    /// For the memory of `pages`.
    directory_charge: Option<Charge>,
}

#[derive(Default)]
struct Page {
    /// Initialised all over while it is there.
    memory: Option<Lease>,
    /// Entries that are not vacant.
    used: u16,
}

impl Table {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), pages: Vec::new(), directory_charge: None }
    }

    /// What is known of a descriptor; the vacant entry if nothing is.
    pub(super) fn get(&self, fd: Fd) -> Entry {
        let (page, at) = place(fd);
        let Some(memory) = self.pages.get(page).and_then(|page| page.memory.as_ref()) else { return Entry::default() };
        Entry::from_words(words(&memory[at..at + ENTRY_BYTES]))
    }

    /// Makes sure that [`set`](Self::set) has room for the descriptor.
    pub(super) fn reserve(&mut self, fd: Fd) -> Result<(), OverBudget> {
        let (page, _) = place(fd);
        if page >= self.pages.len() {
            self.grow_directory(page + 1)?;
        }
        if self.pages[page].memory.is_none() {
            let mut memory = self.pool.try_acquire(PAGE_BYTES, Kind::Slots)?;
            while memory.len() < PAGE_BYTES {
                let taken = memory.extend(&[0; 512]);
                assert!(taken > 0, "the page class is a page long");
            }
            self.pages[page] = Page { memory: Some(memory), used: 0 };
        }
        Ok(())
    }

    /// Remembers an entry; gives its page back if nothing in it is remembered any more.
    ///
    /// # Panics
    ///
    /// When the entry is not vacant and its room was not reserved.
    pub(super) fn set(&mut self, fd: Fd, entry: Entry) {
        let (page, at) = place(fd);
        let Some(Page { memory: Some(memory), used }) = self.pages.get_mut(page) else {
            assert_eq!(entry, Entry::default(), "room was reserved");
            return;
        };
        let room = &mut memory.as_mut_slice()[at..at + ENTRY_BYTES];
        let before = Entry::from_words(words(room)) != Entry::default();
        let after = entry != Entry::default();
        for (bytes, word) in room.chunks_exact_mut(4).zip(entry.to_words()) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        match (before, after) {
            (false, true) => *used += 1,
            (true, false) => *used -= 1,
            _ => {}
        }
        debug_assert!(usize::from(*used) <= ENTRIES_PER_PAGE);
        if *used == 0 {
            self.pages[page] = Page::default();
        }
    }

    #[cfg(test)]
    pub(super) fn pages_held(&self) -> usize {
        self.pages.iter().filter(|page| page.memory.is_some()).count()
    }

    fn grow_directory(&mut self, len: usize) -> Result<(), OverBudget> {
        if len > self.pages.capacity() {
            let capacity = len.next_power_of_two();
            let bytes = (capacity * size_of::<Page>()) as u64;
            // The old directory is charged until the new one has replaced it.
            let charge = self.pool.budget().charge(Kind::Slots, bytes)?;
            self.pages.reserve_exact(capacity - self.pages.len());
            self.directory_charge = Some(charge);
        }
        self.pages.resize_with(len, Page::default);
        Ok(())
    }
}

/// Which page, and where in it.
fn place(fd: Fd) -> (usize, usize) {
    let number = fd.raw() as usize;
    (number / ENTRIES_PER_PAGE, number % ENTRIES_PER_PAGE * ENTRY_BYTES)
}

fn words(bytes: &[u8]) -> [u32; 3] {
    let word = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("an entry is three words"));
    [word(0), word(4), word(8)]
}
