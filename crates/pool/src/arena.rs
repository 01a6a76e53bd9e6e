//! The addresses of a pool: one reservation, aligned to its own size, that begins with a header.
//!
//! ```text
//!  0        4 GiB    8 GiB                      52 GiB         64 GiB
//!  +--------+--------+--------+-----   ----+----------+---------+
//!  | header | B64    | B128   |    ...     | K128     | unused  |
//!  +--------+--------+--------+-----   ----+----------+---------+
//! ```
//!
//! The header, the class and the slot of any byte follow from its address. No page of slots holds anything of the
//! pool's own.
//!
//! # How is this safe?
//!
//! **I-REGION**: an address inside a live slot is in a reservation of [`REGION_BYTES`], aligned to as many, whose
//! header is initialised. The reservation and its header stay until the pool is gone and the last live slot was given
//! back, whatever comes last; the giver-back of a slot does not touch them after the operation by which it gave up its
//! slot.
//!
//! **I-OWNER**: while the header's `owner` is a thread's mark, its `local` points to that thread's [`Local`], which is
//! alive and is used on that thread only. Both are changed on that thread, before `Local` is gone. Marks are never used
//! twice.
//!
//! **I-SLOT**: the bookkeeping hands out a slot to one holder at a time, in a step that is open (I3), and does not
//! touch its bytes. The slots of a class do not overlap, the ranges of classes neither.
//!
//! **I8**: the bookkeeping releases only units without live slots, so nothing that a holder can see is lost.

use core::cell::Cell;
use core::fmt;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::account::Account;
use crate::budget::{ArenaEnd, Budget};
use crate::class::{Class, RANGE_BYTES};
use crate::credit::Credit;
use crate::error::Error;
use crate::kind::Kind;
use crate::local::Local;
use crate::page::{PAGE_BYTES_MIN, page_bytes};
use crate::pages::{PageChoice, Pages, Shadow, Span};
use crate::remote::{Pushed, RemoteList};
use crate::segments::BATCH_SPANS;
use crate::{poison, sys, thread};

/// Addresses of one pool.
pub(crate) const REGION_BYTES: usize = 16 * RANGE_BYTES as usize;

/// Called when something comes back to an owner that waits for it.
type Doorbell = Arc<dyn Fn() + Send + Sync>;

struct Header {
    /// I-OWNER.
    owner: AtomicU64,
    /// I-OWNER.
    local: AtomicPtr<Local>,
    remote: RemoteList,
    doorbell: Mutex<Option<Doorbell>>,
    budget: Arc<Budget>,
    account: Arc<Account>,
}

const _: () = assert!(size_of::<Header>() <= PAGE_BYTES_MIN);
const _: () = assert!((Class::COUNT as u64 + 1) * RANGE_BYTES <= REGION_BYTES as u64);

/// A pool's hold of its addresses. Dropping it ends the arena, or leaves that to the last of its slots.
pub(crate) struct Arena {
    /// I-REGION: the start of the reservation.
    base: NonNull<u8>,
    /// Once the list is closed: how many slots are elsewhere.
    live_at_end: Cell<Option<u64>>,
    shadow: Option<Shadow>,
}

impl Arena {
    /// Reserves addresses and sets the header up, in a page that the caller has charged.
    pub(crate) fn reserve(credit: &Credit, pages: PageChoice) -> Result<Self, Error> {
        let base = sys::reserve(REGION_BYTES).map_err(|errno| Error::Reserve { bytes: REGION_BYTES as u64, errno })?;
        // SAFETY: I-RANGE: the first page of the new reservation.
        if let Err(errno) = unsafe { sys::open(base, page_bytes()) } {
            // SAFETY: I-RANGE: nobody knows of it yet.
            let _ = unsafe { sys::unmap(base, REGION_BYTES) };
            return Err(Error::System { errno });
        }
        let header = Header {
            owner: AtomicU64::new(thread::ORPHAN),
            local: AtomicPtr::new(ptr::null_mut()),
            remote: RemoteList::new(),
            doorbell: Mutex::new(None),
            budget: Arc::clone(credit.budget()),
            account: Arc::clone(credit.account()),
        };
        // SAFETY: I-REGION: open, aligned, long enough by the assertion above, and this function's own.
        unsafe { base.cast::<Header>().write(header) };
        let shadow = match pages {
            PageChoice::System => None,
            PageChoice::Simulated(pages) => Some(Shadow::new(pages)),
        };
        Ok(Self { base, live_at_end: Cell::new(None), shadow })
    }

