//! A worker's credit: what of the line it may charge, what of that it keeps for whom, and when it gives some back.
//!
//! **I4**: bytes are charged before the memory is touched, and uncharged only after it is gone.
//!
//! **I6**: of a worker's unused credit, the reserve is charged for newcomers alone, and what is earmarked for the
//! waiter that it is kept for.
#![forbid(unsafe_code)]

use core::cell::Cell;
use std::sync::Arc;

use crate::account::Account;
use crate::budget::Budget;
use crate::error::OverBudget;
use crate::kind::Kind;

/// The account as its worker uses it.
#[derive(Debug)]
pub(crate) struct Credit {
    budget: Arc<Budget>,
    account: Arc<Account>,
    /// The line that the quantum is a part of.
    seen_limit: Cell<u64>,
    /// How many workers the line is for.
    workers: u64,
    /// How much credit is fetched at a time; at least 1.
    quantum: Cell<u64>,
    /// I6: unused credit that is kept for newcomers; at most `reserve_bytes`.
    reserve_left: Cell<u64>,
    /// The size of the reserve.
    reserve_bytes: Cell<u64>,
    /// I6: further unused credit, kept for the waiter at the head.
    earmark: Cell<u64>,
    source: Cell<Source>,
    /// Unused credit is gathered for a waiter, and so not given back.
    gathers: Cell<bool>,
}

/// On whose behalf memory is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Anybody's.
    Free,
    /// The waiter's at the head.
    Earmark,
    /// A newcomer's.
    Reserve,
}

/// As much credit as that is fetched at a time, at least.
const QUANTUM_BYTES_MIN: u64 = 256 << 10;

/// How much credit a worker fetches at a time.
fn quantum(line: u64, workers: u64) -> u64 {
    // Low lines would otherwise be divided among few workers for good.
    (line / (64 * workers)).max(QUANTUM_BYTES_MIN.min(line / (8 * workers))).max(1)
}

impl Credit {
    /// A worker's account in a budget, one of `workers`.
    pub(crate) fn open(budget: &Arc<Budget>, workers: u32) -> Self {
        let (line, workers) = (budget.line().limit(), u64::from(workers.max(1)));
        Self {
            budget: Arc::clone(budget),
            account: budget.open_account(),
            seen_limit: Cell::new(line),
            workers,
            quantum: Cell::new(quantum(line, workers)),
            reserve_left: Cell::new(0),
            reserve_bytes: Cell::new(0),
            earmark: Cell::new(0),
            source: Cell::new(Source::Free),
            gathers: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Looks whether the line was moved: the quantum and the reserve, of `reserve_bytes` under the first line, follow
    /// it. While it is exceeded, nothing unused is kept but that.
    #[inline]
    pub(crate) fn follow_limit(&self, reserve_bytes: u64) {
        let limit = self.budget.line().limit();
        if self.seen_limit.replace(limit) != limit {
            self.quantum.set(quantum(limit, self.workers));
            self.set_reserve(self.budget.limits().part_of(reserve_bytes, limit));
        }
        if self.budget.line().excess() > 0 && !self.gathers.get() {
            self.trim();
        }
    }

    pub(crate) fn credit(&self) -> u64 {
        self.account.credit()
    }

    /// Credit that nothing is charged to.
    pub(crate) fn unused(&self) -> u64 {
        self.credit() - self.account.charged()
    }

    /// Unused credit that is kept for somebody else than the source.
    fn kept_from(&self, source: Source) -> u64 {
        match source {
            Source::Free => self.reserve_left.get() + self.earmark.get(),
            Source::Earmark => self.reserve_left.get(),
            Source::Reserve => self.earmark.get(),
        }
    }

    /// Charges bytes that are about to become resident.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), OverBudget> {
        let account = &*self.account;
        let source = self.source.get();
        let kept = self.kept_from(source);
        debug_assert!(kept <= self.unused(), "I6");
        let usable = self.unused() - kept;
        if usable < bytes {
            let need = bytes - usable;
            let taken = self.budget.take_credit(need, need.max(self.quantum.get())).ok_or(OverBudget::new(bytes))?;
            account.add_credit(taken);
        }
        account.charge(bytes);
        self.shrink_kept(source, bytes);
        Ok(())
    }

    /// What was charged comes out of what is kept for its source, as far as nothing else was unused.
    fn shrink_kept(&self, source: Source, bytes: u64) {
        match source {
            Source::Free => {}
            Source::Earmark => self.earmark.set(self.earmark.get().saturating_sub(bytes)),
            Source::Reserve => {
                let left = self.reserve_left.get().min(self.unused() - self.earmark.get());
                self.reserve_left.set(left);
            }
        }
        debug_assert!(self.kept_from(Source::Free) <= self.unused(), "I6");
    }

    /// Charges on behalf of `source` while `act` runs.
    pub(crate) fn on_behalf<T>(&self, source: Source, act: impl FnOnce() -> T) -> T {
        /// Puts the source back, also when `act` panics.
        struct Restore<'a>(&'a Cell<Source>, Source);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _restore = Restore(&self.source, self.source.replace(source));
        act()
    }

