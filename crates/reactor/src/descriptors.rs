//! A table by descriptor number: what a driver remembers per descriptor.
//!
//! In pages of the pool that are charged, opened when a first descriptor of theirs comes into use and given back when
//! the last one goes. A record is a few words long; all zeros is the vacant one.
#![forbid(unsafe_code)]

use plimsoll_pool::{Charge, Kind, Lease, OverBudget, Pool};
use plimsoll_slab::CHUNK_BYTES;

use crate::fd::Number;

/// Words of a record, as the table keeps them.
pub(crate) type Record<const WORDS: usize> = [u32; WORDS];

/// The table.
pub(crate) struct Descriptors<const WORDS: usize> {
    pool: Pool,
    pages: Vec<Page>,
    /// For the memory of `pages`.
    directory_charge: Option<Charge>,
}

#[derive(Default)]
struct Page {
    /// Initialised all over while it is there.
    memory: Option<Lease>,
    /// Records that are not vacant.
    used: u16,
}

impl<const WORDS: usize> Descriptors<WORDS> {
    const RECORD_BYTES: usize = WORDS * size_of::<u32>();
    const RECORDS_PER_PAGE: usize = CHUNK_BYTES / Self::RECORD_BYTES;
    const VACANT: Record<WORDS> = [0; WORDS];

    pub(crate) fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), pages: Vec::new(), directory_charge: None }
    }

    /// What is known of a descriptor; the vacant record if nothing is.
    pub(crate) fn get(&self, fd: Number) -> Record<WORDS> {
        let (page, at) = Self::place(fd);
        let Some(memory) = self.pages.get(page).and_then(|page| page.memory.as_ref()) else { return Self::VACANT };
        words(&memory[at..at + Self::RECORD_BYTES])
    }

    /// Makes sure that [`set`](Self::set) has room for the descriptor.
    ///
    /// # Panics
    ///
    /// When it is a simulated one.
    pub(crate) fn reserve(&mut self, fd: Number) -> Result<(), OverBudget> {
        assert!(fd.raw() >= 0, "a descriptor of a simulated kernel, in use with a driver of the real one");
        let (page, _) = Self::place(fd);
        if page >= self.pages.len() {
            self.grow_directory(page + 1)?;
        }
        if self.pages[page].memory.is_none() {
            let mut memory = self.pool.try_acquire(CHUNK_BYTES, Kind::Slots)?;
            while memory.len() < CHUNK_BYTES {
                let taken = memory.extend(&[0; 512]);
                assert!(taken > 0, "the page class is a page long");
            }
            self.pages[page] = Page { memory: Some(memory), used: 0 };
        }
        Ok(())
    }

    /// Remembers a record; gives its page back if nothing in it is remembered any more.
    ///
    /// # Panics
    ///
    /// When the record is not vacant and its room was not reserved.
    pub(crate) fn set(&mut self, fd: Number, record: Record<WORDS>) {
        let (page, at) = Self::place(fd);
        let Some(Page { memory: Some(memory), used }) = self.pages.get_mut(page) else {
            assert_eq!(record, Self::VACANT, "room was reserved");
            return;
        };
        let room = &mut memory.as_mut_slice()[at..at + Self::RECORD_BYTES];
        let before = words(room) != Self::VACANT;
        let after = record != Self::VACANT;
        for (bytes, word) in room.chunks_exact_mut(size_of::<u32>()).zip(record) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        match (before, after) {
            (false, true) => *used += 1,
            (true, false) => *used -= 1,
            _ => {}
        }
        debug_assert!(usize::from(*used) <= Self::RECORDS_PER_PAGE);
        if *used == 0 {
            self.pages[page] = Page::default();
        }
    }

    #[cfg(test)]
    pub(crate) fn pages_held(&self) -> usize {
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

    /// Which page, and where in it.
    fn place(fd: Number) -> (usize, usize) {
        let number = fd.raw() as usize;
        (number / Self::RECORDS_PER_PAGE, number % Self::RECORDS_PER_PAGE * Self::RECORD_BYTES)
    }
}

fn words<const WORDS: usize>(bytes: &[u8]) -> Record<WORDS> {
    let word = |at: usize| u32::from_ne_bytes(*bytes[4 * at..].first_chunk().expect("a record is so many words"));
    core::array::from_fn(word)
}
