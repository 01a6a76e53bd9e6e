//! The bookkeeping of one class in one pool: which slots are free, which units resident.
//!
//! ```text
//!            take_cold (charged before)            put of its last live slot
//!   COLD ------------------------------> IN USE ------------------------------> EMPTY
//!    ^                                      ^          take_warm                  |
//!    |                                      +-------------------------------------+
//!    +-------------------------------- released (system has taken it) ------------+
//! ```
//!
//! A unit in use that has a free slot, or is empty, is *warm*. The lowest warm unit is taken before the lowest cold
//! one, so live slots gather at the low end and high units become empty.
//!
//! **I3**: a live slot is in a unit that is resident and charged: units become resident in `take_cold` only, and cold
//! only in `released`, which wants them empty.
#![forbid(unsafe_code)]

use core::ops::Range;

use crate::bitmap::{Bitmap, bit, highest_below, low_bits, lowest, word};
use crate::class::{Class, Division, MAGAZINE_SLOTS_MAX, Shape, UNITS_PER_STEP_MAX};
use crate::pages::{Pages, Span};

type Units = Bitmap<{ UNITS_PER_STEP_MAX / 64 }>;

/// One class's slots.
#[derive(Debug)]
pub(crate) struct Segment {
    class: Class,
    shape: &'static Shape,
    division: Division,
    magazine: Magazine,
    /// Slots handed out.
    live: u32,
    resident_units: u32,
    empty_units: u32,
    /// Empty units that were empty all through the last epoch and still are: to be released.
    surplus_units: u32,
    /// Further empty units that nobody has needed since this epoch began. The two together are at most `empty_units`.
    idle_units: u32,
    /// The open part of the range, from its start.
    steps: Vec<Step>,
    /// One entry for every 64 steps.
    sets: Vec<StepSets>,
}

/// Which of 64 steps have a unit that is warm, cold or empty.
#[derive(Clone, Copy, Debug, Default)]
struct StepSets {
    warm: u64,
    cold: u64,
    empty: u64,
}

/// About 2 MiB of units.
#[derive(Debug)]
struct Step {
    /// Resident, with a free slot.
    warm: Units,
    /// Not resident.
    cold: Units,
    /// Resident, without a live slot. A part of `warm`.
    empty: Units,
    /// A bit for every free slot; the slots of a unit are neighbours in one word, or fill some.
    free: Box<[u64]>,
}

/// A few free and low slots at hand, the last one first. For the bitmaps they are in use.
#[derive(Debug)]
struct Magazine {
    slots: [u32; MAGAZINE_SLOTS_MAX],
    len: u32,
}

/// A slot's step, its number there, and its unit's number there.
#[derive(Clone, Copy)]
struct Place {
    step: u32,
    slot: u32,
    unit: u32,
}

/// Numbers of a class's segment, in slots and units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) live: u32,
    pub(crate) resident_units: u32,
    pub(crate) empty_units: u32,
    pub(crate) magazine_slots: u32,
}

/// What an allocation costs besides its bytes, at most.
const ALLOCATION_BYTES: u64 = 16;

impl Segment {
    /// A class's slots, with pages of so many bytes.
    pub(crate) fn new(class: Class, page_bytes: usize) -> Self {
        Self {
            class,
            shape: class.shape(),
            division: Division::of(class, page_bytes),
            magazine: Magazine { slots: [0; MAGAZINE_SLOTS_MAX], len: 0 },
            live: 0,
            resident_units: 0,
            empty_units: 0,
            surplus_units: 0,
            idle_units: 0,
            steps: Vec::new(),
            sets: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn division(&self) -> Division {
        self.division
    }

    pub(crate) fn count(&self) -> Count {
        Count {
            live: self.live,
            resident_units: self.resident_units,
            empty_units: self.empty_units,
            magazine_slots: self.magazine.len,
        }
    }

    /// A slot from the magazine.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let slot = self.magazine.pop()?;
        self.live += 1;
        Some(slot)
    }

    /// Takes a slot back, into the magazine if there is room and the slot is not above where the live ones would end
    /// without gaps: high slots that were reused at once would never let their pages become empty.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, pages: &impl Pages) {
        debug_assert!(self.live > 0, "only live slots come back");
        self.live -= 1;
        let is_low = slot < self.live + MAGAZINE_SLOTS_MAX as u32;
        if is_low && self.magazine.len < self.shape.magazine_slots_max {
            self.magazine.push(slot);
        } else {
            self.put(slot, pages);
        }
    }

