//! Keys: where a value is, and which of the values that were ever there is meant.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU32;

/// Width of a generation in bits.
///
/// Chosen so that kind (8), generation (24) and index (32) fill the 64 bits that a kernel interface gives back with a
/// completion: see [`Key::pack`].
pub const GENERATION_BITS: u32 = 24;

/// The handle of a value in a [`Slab`](crate::Slab).
///
/// `index` says where the value is, `generation` which of the values that were ever there. Keys that a slab hands out
/// have odd generations. A key outlives its value harmlessly: every lookup with it fails from then on.
///
/// **The limit**: a generation has 24 bits, of which the lowest is always set, and comes from a counter per chunk. A
/// stale key is taken for a live one only if its index is given out again at exactly a multiple of 2^23 (8,388,608)
/// insertions into the same chunk later. Holders of keys must let go of them before that; the table of operations in
/// flight does, because a slot there lives until the last completion that could carry its key.
///
/// A key is 8 bytes and so is `Option<Key>`.
///
/// ```
/// use plimsoll_slab::Key;
///
/// let (kind, key) = Key::unpack(0x07_00_00_03_00_00_00_2a);
/// assert_eq!((kind, key.generation(), key.index()), (7, 3, 42));
/// assert_eq!(key.pack(7), 0x07_00_00_03_00_00_00_2a);
/// assert_eq!(size_of::<Option<Key>>(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    /// The generation in the low 24 bits; the top bit is always set, to give `Option<Key>` its niche.
    tagged: NonZeroU32,
}

impl Key {
    /// A key with the low 24 bits of `generation`.
    pub(crate) const fn new(index: u32, generation: u32) -> Key {
        match NonZeroU32::new(generation & GENERATION_MASK | TAG) {
            Some(tagged) => Key { index, tagged },
            None => unreachable!(),
        }
    }

    /// The index: below [`Slab::capacity_max`](crate::Slab::capacity_max), and never `u32::MAX`, which is free to mean
    /// "none" in links.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The generation: 24 bits, odd in every key that a slab handed out.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.tagged.get() & GENERATION_MASK
    }

    /// The key and a kind of the caller's in one word: kind (8 bits), generation (24), index (32), highest first.
    #[must_use]
    pub const fn pack(self, kind: u8) -> u64 {
        (kind as u64) << (32 + GENERATION_BITS) | (self.generation() as u64) << 32 | self.index as u64
    }

    /// The kind and the key of a word made by [`pack`](Key::pack).
    ///
    /// Total: any word gives a key. One that no slab handed out is found in none, or is found as the live key that it
    /// equals.
    #[must_use]
    pub const fn unpack(word: u64) -> (u8, Key) {
        let kind = (word >> (32 + GENERATION_BITS)) as u8;
        (kind, Key::new(word as u32, (word >> 32) as u32))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("index", &self.index).field("generation", &self.generation()).finish()
    }
}

/// The generation after `generation`: odd stays odd, and 0 is never reached.
pub(crate) const fn next_generation(generation: u32) -> u32 {
    debug_assert!(generation & 1 == 1 && generation <= GENERATION_MASK);
    (generation + 2) & GENERATION_MASK
}

/// Where the counter of a chunk starts: the generation before 1.
pub(crate) const GENERATION_START: u32 = GENERATION_MASK;

pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

const TAG: u32 = 1 << 31;

const _: () = assert!(next_generation(GENERATION_START) == 1);
const _: () = assert!(size_of::<Option<Key>>() == 8);
