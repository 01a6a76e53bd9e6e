//! Lists of operations that cost no memory: the links lie in the operation slots.
//!
//! Every operation in flight on mio is in exactly one place: one of the [queues](super::queues), the file backlog, a
//! wait list of its descriptor, or with the blocking pool. So one link per slot is enough, and nothing can be queued
//! twice.
#![forbid(unsafe_code)]

use crate::list::List;
use crate::op::Op;
use crate::slots::{Link, Slot, Slots};

/// A list of operations, first in first out, of which a turn takes out what was there when it began.
#[derive(Debug, Default)]
pub(super) struct Queue {
    list: List,
    /// How many of them, from the first, this turn may still take out.
    turn: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        debug_assert!(self.turn <= self.list.len());
        self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends an operation that is in no list.
    pub(super) fn push(&mut self, slots: &mut Slots, index: u32) {
        self.list.push(slots, index);
    }

    /// The index of the operation that has waited longest, without taking it out.
    pub(super) fn first(&self) -> Option<u32> {
        self.list.first()
    }

    /// Takes out the operation that has waited longest.
    pub(super) fn pop(&mut self, slots: &mut Slots) -> Option<u32> {
        let first = self.list.pop(slots)?.index();
        self.turn = self.turn.saturating_sub(1);
        Some(first)
    }

    /// A turn begins: it may take out what is in the list now.
    pub(super) fn begin_turn(&mut self) {
        self.turn = self.list.len();
    }

    /// Takes out the operation that has waited longest, if it was there when the turn began.
    pub(super) fn pop_of_turn(&mut self, slots: &mut Slots) -> Option<u32> {
        if self.turn == 0 { None } else { self.pop(slots) }
    }

    /// Keeps those in the list, in order, for which `keep` says so, and hands the others to `removed`.
    pub(super) fn retain(
        &mut self,
        slots: &mut Slots,
        keep: impl Fn(&Op) -> bool,
        removed: impl FnMut(&mut Slots, u32),
    ) {
        let (mut left_of_turn, mut kept_of_turn) = (self.turn, 0);
        let keep = |_, slot: &Slot| {
            let keeps = keep(&slot.op);
            kept_of_turn += usize::from(keeps && left_of_turn > 0);
            left_of_turn = left_of_turn.saturating_sub(1);
            keeps
        };
        self.list.retain(slots, keep, removed);
        self.turn = kept_of_turn;
    }
}

/// A short list of operations that wait for the same thing, kept as its first index so that it fits in a table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiters(pub(super) Option<u32>);

impl Waiters {
    /// Appends an operation that is in no list. Walks the list: there is hardly ever more than one.
    pub(super) fn push(&mut self, slots: &mut Slots, index: u32) {
        set_next(slots, index, None);
        let Some(mut last) = self.0 else {
            self.0 = Some(index);
            return;
        };
        while let Some(next) = next(slots, last) {
            last = next;
        }
        debug_assert_ne!(last, index, "in one place only");
        set_next(slots, last, Some(index));
    }

    /// Takes out the first.
    pub(super) fn pop(&mut self, slots: &mut Slots) -> Option<u32> {
        let first = self.0?;
        self.0 = next(slots, first);
        set_next(slots, first, None);
        Some(first)
    }

    /// Takes out a certain one; whether it was there.
    pub(super) fn remove(&mut self, slots: &mut Slots, index: u32) -> bool {
        let Some(mut before) = self.0 else { return false };
        let after = next(slots, index);
        if before == index {
            self.0 = after;
            set_next(slots, index, None);
            return true;
        }
        while let Some(at) = next(slots, before) {
            if at == index {
                set_next(slots, before, after);
                set_next(slots, index, None);
                return true;
            }
            before = at;
        }
        false
    }
}

fn next(slots: &mut Slots, index: u32) -> Option<u32> {
    slots.at_mut(index).expect("a listed operation is in flight").link.index()
}

fn set_next(slots: &mut Slots, index: u32, to: Option<u32>) {
    slots.at_mut(index).expect("a listed operation is in flight").link = to.map_or(Link::NONE, Link::to);
}
