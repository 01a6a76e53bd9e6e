//! Operations whose turn it is: those to be tried, and those that have ended without a try.
//!
//! A turn tries what was queued when it began, nothing twice. A close ends what is queued for its descriptor: the try
//! would be a call on the number, which may be another file's by then. To look for that it walks the queues, and only
//! if something may be there: [`Tally`].
#![forbid(unsafe_code)]

use super::list::Queue;
use crate::fd::Number;
use crate::op::Op;
use crate::slots::Slots;

/// The queues of a driver. An operation that is queued waits in no other list.
#[derive(Default)]
pub(super) struct Queues {
    /// Receives that may go on and need the scratch buffer.
    receives: Queue,
    /// All others that may go on.
    run: Queue,
    /// Operations for whose waiting there was no memory.
    aside: Queue,
    /// Operations that were cancelled while they waited.
    ended: Queue,
    /// Of the first three.
    tally: Tally,
}

impl Queues {
    /// Lets an operation go on that is in no list.
    pub(super) fn ready(&mut self, slots: &mut Slots, index: u32) {
        let op = &slots.at_mut(index).expect("in flight").op;
        self.tally.add(op);
        let queue = if matches!(op, Op::Receive { .. }) { &mut self.receives } else { &mut self.run };
        queue.push(slots, index);
    }

    /// Keeps an operation aside that is in no list and found no memory to wait in.
    pub(super) fn put_aside(&mut self, slots: &mut Slots, index: u32) {
        self.tally.add(&slots.at_mut(index).expect("in flight").op);
        self.aside.push(slots, index);
    }

    /// Ends an operation that is in no list, unless it is a close, which goes on.
    pub(super) fn end(&mut self, slots: &mut Slots, index: u32) {
        let slot = slots.at_mut(index).expect("in flight");
        slot.state = slot.state.cancelled();
        if matches!(slot.op, Op::Close { .. }) {
            self.ready(slots, index);
        } else {
            self.ended.push(slots, index);
        }
    }

    /// Ends the operations that are queued for a descriptor which is about to be closed.
    pub(super) fn closes(&mut self, slots: &mut Slots, fd: Number) {
        if !self.tally.may_have(fd) {
            return;
        }
        let Self { receives, run, aside, ended, tally } = self;
        for queue in [receives, run, aside] {
            let others = |op: &Op| matches!(op, Op::Close { .. }) || op.descriptor() != Some(fd);
            queue.retain(slots, others, |slots, index| {
                let slot = slots.at_mut(index).expect("a listed operation is in flight");
                slot.state = slot.state.cancelled();
                tally.remove(&slot.op);
                ended.push(slots, index);
            });
        }
    }

    /// What is queued now is what the turn tries.
    pub(super) fn begin_turn(&mut self) {
        self.run.begin_turn();
        self.receives.begin_turn();
    }

    /// Has those that found no memory to wait in tried again.
    pub(super) fn retry(&mut self, slots: &mut Slots) {
        while let Some(index) = self.aside.pop(slots) {
            self.tally.remove(&slots.at_mut(index).expect("a listed operation is in flight").op);
            self.ready(slots, index);
        }
    }

    /// How many operations wait for [`retry`](Self::retry).
    pub(super) fn aside(&self) -> usize {
        self.aside.len()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.run.is_empty() || !self.receives.is_empty() || !self.ended.is_empty()
    }

    /// Whether receives that may go on are queued for the scratch buffer.
    pub(super) fn has_receives(&self) -> bool {
        !self.receives.is_empty()
    }

    /// The next one that has ended without a try.
    pub(super) fn next_ended(&mut self, slots: &mut Slots) -> Option<u32> {
        self.ended.pop(slots)
    }

    /// The next one that this turn tries, but for receives.
    pub(super) fn next_run(&mut self, slots: &mut Slots) -> Option<u32> {
        Self::next(&mut self.run, &mut self.tally, slots)
    }

    /// The next receive that this turn tries.
    pub(super) fn next_receive(&mut self, slots: &mut Slots) -> Option<u32> {
        Self::next(&mut self.receives, &mut self.tally, slots)
    }

    fn next(queue: &mut Queue, tally: &mut Tally, slots: &mut Slots) -> Option<u32> {
        let index = queue.pop_of_turn(slots)?;
        tally.remove(&slots.at_mut(index).expect("a listed operation is in flight").op);
        Some(index)
    }
}

/// How many operations are queued, by the low bits of their descriptors' numbers: where it says none, there is none.
struct Tally([u32; TALLY_LEN]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; TALLY_LEN])
    }
}

impl Tally {
    /// The descriptor whose number an operation would be tried on. A close is not ended by another; that a shutdown is
    /// not made after a close is seen to for all drivers.
    fn place(op: &Op) -> Option<usize> {
        match op {
            Op::Close { .. } | Op::Shutdown { .. } => None,
            _ => op.descriptor().map(|fd| fd.raw() as usize % TALLY_LEN),
        }
    }

    fn add(&mut self, op: &Op) {
        if let Some(place) = Self::place(op) {
            self.0[place] += 1;
        }
    }

    fn remove(&mut self, op: &Op) {
        if let Some(place) = Self::place(op) {
            debug_assert!(self.0[place] > 0, "it was added");
            self.0[place] -= 1;
        }
    }

    fn may_have(&self, fd: Number) -> bool {
        self.0[fd.raw() as usize % TALLY_LEN] > 0
    }
}

/// 2 KiB. With some hundred operations queued, most closes of other descriptors need no walk.
const TALLY_LEN: usize = 512;
