//! What the handles of a pool share: handing slots out and taking them back.
#![forbid(unsafe_code)]

use core::cell::{Ref, RefCell};
use core::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use crate::arena::Arena;
use crate::budget::{ArenaEnd, Budget};
use crate::class::Class;
use crate::credit::Credit;
use crate::error::{Error, OverBudget, Shortage};
use crate::kind::Kind;
use crate::page::page_bytes;
use crate::pages::PageChoice;
use crate::poison;
use crate::segments::{Goal, Segments};

/// The header page, and the pool's own value.
pub(crate) fn fixed_bytes() -> u64 {
    (page_bytes() + size_of::<Local>() + 32) as u64
}

/// What the handles of a pool share. On its owner's thread only.
#[derive(Debug)]
pub(crate) struct Local {
    // In this order they go: bookkeeping, then the arena, which ends the account.
    segments: RefCell<Segments>,
    arena: Arena,
    credit: Credit,
}

impl Local {
    /// Charges the fixed part, reserves addresses, and makes the calling thread the owner.
    pub(crate) fn open(budget: &Arc<Budget>, workers: u32, pages: PageChoice) -> Result<Rc<Self>, Error> {
        let credit = Credit::open(budget, workers);
        let arena = credit.charge(fixed_bytes()).map_err(Error::from).and_then(|()| Arena::reserve(&credit, pages));
        let arena = match arena {
            Ok(arena) => arena,
            Err(error) => {
                budget.close_account(credit.account(), ArenaEnd::WithItsPool);
                return Err(error);
            }
        };
        credit.begin_use(Kind::Fixed, fixed_bytes());
        let local = Rc::new(Self { segments: RefCell::new(Segments::new(page_bytes())), arena, credit });
        Arena::set_owner(&local);
        Ok(local)
    }

    #[inline]
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    pub(crate) fn credit(&self) -> &Credit {
        &self.credit
    }

    /// The bookkeeping, to be read.
    #[inline]
    pub(crate) fn segments(&self) -> Ref<'_, Segments> {
        self.segments.borrow()
    }

    /// The start of a slot that is the caller's from now on.
    #[inline]
    pub(crate) fn hand_out(&self, class: Class, kind: Kind) -> Result<NonNull<u8>, OverBudget> {
        let mut segments = self.segments.borrow_mut();
        let slot = match segments.pop(class) {
            Some(slot) => slot,
            None => self.find(&mut segments, class)?,
        };
        self.credit.begin_use(kind, class.bytes() as u64);
        let start = self.arena.slot(class, slot);
        poison::open(start, class.bytes());
        Ok(start)
    }

    /// A slot of the owner's own comes back.
    #[inline]
    pub(crate) fn take_back(&self, class: Class, slot: u32, kind: Kind) {
        self.put(&mut self.segments.borrow_mut(), class, slot, kind);
    }

    #[inline]
    fn put(&self, segments: &mut Segments, class: Class, slot: u32, kind: Kind) {
        self.credit.end_use(kind, class.bytes() as u64);
        poison::close(self.arena.slot(class, slot), class.bytes());
        segments.push(class, slot, &self.arena);
    }

    /// A slot when none is at hand: a free one, or a new one within the line.
    #[inline(never)]
    fn find(&self, segments: &mut Segments, class: Class) -> Result<u32, OverBudget> {
        if let Some(slot) = segments.take_warm(class, &self.arena) {
            return Ok(slot);
        }
        if self.drain(segments) > 0
            && let Some(slot) = segments.pop(class).or_else(|| segments.take_warm(class, &self.arena))
        {
            return Ok(slot);
        }
        let refused = match segments.take_cold(class, &self.credit, &self.arena) {
            Err(over) if over.cause() == Shortage::Line => over,
            found => return found,
        };
        // What was refused may contain metadata beside the unit.
        segments.release(Goal::AtLeast(refused.wanted_bytes()), &self.credit, &self.arena);
        let found = segments.take_cold(class, &self.credit, &self.arena);
        found.map_err(|over| OverBudget::because(class.bytes() as u64, over.cause()))
    }

    /// Takes back the slots that came back from other threads; how many there were.
    #[inline]
    pub(crate) fn drain_remote(&self) -> usize {
        self.drain(&mut self.segments.borrow_mut())
    }

    fn drain(&self, segments: &mut Segments) -> usize {
        self.arena.drain(|class, slot, kind| self.put(segments, class, slot, kind))
    }

    /// Whether the next slot that comes back rings the bell; takes those that came back before, and says how many.
    pub(crate) fn arm_doorbell(&self, armed: bool) -> usize {
        let mut segments = self.segments.borrow_mut();
        self.arena.arm_doorbell(armed, |class, slot, kind| self.put(&mut segments, class, slot, kind))
    }

    /// Begins an epoch of the decay.
    pub(crate) fn begin_epoch(&self) {
        let mut segments = self.segments.borrow_mut();
        self.drain(&mut segments);
        segments.begin_epoch(&self.arena);
    }

    /// Releases what nobody has needed for an epoch, within bounds; how many bytes.
    pub(crate) fn release_surplus(&self, bytes_max: u64, ranges_max: usize) -> u64 {
        self.segments.borrow_mut().release_surplus(bytes_max, ranges_max, &self.credit, &self.arena)
    }

    /// Gives free resident memory back to the system; how many bytes.
    pub(crate) fn spare(&self, goal: Goal) -> u64 {
        let mut segments = self.segments.borrow_mut();
        self.drain(&mut segments);
        segments.release(goal, &self.credit, &self.arena)
    }

    /// Closes the list of other threads and lets go of everything but live slots; how many of those there are.
    pub(crate) fn close(&self) -> u64 {
        if let Some(live) = self.arena.settled() {
            return live;
        }
        let mut segments = self.segments.borrow_mut();
        self.arena.close(|class, slot, kind| self.put(&mut segments, class, slot, kind));
        let live = segments.live();
        if live > 0 {
            segments.release(Goal::AtLeast(u64::MAX), &self.credit, &self.arena);
            let metadata = segments.metadata_bytes();
            *segments = Segments::new(page_bytes());
            self.credit.end_use(Kind::Fixed, metadata);
            self.credit.uncharge(metadata);
            self.credit.trim();
        }
        self.arena.settle(live);
        live
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.close();
    }
}
