//! Slots that were dropped on other threads than their pool's: a lock-free stack that the owner takes as a whole.
//!
//! One word says everything, so that no ordering between several has to be right:
//!
//! ```text
//!            push (others)                    drain (owner)
//!   EMPTY ----------------> LIST of slots ------------------> EMPTY
//!     |                       ^   |  ^
//!     | arm_doorbell(true)    |   +--+ push
//!     v                       |
//!   ARMED --------------------+  push: rings the bell, once
//!
//!   EMPTY, LIST, ARMED --- close (owner) ---> CLOSED: pushes are counted instead
//! ```
//!
//! The entries are the slots themselves: the low bits of an entry are the kind of its slot, the first word of a slot is
//! the next entry.
//!
//! # How is this safe?
//!
//! **I-OWNED**: who pushes a slot owns it alone and gives it up by the push that succeeds; from then on it is the
//! list's, and after a drain the owner's.
//!
//! **I-LINK**: the first word of every slot in the list is an entry or null, written before the push that made the slot
//! visible. For the address sanitizer it is open only while this file looks at it.
//!
//! **I-COUNT**: `remaining` is what the owner settled on at closing minus the pushes refused. It is 0 after an
//! operation on it exactly once: when both the owner has settled and the last lease is gone. Nobody touches the list
//! after their own operation on it, but for the one who saw 0.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::kind::Kind;
use crate::poison;
use crate::sync::{AtomicI64, AtomicPtr, Ordering};

/// Bits of an entry below the alignment of slots, 64: the kind's, then these.
const ARMED: usize = 1 << 3;
const CLOSED: usize = 1 << 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct RemoteList<L = SlotLinks> {
    head: AtomicPtr<u8>,
    /// I-COUNT.
    remaining: AtomicI64,
    links: PhantomData<L>,
}

/// What became of a slot that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed<B> {
    /// The owner gets it at its next drain; if there is a bell, it waits to be rung.
    Queued(Option<B>),
    /// There is no owner any more. Whoever gave up the last slot ends the arena.
    Closed { last: bool },
}

/// How the link of a slot is kept.
///
/// # Safety
///
/// `get` returns what the last `set` of the same slot has stored.
pub(crate) unsafe trait Links {
    /// # Safety
    ///
    /// I-OWNED: the caller owns the slot.
    unsafe fn set(slot: NonNull<u8>, next: *mut u8);

    /// # Safety
    ///
    /// I-OWNED, and a link has been set.
    unsafe fn get(slot: NonNull<u8>) -> *mut u8;
}

const LINK_BYTES: usize = size_of::<*mut u8>();

/// Links in the first words of the slots.
#[derive(Debug)]
pub(crate) struct SlotLinks;

// SAFETY: I-LINK: both use the same word of the slot.
unsafe impl Links for SlotLinks {
    unsafe fn set(slot: NonNull<u8>, next: *mut u8) {
        poison::open(slot, LINK_BYTES);
        // SAFETY: I-OWNED: 64 bytes or more, aligned to 64, the caller's.
        unsafe { slot.cast::<*mut u8>().write(next) };
        poison::close(slot, LINK_BYTES);
    }

    unsafe fn get(slot: NonNull<u8>) -> *mut u8 {
        poison::open(slot, LINK_BYTES);
        // SAFETY: I-OWNED, and I-LINK: it was written by `set`.
        let next = unsafe { slot.cast::<*mut u8>().read() };
        poison::close(slot, LINK_BYTES);
        next
    }
}

impl<L: Links> RemoteList<L> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), remaining: AtomicI64::new(0), links: PhantomData }
    }

    /// Gives a slot up. `bell` is called before that if the owner waits, because the owner may be gone right after.
    ///
    /// # Safety
    ///
    /// I-OWNED: the caller owns the slot, which is aligned to 64 and counted among the live ones that the owner settles
    /// on.
    pub(crate) unsafe fn push<B>(&self, slot: NonNull<u8>, kind: Kind, bell: impl Fn() -> Option<B>) -> Pushed<B> {
        debug_assert!(slot.as_ptr().addr().is_multiple_of(64));
        let entry = slot.as_ptr().map_addr(|address| address | kind.bits());
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let state = head.addr();
            if state & CLOSED != 0 {
                return Pushed::Closed { last: self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 };
            }
            let bell = if state & ARMED != 0 { bell() } else { None };
            // SAFETY: I-OWNED: it is still the caller's.
            unsafe { L::set(slot, head.map_addr(|address| address & !ARMED)) };
            match self.head.compare_exchange_weak(head, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Pushed::Queued(bell),
                Err(now) => head = now,
            }
        }
    }

    /// Owner: takes all slots off the list and hands each to `each`; how many there were.
    #[inline]
    pub(crate) fn drain(&self, each: impl FnMut(NonNull<u8>, Kind)) -> usize {
        let state = self.head.load(Ordering::Relaxed).addr();
        debug_assert_eq!(state & CLOSED, 0, "the owner closes the list last");
        if state & !ARMED == 0 {
            return 0;
        }
        self.take(ptr::null_mut(), each)
    }

    /// Owner: whether the next push rings; takes what is on the list.
    pub(crate) fn arm_doorbell(&self, armed: bool, each: impl FnMut(NonNull<u8>, Kind)) -> usize {
        let state = if armed { ARMED } else { 0 };
        self.take(ptr::without_provenance_mut(state), each)
    }

    /// Owner: from now on pushes are counted, until `settle`; takes what is on the list.
    pub(crate) fn close(&self, each: impl FnMut(NonNull<u8>, Kind)) -> usize {
        self.take(ptr::without_provenance_mut(CLOSED), each)
    }

    /// Owner, after `close`: `live` slots were neither drained nor will be. Whether all of them are gone already, so
    /// that the owner is the one to end the arena; if not, the arena is no longer the owner's to touch.
    pub(crate) fn settle(&self, live: u64) -> bool {
        let live = i64::try_from(live).expect("as many slots as addresses at most");
        debug_assert!(live > 0);
        self.remaining.fetch_add(live, Ordering::AcqRel) + live == 0
    }

    fn take(&self, state: *mut u8, mut each: impl FnMut(NonNull<u8>, Kind)) -> usize {
        let mut entry = self.head.swap(state, Ordering::AcqRel);
        let mut count = 0;
        while let Some(slot) = NonNull::new(entry.map_addr(|address| address & !(Kind::MASK | ARMED))) {
            let kind = Kind::from_bits(entry.addr());
            // SAFETY: I-OWNED: the swap made the list the owner's; I-LINK.
            entry = unsafe { L::get(slot) };
            each(slot, kind);
            count += 1;
        }
        count
    }
}

const _: () = assert!(Kind::MASK < ARMED);

#[cfg(test)]
mod tests;
