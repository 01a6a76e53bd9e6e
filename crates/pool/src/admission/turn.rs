//! What a turn of a worker does for those who wait: refusals, grants, credit asked for and given up, and a look at the
//! level.
#![forbid(unsafe_code)]

use super::{Admission, refill};
use crate::catch_panic::catch_panic;
use crate::page::page_bytes;
use crate::watermarks::{Level, Transition};

/// How often the figures of all workers are summed up while they are not surely calm.
const OBSERVE_NS: u64 = 1_000_000;
/// How long after that they are summed up for a change that was made meanwhile, where no turn begins that would do so.
/// A worker that woke up a millisecond after each request would wake up twice for it.
const SETTLE_NS: u64 = 10_000_000;

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
        let shared = &*self.shared;
        debug_assert!(now_ns >= shared.now_ns.get(), "time goes on");
        shared.now_ns.set(now_ns);
        let budget = shared.pool.budget();
        if shared.told_waiting.get() == 0
            && shared.watched_bytes.get() == 0
            && !shared.stated.get()
            && !shared.unsettled.get()
            && !shared.flag.is_raised()
            && shared.level.get() == Level::Calm
            && budget.is_surely_calm()
            && !budget.credit_queue().is_any()
            && shared.waiters.borrow().next_deadline_ns().is_none_or(|at| at > now_ns)
        {
            return None;
        }
        self.serve()
    }

    /// [`tick`](Self::tick), where somebody waits or memory may be short.
    #[inline(never)]
    fn serve(&self) -> Option<Transition> {
        self.expire();
        self.pump();
        self.help();
        self.look()
    }

    /// Before the tasks of a turn: looks at the level, if that was too soon in the last turn. So tasks see the level of
    /// the last millisecond, or that at the beginning of their turn. `now_ns` as for [`tick`](Self::tick).
    pub fn settle(&self, now_ns: impl FnOnce() -> u64) -> Option<Transition> {
        let shared = &*self.shared;
        if !shared.unsettled.get() {
            return None;
        }
        shared.now_ns.set(now_ns());
        self.look()
    }

    /// When [`tick`](Self::tick) has something to do though nothing came back, in the time of `tick`.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let shared = &*self.shared;
        let look = shared.unsettled.get().then(|| shared.observed_ns.get() + SETTLE_NS);
        shared.waiters.borrow().next_deadline_ns().into_iter().chain(look).min()
    }

    fn expire(&self) {
        let shared = &*self.shared;
        let mut last = None;
        loop {
            let expired = shared.waiters.borrow_mut().next_expired(shared.now_ns.get(), last);
            let Some(expired) = expired else { return };
            last = Some(expired.key);
            drop(expired.grant);
            if let Some(waker) = expired.waker {
                catch_panic(|| waker.wake());
            }
        }
    }

    /// Grants what can be granted.
    pub(crate) fn pump(&self) {
        let shared = &*self.shared;
        let budget = shared.pool.budget();
        shared.pool.credit().adopt(budget.credit_queue().fetch(&shared.flag));
        shared.pool.credit().follow_limit(shared.config.reserve_bytes);
        refill(&shared.pool);
        let (mut has_stated, mut watched) = (false, false);
        loop {
            let granted = shared.waiters.borrow_mut().next_grant(shared.now_ns.get(), shared);
            match granted {
                Some(Some(waker)) => {
                    catch_panic(|| waker.wake());
                }
                Some(None) => {}
                None if !has_stated && self.state_need() => has_stated = true,
                // What came back before it was said to whom is seen now.
                None if !watched && self.watch() => (has_stated, watched) = (true, true),
                None => break,
            }
        }
        let waiting = shared.waiters.borrow().waiting();
        let told = shared.told_waiting.replace(waiting);
        if told != waiting {
            budget.pressure().change_waiting(told, waiting);
            shared.unsettled.set(true);
        }
    }

    /// States what the head misses, so that credit of other workers comes here; whether some came at once.
    fn state_need(&self) -> bool {
        let shared = &*self.shared;
        let head = shared.waiters.borrow().head();
        let credit = shared.pool.credit();
        let (credits, line) = (shared.pool.budget().credit_queue(), shared.pool.budget().line());
        let (need_bytes, since_ns) = match head {
            Some((since_ns, footprint)) => {
                let need = footprint.page_bytes() + METADATA_BYTES + credit.missing_reserve();
                (need.saturating_sub(credit.spare()).max(page_bytes() as u64), since_ns)
            }
            None if !shared.stated.get() => return false,
            None => (0, 0),
        };
        shared.stated.set(need_bytes > 0);
        let got = credits.state(&shared.flag, need_bytes, since_ns, line);
        credit.adopt(got);
        // Two that each keep a part of what they need would wait for each other.
        credit.set_gathers(need_bytes > 0 && credits.is_longest(&shared.flag));
        need_bytes > 0 && got > 0
    }

    /// Says how much the line must have for the first of those who are patient; whether anybody is.
    fn watch(&self) -> bool {
        let shared = &*self.shared;
        let patient_bytes = shared.waiters.borrow().patient_bytes();
        let missing = patient_bytes.map_or(0, |bytes| bytes.saturating_sub(shared.own_bytes()).max(1));
        if shared.watched_bytes.replace(missing) != missing {
            shared.pool.budget().credit_queue().watch(&shared.flag, missing);
        }
        missing > 0
    }

    /// Gives free memory up for workers that miss some.
    fn help(&self) {
        let shared = &*self.shared;
        let credits = shared.pool.budget().credit_queue();
        if !credits.is_any() || (shared.stated.get() && credits.is_longest(&shared.flag)) {
            return;
        }
        let credit = shared.pool.credit();
        credit.set_gathers(false);
        let need = credits.need_bytes();
        if credit.spare() < need {
            shared.pool.release_at_least(need - credit.spare());
        }
        credit.trim();
    }

    /// Looks at the figures of all workers, not too often.
    fn look(&self) -> Option<Transition> {
        let shared = &*self.shared;
        let (budget, now_ns) = (shared.pool.budget(), shared.now_ns.get());
        let changed = (budget.waiting() > 0) != (budget.level() == Level::Red);
        let due = now_ns.saturating_sub(shared.observed_ns.get()) >= OBSERVE_NS;
        shared.unsettled.set(!changed && !due);
        let mut transition = None;
        if changed || due {
            shared.observed_ns.set(now_ns);
            shared.pool.credit().account().set_releasable(shared.pool.releasable_bytes());
            transition = budget.observe();
        }
        shared.level.set(budget.level());
        transition
    }
}