    /// Sets the size of the reserve for newcomers, which is filled by [`refill_reserve`](Self::refill_reserve).
    pub(crate) fn set_reserve(&self, bytes: u64) {
        self.reserve_bytes.set(bytes);
        self.reserve_left.set(self.reserve_left.get().min(bytes));
    }

    /// Puts unused credit into the reserve, and credit from the line if there is any; how many bytes are missing then.
    pub(crate) fn refill_reserve(&self) -> u64 {
        let missing = self.reserve_bytes.get() - self.reserve_left.get();
        if missing == 0 {
            return 0;
        }
        // The reserve goes before what is earmarked: who waits has waited so far, and newcomers begin little.
        let usable = self.unused() - self.reserve_left.get();
        let fetch = missing.saturating_sub(usable);
        if fetch > 0 {
            self.account.add_credit(self.budget.take_credit_up_to(fetch));
        }
        let usable = self.unused() - self.reserve_left.get();
        let filled = missing.min(usable);
        self.reserve_left.set(self.reserve_left.get() + filled);
        self.earmark.set(self.earmark.get().min(usable - filled));
        debug_assert!(self.kept_from(Source::Free) <= self.unused(), "I6");
        missing - filled
    }

    /// What is in the reserve now.
    pub(crate) fn reserve_left(&self) -> u64 {
        self.reserve_left.get()
    }

    /// Keeps up to `bytes` of the unused credit for the waiter at the head; 0 ends that.
    pub(crate) fn set_earmark(&self, bytes: u64) {
        self.earmark.set(bytes.min(self.unused() - self.reserve_left.get()));
    }

    /// Whether what is unused is kept for somebody who waits.
    pub(crate) fn gathers(&self) -> bool {
        self.gathers.get()
    }

    /// Says whether unused credit is gathered for a waiter.
    pub(crate) fn set_gathers(&self, gathers: bool) {
        self.gathers.set(gathers);
    }

    /// Unused credit that is kept for nobody.
    pub(crate) fn spare(&self) -> u64 {
        self.unused() - self.kept_from(Source::Free)
    }

    /// What an earmark may be made of.
    pub(crate) fn earmarkable(&self) -> u64 {
        self.unused() - self.reserve_left.get()
    }

    /// What the reserve lacks.
    pub(crate) fn missing_reserve(&self) -> u64 {
        self.reserve_bytes.get() - self.reserve_left.get()
    }

    /// Takes over credit that another worker has given up for this one.
    pub(crate) fn adopt(&self, bytes: u64) {
        self.account.add_credit(bytes);
    }

    /// Takes back the charge for bytes that are gone (I4). More credit than two quanta is not kept.
    pub(crate) fn uncharge(&self, bytes: u64) {
        self.account.uncharge(bytes);
        let spare = self.spare();
        let quantum = self.quantum.get();
        if spare > 2 * quantum && !self.gathers.get() {
            self.give(spare - quantum);
        }
        debug_assert!(self.account.charged() <= self.credit(), "I2");
    }

    /// Gives all unused credit back but what is kept.
    pub(crate) fn trim(&self) {
        self.give(self.spare());
    }

    fn give(&self, bytes: u64) {
        debug_assert!(bytes <= self.unused(), "I2");
        self.account.subtract_credit(bytes);
        self.budget.give_credit(bytes);
    }

    /// Notes that charged bytes are now used as `kind`.
    #[inline]
    pub(crate) fn begin_use(&self, kind: Kind, bytes: u64) {
        self.account.begin_use(kind, bytes);
    }

    /// Notes that bytes used as `kind` are free again.
    #[inline]
    pub(crate) fn end_use(&self, kind: Kind, bytes: u64) {
        self.account.end_use(kind, bytes);
    }
}

#[cfg(test)]
mod tests;
