//! The slab: a directory of chunks and which of their cells are free.
//!
//! Three sets of chunk numbers make every operation short, however many chunks there are:
//!
//! ```text
//!            push                        first insertion              last free cell taken
//!  (nothing) ----> empty, with room  -----------------> with room  --------------------> full
//!                    |     ^   ^                          |    ^                          |
//!     release_empty  |     |   +--------------------------+    +--------------------------+
//!                    v     |          last removal                   first removal
//!                   hole --+
//!                     grow
//! ```
//!
//! A hole keeps its directory entry, because the counter of generations in it must outlive the chunk.

#![forbid(unsafe_code)]

use core::fmt;

use crate::chunk::{Cells, Chunk, HeapChunk, VACANT};
use crate::key::{GENERATION_START, Key, next_generation};
use crate::set::Set;

/// A table of values in chunks that the caller provides, addressed by [`Key`]s.
///
/// Insertion, lookup and removal are O(1), growing and releasing too. See the [crate] for the layout and an example.
///
/// A slab that is dropped drops its values and its chunks.
pub struct Slab<T, C: Chunk = HeapChunk> {
    directory: Vec<Entry<T, C>>,
    /// Chunks with a free cell.
    room: Set,
    /// Chunks without a live value.
    empty: Set,
    /// Directory entries without a chunk.
    holes: Set,
    /// Live values, at most the capacity.
    len: u32,
    /// The directory never gets longer.
    chunks_max: u32,
}

/// What the directory knows of one chunk.
struct Entry<T, C: Chunk> {
    /// `None`: a hole.
    cells: Option<Cells<T, C>>,
    /// A bit for each free cell; low word first. All clear in a hole.
    free: [u64; 2],
    /// The generation last given out in this chunk: odd, 24 bits. It outlives the chunk.
    generation: u32,
}

impl<T, C: Chunk> Slab<T, C> {
    /// Values that one chunk holds: as many as fit in it with a generation of 4 bytes each, up to 128.
    ///
    /// A type of which fewer than 4 fit, or with an alignment above 64 bytes, does not compile.
    pub const ENTRIES_PER_CHUNK: u32 = Cells::<T, C>::COUNT as u32;

    /// Heap bytes that the directory takes for one chunk, rounded up: the entry, and three bits in sets.
    pub const DIRECTORY_BYTES_PER_CHUNK: usize = size_of::<Entry<T, C>>() + 1;

    /// A slab without chunks, that will take at most `chunks_max`. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If `chunks_max` chunks have more than `u32::MAX` entries.
    ///
    /// ```
    /// use plimsoll_slab::Slab;
    ///
    /// let slab: Slab<[u8; 60]> = Slab::new(100);
    /// assert_eq!(Slab::<[u8; 60]>::ENTRIES_PER_CHUNK, 64);
    /// assert_eq!((slab.capacity(), slab.capacity_max()), (0, 6400));
    /// ```
    #[must_use]
    pub fn new(chunks_max: u32) -> Slab<T, C> {
        let entries_max = u64::from(chunks_max) * u64::from(Self::ENTRIES_PER_CHUNK);
        assert!(entries_max <= u64::from(u32::MAX), "an index has 32 bits");
        Slab { directory: Vec::new(), room: Set::new(), empty: Set::new(), holes: Set::new(), len: 0, chunks_max }
    }

