//! All classes of one pool under one credit: how a slot is found, how a class grows, how free memory goes back.
#![forbid(unsafe_code)]

use crate::class::Class;
use crate::credit::Credit;
use crate::error::{OverBudget, Shortage};
use crate::kind::Kind;
use crate::page::PAGE_BYTES_MIN;
use crate::pages::{Pages, Span};
use crate::segment::Segment;

/// One pool's classes.
#[derive(Debug)]
pub(crate) struct Segments {
    classes: [Segment; Class::COUNT],
    /// Heap bytes of the bookkeeping, charged as [`Kind::Fixed`].
    metadata_bytes: u64,
    /// Given back to the system so far.
    released_bytes: u64,
}

/// When to stop giving free memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Before it is more than this.
    AtMost(u64),
    /// As soon as it is this much.
    AtLeast(u64),
}

/// Spans given back with one call.
pub(crate) const BATCH_SPANS: usize = 512;

impl Segments {
    /// Classes with pages of so many bytes.
    pub(crate) fn new(page_bytes: usize) -> Self {
        let classes = Class::ALL.map(|class| Segment::new(class, page_bytes));
        Self { classes, metadata_bytes: 0, released_bytes: 0 }
    }

    pub(crate) fn of(&self, class: Class) -> &Segment {
        &self.classes[class.index()]
    }

    pub(crate) fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    /// Bytes given back to the system so far.
    pub(crate) fn released_bytes(&self) -> u64 {
        self.released_bytes
    }

    /// Slots handed out, of all classes.
    pub(crate) fn live(&self) -> u64 {
        self.classes.iter().map(|segment| u64::from(segment.count().live)).sum()
    }

    /// Bytes of units without a live slot, as far as it is known without looking into the slots at hand.
    pub(crate) fn releasable_bytes(&self) -> u64 {
        let of = |segment: &Segment| {
            let (count, division) = (segment.count(), segment.division());
            let at_hand = if division.slots_per_unit == 1 { count.magazine_slots } else { 0 };
            u64::from(count.empty_units + at_hand) * u64::from(division.unit_bytes)
        };
        self.classes.iter().map(of).sum()
    }

    /// A free slot at hand.
    #[inline]
    pub(crate) fn pop(&mut self, class: Class) -> Option<u32> {
        self.classes[class.index()].pop()
    }

    /// The lowest free slot that is resident.
    pub(crate) fn take_warm(&mut self, class: Class, pages: &impl Pages) -> Option<u32> {
        self.classes[class.index()].take_warm(pages)
    }

    /// Takes a slot back.
    #[inline]
    pub(crate) fn push(&mut self, class: Class, slot: u32, pages: &impl Pages) {
        self.classes[class.index()].push(slot, pages);
    }

    /// A slot of a unit that becomes resident: charged first (I4). Opens the next step if none has such a unit.
    pub(crate) fn take_cold(&mut self, class: Class, credit: &Credit, pages: &impl Pages) -> Result<u32, OverBudget> {
        let segment = &mut self.classes[class.index()];
        let unit_bytes = u64::from(segment.division().unit_bytes);
        if segment.has_cold() {
            credit.charge(unit_bytes)?;
        } else {
            let (metadata, outdated) =
                segment.next_step_bytes().ok_or(OverBudget::because(unit_bytes, Shortage::Addresses))?;
            credit.charge(metadata + unit_bytes)?;
            if let Err(errno) = pages.commit(segment.next_step()) {
                credit.uncharge(metadata + unit_bytes);
                return Err(OverBudget::because(unit_bytes, Shortage::System(errno)));
            }
            segment.open_step();
            self.metadata_bytes += metadata - outdated;
            credit.begin_use(Kind::Fixed, metadata);
            credit.end_use(Kind::Fixed, outdated);
            credit.uncharge(outdated);
        }
        Ok(segment.take_cold(pages).expect("there is one, or a step of them was opened"))
    }

