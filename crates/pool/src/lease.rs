//! Leases: bytes of the pool that have one owner.
//!
//! # How is this safe?
//!
//! **I-VIEW**: `start` is inside a slot that the lease holds alone (I-SLOT of the arena), the view `[start, start +
//! len)` is inside the slot too, and its bytes were written by the lease's holder since the slot was handed out. Slots
//! that are used again hold others' bytes: nothing outside of the view is ever shown as initialised.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::arena;
use crate::class::Class;
use crate::error::OverBudget;
use crate::kind::Kind;
use crate::local::Local;
use crate::poison;

/// A slot of the pool, and a view of initialised bytes in it.
///
/// ```text
///  start of the slot      view: len() bytes      spare part       end of the slot
///  +----------------------+----------------------+----------------+
///  | consumed             | Deref, as_mut_slice  | spare_mut      |
///  +----------------------+----------------------+----------------+
///                         |<---------- capacity() -------------->|
/// ```
///
/// New leases are empty. Bytes are appended to the view by [`extend`](Self::extend) or through the spare part, and
/// leave it at the front by [`consume`](Self::consume). 16 bytes, as is an `Option` of it. A lease may be sent to and
/// dropped on any thread.
///
/// ```
/// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
///
/// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
/// let mut lease = pool.try_copy(b"GET / HTTP/1.1\r\n", Kind::Buffers)?;
/// lease.consume(4);
/// assert_eq!(&lease[..], b"/ HTTP/1.1\r\n");
/// assert_eq!((lease.capacity(), lease.spare_capacity()), (60, 48));
/// lease.compact();
/// assert_eq!((lease.capacity(), lease.spare_capacity()), (64, 52));
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
pub struct Lease {
    /// I-VIEW.
    start: NonNull<u8>,
    /// I-VIEW.
    len: u32,
    kind: Kind,
}

// SAFETY: I-VIEW: the lease is the only way to its bytes, and giving the slot back works from any thread.
unsafe impl Send for Lease {}
// SAFETY: I-VIEW: a shared lease only reads.
unsafe impl Sync for Lease {}

impl Lease {
    #[inline]
    pub(crate) fn acquire(local: &Local, class: Class, kind: Kind) -> Result<Self, OverBudget> {
        Ok(Self { start: local.hand_out(class, kind)?, len: 0, kind })
    }

