//! What the address sanitizer is told of slots: their bytes may be touched while somebody holds them, and not
//! otherwise.
//!
//! ```text
//!   a step is opened                      handed out
//!   -----------------> POISONED ------------------------------> OPEN: the whole slot of a lease, of a raw
//!                        ^                                            one (a box, the cell of a task) what is used
//!                        |          given back                        |
//!                        +--------------------------------------------+
//!                           here, or on another thread before its push
//! ```
//!
//! So the sanitizer finds what is used after it was given back, though its page stays, and what is written behind a
//! value. A lease has no such zone: all of its slot is its capacity. Pages that go back to the system are poisoned
//! before and after. Writes of the kernel are not seen, as the sanitizer sees only code that was built with it, and
//! calls of the C library.
//!
//! Built with `RUSTFLAGS="-Zsanitizer=address --cfg plimsoll_asan"`, as `cargo xtask ci --only asan` does; without
//! that, there is nothing here. (`cfg(sanitize)` would say the same, on nightly compilers only.)
//!
//! **I-SHADOW**: the calls change what the sanitizer reports about addresses of a reservation of the pool, and nothing
//! that a program sees.

use core::ptr::NonNull;

/// From now on nobody may touch these bytes.
#[inline(always)]
pub(crate) fn close(start: NonNull<u8>, bytes: usize) {
    shadow::close(start.as_ptr(), bytes);
}

/// From now on nobody may touch the bytes of a slot behind those that are used.
#[inline(always)]
pub(crate) fn close_behind(slot: NonNull<u8>, used_bytes: usize, slot_bytes: usize) {
    shadow::close(slot.as_ptr().wrapping_add(used_bytes), slot_bytes.saturating_sub(used_bytes));
}

/// From now on these bytes may be touched.
#[inline(always)]
pub(crate) fn open(start: NonNull<u8>, bytes: usize) {
    shadow::open(start.as_ptr(), bytes);
}

#[cfg(plimsoll_asan)]
mod shadow {
    unsafe extern "C" {
        fn __asan_poison_memory_region(start: *const core::ffi::c_void, bytes: usize);
        fn __asan_unpoison_memory_region(start: *const core::ffi::c_void, bytes: usize);
    }

    pub(super) fn close(start: *mut u8, bytes: usize) {
        // SAFETY: I-SHADOW.
        unsafe { __asan_poison_memory_region(start.cast(), bytes) }
    }

    pub(super) fn open(start: *mut u8, bytes: usize) {
        // SAFETY: I-SHADOW.
        unsafe { __asan_unpoison_memory_region(start.cast(), bytes) }
    }
}

#[cfg(not(plimsoll_asan))]
mod shadow {
    #[inline(always)]
    pub(super) fn close(_start: *mut u8, _bytes: usize) {}

    #[inline(always)]
    pub(super) fn open(_start: *mut u8, _bytes: usize) {}
}

#[cfg(all(test, plimsoll_asan))]
mod tests;