    /// Live values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no value is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Values that fit in the chunks held now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.chunks() as usize * Self::ENTRIES_PER_CHUNK as usize
    }

    /// Every index that lives now is below this one: as [`capacity`](Slab::capacity), with the places whose chunks were
    /// given back.
    ///
    /// ```
    /// use plimsoll_slab::{HeapChunk, Slab};
    ///
    /// let mut slab = Slab::<u64>::new(2);
    /// assert_eq!(slab.index_bound(), 0);
    /// slab.grow(HeapChunk::new()).expect("the first of two");
    /// assert_eq!(slab.index_bound() as usize, slab.capacity());
    /// ```
    #[must_use]
    pub fn index_bound(&self) -> u32 {
        self.directory.len() as u32 * Self::ENTRIES_PER_CHUNK
    }

    /// Values that fit in the most chunks that the slab takes: every index is below it.
    #[must_use]
    pub fn capacity_max(&self) -> usize {
        self.chunks_max as usize * Self::ENTRIES_PER_CHUNK as usize
    }

    /// Chunks held now.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.directory.len() as u32 - self.holes.len()
    }

    /// The most chunks that the slab takes.
    #[must_use]
    pub fn chunks_max(&self) -> u32 {
        self.chunks_max
    }

    /// Chunks held now in which nothing lives, that [`release_empty`](Slab::release_empty) would give back.
    #[must_use]
    pub fn empty_chunks(&self) -> u32 {
        self.empty.len()
    }

    /// Whether every cell is taken and no further chunk would be: only a removal makes room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room.len() == 0 && self.chunks() == self.chunks_max
    }

    /// Heap bytes of the directory now.
    #[must_use]
    pub fn directory_bytes(&self) -> usize {
        let sets = self.room.bytes() + self.empty.bytes() + self.holes.bytes();
        self.directory.capacity() * size_of::<Entry<T, C>>() + sets
    }

    /// The most heap bytes that the directory of a slab of `chunks_max` chunks ever takes, for those who reserve it.
    ///
    /// The directory grows by doubling up to that, so that for a moment while it does, the old one (at most half as
    /// long) exists as well.
    #[must_use]
    pub const fn directory_bytes_max(chunks_max: u32) -> usize {
        let chunks = chunks_max as usize;
        chunks * size_of::<Entry<T, C>>() + 3 * chunks.div_ceil(64) * size_of::<u64>()
    }

    /// The lowest free cell, or `None` if there is none in the chunks held now: [`grow`](Slab::grow), unless the slab
    /// [is full](Slab::is_full).
    #[inline]
    pub fn vacant(&mut self) -> Option<Vacant<'_, T, C>> {
        let chunk = self.room.first()?;
        let entry = &self.directory[chunk];
        let slot = lowest(entry.free)?;
        debug_assert!(slot < Cells::<T, C>::COUNT);
        let key = Key::new(Self::index_of(chunk, slot), next_generation(entry.generation));
        Some(Vacant { slab: self, key })
    }

    /// Takes one more chunk, in the lowest place that has none.
    ///
    /// The new chunk is empty, and its keys differ from all that its place gave out before.
    ///
    /// # Errors
    ///
    /// Gives the chunk back if the slab has [`chunks_max`](Slab::chunks_max) already.
    pub fn grow(&mut self, chunk: C) -> Result<(), C> {
        let number = match self.holes.first() {
            Some(hole) => hole,
            None if self.directory.len() < self.chunks_max as usize => self.push_hole(),
            None => return Err(chunk),
        };
        let entry = &mut self.directory[number];
        debug_assert!(entry.cells.is_none() && entry.free == [0, 0]);
        entry.cells = Some(Cells::new(chunk));
        entry.free = Self::ALL_FREE;
        self.holes.remove(number);
        self.room.insert(number);
        self.empty.insert(number);
        Ok(())
    }

    /// Stores a value in the lowest free cell.
    ///
    /// # Errors
    ///
    /// Gives the value back if there is no free cell: [`grow`](Slab::grow), unless the slab [is full](Slab::is_full).
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<Key, T> {
        match self.vacant() {
            Some(vacant) => Ok(vacant.insert(value)),
            None => Err(value),
        }
    }

    /// The value of a key, `None` if it was removed.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        let (chunk, slot) = Self::place_of(key.index());
        self.directory.get(chunk)?.cells.as_ref()?.get(slot, key.generation())
    }

    /// The value of a key, `None` if it was removed.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (chunk, slot) = Self::place_of(key.index());
        self.directory.get_mut(chunk)?.cells.as_mut()?.get_mut(slot, key.generation())
    }

    /// Whether the value of a key is still there.
    #[inline]
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.key_at(key.index()) == Some(key)
    }

    /// The key of the value that lives at an index now.
    #[inline]
    #[must_use]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let (chunk, slot) = Self::place_of(index);
        let generation = self.directory.get(chunk)?.cells.as_ref()?.generation(slot);
        (generation != VACANT).then(|| Key::new(index, generation))
    }

    /// The value that lives at an index now: for links between values, which need no generation.
    #[inline]
    #[must_use]
    pub fn get_at(&self, index: u32) -> Option<&T> {
        let (chunk, slot) = Self::place_of(index);
        let cells = self.directory.get(chunk)?.cells.as_ref()?;
        cells.get(slot, cells.generation(slot))
    }

    /// The value that lives at an index now: for links between values, which need no generation.
    #[inline]
    #[must_use]
    pub fn get_at_mut(&mut self, index: u32) -> Option<&mut T> {
        let (chunk, slot) = Self::place_of(index);
        let cells = self.directory.get_mut(chunk)?.cells.as_mut()?;
        cells.get_mut(slot, cells.generation(slot))
    }

    /// Takes the value of a key out; `None` if it was removed before.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let (chunk, slot) = Self::place_of(key.index());
        let entry = self.directory.get_mut(chunk)?;
        let value = entry.cells.as_mut()?.take(slot, key.generation())?;
        debug_assert!(entry.free[slot / 64] & 1 << (slot % 64) == 0, "a live cell was free");
        if entry.free == [0, 0] {
            self.room.insert(chunk);
        }
        entry.free[slot / 64] |= 1 << (slot % 64);
        if entry.free == Self::ALL_FREE {
            self.empty.insert(chunk);
        }
        self.len -= 1;
        Some(value)
    }

    /// Gives the highest chunk without a live value back, `None` if there is none.
    ///
    /// Stale keys of its values keep failing, also after [`grow`](Slab::grow) has put another chunk in its place.
    ///
    /// ```
    /// use plimsoll_slab::{HeapChunk, Slab};
    ///
    /// let mut slab: Slab<u8> = Slab::new(1);
    /// slab.grow(HeapChunk::new()).expect("below 1 chunk");
    /// let old = slab.insert(1).expect("room");
    /// assert!(slab.release_empty().is_none(), "a value lives there");
    /// slab.remove(old);
    /// let chunk = slab.release_empty().expect("empty");
    ///
    /// slab.grow(chunk).expect("below 1 chunk");
    /// let new = slab.insert(2).expect("room");
    /// assert_eq!(new.index(), old.index());
    /// assert_eq!(slab.get(old), None);
    /// ```
    pub fn release_empty(&mut self) -> Option<C> {
        let number = self.empty.last()?;
        let entry = &mut self.directory[number];
        debug_assert!(entry.free == Self::ALL_FREE);
        let cells = entry.cells.take()?;
        entry.free = [0, 0];
        self.empty.remove(number);
        self.room.remove(number);
        self.holes.insert(number);
        Some(cells.into_chunk())
    }

    /// The live values and their keys, lowest index first.
    ///
    /// ```
    /// use plimsoll_slab::{HeapChunk, Slab};
    ///
    /// let mut slab: Slab<char> = Slab::new(1);
    /// slab.grow(HeapChunk::new()).expect("below 1 chunk");
    /// for letter in ['a', 'b', 'c'] {
    ///     slab.insert(letter).expect("room");
    /// }
    /// assert_eq!(slab.iter().map(|(_, letter)| letter).collect::<String>(), "abc");
    /// ```
    pub fn iter(&self) -> Iter<'_, T, C> {
        Iter { slab: self, index: 0, left: self.len }
    }

    /// The next key of a chunk has the generation after this one, as if all before had been given out.
    #[cfg(test)]
    pub(crate) fn set_generation(&mut self, chunk: u32, generation: u32) {
        debug_assert!(generation & 1 == 1, "the generation of a key");
        self.directory[chunk as usize].generation = generation;
    }

    /// Appends a directory entry without a chunk.
    fn push_hole(&mut self) -> usize {
        let number = self.directory.len();
        debug_assert!(number < self.chunks_max as usize);
        let reserve = (number * 2).max(DIRECTORY_MIN).min(self.chunks_max as usize);
        if number == self.directory.capacity() {
            self.directory.reserve_exact(reserve - number);
        }
        for set in [&mut self.room, &mut self.empty, &mut self.holes] {
            set.extend_to(number + 1, reserve);
        }
        self.directory.push(Entry { cells: None, free: [0, 0], generation: GENERATION_START });
        self.holes.insert(number);
        number
    }

    /// Stores a value under the key that [`vacant`](Slab::vacant) has announced.
    #[inline]
    fn fill(&mut self, key: Key, value: T) {
        let (chunk, slot) = Self::place_of(key.index());
        let entry = &mut self.directory[chunk];
        let Some(cells) = entry.cells.as_mut() else { unreachable!("a vacant cell is in a chunk") };
        cells.put(slot, key.generation(), value);
        if entry.free == Self::ALL_FREE {
            self.empty.remove(chunk);
        }
        entry.free[slot / 64] &= !(1 << (slot % 64));
        entry.generation = key.generation();
        if entry.free == [0, 0] {
            self.room.remove(chunk);
        }
        self.len += 1;
    }

    #[inline]
    fn place_of(index: u32) -> (usize, usize) {
        ((index / Self::ENTRIES_PER_CHUNK) as usize, (index % Self::ENTRIES_PER_CHUNK) as usize)
    }

    #[inline]
    fn index_of(chunk: usize, slot: usize) -> u32 {
        chunk as u32 * Self::ENTRIES_PER_CHUNK + slot as u32
    }

    /// The bitmap of a chunk without live values.
    const ALL_FREE: [u64; 2] = {
        let all = u128::MAX >> (128 - Self::ENTRIES_PER_CHUNK);
        [all as u64, (all >> 64) as u64]
    };
}

