//! Chunks, and the cells for values that a slab lays out in one: the only file of this crate with `unsafe`.
//!
//! ```text
//!  0                                  N * size_of::<T>()        + N * 4              4096
//!  +---------+---------+-----+---------+---------+-----+---------+--------------------+
//!  | value 0 | value 1 | ... | val N-1 | gen 0   | ... | gen N-1 | unused             |
//!  +---------+---------+-----+---------+---------+-----+---------+--------------------+
//! ```
//!
//! # How is this safe?
//!
//! Everything unsafe is behind [`Cells`], whose functions are safe to call with any argument. They rest on these
//! invariants:
//!
//! **I-CHUNK**: [`Chunk::as_ptr`] gives the same pointer each time, valid for reads and writes of [`CHUNK_BYTES`],
//! aligned to [`CHUNK_ALIGN`], used by nobody else, for as long as the chunk exists. It is the contract of the trait,
//! which its implementer vouches for.
//!
//! **I-LAYOUT**: for every slot below `N`, value and generation lie inside the chunk, aligned, and overlap nothing. `N`
//! is computed for that, the alignment of `T` is asserted at compile time, and each function asserts its slot.
//!
//! **I-GENERATION**: all `N` generations are initialised, from the creation of the [`Cells`] on.
//!
//! **I-LIVE**: a slot holds an initialised value if and only if its generation is not [`VACANT`]. The generation is
//! written after the value when one is stored, and before the value is taken or dropped, so that a panic cannot leave
//! a generation without its value.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

use crate::key::GENERATION_MASK;

/// Bytes of a chunk: one page.
pub const CHUNK_BYTES: usize = 4096;

/// Memory that a [`Slab`](crate::Slab) keeps values in while it owns the chunk.
///
/// Dropping the chunk gives the memory back. What it contains need not be initialised, and is arbitrary afterwards.
///
/// # Safety
///
/// As long as the implementing value exists, wherever it is moved to, [`as_ptr`](Chunk::as_ptr) must
///
/// * return the same pointer every time,
/// * which is valid for reads and writes of [`CHUNK_BYTES`] bytes and aligned to at least 64 bytes,
/// * to memory that nothing else reads or writes, not even another function of the implementing value.
///
/// A chunk that is `Send` must allow its memory to be used from the thread that it was sent to.
pub unsafe trait Chunk {
    /// The first byte of the chunk.
    fn as_ptr(&self) -> NonNull<u8>;
}

/// A page from the heap, for slabs without a pool.
///
/// ```
/// use plimsoll_slab::{HeapChunk, Slab};
///
/// let mut slab: Slab<u64, HeapChunk> = Slab::new(1);
/// slab.grow(HeapChunk::new()).expect("the first of one");
/// assert!(slab.grow(HeapChunk::new()).is_err(), "given back: the slab is at its limit");
/// ```
pub struct HeapChunk {
    page: NonNull<MaybeUninit<Page>>,
}

impl HeapChunk {
    /// Allocates a page.
    #[must_use]
    pub fn new() -> HeapChunk {
        HeapChunk { page: NonNull::from(Box::leak(Box::<Page>::new_uninit())) }
    }
}

impl Default for HeapChunk {
    fn default() -> HeapChunk {
        HeapChunk::new()
    }
}

impl Drop for HeapChunk {
    fn drop(&mut self) {
        // SAFETY: I-CHUNK: the page came from a leaked box in `new` and nobody else uses it.
        drop(unsafe { Box::from_raw(self.page.as_ptr()) });
    }
}

impl fmt::Debug for HeapChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapChunk").finish_non_exhaustive()
    }
}

// SAFETY: I-CHUNK: the box was leaked and is only reached through this pointer until the drop.
unsafe impl Chunk for HeapChunk {
    fn as_ptr(&self) -> NonNull<u8> {
        self.page.cast()
    }
}

// SAFETY: I-CHUNK: the page is plain heap memory that this value alone owns.
unsafe impl Send for HeapChunk {}

// SAFETY: I-CHUNK: a shared `HeapChunk` gives out a pointer and touches nothing.
unsafe impl Sync for HeapChunk {}

#[repr(align(4096))]
struct Page {
    _bytes: [u8; CHUNK_BYTES],
}

/// A chunk laid out as `N` cells, each vacant or holding a value and its generation.
pub(crate) struct Cells<T, C: Chunk> {
    chunk: C,
    values: PhantomData<T>,
}

impl<T, C: Chunk> Cells<T, C> {
    /// Cells in a chunk: the most of them that fit, up to 128.
    pub(crate) const COUNT: usize = {
        assert!(align_of::<T>() <= CHUNK_ALIGN, "a value of a slab may be aligned to at most 64 bytes");
        let mut count = COUNT_MAX;
        while Self::generations_offset(count) + count * size_of::<u32>() > CHUNK_BYTES {
            count -= 1;
        }
        assert!(count >= COUNT_MIN, "a chunk must hold at least 4 values");
        count
    };

    /// Where the generations begin when there are `count` values before them.
    const fn generations_offset(count: usize) -> usize {
        (count * size_of::<T>()).next_multiple_of(align_of::<u32>())
    }

