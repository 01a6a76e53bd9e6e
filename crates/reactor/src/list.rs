//! Lists of operations through their slots, so that waiting costs no memory.
//!
//! An operation is in one list at most. The last one of a list links to itself, so that a slot shows by its link
//! whether it is in a list.
#![forbid(unsafe_code)]

use plimsoll_slab::Key;

use crate::slots::{Link, Slot, Slots};

/// A list of operations, first in first out.
#[derive(Debug, Default)]
pub(crate) struct List {
    ends: Option<Ends>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(self.len == 0, self.ends.is_none());
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an operation that is in no list.
    pub(crate) fn push(&mut self, slots: &mut Slots, index: u32) {
        debug_assert!(!is_listed(slot(slots, index)), "in one list only");
        set_next(slots, index, index);
        let first = match self.ends {
            Some(Ends { first, last }) => {
                set_next(slots, last, index);
                first
            }
            None => index,
        };
        self.ends = Some(Ends { first, last: index });
        self.len += 1;
    }

    /// Puts an operation that is in no list before all others.
    pub(crate) fn push_front(&mut self, slots: &mut Slots, index: u32) {
        debug_assert!(!is_listed(slot(slots, index)), "in one list only");
        let last = match self.ends {
            Some(Ends { first, last }) => {
                set_next(slots, index, first);
                last
            }
            None => {
                set_next(slots, index, index);
                index
            }
        };
        self.ends = Some(Ends { first: index, last });
        self.len += 1;
    }

    /// The index of the operation that has waited longest, without taking it out.
    pub(crate) fn first(&self) -> Option<u32> {
        self.ends.map(|ends| ends.first)
    }

    /// Takes out the operation that has waited longest.
    pub(crate) fn pop(&mut self, slots: &mut Slots) -> Option<Key> {
        let Ends { first, last } = self.ends?;
        let next = next(slots, first);
        self.ends = if first == last { None } else { Some(Ends { first: next, last }) };
        debug_assert_eq!(first == last, first == next, "the last links to itself");
        slot(slots, first).link = Link::NONE;
        self.len -= 1;
        Some(slots.key_at(first).expect("a listed operation is in flight"))
    }

    /// Takes out a certain operation, wherever in the list it is; whether it was.
    pub(crate) fn remove(&mut self, slots: &mut Slots, index: u32) -> bool {
        let before = self.len;
        self.retain(slots, |at, _| at != index, |_, _| {});
        self.len < before
    }

    /// Keeps those in the list, in order, for which `keep` says so, and hands the others to `removed`.
    pub(crate) fn retain(
        &mut self,
        slots: &mut Slots,
        mut keep: impl FnMut(u32, &Slot) -> bool,
        mut removed: impl FnMut(&mut Slots, u32),
    ) {
        let Some(Ends { first, last }) = core::mem::take(self).ends else { return };
        let mut at = first;
        loop {
            let next = next(slots, at);
            let slot = slot(slots, at);
            slot.link = Link::NONE;
            if keep(at, slot) {
                self.push(slots, at);
            } else {
                removed(slots, at);
            }
            if at == last {
                return;
            }
            at = next;
        }
    }
}

/// Whether an operation is in a list.
pub(crate) fn is_listed(slot: &Slot) -> bool {
    slot.link != Link::NONE
}

fn slot(slots: &mut Slots, index: u32) -> &mut Slot {
    slots.at_mut(index).expect("a listed operation is in flight")
}

fn next(slots: &mut Slots, index: u32) -> u32 {
    slot(slots, index).link.index().expect("a listed operation has a link")
}

fn set_next(slots: &mut Slots, index: u32, to: u32) {
    slot(slots, index).link = Link::to(to);
}

#[cfg(test)]
mod tests;