    /// Makes the calling thread the owner of `local`'s arena.
    ///
    /// I-OWNER: `local` cannot leave this thread, and dropping it drops the arena, which clears these fields.
    pub(crate) fn set_owner(local: &Rc<Local>) {
        let header = local.arena().header();
        header.local.store(Rc::as_ptr(local).cast_mut(), Ordering::Relaxed);
        header.owner.store(thread::own(), Ordering::Relaxed);
    }

    /// The first byte of a slot.
    #[inline]
    pub(crate) fn slot(&self, class: Class, slot: u32) -> NonNull<u8> {
        self.at(class, class.shape().slot_offset(slot))
    }

    /// Takes the slots that came back from other threads.
    #[inline]
    pub(crate) fn drain(&self, mut each: impl FnMut(Class, u32, Kind)) -> usize {
        self.header().remote.drain(|slot, kind| returned(slot, kind, &mut each))
    }

    /// Whether the next slot that comes back rings the bell; takes those that came back before.
    pub(crate) fn arm_doorbell(&self, armed: bool, mut each: impl FnMut(Class, u32, Kind)) -> usize {
        self.header().remote.arm_doorbell(armed, |slot, kind| returned(slot, kind, &mut each))
    }

    /// Takes the slots that came back, for the last time: [`settle`](Self::settle) and the drop follow.
    pub(crate) fn close(&self, mut each: impl FnMut(Class, u32, Kind)) -> usize {
        self.header().remote.close(|slot, kind| returned(slot, kind, &mut each))
    }

    /// After [`close`](Self::close): `live` slots are elsewhere. The drop leaves the arena to the last of them.
    pub(crate) fn settle(&self, live: u64) {
        self.live_at_end.set(Some(live));
    }

    /// What was settled.
    pub(crate) fn settled(&self) -> Option<u64> {
        self.live_at_end.get()
    }