impl<T, C: Chunk> fmt::Debug for Slab<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .field("chunks", &self.chunks())
            .field("chunks_max", &self.chunks_max)
            .finish_non_exhaustive()
    }
}

impl<'a, T, C: Chunk> IntoIterator for &'a Slab<T, C> {
    type Item = (Key, &'a T);
    type IntoIter = Iter<'a, T, C>;

    fn into_iter(self) -> Iter<'a, T, C> {
        self.iter()
    }
}

/// A free cell whose key is known before its value.
///
/// Dropping it changes nothing: the next [`Slab::vacant`] announces the same key.
pub struct Vacant<'a, T, C: Chunk = HeapChunk> {
    slab: &'a mut Slab<T, C>,
    key: Key,
}

impl<T, C: Chunk> Vacant<'_, T, C> {
    /// The key that the value will have.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// Stores the value.
    #[inline]
    pub fn insert(self, value: T) -> Key {
        self.slab.fill(self.key, value);
        self.key
    }
}

impl<T, C: Chunk> fmt::Debug for Vacant<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vacant").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The live values of a slab and their keys, lowest index first: see [`Slab::iter`].
pub struct Iter<'a, T, C: Chunk = HeapChunk> {
    slab: &'a Slab<T, C>,
    /// Everything below has been visited.
    index: u32,
    /// Live values at `index` and above.
    left: u32,
}

impl<'a, T, C: Chunk> Iterator for Iter<'a, T, C> {
    type Item = (Key, &'a T);

    fn next(&mut self) -> Option<(Key, &'a T)> {
        while self.left > 0 {
            let index = self.index;
            let (chunk, slot) = Slab::<T, C>::place_of(index);
            let Some(cells) = &self.slab.directory[chunk].cells else {
                self.index = Slab::<T, C>::index_of(chunk + 1, 0);
                continue;
            };
            self.index += 1;
            let generation = cells.generation(slot);
            if let Some(value) = cells.get(slot, generation) {
                self.left -= 1;
                return Some((Key::new(index, generation), value));
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl<T, C: Chunk> ExactSizeIterator for Iter<'_, T, C> {}

impl<T, C: Chunk> fmt::Debug for Iter<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish_non_exhaustive()
    }
}

/// The lowest set bit.
#[inline]
fn lowest(free: [u64; 2]) -> Option<usize> {
    match free {
        [0, 0] => None,
        [0, high] => Some(64 + high.trailing_zeros() as usize),
        [low, _] => Some(low.trailing_zeros() as usize),
    }
}

/// Entries for which the directory first allocates.
const DIRECTORY_MIN: usize = 8;