    /// Bytes of the view.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the view has no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from the start of the view to the end of the slot.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.class().bytes() - arena::bytes_before(self.start)
    }

    /// The size class.
    #[must_use]
    #[inline]
    pub fn class(&self) -> Class {
        arena::class_of(self.start)
    }

    /// What it is charged as.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes behind the view.
    #[must_use]
    #[inline]
    pub fn spare_capacity(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The part of the slot behind the view. Its bytes are not initialised: what is written becomes visible by
    /// [`advance_written`](Self::advance_written).
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let spare = self.spare_capacity();
        // SAFETY: I-VIEW: from the end of the view to the end of the slot, which this lease alone holds.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(self.len()).cast().as_ptr(), spare) }
    }

    /// Appends the first `count` bytes of the spare part to the view.
    ///
    /// # Safety
    ///
    /// They have been written since the lease was made.
    ///
    /// # Panics
    ///
    /// If the spare part is shorter.
    #[inline]
    pub unsafe fn advance_written(&mut self, count: usize) {
        assert!(count <= self.spare_capacity(), "no more is written than there is room");
        self.len += count as u32;
    }

    /// Appends as many of `bytes` as there is room for; how many those were.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let spare = self.spare_mut();
        let taken = bytes.len().min(spare.len());
        // SAFETY: I-VIEW: both are that long, and the spare part is this lease's alone.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(spare.as_mut_ptr().cast(), taken) };
        self.len += taken as u32;
        taken
    }

    /// Moves the bytes of the view behind those of another lease, which takes the place of this one. For leases that do
    /// not come from the pool alone; [`Pool::try_grow`](crate::Pool::try_grow) does the same with one that does.
    ///
    /// # Panics
    ///
    /// If the other one has not as much room.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let mut lease = pool.try_copy(b"a head", Kind::Buffers)?;
    /// lease.move_to(pool.try_acquire(1_000, Kind::Buffers)?);
    /// assert_eq!((&lease[..], lease.capacity()), (&b"a head"[..], 1_024));
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    pub fn move_to(&mut self, mut other: Self) {
        assert!(other.spare_capacity() >= self.len(), "there is room for what is moved");
        other.extend(self);
        *self = other;
    }

    /// Drops `count` bytes from the front of the view. Their room comes back by [`compact`](Self::compact) or
    /// [`clear`](Self::clear).
    ///
    /// # Panics
    ///
    /// If the view has fewer.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "no more is consumed than there is");
        if count == self.capacity() {
            // One byte further would be another slot.
            return self.clear();
        }
        // SAFETY: I-VIEW: still inside the slot.
        self.start = unsafe { self.start.add(count) };
        self.len -= count as u32;
    }

    /// Drops all but the first `len` bytes of the view; a shorter view stays as it is.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Drops all bytes: the view is empty, at the start of the slot.
    #[inline]
    pub fn clear(&mut self) {
        self.start = self.slot();
        self.len = 0;
    }

    /// Moves the view to the start of the slot, so that all room is behind it.
    pub fn compact(&mut self) {
        let slot = self.slot();
        if slot != self.start {
            // SAFETY: I-VIEW: both places are in the slot; they may overlap.
            unsafe { self.start.copy_to(slot, self.len()) };
            self.start = slot;
        }
    }

    /// Makes room for `more` bytes behind the view if the slot has it, and says whether it has.
    pub(crate) fn make_room(&mut self, more: usize) -> bool {
        if more > self.class().bytes() - self.len() {
            return false;
        }
        if more > self.spare_capacity() {
            self.compact();
        }
        debug_assert!(more <= self.spare_capacity(), "all room is behind the view");
        true
    }

    /// The view, to be changed in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: I-VIEW.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }

    /// The first byte of the view, valid for writes up to the end of the slot, with the rights of the lease and not of
    /// a borrow of it: for handing the slot to the system while the lease is kept. Does not move while the lease is not
    /// told to.
    #[must_use]
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Lets go of the slot without giving it back; its first byte. [`from_raw`](Self::from_raw) makes it a lease again.
    ///
    /// Until then, the caller uses the first `bytes` bytes of the slot, which has as many at least: the address
    /// sanitizer finds who touches the others.
    #[must_use = "the slot is lost otherwise"]
    #[inline]
    pub fn into_raw(self, bytes: usize) -> NonNull<u8> {
        let slot_bytes = self.class().bytes();
        debug_assert!(bytes <= slot_bytes, "no more is used than there is");
        let slot = ManuallyDrop::new(self).slot();
        poison::close_behind(slot, bytes, slot_bytes);
        slot
    }

    /// A lease of a slot that a lease has let go of, with an empty view at the start.
    ///
    /// # Safety
    ///
    /// `slot` comes from [`into_raw`](Self::into_raw), of a lease with this `kind`; it becomes a lease once, and
    /// nothing else uses it from now on.
    #[must_use]
    #[inline]
    pub unsafe fn from_raw(slot: NonNull<u8>, kind: Kind) -> Self {
        debug_assert_eq!(arena::bytes_before(slot), 0);
        poison::open(slot, arena::class_of(slot).bytes());
        Self { start: slot, len: 0, kind }
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: I-VIEW: the start of the slot is that far before the view.
        unsafe { self.start.sub(arena::bytes_before(self.start)) }
    }

    /// Drops the lease as another thread would.
    #[cfg(test)]
    pub(crate) fn drop_remotely(self) {
        let lease = ManuallyDrop::new(self);
        // SAFETY: I-SLOT: this lease holds the slot, and is not dropped.
        unsafe { arena::give_back_remote(lease.start, lease.kind) }
    }
}

impl Deref for Lease {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: I-VIEW.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len()) }
    }
}

impl DerefMut for Lease {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.as_mut_slice()
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: I-SLOT: I-VIEW says that this lease holds the slot, and nothing does after it.
        unsafe { arena::give_back(self.start, self.kind) }
    }
}

impl fmt::Debug for Lease {
    /// Not the bytes: they may be secret, and many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("class", &self.class()).field("len", &self.len).field("kind", &self.kind).finish()
    }
}

const _: () = assert!(size_of::<Lease>() == 16);
const _: () = assert!(size_of::<Option<Lease>>() == 16);

#[cfg(test)]
mod tests;
