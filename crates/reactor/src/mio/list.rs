//! Lists of operations that cost no memory: the links lie in the operation slots.
//!
//! Every operation in flight on mio is in exactly one place: one of the [queues](super::queues), the file backlog, a
//! wait list of its descriptor, or with the blocking pool. So one link per slot is enough, and nothing can be queued
//! twice.
#![forbid(unsafe_code)]

use crate::op::Op;
use crate::slots::{Link, Slots};

/// A list of operations, first in first out, with its length.
#[derive(Debug, Default)]
pub(super) struct Queue {
    ends: Option<Ends>,
    len: usize,
    /// How many of them, from the first, this turn may still take out.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.len == 0, self.ends.is_none());
        debug_assert!(self.turn <= self.len);
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an operation that is in no list.
    pub(super) fn push(&mut self, slots: &mut Slots, index: u32) {
        set_next(slots, index, None);
        self.ends = Some(match self.ends {
            None => Ends { first: index, last: index },
            Some(Ends { first, last }) => {
                set_next(slots, last, Some(index));
                Ends { first, last: index }
            }
        });
        self.len += 1;
    }

    /// The index of the operation that has waited longest, without taking it out.
    pub(super) fn first(&self) -> Option<u32> {
        self.ends.map(|ends| ends.first)
    }

    /// Takes out the operation that has waited longest.
    pub(super) fn pop(&mut self, slots: &mut Slots) -> Option<u32> {
        let Ends { first, last } = self.ends?;
        self.ends = match next(slots, first) {
            Some(second) => Some(Ends { first: second, last }),
            None => {
                debug_assert_eq!(first, last);
                None
            }
        };
        self.len -= 1;
        self.turn = self.turn.saturating_sub(1);
        Some(first)
    }

    /// A turn begins: it may take out what is in the list now.
    pub(super) fn begin_turn(&mut self) {
        self.turn = self.len;
    }

    /// Takes out the operation that has waited longest, if it was there when the turn began.
    pub(super) fn pop_of_turn(&mut self, slots: &mut Slots) -> Option<u32> {
        if self.turn == 0 {
            return None;
        }
        self.pop(slots)
    }

    /// Keeps those in the list, in order, for which `keep` says so, and hands the others to `removed`.
    pub(super) fn retain(
        &mut self,
        slots: &mut Slots,
        keep: impl Fn(&Op) -> bool,
        mut removed: impl FnMut(&mut Slots, u32),
    ) {
        let (len, turn) = (self.len, self.turn);
        let mut kept_of_turn = 0;
        for at in 0..len {
            let index = self.pop(slots).expect("so many are in the list");
            if keep(&slots.at_mut(index).expect("a listed operation is in flight").op) {
                self.push(slots, index);
                kept_of_turn += usize::from(at < turn);
            } else {
                removed(slots, index);
            }
        }
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
        Some(first)
    }

    /// Takes out a certain one; whether it was there.
    pub(super) fn remove(&mut self, slots: &mut Slots, index: u32) -> bool {
        let Some(mut before) = self.0 else { return false };
        let after = next(slots, index);
        if before == index {
            self.0 = after;
            return true;
        }
        while let Some(at) = next(slots, before) {
            if at == index {
                set_next(slots, before, after);
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
