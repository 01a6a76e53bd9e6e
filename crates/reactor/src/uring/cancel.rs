//! The end of operations before their time: cancelled, or their descriptor is closed.
#![forbid(unsafe_code)]

use io_uring::cqueue;
use plimsoll_slab::Key;

use super::entry::{Entry, Kind};
use super::late::Late;
use super::ring::{Submitted, Timeout};
use super::watch::Watches;
use super::{BlockedCancels, UnknownLives, Uring};
use crate::fd::{Life, Number};
use crate::op::{Interest, Op};
use crate::slots::{Slot, Slots};
use crate::{list, sys};

impl Uring {
    pub(crate) fn cancel(&mut self, key: Key, slots: &mut Slots) {
        let Some(slot) = slots.get(key) else { return };
        if !list::is_listed(slot) {
            if let Op::Receive { fd } | Op::Poll { fd, interest: Interest::Readable } = slot.op
                && self.watches.withdraw(fd, key.index())
            {
                self.ended.push(slots, key.index());
            } else if !self.cancels.is_empty() || !self.ring.push(&Entry::cancel(key, &slot.op)) {
                self.cancels.push(slots, key.index());
            }
        } else if self.backlog.remove(slots, key.index()) {
            self.ended.push(slots, key.index());
        } else if self.readable.remove(slots, key.index()) {
            let fd = slots.get(key).and_then(|slot| slot.op.number()).expect("it waits for one");
            self.watches.set_queued(fd, false);
            self.ended.push(slots, key.index());
        } else {
            self.blocked_cancels = BlockedCancels::Some;
        }
    }

    /// A cancel that found nothing. Mostly its operation has ended, and its completion is near. But the kernel does not
    /// find an operation either while that is between readiness and the next try, and the try may find nothing and wait
    /// anew.
    pub(super) fn cancel_again(&mut self, key: Key, slots: &mut Slots) {
        if slots.get(key).is_some_and(|slot| slot.state.is_cancelled() && !list::is_listed(slot)) {
            self.cancel(key, slots);
        }
    }

    /// Ends the blocked receives that were cancelled.
    pub(super) fn end_cancelled(&mut self, slots: &mut Slots) {
        if self.blocked_cancels == BlockedCancels::None {
            return;
        }
        let ended = &mut self.ended;
        self.blocked.retain(slots, |_, slot| !slot.state.is_cancelled(), |slots, index| ended.push(slots, index));
        self.blocked_cancels = BlockedCancels::None;
    }

    /// A descriptor is about to be closed: what waits here for its turn is ended, because it would act on whatever has
    /// the number by then. The owners of what is with the kernel must have asked for its end.
    pub(crate) fn closes(&mut self, fd: Number, slots: &mut Slots) {
        if self.unknown_lives == UnknownLives::Some {
            self.revoke_unknown(fd, slots);
        }
        let ended = &mut self.ended;
        let may_try = self.watches.is_queued(fd);
        for (waiting, may_be) in [(&mut self.blocked, true), (&mut self.backlog, true), (&mut self.readable, may_try)] {
            if may_be && !waiting.is_empty() {
                let others = |_, slot: &Slot| slot.op.number() != Some(fd);
                waiting.retain(slots, others, |slots, index| ended.push(slots, index));
            }
        }
        debug_assert!(
            !slots.any(|slot| is_made_again(slot) && slot.op.number() == Some(fd)),
            "{fd:?} is closed under an accept or a receive: cancel or orphan it before"
        );
        let (watch, waiter) = self.watches.forget(fd);
        if let Some(index) = waiter {
            ended.push(slots, index);
        }
        if let Some(name) = watch {
            self.end_watch(name);
        }
    }