    /// Lays out vacant cells.
    pub(crate) fn new(chunk: C) -> Cells<T, C> {
        debug_assert!(chunk.as_ptr().addr().get().is_multiple_of(CHUNK_ALIGN), "I-CHUNK: misaligned");
        let cells = Cells { chunk, values: PhantomData };
        for slot in 0..Self::COUNT {
            // SAFETY: I-LAYOUT: inside the chunk and aligned; I-CHUNK: writable and ours. Makes I-GENERATION true.
            unsafe { cells.generation_ptr(slot).write(VACANT) };
        }
        cells
    }

    /// The generation of the value at `slot`, or [`VACANT`].
    #[inline]
    pub(crate) fn generation(&self, slot: usize) -> u32 {
        // SAFETY: I-LAYOUT and I-GENERATION: initialised, aligned and inside the chunk.
        unsafe { self.generation_ptr(slot).read() }
    }

    /// The value at `slot`, if it is there in that generation.
    #[inline]
    pub(crate) fn get(&self, slot: usize, generation: u32) -> Option<&T> {
        if generation == VACANT || self.generation(slot) != generation {
            return None;
        }
        // SAFETY: I-LIVE: initialised, as the slot is not vacant; I-LAYOUT: aligned; I-CHUNK: borrowed with `self`.
        Some(unsafe { self.value_ptr(slot).as_ref() })
    }

    /// The value at `slot`, if it is there in that generation.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: usize, generation: u32) -> Option<&mut T> {
        if generation == VACANT || self.generation(slot) != generation {
            return None;
        }
        // SAFETY: I-LIVE: initialised, as the slot is not vacant; I-LAYOUT: aligned; I-CHUNK: borrowed with `self`, and
        // nobody else reaches it.
        Some(unsafe { self.value_ptr(slot).as_mut() })
    }

    /// Stores a value in a vacant slot.
    ///
    /// # Panics
    ///
    /// If the slot is not vacant, or `generation` is not an odd one of 24 bits.
    #[inline]
    pub(crate) fn put(&mut self, slot: usize, generation: u32, value: T) {
        assert!(generation & 1 == 1 && generation <= GENERATION_MASK, "not the generation of a key");
        assert!(self.generation(slot) == VACANT, "the slot is taken");
        // SAFETY: I-LAYOUT: aligned and inside the chunk; I-LIVE: nothing is there that would have to be dropped. The
        // generation follows the value, which keeps I-LIVE.
        unsafe {
            self.value_ptr(slot).write(value);
            self.generation_ptr(slot).write(generation);
        }
    }

    /// Takes the value at `slot` out, if it is there in that generation.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize, generation: u32) -> Option<T> {
        if generation == VACANT || self.generation(slot) != generation {
            return None;
        }
        // SAFETY: I-LIVE: initialised, and vacant before the value leaves, so nobody reads it a second time; I-LAYOUT:
        // aligned and inside the chunk.
        Some(unsafe {
            self.generation_ptr(slot).write(VACANT);
            self.value_ptr(slot).read()
        })
    }

    /// The chunk, without the cells.
    ///
    /// # Panics
    ///
    /// If a value is still there.
    pub(crate) fn into_chunk(self) -> C {
        assert!((0..Self::COUNT).all(|slot| self.generation(slot) == VACANT), "a chunk with live values stays");
        let cells = ManuallyDrop::new(self);
        // SAFETY: I-CHUNK: the chunk is read once, and `ManuallyDrop` keeps the cells from dropping it as well.
        unsafe { core::ptr::read(&raw const cells.chunk) }
    }

    #[inline]
    fn value_ptr(&self, slot: usize) -> NonNull<T> {
        assert!(slot < Self::COUNT);
        // SAFETY: I-LAYOUT: the asserted slot is inside the chunk.
        unsafe { self.chunk.as_ptr().cast::<T>().add(slot) }
    }

    #[inline]
    fn generation_ptr(&self, slot: usize) -> NonNull<u32> {
        assert!(slot < Self::COUNT);
        let offset = const { Self::generations_offset(Self::COUNT) };
        // SAFETY: I-LAYOUT: the asserted slot is inside the chunk.
        unsafe { self.chunk.as_ptr().add(offset).cast::<u32>().add(slot) }
    }
}

impl<T, C: Chunk> Drop for Cells<T, C> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        for slot in 0..Self::COUNT {
            drop(self.take(slot, self.generation(slot)));
        }
    }
}

/// The generation of a vacant slot: even, and wider than 24 bits, so that no key has it, not even one that was
/// unpacked from an arbitrary word.
pub(crate) const VACANT: u32 = 1 << 24;

/// Alignment that every chunk has.
const CHUNK_ALIGN: usize = 64;

/// As many as the bitmap of a directory entry has bits.
const COUNT_MAX: usize = 128;

/// With fewer, the directory would outweigh what the chunk brings.
const COUNT_MIN: usize = 4;

const _: () = assert!(VACANT > GENERATION_MASK && VACANT & 1 == 0);
