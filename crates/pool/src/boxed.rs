//! Values in slots of the pool.
//!
//! # How is this safe?
//!
//! **I-VALUE**: `tagged` without its low three bits is the start of a slot of [`PoolBox::CLASS`] that the box holds
//! alone (I-SLOT of the arena), with an initialised `T` in it; the low bits are the kind that the slot was handed out
//! as. The slot is aligned for `T`: those below 4 KiB to their own size, which is not below the alignment; the others
//! to 4,096, which no alignment exceeds.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::class::Class;
use crate::kind::Kind;
use crate::lease::Lease;

/// A value in the pool: as a `Box`, charged, and refused instead of aborting at the line. 8 bytes, as is an `Option` of
/// it.
///
/// The value does not move while the box lives. A box of a `Send` value may be dropped on any thread.
///
/// ```
/// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
///
/// let budget = Budget::new(MemoryLimit::mib(1));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
/// let mut state = pool.try_boxed([1_u64; 20], Kind::Codec).map_err(|(over, _)| over)?;
/// state[0] = 7;
/// assert_eq!(budget.charged_by(Kind::Codec), 256);
/// assert_eq!(state.into_inner()[0], 7);
/// assert_eq!(budget.charged_by(Kind::Codec), 0);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
pub struct PoolBox<T> {
    /// I-VALUE.
    tagged: NonNull<u8>,
    value: PhantomData<T>,
}

// SAFETY: I-VALUE: the box is the only way to its value, and giving the slot back works from any thread.
unsafe impl<T: Send> Send for PoolBox<T> {}
// SAFETY: I-VALUE: a shared box only lends its value.
unsafe impl<T: Sync> Sync for PoolBox<T> {}

/// To what slots from 4 KiB up are aligned.
const ALIGN_MAX: usize = 4096;

impl<T> PoolBox<T> {
    /// The smallest class that holds a `T`.
    pub const CLASS: Class = {
        assert!(align_of::<T>() <= ALIGN_MAX, "a pooled value's alignment is at most 4,096");
        let bytes = if size_of::<T>() < align_of::<T>() { align_of::<T>() } else { size_of::<T>() };
        match Class::for_len(bytes) {
            Some(class) => class,
            None => panic!("a pooled value has at most 131,072 bytes"),
        }
    };

    /// Moves a value into a lease that is there already, in place of its bytes: needs no memory, so it cannot be
    /// refused.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolBox, PoolConfig};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let kept = pool.try_acquire_class(PoolBox::<[u64; 9]>::CLASS, Kind::Fixed)?;
    /// let boxed = PoolBox::from_lease(kept, [7_u64; 9]);
    /// assert_eq!((boxed[8], PoolBox::kind(&boxed)), (7, Kind::Fixed));
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// When the lease is of another class than [`CLASS`](Self::CLASS).
    #[must_use]
    #[inline]
    pub fn from_lease(lease: Lease, value: T) -> Self {
        assert_eq!(lease.class(), Self::CLASS, "a lease of the class of the value");
        let kind = lease.kind();
        let slot = lease.into_raw(size_of::<T>());
        debug_assert!(slot.cast::<T>().is_aligned());
        // SAFETY: I-VALUE: the slot is this function's own, long enough and aligned for `T` by its class.
        unsafe { slot.cast::<T>().write(value) };
        Self { tagged: slot.map_addr(|address| address | kind.bits()), value: PhantomData }
    }

    /// The value; its slot goes back.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: I-VALUE: the box is not used or dropped afterwards: the value moves out, once.
        let value = unsafe { this.place().read() };
        // SAFETY: I-VALUE: nothing uses the slot any more.
        drop(unsafe { this.lease() });
        value
    }

    /// What it is charged as.
    #[must_use]
    pub fn kind(this: &Self) -> Kind {
        Kind::from_bits(this.tagged.addr().get())
    }

    #[inline]
    fn place(&self) -> NonNull<T> {
        let bits = self.tagged.addr().get() & Kind::MASK;
        // SAFETY: I-VALUE: the slot starts that far before.
        unsafe { self.tagged.sub(bits) }.cast()
    }

    /// The slot as a lease, which gives it back.
    ///
    /// # Safety
    ///
    /// The box is not used any more, nor dropped.
    unsafe fn lease(&self) -> Lease {
        // SAFETY: I-VALUE: the slot comes from a lease of this kind, in `new`.
        unsafe { Lease::from_raw(self.place().cast(), Self::kind(self)) }
    }
}

impl<T> Deref for PoolBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: I-VALUE.
        unsafe { self.place().as_ref() }
    }
}

impl<T> DerefMut for PoolBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: I-VALUE.
        unsafe { self.place().as_mut() }
    }
}

impl<T> Drop for PoolBox<T> {
    fn drop(&mut self) {
        // Gives the slot back last, also if the value panics while it is dropped.
        // SAFETY: I-VALUE: this is the end of the box.
        let _lease = unsafe { self.lease() };
        // SAFETY: I-VALUE: dropped once, in place.
        unsafe { self.place().drop_in_place() };
    }
}

// The value is behind a pointer: moving the box does not move it.
impl<T> Unpin for PoolBox<T> {}

impl<T: fmt::Debug> fmt::Debug for PoolBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

const _: () = assert!(size_of::<PoolBox<[u64; 9]>>() == 8);
const _: () = assert!(size_of::<Option<PoolBox<[u64; 9]>>>() == 8);

#[cfg(test)]
mod tests;
