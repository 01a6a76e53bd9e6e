//! A table of values that are named by index and generation, in pages of the pool.
//!
//! Every page is charged before it is touched, and so is the directory of pages. Nothing moves when the table grows. A table without values
//! keeps one page. A key is stale as soon as its value is gone.
#![forbid(unsafe_code)]

use crate::boxed::PoolBox;
use crate::budget::Charge;
use crate::class::PAGE_BYTES;
use crate::error::OverBudget;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::pool::Pool;

/// Names a value of a [`Table`]: 8 bytes. A key of a value that is gone names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) index: u32,
    /// Odd for live values.
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    /// Of the list of free entries.
    next_free: u32,
    value: Option<T>,
}

/// `PER_PAGE` entries must fit into a page.
#[derive(Debug)]
pub(crate) struct Table<T, const PER_PAGE: usize> {
    pages: Vec<PoolBox<[Entry<T>; PER_PAGE]>>,
    /// For the room of `pages` itself.
    room: Option<Room>,
    first_free: u32,
    len: u32,
    len_max: u32,
    /// Entries of new pages begin with this generation: even, above that of every entry whose page is gone, as far as 32 bits go.
    epoch: u32,
}

const NONE: u32 = u32::MAX;
/// A table of so many pages charges for their names beside the pool.
const FEW_PAGES: usize = 64;

/// What stands for the memory of the names of pages.
#[derive(Debug)]
enum Room {
    Few {
        _charge: Charge,
    },
    /// A lease that nobody writes to: at the line a pool may find one in what it has, where a charge needs a part of the line that no worker
    /// holds.
    Many {
        _lease: Lease,
    },
}

impl<T, const PER_PAGE: usize> Table<T, PER_PAGE> {
    /// An empty table that takes no more than `len_max` values.
    pub(crate) const fn new(len_max: u32) -> Self {
        const { assert!(size_of::<[Entry<T>; PER_PAGE]>() <= PAGE_BYTES, "the entries of a page fit into a page") };
        Self { pages: Vec::new(), room: None, first_free: NONE, len: 0, len_max, epoch: 0 }
    }

    /// The same, with generations that begin elsewhere than at 0.
    #[cfg(test)]
    fn starting_at(len_max: u32, generation: u32) -> Self {
        debug_assert!(generation.is_multiple_of(2), "that of a free entry");
        Self { epoch: generation, ..Self::new(len_max) }
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Makes sure that one more value has room.
    ///
    /// # Errors
    ///
    /// At the line, and when the table is as full as it may be: `len_max` values, or 16,384 pages.
    pub(crate) fn make_room(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        if self.len >= self.len_max {
            return Err(OverBudget::new(PAGE_BYTES as u64));
        }
        if self.first_free != NONE {
            return Ok(());
        }
        if self.pages.len() == self.pages.capacity() {
            let (before, entry_bytes) = (self.pages.capacity(), size_of::<PoolBox<[Entry<T>; PER_PAGE]>>());
            let (capacity, room) = if before == 0 {
                let bytes = (FEW_PAGES * entry_bytes) as u64;
                (FEW_PAGES, Room::Few { _charge: pool.charge(Kind::Fixed, bytes)? })
            } else {
                let bytes = (2 * before * entry_bytes).max(PAGE_BYTES);
                (bytes / entry_bytes, Room::Many { _lease: pool.try_acquire(bytes, Kind::Fixed)? })
            };
            self.pages.reserve_exact(capacity - self.pages.len());
            // The room before it was there until now, as its entries were copied.
            self.room = Some(room);
        }
        let (first, epoch) = ((self.pages.len() * PER_PAGE) as u32, self.epoch);
        let entries = core::array::from_fn(|at| {
            let next_free = if at + 1 < PER_PAGE { first + at as u32 + 1 } else { NONE };
            Entry { generation: epoch, next_free, value: None }
        });
        let page = pool.try_boxed(entries, Kind::Fixed).map_err(|(over, _)| over)?;
        self.pages.push(page);
        self.first_free = first;
        Ok(())
    }

    /// Adds a value for which there is room.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let index = self.first_free;
        assert!(index != NONE, "room was made before");
        let entry = self.entry_mut(index);
        debug_assert!(entry.value.is_none() && entry.generation.is_multiple_of(2));
        entry.generation = entry.generation.wrapping_add(1);
        entry.value = Some(value);
        let key = Key { index, generation: entry.generation };
        self.first_free = entry.next_free;
        self.len += 1;
        key
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entry(key.index)?;
        if entry.generation == key.generation { entry.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.get(key)?;
        self.entry_mut(key.index).value.as_mut()
    }

    /// The value at an index that is known to be live.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &T {
        let entry = self.entry(index).and_then(|entry| entry.value.as_ref());
        entry.expect("links lead to live values")
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        self.entry_mut(index).value.as_mut().expect("links lead to live values")
    }

    /// The key of a live value.
    pub(crate) fn key_at(&self, index: u32) -> Key {
        let generation = self.entry(index).map_or(0, |entry| entry.generation);
        debug_assert!(!generation.is_multiple_of(2), "it is live");
        Key { index, generation }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let first_free = self.first_free;
        let entry = self.entry_mut(key.index);
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = first_free;
        let value = entry.value.take();
        self.first_free = key.index;
        self.len -= 1;
        if self.len == 0 && self.pages.len() > 1 {
            self.keep_one_page();
        }
        value
    }

    /// Gives all pages but the first back.
    fn keep_one_page(&mut self) {
        debug_assert_eq!(self.len, 0);
        // From where their pages began: generations wrap. The page that stays goes on with its own.
        let gone = self.pages[1..].iter().flat_map(|page| page.iter());
        let used = gone.map(|entry| entry.generation.wrapping_sub(self.epoch)).max();
        self.epoch = self.epoch.wrapping_add(used.unwrap_or(0)).wrapping_add(2);
        self.pages.truncate(1);
        for (at, entry) in self.pages[0].iter_mut().enumerate() {
            entry.next_free = if at + 1 < PER_PAGE { at as u32 + 1 } else { NONE };
        }
        self.first_free = 0;
    }

    /// All values from an index on.
    pub(crate) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        let indices = first..(self.pages.len() * PER_PAGE) as u32;
        indices.filter_map(|index| Some((index, self.entry(index)?.value.as_ref()?)))
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        Some(&self.pages.get(index as usize / PER_PAGE)?[index as usize % PER_PAGE])
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.pages[index as usize / PER_PAGE][index as usize % PER_PAGE]
    }
}

#[cfg(test)]
mod tests;