    /// Puts the slots of the magazine where their units can become empty.
    pub(crate) fn drain_magazine(&mut self, pages: &impl Pages) {
        while let Some(slot) = self.magazine.pop() {
            self.put(slot, pages);
        }
        debug_assert_eq!(self.magazine.len, 0);
    }

    /// The lowest free slot of the lowest resident unit that has one.
    pub(crate) fn take_warm(&mut self, pages: &impl Pages) -> Option<u32> {
        let step = lowest_step(&self.sets, |sets| sets.warm)?;
        let unit = self.steps[step as usize].warm.lowest().expect("the set of steps says so");
        if self.steps[step as usize].empty.contains(unit) {
            self.fewer_empty(1);
            pages.occupied(self.unit_span(step, unit));
        }
        Some(self.take(step, unit))
    }

    /// Whether a unit is open and not resident.
    pub(crate) fn has_cold(&self) -> bool {
        self.sets.iter().any(|sets| sets.cold != 0)
    }

    /// The lowest slot of the lowest unit that is not resident: it is from now on (I3: the caller has charged it).
    pub(crate) fn take_cold(&mut self, pages: &impl Pages) -> Option<u32> {
        let step = lowest_step(&self.sets, |sets| sets.cold)?;
        let unit = self.steps[step as usize].cold.lowest().expect("the set of steps says so");
        self.steps[step as usize].cold.remove(unit);
        self.resident_units += 1;
        pages.occupied(self.unit_span(step, unit));
        Some(self.take(step, unit))
    }

    /// Takes the lowest free slot of a unit that is in no set but perhaps `warm` and `empty`.
    fn take(&mut self, step: u32, unit: u32) -> u32 {
        let (words, of_unit) = self.bits(unit);
        let part = &mut self.steps[step as usize];
        let first = words.start;
        let free = &mut part.free[words];
        let index = free.iter().position(|free| free & of_unit != 0).expect("a warm or cold unit has a free slot");
        let found = (free[index] & of_unit).trailing_zeros();
        free[index] &= !(1 << found);
        if free[index..].iter().all(|free| free & of_unit == 0) {
            part.warm.remove(unit)
        } else {
            part.warm.insert(unit)
        }
        part.empty.remove(unit);
        self.update_sets(step);
        self.live += 1;
        step * self.division.slots_per_step + (first + index) as u32 * 64 + found
    }

    /// Makes a slot that is in use for the bitmaps free.
    #[inline(never)]
    fn put(&mut self, slot: u32, pages: &impl Pages) {
        let Place { step, slot, unit } = self.place(slot);
        let (words, of_unit) = self.bits(unit);
        let part = &mut self.steps[step as usize];
        let free = &mut part.free[word(slot)];
        assert!(*free & bit(slot) == 0, "a slot is freed once");
        debug_assert!(!part.cold.contains(unit), "I3");
        *free |= bit(slot);
        let is_empty = part.free[words].iter().all(|free| free & of_unit == of_unit);
        part.warm.insert(unit);
        if is_empty {
            part.empty.insert(unit);
            self.empty_units += 1;
            pages.vacated(self.unit_span(step, unit));
        }
        self.update_sets(step);
    }

    /// The bytes of metadata that the next step needs: those to charge before it is opened, and those of them that are
    /// free after. `None` at the end of the range.
    pub(crate) fn next_step_bytes(&self) -> Option<(u64, u64)> {
        if self.steps.len() as u32 >= self.division.steps_max {
            return None;
        }
        let free_slots = u64::from(self.division.slots_per_step.div_ceil(64)) * 8 + ALLOCATION_BYTES;
        // The old directory is there until it has been copied.
        Some(match self.next_capacity() {
            None => (free_slots, 0),
            Some(capacity) => (free_slots + directory_bytes(capacity), directory_bytes(self.steps.capacity())),
        })
    }