    pub(crate) fn set_doorbell(&self, ring: Box<dyn Fn() + Send + Sync>) {
        let ring = Some(Arc::from(ring));
        let before =
            core::mem::replace(&mut *self.header().doorbell.lock().unwrap_or_else(PoisonError::into_inner), ring);
        // It may run code of others, which may set another one: not under the lock.
        drop(before);
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: I-REGION: the arena is the pool's, which is not gone.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    #[inline]
    fn at(&self, class: Class, offset: u32) -> NonNull<u8> {
        let offset = (class.index() + 1) * RANGE_BYTES as usize + offset as usize;
        // SAFETY: I-REGION: 13 ranges fit into the reservation, by the assertion above, and the offset into its range:
        // it is that of a slot.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Arena {
    /// The account ends with the arena: what the pool has charged is not its own to change any more.
    fn drop(&mut self) {
        let header = self.header();
        // I-OWNER: from now on, this thread gives slots back as any other.
        header.owner.store(thread::ORPHAN, Ordering::Relaxed);
        header.local.store(ptr::null_mut(), Ordering::Relaxed);
        let live = self.settled().unwrap_or(0);
        if live == 0 {
            // SAFETY: I-REGION: no slot is live and the pool is gone.
            unsafe { end(self.base, ArenaEnd::WithItsPool) };
            return;
        }
        header.budget.adopt();
        if header.remote.settle(live) {
            // SAFETY: I-REGION: as above; I-COUNT of the remote list: only this thread sees it.
            unsafe { end(self.base, ArenaEnd::Adopted) };
        }
    }
}

/// Ends an arena: gives its addresses back, then what was charged for it.
///
/// # Safety
///
/// I-REGION: called once, by the last one to touch it.
unsafe fn end(base: NonNull<u8>, how: ArenaEnd) {
    // SAFETY: I-REGION: the header is initialised, and used for the last time: its fields move out.
    let header = unsafe { base.cast::<Header>().read() };
    // SAFETY: I-RANGE: the whole reservation, without users by I-REGION.
    let unmapped = unsafe { sys::unmap(base, REGION_BYTES) };
    // I4: what the system does not take back stays charged.
    if unmapped.is_ok() {
        header.budget.close_account(&header.account, how);
    }
}

/// Where an address in a slot belongs.
#[derive(Clone, Copy)]
struct Home {
    base: NonNull<u8>,
    class: Class,
    /// From the start of the class's range.
    offset: u32,
}

impl Home {
    #[inline]
    fn of(at: NonNull<u8>) -> Self {
        let inside = at.addr().get() & (REGION_BYTES - 1);
        let range = (inside as u64 / RANGE_BYTES) as usize;
        debug_assert!((1..=Class::COUNT).contains(&range), "the address is in a range of slots");
        // SAFETY: I-REGION: the start of the reservation is that far below.
        let base = unsafe { at.sub(inside) };
        Self { base, class: Class::ALL[range - 1], offset: (inside as u64 % RANGE_BYTES) as u32 }
    }

    #[inline]
    fn slot(self) -> u32 {
        self.class.shape().slot_at(self.offset)
    }

    /// How many bytes of its slot are before the address.
    #[inline]
    fn before(self) -> usize {
        (self.offset - self.class.shape().slot_offset(self.slot())) as usize
    }
}

/// The class of the slot that a live holder's address is in.
#[inline]
pub(crate) fn class_of(at: NonNull<u8>) -> Class {
    Home::of(at).class
}

/// How many bytes of its slot are before a live holder's address.
#[inline]
pub(crate) fn bytes_before(at: NonNull<u8>) -> usize {
    Home::of(at).before()
}

/// Gives back the slot that an address is in: to its pool if that is this thread's, else to the list of its pool, or of
/// its arena.
///
/// # Safety
///
/// I-SLOT: the caller is the holder of the slot, and not any more from now on. `kind` is what it was handed out as.
#[inline]
pub(crate) unsafe fn give_back(at: NonNull<u8>, kind: Kind) {
    let home = Home::of(at);
    // SAFETY: I-REGION: the slot is live.
    let header = unsafe { home.base.cast::<Header>().as_ref() };
    if header.owner.load(Ordering::Relaxed) == thread::mark() {
        // SAFETY: I-OWNER: this thread's mark.
        let local = unsafe { &*header.local.load(Ordering::Relaxed) };
        local.take_back(home.class, home.slot(), kind);
    } else {
        // SAFETY: I-SLOT: as this function's own contract.
        unsafe { give_back_remote(at, kind) };
    }
}

/// Gives back a slot from a thread that is not its pool's.
///
/// # Safety
///
/// As [`give_back`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn give_back_remote(at: NonNull<u8>, kind: Kind) {
    let home = Home::of(at);
    // SAFETY: I-SLOT: the start of the same slot.
    let slot = unsafe { at.sub(home.before()) };
    // Not after the push: it is another's then.
    poison::close(slot, home.class.bytes());
    // SAFETY: I-REGION: the slot is live, until the push.
    let header = unsafe { home.base.cast::<Header>().as_ref() };
    let doorbell = || header.doorbell.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: I-OWNED of the list is I-SLOT here; slots are aligned to 64 bytes at least.
    match unsafe { header.remote.push(slot, kind, doorbell) } {
        Pushed::Queued(Some(doorbell)) => doorbell(),
        Pushed::Queued(None) | Pushed::Closed { last: false } => {}
        // SAFETY: I-REGION and I-COUNT of the list: the pool is gone, this was the last slot, and only this thread sees
        // that.
        Pushed::Closed { last: true } => unsafe { end(home.base, ArenaEnd::Adopted) },
    }
}

fn returned(slot: NonNull<u8>, kind: Kind, each: &mut impl FnMut(Class, u32, Kind)) {
    let home = Home::of(slot);
    debug_assert_eq!(home.before(), 0, "slots come back by their first bytes");
    each(home.class, home.slot(), kind);
}

impl Pages for Arena {
    fn commit(&self, step: Span) -> Result<(), i32> {
        if let Some(shadow) = &self.shadow {
            shadow.commit(step)?;
        }
        // SAFETY: I-RANGE: a step of the pool's own reservation.
        unsafe { sys::open(self.at(step.class, step.offset), step.bytes as usize)? };
        poison::close(self.at(step.class, step.offset), step.bytes as usize);
        Ok(())
    }

    fn release(&self, spans: &[Span], gone: &mut dyn FnMut(Span)) {
        debug_assert!(spans.len() <= BATCH_SPANS);
        let mut ranges = sys::Ranges::<BATCH_SPANS>::new();
        let mut kept = [0_u16; BATCH_SPANS];
        let mut count = 0;
        for (index, span) in spans.iter().enumerate() {
            if self.shadow.as_ref().is_some_and(|shadow| shadow.refuses_release(*span)) {
                continue;
            }
            ranges.push(self.at(span.class, span.offset), span.bytes as usize);
            kept[count] = index as u16;
            count += 1;
        }
        // SAFETY: I-RANGE: units of the pool's own reservation, with nothing in them by I8.
        unsafe { ranges.discard(|range| gone(spans[usize::from(kept[range])])) };
    }

    #[inline]
    fn occupied(&self, unit: Span) {
        if let Some(shadow) = &self.shadow {
            shadow.occupied(unit);
        }
    }

    #[inline]
    fn vacated(&self, unit: Span) {
        if let Some(shadow) = &self.shadow {
            shadow.vacated(unit);
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("base", &self.base).field("shadow", &self.shadow).finish()
    }
}

#[cfg(test)]
mod tests;
