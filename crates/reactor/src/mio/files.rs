//! File operations: handed to the blocking pool, counted per descriptor, taken back when done.
//!
//! A job acts on a descriptor *number*, so while jobs of a descriptor are out, its close waits for them: else the
//! number could be another file's by the time the job runs. A job that the pool has taken cannot be cancelled; it
//! completes, and an orphan is then disposed of.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::jobs::{Board, Done, Job};
use super::list::Queue;
use super::queues::Queues;
use super::table::Table;
use crate::blocking::Refused;
use crate::fd::Number;
use crate::op::{Errno, Op};
use crate::slots::Slots;
use crate::{Blocking, Doorbell};

/// File operations of one driver.
pub(super) struct Files {
    blocking: Arc<Blocking>,
    board: Arc<Board>,
    doorbell: Doorbell,
    /// Reported and not yet handed up.
    done: VecDeque<Done>,
    /// Operations that found the pool's queue full, in order.
    backlog: Queue,
    cancels: Cancels,
    /// Operations that the pool has taken and that were not handed up yet.
    out: usize,
}

/// Whether the backlog may hold operations whose end was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancels {
    None,
    Some,
}

/// What became of an operation that was to be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Started {
    /// With the pool, or in the backlog.
    Out,
    /// Never started.
    Failed(Errno),
}

impl Files {
    pub(super) fn new(blocking: &Arc<Blocking>, doorbell: &Doorbell) -> Self {
        Self {
            blocking: Arc::clone(blocking),
            board: Board::new(doorbell),
            doorbell: doorbell.clone(),
            done: VecDeque::new(),
            backlog: Queue::default(),
            cancels: Cancels::None,
            out: 0,
        }
    }

    /// Whether there are completions to hand up, or operations of the backlog to be cancelled.
    pub(super) fn has_ready(&self) -> bool {
        !self.done.is_empty() || self.cancels == Cancels::Some
    }

    /// Starts a file operation that is in no list, or queues it behind those that found no room.
    pub(super) fn start(&mut self, slots: &mut Slots, table: &mut Table, index: u32) -> Started {
        if let Err(errno) = count(slots, table, index) {
            return Started::Failed(errno);
        }
        if !self.backlog.is_empty() {
            self.backlog.push(slots, index);
            return Started::Out;
        }
        match self.hand_over(slots, index) {
            Ok(()) => Started::Out,
            Err(Refused::Full) => {
                self.backlog.push(slots, index);
                self.blocking.ring_at_room(&self.doorbell);
                Started::Out
            }
            Err(refused) => {
                uncount(slots, table, index);
                Started::Failed(errno_of(refused))
            }
        }
    }

    /// Notes that the end of an operation was asked for that may be in the backlog.
    pub(super) fn cancel(&mut self) {
        if !self.backlog.is_empty() {
            self.cancels = Cancels::Some;
        }
    }

    /// Takes what jobs have reported, and hands over from the backlog what the pool has room for now. Those that have
    /// ended without a job go to `queues`, to be tried and answered there.
    pub(super) fn turn(&mut self, slots: &mut Slots, table: &mut Table, queues: &mut Queues) {
        if self.out > 0 {
            self.board.take(&mut self.done);
        }
        debug_assert!(self.done.len() <= self.out, "reported once each");
        if self.cancels == Cancels::Some {
            self.cancels = Cancels::None;
            let mut before = core::mem::take(&mut self.backlog);
            while let Some(index) = before.pop(slots) {
                if slots.at_mut(index).expect("in flight").state.is_cancelled() {
                    uncount(slots, table, index);
                    queues.ready(slots, index);
                } else {
                    self.backlog.push(slots, index);
                }
            }
        }
        while let Some(index) = self.backlog.first() {
            match self.hand_over(slots, index) {
                Ok(()) => {
                    self.backlog.pop(slots);
                }
                Err(Refused::Full) => {
                    self.blocking.ring_at_room(&self.doorbell);
                    break;
                }
                Err(_) => {
                    // Tried once more from the run queue, which can answer with the reason.
                    self.backlog.pop(slots);
                    uncount(slots, table, index);
                    queues.ready(slots, index);
                }
            }
        }
    }

    /// The next operation that a job has ended, and its descriptor if that has no more jobs now.
    pub(super) fn next(&mut self, slots: &mut Slots, table: &mut Table) -> Option<(Done, Option<Number>)> {
        let done = self.done.pop_front()?;
        debug_assert!(self.out > 0);
        self.out -= 1;
        let idle = uncount(slots, table, done.key.index());
        Some((done, idle))
    }

    fn hand_over(&mut self, slots: &mut Slots, index: u32) -> Result<(), Refused> {
        let key = slots.key_at(index).expect("in flight");
        let slot = slots.get_mut(key).expect("in flight");
        let mut job = Some(Job::new(key, &mut slot.op, &self.board));
        let taken = self.blocking.try_run(|| {
            let job = job.take().expect("asked for once");
            Box::new(move || job.run())
        });
        if let Some(job) = job {
            job.withdraw();
        }
        taken?;
        self.out += 1;
        Ok(())
    }
}

fn errno_of(refused: Refused) -> Errno {
    match refused {
        Refused::Full => Errno(libc::EAGAIN),
        Refused::NoThread => Errno(libc::ENOMEM),
        Refused::Closed => Errno::CANCELED,
    }
}

/// The descriptor that a file operation acts on; an open has none yet.
pub(super) fn descriptor(op: &Op<'static>) -> Option<Number> {
    match op {
        Op::Stat { fd, .. } | Op::ReadAt { fd, .. } | Op::WriteAt { fd, .. } | Op::Fsync { fd, .. } => Some(*fd),
        _ => None,
    }
}

/// Counts an operation as a job of its descriptor.
fn count(slots: &mut Slots, table: &mut Table, index: u32) -> Result<(), Errno> {
    let slot = slots.at_mut(index).expect("in flight");
    let Some(fd) = descriptor(&slot.op) else { return Ok(()) };
    table.reserve(fd).map_err(|_| Errno(libc::ENOMEM))?;
    let mut entry = table.get(fd);
    entry.jobs = entry.jobs.checked_add(1).ok_or(Errno(libc::EAGAIN))?;
    table.set(fd, entry);
    Ok(())
}

/// Takes [`count`] back; the descriptor if it has no more jobs.
fn uncount(slots: &mut Slots, table: &mut Table, index: u32) -> Option<Number> {
    let slot = slots.at_mut(index).expect("in flight");
    let fd = descriptor(&slot.op)?;
    let mut entry = table.get(fd);
    assert!(entry.jobs > 0, "counted when started");
    entry.jobs -= 1;
    table.set(fd, entry);
    (entry.jobs == 0).then_some(fd)
}
