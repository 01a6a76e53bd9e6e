//! The shutdowns in flight, by descriptor.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use plimsoll_pool::{Charge, Kind, OverBudget, Pool};
use plimsoll_slab::Key;

use crate::fd::Number;
use crate::slots::Slots;

/// The shutdowns in flight. A backend may make their call after the turn in which they were submitted, by the
/// descriptor's number: when that is closed before, it must not, because the number may be another file's. A close ends
/// both halves anyway.
#[derive(Default)]
pub(super) struct Shutdowns {
    /// Mostly empty, and in the order of their completions.
    pub(super) keys: VecDeque<(Number, Key)>,
    /// For the memory of `keys`.
    charge: Option<Charge>,
}

impl Shutdowns {
    /// Makes sure that one more has room.
    pub(super) fn reserve(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let len = self.keys.len();
        if len < self.keys.capacity() {
            return Ok(());
        }
        let capacity = (2 * len).max(SHUTDOWNS_MIN);
        // The old memory is charged until the new one has replaced it.
        let charge = pool.charge(Kind::Slots, (capacity * size_of::<(Number, Key)>()) as u64)?;
        self.keys.reserve_exact(capacity - len);
        self.charge = Some(charge);
        Ok(())
    }

    pub(super) fn remove(&mut self, key: Key) {
        if let Some(at) = self.keys.iter().position(|(_, other)| *other == key) {
            self.keys.remove(at);
        }
    }

    /// Makes those of a descriptor end without their call.
    pub(super) fn revoke(&self, fd: Number, slots: &mut Slots) {
        for (_, key) in self.keys.iter().filter(|(of, _)| *of == fd) {
            if let Some(slot) = slots.get_mut(*key) {
                slot.state = slot.state.cancelled();
            }
        }
    }

    /// Gives the memory back if there are none.
    pub(super) fn shrink(&mut self) {
        if self.keys.is_empty() {
            *self = Self::default();
        }
    }
}

/// For how many shutdowns there is room when there is the first one.
const SHUTDOWNS_MIN: usize = 16;