    /// For how many steps there must be room to add one, if there is not.
    fn next_capacity(&self) -> Option<usize> {
        let len = self.steps.len();
        (len == self.steps.capacity()).then(|| (len + (len / 2).max(2)).min(self.division.steps_max as usize))
    }

    /// The addresses of the next step.
    pub(crate) fn next_step(&self) -> Span {
        let offset = self.shape.slot_offset(self.steps.len() as u32 * self.division.slots_per_step);
        Span { class: self.class, offset, bytes: self.division.step_bytes }
    }

    /// Adds a step whose metadata is charged and whose addresses are open.
    pub(crate) fn open_step(&mut self) {
        if let Some(capacity) = self.next_capacity() {
            self.steps.reserve_exact(capacity - self.steps.len());
            self.sets.reserve_exact(capacity.div_ceil(64) - self.sets.len());
            debug_assert_eq!(self.steps.capacity(), capacity, "charged for exactly that");
        }
        if self.steps.len().is_multiple_of(64) {
            self.sets.push(StepSets::default());
        }
        // Bits beyond the slots are of no unit, so nobody looks at them.
        let free = vec![u64::MAX; self.division.slots_per_step.div_ceil(64) as usize].into_boxed_slice();
        let cold = Units::first(self.division.units_per_step);
        self.steps.push(Step { warm: Units::EMPTY, cold, empty: Units::EMPTY, free });
        self.update_sets(self.steps.len() as u32 - 1);
    }

    /// The highest empty units in a row that start below `bound` (a unit of the range), at most `units_max` and in one
    /// step: the first, and how many.
    pub(crate) fn empty_run_below(&self, bound: u32, units_max: u32) -> Option<(u32, u32)> {
        debug_assert!(units_max > 0);
        let per_step = self.division.units_per_step;
        let (mut step_bound, mut unit_bound) = (bound / per_step, bound % per_step);
        if unit_bound > 0
            && let Some(last) =
                self.steps.get(step_bound as usize).and_then(|step| step.empty.highest_below(unit_bound))
        {
            return Some(self.run_ending_at(step_bound, last, units_max));
        }
        step_bound = step_bound.min(self.steps.len() as u32);
        unit_bound = per_step;
        let step = highest_step_below(&self.sets, step_bound, |sets| sets.empty)?;
        let last = self.steps[step as usize].empty.highest_below(unit_bound).expect("the set of steps says so");
        Some(self.run_ending_at(step, last, units_max))
    }

    fn run_ending_at(&self, step: u32, last: u32, units_max: u32) -> (u32, u32) {
        let count = self.steps[step as usize].empty.run_ending_at(last, units_max);
        (step * self.division.units_per_step + last + 1 - count, count)
    }

    /// One above the highest unit of the range that is open.
    pub(crate) fn unit_bound(&self) -> u32 {
        self.steps.len() as u32 * self.division.units_per_step
    }

    /// The addresses of units in a row, all in one step.
    pub(crate) fn span(&self, first_unit: u32, units: u32) -> Span {
        let slot = first_unit * self.division.slots_per_unit;
        Span { class: self.class, offset: self.shape.slot_offset(slot), bytes: units * self.division.unit_bytes }
    }

    /// The empty units of the span are no longer resident.
    pub(crate) fn released(&mut self, span: Span) {
        debug_assert_eq!(span.class, self.class);
        let first = span.offset / self.division.unit_bytes;
        let (step, first) = (first / self.division.units_per_step, first % self.division.units_per_step);
        let units = span.bytes / self.division.unit_bytes;
        let part = &mut self.steps[step as usize];
        for unit in first..first + units {
            assert!(part.empty.contains(unit), "I3: only empty units are released");
            part.empty.remove(unit);
            part.warm.remove(unit);
            part.cold.insert(unit);
        }
        self.fewer_empty(units);
        self.resident_units -= units;
        self.update_sets(step);
    }