    /// Gives empty units back to the system, the highest of the largest class first, and uncharges those that are gone
    /// (I4). Returns how many bytes that were.
    pub(crate) fn release(&mut self, goal: Goal, credit: &Credit, pages: &impl Pages) -> u64 {
        if !self.is_cached() {
            return 0;
        }
        let mut batch = Batch::new();
        let mut released = 0;
        for class in Class::ALL.into_iter().rev() {
            self.classes[class.index()].drain_magazine(pages);
            let mut bound = self.of(class).unit_bound();
            loop {
                let segment = self.of(class);
                let units_max = goal.units_left(released + batch.bytes, segment.division().unit_bytes);
                let run = if units_max == 0 { None } else { segment.empty_run_below(bound, units_max) };
                if let Some((first, units)) = run {
                    batch.push(segment.span(first, units));
                    bound = first;
                }
                // Short of the goal it waits for other classes' spans; at the goal, whether it is reached shows only
                // now.
                let goes = batch.is_full() || (run.is_none() && units_max == 0);
                if goes && batch.bytes > 0 {
                    released += self.release_batch(&mut batch, credit, pages);
                } else if run.is_none() {
                    break;
                }
            }
        }
        released + self.release_batch(&mut batch, credit, pages)
    }

    /// Begins an epoch in every class.
    pub(crate) fn begin_epoch(&mut self, pages: &impl Pages) {
        self.classes.iter_mut().for_each(|segment| segment.begin_epoch(pages));
    }

    /// Gives surplus units back, as [`release`](Self::release), with one call and within the bounds. Returns how many
    /// bytes went.
    pub(crate) fn release_surplus(
        &mut self,
        bytes_max: u64,
        spans_max: usize,
        credit: &Credit,
        pages: &impl Pages,
    ) -> u64 {
        debug_assert!(spans_max > 0 && spans_max <= BATCH_SPANS);
        // Most looks find nothing: they are not worth the room for a batch.
        if !self.has_surplus() {
            return 0;
        }
        let mut batch = Batch::new();
        for class in Class::ALL.into_iter().rev() {
            let segment = &mut self.classes[class.index()];
            let mut bound = segment.unit_bound();
            while batch.len < spans_max && segment.surplus_units() > 0 {
                let room = Goal::AtMost(bytes_max).units_left(batch.bytes, segment.division().unit_bytes);
                let units_max = room.min(segment.surplus_units());
                let run = if units_max == 0 { None } else { segment.empty_run_below(bound, units_max) };
                let Some((first, units)) = run else { break };
                batch.push(segment.span(first, units));
                segment.plan_release(units);
                bound = first;
            }
        }
        self.release_batch(&mut batch, credit, pages)
    }

    /// Whether anything is surplus.
    pub(crate) fn has_surplus(&self) -> bool {
        self.classes.iter().any(|segment| segment.surplus_units() > 0)
    }

    /// Whether a unit is empty, or a slot at hand that may be all there is in its unit.
    pub(crate) fn is_cached(&self) -> bool {
        self.classes.iter().map(Segment::count).any(|count| count.empty_units > 0 || count.magazine_slots > 0)
    }

    fn release_batch(&mut self, batch: &mut Batch, credit: &Credit, pages: &impl Pages) -> u64 {
        // A page source makes room for all spans that there may be.
        if batch.bytes == 0 {
            return 0;
        }
        let mut bytes = 0;
        pages.release(batch.spans(), &mut |span| {
            self.classes[span.class.index()].released(span);
            bytes += u64::from(span.bytes);
        });
        debug_assert!(bytes <= batch.bytes, "no span is named twice");
        batch.clear();
        credit.uncharge(bytes);
        self.released_bytes += bytes;
        bytes
    }
}

impl Goal {
    /// How many units of a class the goal leaves room or need for.
    fn units_left(self, planned_bytes: u64, unit_bytes: u32) -> u32 {
        let units = match self {
            Self::AtMost(bytes) => bytes.saturating_sub(planned_bytes) / u64::from(unit_bytes),
            Self::AtLeast(bytes) => bytes.saturating_sub(planned_bytes).div_ceil(u64::from(unit_bytes)),
        };
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

/// Spans to give back together.
struct Batch {
    spans: [Span; BATCH_SPANS],
    len: usize,
    bytes: u64,
}

impl Batch {
    fn new() -> Self {
        Self { spans: [Span { class: Class::K4, offset: 0, bytes: 0 }; BATCH_SPANS], len: 0, bytes: 0 }
    }

    fn spans(&self) -> &[Span] {
        &self.spans[..self.len]
    }

    fn is_full(&self) -> bool {
        self.len == BATCH_SPANS
    }

    fn push(&mut self, span: Span) {
        debug_assert!(span.bytes > 0 && (span.bytes as usize).is_multiple_of(PAGE_BYTES_MIN));
        self.spans[self.len] = span;
        self.len += 1;
        self.bytes += u64::from(span.bytes);
    }

    fn clear(&mut self) {
        self.len = 0;
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests;