    /// Ends the operations on a descriptor whose life was not noted, by a look at all in flight. At the memory line
    /// only.
    fn revoke_unknown(&mut self, fd: Number, slots: &mut Slots) {
        self.unknown_lives = UnknownLives::None;
        let (mut index, mut left) = (0, slots.len());
        while left > 0 {
            let found = slots.key_at(index);
            index += 1;
            let Some(key) = found else { continue };
            left -= 1;
            let slot = slots.get_mut(key).expect("just found");
            let Some(other) = slot.op.number().filter(|number| number.life() == Life::UNKNOWN) else { continue };
            if other != fd {
                self.unknown_lives = UnknownLives::Some;
            } else if !slot.state.is_cancelled() {
                slot.state = slot.state.cancelled();
                self.cancel(key, slots);
            }
        }
    }

    /// Hands over what is queued first: an entry that names the descriptor must not meet another file under its number.
    /// When the kernel does not take it now, the close waits for that.
    pub(crate) fn close_now(&mut self, fd: Number) {
        if self.ring.submit() == Ok(Submitted::All) {
            let _closed = sys::close(fd);
        } else {
            self.late.push(Late::Close(fd), &self.pool);
        }
    }

    /// Does what was put off, if the kernel has taken what was queued then.
    pub(super) fn catch_up(&mut self) -> Submitted {
        if self.late.is_empty() {
            return Submitted::All;
        }
        if self.ring.submit() != Ok(Submitted::All) {
            return Submitted::Some;
        }
        while let Some(late) = self.late.pop() {
            match late {
                Late::EndWatch(name) if !self.ring.push(&Entry::unwatch(name)) => {
                    self.late.push(late, &self.pool);
                    return Submitted::Some;
                }
                Late::EndWatch(_) => {}
                Late::Close(fd) => _ = sys::close(fd),
            }
        }
        Submitted::All
    }

    /// Closes what waits for that: no further entry will be handed over, and all watches end.
    pub(super) fn close_late(&mut self) {
        while let Some(late) = self.late.pop() {
            if let Late::Close(fd) = late {
                let _closed = sys::close(fd);
            }
        }
    }

    /// The ring will be leaked. What it watches would stay open with it, so the watches end, and what else can still be
    /// ended. Descriptors that were opened meanwhile, or were to be closed, are closed.
    pub(crate) fn abandon(&mut self, slots: &mut Slots) {
        // What is queued cannot be taken back, and comes first.
        let _entered = self.ring.enter(Timeout::None);
        self.ring.cancel_all();
        // The kernel lets go of a file when it tells the completion, and tells some at a time.
        let mut told = true;
        while told && self.ring.enter(Timeout::None).is_ok() {
            told = false;
            while let Some(completion) = self.spill.pop_front().or_else(|| self.ring.pop()) {
                told = true;
                close_opened(&completion);
            }
        }
        self.close_late();
        // No further entry will be handed over, as was said there.
        while let Some(key) = self.backlog.pop(slots) {
            if let Some(Slot { op: Op::Close { fd }, .. }) = slots.get(key) {
                let _closed = sys::close(fd.number());
            }
        }
        self.watches = Watches::new(&self.pool);
    }

    /// Has the kernel not watch a descriptor any more, unless a receive waits for that.
    pub(super) fn unwatch_idle(&mut self, fd: Number) {
        if let Some(name) = self.watches.forget_idle(fd) {
            self.end_watch(name);
        }
    }

    pub(super) fn end_watch(&mut self, name: u64) {
        if !self.ring.push(&Entry::unwatch(name)) {
            self.late.push(Late::EndWatch(name), &self.pool);
        }
    }
}

/// Closes the descriptor that a completion brings, which nobody will take.
pub(super) fn close_opened(completion: &cqueue::Entry) {
    if let (Some((Kind::Opening, _)), Ok(fd)) = (Kind::of(completion.user_data()), u32::try_from(completion.result())) {
        let _closed = sys::close(Number::from_raw(fd as i32));
    }
}

/// Whether an operation may be started once more, by its descriptor's number.
fn is_made_again(slot: &Slot) -> bool {
    let by_number = matches!(slot.op, Op::Accept { .. } | Op::Receive { .. });
    by_number && !slot.state.is_cancelled() && !list::is_listed(slot)
}