    /// Begins an epoch: what was empty all through the last one is surplus now.
    pub(crate) fn begin_epoch(&mut self, pages: &impl Pages) {
        self.surplus_units += self.idle_units;
        self.drain_magazine(pages);
        debug_assert!(self.surplus_units <= self.empty_units);
        self.idle_units = self.empty_units - self.surplus_units;
    }

    /// Empty units to be released because nobody has needed them for an epoch.
    pub(crate) fn surplus_units(&self) -> u32 {
        self.surplus_units
    }

    /// Surplus units are about to be released. Those that the system refuses count as idle in the next epoch again.
    pub(crate) fn plan_release(&mut self, units: u32) {
        debug_assert!(units <= self.surplus_units);
        self.surplus_units -= units;
    }

    fn fewer_empty(&mut self, units: u32) {
        debug_assert!(units <= self.empty_units);
        self.empty_units -= units;
        self.surplus_units = self.surplus_units.min(self.empty_units);
        self.idle_units = self.idle_units.min(self.empty_units - self.surplus_units);
    }

    #[cfg(test)]
    pub(crate) fn is_cold(&self, unit: u32) -> bool {
        let per_step = self.division.units_per_step;
        self.steps[(unit / per_step) as usize].cold.contains(unit % per_step)
    }

    fn update_sets(&mut self, step: u32) {
        let part = &self.steps[step as usize];
        let (warm, cold, empty) = (!part.warm.is_empty(), !part.cold.is_empty(), !part.empty.is_empty());
        let sets = &mut self.sets[word(step)];
        assign(&mut sets.warm, step, warm);
        assign(&mut sets.cold, step, cold);
        assign(&mut sets.empty, step, empty);
    }

    fn unit_span(&self, step: u32, unit: u32) -> Span {
        self.span(step * self.division.units_per_step + unit, 1)
    }

    /// Where the bits of a unit's slots are in its step: the words, and the bits in each.
    fn bits(&self, unit: u32) -> (Range<usize>, u64) {
        let (first, slots) = (unit * self.division.slots_per_unit, self.division.slots_per_unit);
        let words = word(first)..word(first + slots - 1) + 1;
        (words, low_bits(slots) << (first % 64))
    }

    fn place(&self, slot: u32) -> Place {
        let (step, slot) = (slot / self.division.slots_per_step, slot % self.division.slots_per_step);
        Place { step, slot, unit: slot / self.division.slots_per_unit }
    }
}

impl Magazine {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.slots[self.len as usize])
    }

    #[inline]
    fn push(&mut self, slot: u32) {
        self.slots[self.len as usize] = slot;
        self.len += 1;
    }
}

fn assign(word: &mut u64, number: u32, to: bool) {
    if to { *word |= bit(number) } else { *word &= !bit(number) }
}

fn lowest_step(sets: &[StepSets], which: impl Fn(&StepSets) -> u64) -> Option<u32> {
    sets.iter().enumerate().find_map(|(index, sets)| Some(index as u32 * 64 + lowest(&[which(sets)])?))
}

fn highest_step_below(sets: &[StepSets], bound: u32, which: impl Fn(&StepSets) -> u64) -> Option<u32> {
    let of_group = |(index, sets): (usize, &StepSets)| {
        let first = index as u32 * 64;
        Some(first + highest_below(&[which(sets)], bound.saturating_sub(first).min(64))?)
    };
    sets.iter().enumerate().rev().find_map(of_group)
}

/// Heap bytes of the directory of as many steps.
const fn directory_bytes(capacity: usize) -> u64 {
    if capacity == 0 {
        return 0;
    }
    (capacity * size_of::<Step>() + capacity.div_ceil(64) * size_of::<StepSets>()) as u64 + 2 * ALLOCATION_BYTES
}

#[cfg(test)]
mod tests;
