//! What a turn of a worker does for those who wait: refusals, grants, credit asked for and given up, and a look at the
//! level.
#![forbid(unsafe_code)]

use super::{Admission, refill};
use crate::class::PAGE_BYTES;
use crate::contain::contained;
use crate::watermarks::{Level, Transition};

/// How often the figures of all workers are summed up while they are not surely calm.
const OBSERVE_NS: u64 = 1_000_000;

/// What a class may need for its next step beside the pages, and for a round of them.
const METADATA_BYTES: u64 = 8 << 10;

impl Admission {
    /// Once a turn: what became free is granted, who waits too long is refused, the level is looked at. Wakes whoever
    /// got an answer.
    ///
    /// `now_ns` counts from any fixed moment that all workers share; deadlines that name only a timeout count from the
    /// last call, so the first comes before the first wait. Returns the change of the process's level, if this worker
    /// was the one to find it.
    pub fn tick(&self, now_ns: u64) -> Option<Transition> {
        let gate = &*self.gate;
        debug_assert!(now_ns >= gate.now_ns.get(), "time goes on");
        gate.now_ns.set(now_ns);
        let budget = gate.pool.budget();
        if gate.told_waiting.get() == 0
            && !gate.stated.get()
            && !gate.unsettled.get()
            && gate.level.get() == Level::Calm
            && budget.is_surely_calm()
            && !budget.hunger().is_any()
            && gate.waiters.borrow().next_deadline_ns().is_none_or(|at| at > now_ns)
        {
            return None;
        }
        self.expire();
        self.pump();
        self.help();
        self.look()
    }

    /// When [`tick`](Self::tick) has something to do though nothing came back, in the time of `tick`.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let gate = &*self.gate;
        let look = gate.unsettled.get().then(|| gate.observed_ns.get() + OBSERVE_NS);
        gate.waiters.borrow().next_deadline_ns().into_iter().chain(look).min()
    }

    fn expire(&self) {
        let gate = &*self.gate;
        let mut last = None;
        loop {
            let expired = gate.waiters.borrow_mut().next_expired(gate.now_ns.get(), last);
            let Some(expired) = expired else { return };
            last = Some(expired.key);
            drop(expired.grant);
            if let Some(waker) = expired.waker {
                contained(|| waker.wake());
            }
        }
    }

    /// Grants what can be granted.
    pub(crate) fn pump(&self) {
        let gate = &*self.gate;
        let budget = gate.pool.budget();
        gate.pool.credit().adopt(budget.hunger().fetch(&gate.flag));
        refill(&gate.pool);
        let mut starved = false;
        loop {
            let granted = gate.waiters.borrow_mut().next_grant(gate.now_ns.get(), gate);
            match granted {
                Some(Some(waker)) => {
                    contained(|| waker.wake());
                }
                Some(None) => {}
                None if starved => break,
                None => {
                    starved = true;
                    if !self.starve() {
                        break;
                    }
                }
            }
        }
        let waiting = self.waiting();
        let told = gate.told_waiting.replace(waiting);
        if told != waiting {
            budget.pressure().change_waiting(told, waiting);
            gate.unsettled.set(true);
        }
    }

    /// States what the head misses, so that credit of other workers comes here; whether some came at once.
    fn starve(&self) -> bool {
        let gate = &*self.gate;
        let head = gate.waiters.borrow().head();
        let credit = gate.pool.credit();
        let (hunger, line) = (gate.pool.budget().hunger(), gate.pool.budget().line());
        let (need_bytes, since_ns) = match head {
            Some((since_ns, footprint)) => {
                let need = footprint.page_bytes() + METADATA_BYTES + credit.missing_reserve();
                (need.saturating_sub(credit.spare()).max(PAGE_BYTES as u64), since_ns)
            }
            None if !gate.stated.get() => return false,
            None => (0, 0),
        };
        gate.stated.set(need_bytes > 0);
        let got = hunger.state(&gate.flag, need_bytes, since_ns, line);
        credit.adopt(got);
        // Two that each keep a part of what they need would wait for each other.
        credit.set_gathers(need_bytes > 0 && hunger.is_longest(&gate.flag));
        need_bytes > 0 && got > 0
    }

    /// Gives free memory up for workers that miss some.
    fn help(&self) {
        let gate = &*self.gate;
        let hunger = gate.pool.budget().hunger();
        if !hunger.is_any() || (gate.stated.get() && hunger.is_longest(&gate.flag)) {
            return;
        }
        let credit = gate.pool.credit();
        credit.set_gathers(false);
        let need = hunger.need_bytes();
        if credit.spare() < need {
            gate.pool.release_at_least(need - credit.spare());
        }
        credit.trim();
    }

    /// Looks at the figures of all workers, not too often.
    fn look(&self) -> Option<Transition> {
        let gate = &*self.gate;
        let (budget, now_ns) = (gate.pool.budget(), gate.now_ns.get());
        let changed = (budget.waiting() > 0) != (budget.level() == Level::Red);
        let due = now_ns.saturating_sub(gate.observed_ns.get()) >= OBSERVE_NS;
        gate.unsettled.set(!changed && !due);
        let mut transition = None;
        if changed || due {
            gate.observed_ns.set(now_ns);
            gate.pool.credit().account().set_releasable(gate.pool.releasable_bytes());
            transition = budget.observe();
        }
        gate.level.set(budget.level());
        transition
    }
}
