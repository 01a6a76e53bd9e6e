//! A global allocator that counts: [`Counted`].
//!
//! # How is this safe?
//!
//! **I-PASS**: every call goes to the allocator inside with the arguments as they came, and its answer comes back
//! unchanged. Counting touches static atomics and a thread-local cell without a destructor, and never allocates.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::alloc::System;

/// A global allocator that counts the bytes of the heap, for programs whose own heap is to count for the load line's
/// level.
///
/// The counted bytes are added to what is charged when the [`Level`](crate::Level) is found, so a full heap pauses
/// accepting and growth; they are shown by [`heap_bytes`]. They are no part of the line: an allocation is never
/// refused.
///
/// It wraps the system's allocator, or any other.
///
/// ```
/// use plimsoll_pool::alloc::{Counted, heap_bytes};
///
/// #[global_allocator]
/// static HEAP: Counted = Counted::system();
///
/// let before = heap_bytes();
/// let held = vec![0_u8; 1 << 20];
/// assert!(heap_bytes() >= before + (1 << 20));
/// drop(held);
/// assert!(heap_bytes() < before + (1 << 20));
/// ```
#[derive(Debug, Default)]
pub struct Counted<A = System>(A);

impl Counted<System> {
    /// Around the system's allocator.
    #[must_use]
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> Counted<A> {
    /// Around another allocator.
    #[must_use]
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

/// Bytes of the heap that are allocated now, if a [`Counted`] is the global allocator; else 0.
#[must_use]
pub fn heap_bytes() -> u64 {
    HEAP.bytes()
}

/// Threads count on different cache lines, as far as there are as many.
const STRIPES: usize = 16;

#[repr(align(128))]
struct Stripe(AtomicI64);

struct Heap<const STRIPES: usize> {
    stripes: [Stripe; STRIPES],
    /// Threads that have counted so far.
    threads: AtomicUsize,
}

static HEAP: Heap<STRIPES> = Heap::new();

thread_local! {
    /// This thread's stripe, from 1; 0 before its first count.
    static STRIPE: Cell<usize> = const { Cell::new(0) };
}

impl<const STRIPES: usize> Heap<STRIPES> {
    const fn new() -> Self {
        Self { stripes: [const { Stripe(AtomicI64::new(0)) }; STRIPES], threads: AtomicUsize::new(0) }
    }

    fn bytes(&self) -> u64 {
        if self.threads.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let sum: i64 = self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        // Other threads may be between the two sides of a move.
        u64::try_from(sum).unwrap_or(0)
    }

    #[inline]
    fn add(&self, bytes: i64) {
        let stripe = STRIPE.get();
        let stripe = if stripe == 0 { self.join() } else { stripe };
        self.stripes[stripe - 1].0.fetch_add(bytes, Ordering::Relaxed);
    }

    #[cold]
    fn join(&self) -> usize {
        let stripe = self.threads.fetch_add(1, Ordering::Relaxed) % STRIPES + 1;
        STRIPE.set(stripe);
        stripe
    }
}

// SAFETY: I-PASS.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: I-PASS: the caller's contract is that of the allocator inside.
        let place = unsafe { self.0.alloc(layout) };
        if !place.is_null() {
            HEAP.add(layout.size() as i64);
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: I-PASS.
        let place = unsafe { self.0.alloc_zeroed(layout) };
        if !place.is_null() {
            HEAP.add(layout.size() as i64);
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: I-PASS.
        unsafe { self.0.dealloc(place, layout) };
        HEAP.add(-(layout.size() as i64));
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: I-PASS.
        let moved = unsafe { self.0.realloc(place, layout, new_size) };
        if !moved.is_null() {
            HEAP.add(new_size as i64 - layout.size() as i64);
        }
        moved
    }
}

#[cfg(test)]
mod tests;
