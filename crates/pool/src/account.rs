//! A worker's side of the ledger: its credit, and what it has charged and used.
//!
//! The figures are written by one thread and may be read by any: writing is a plain load, an addition and a plain store.
//!
//! **I2**: what a worker has charged is at most its credit.
//!
//! **I4**: bytes are charged before the memory is touched, and uncharged only after it is gone.
//!
//! **I9**: for every kind, the use is the sum over its live slots of their classes' bytes, plus metadata for [`Kind::Fixed`].
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::budget::Budget;
use crate::error::OverBudget;
use crate::kind::Kind;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Published(AtomicU64);

impl Published {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn add(&self, bytes: u64) {
        self.0.store(self.get() + bytes, Ordering::Relaxed);
    }

    #[inline]
    fn subtract(&self, bytes: u64) {
        debug_assert!(self.get() >= bytes, "no more ends than began");
        self.0.store(self.get() - bytes, Ordering::Relaxed);
    }

    #[inline]
    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// What one worker holds. On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Account {
    /// Bytes of live slots and of metadata.
    used: [Published; Kind::COUNT],
    /// I2: at most `credit`.
    charged: Published,
    charged_peak: Published,
    /// What the process has handed out to this worker.
    credit: Published,
}

impl Account {
    pub(crate) fn charged(&self) -> u64 {
        self.charged.get()
    }

    /// The highest value that `charged` has had.
    pub(crate) fn charged_peak(&self) -> u64 {
        self.charged_peak.get()
    }

    pub(crate) fn used(&self, kind: Kind) -> u64 {
        self.used[kind.bits()].get()
    }

    /// Bytes that are charged and used by nobody: free resident slots.
    pub(crate) fn free(&self) -> u64 {
        let used: u64 = Kind::ALL.iter().map(|kind| self.used(*kind)).sum();
        // Another thread may see the figures of different moments.
        self.charged().saturating_sub(used)
    }

    /// Ends the account: returns its credit, which is now no longer its own.
    pub(crate) fn end(&self) -> u64 {
        let credit = self.credit.get();
        for used in &self.used {
            used.set(0);
        }
        self.charged.set(0);
        self.credit.set(0);
        credit
    }
}

/// The account as its worker uses it.
#[derive(Debug)]
pub(crate) struct Credit {
    budget: Arc<Budget>,
    account: Arc<Account>,
    /// How much credit is fetched at a time; at least 1.
    quantum: u64,
}

/// As much credit as that is fetched at a time, at least.
const QUANTUM_BYTES_MIN: u64 = 256 << 10;

impl Credit {
    /// A worker's account in a budget, one of `workers`.
    pub(crate) fn open(budget: &Arc<Budget>, workers: u32) -> Self {
        let (line, workers) = (budget.limit().as_bytes(), u64::from(workers.max(1)));
        // Low lines would otherwise be divided among few workers for good.
        let quantum = (line / (64 * workers)).max(QUANTUM_BYTES_MIN.min(line / (8 * workers))).max(1);
        Self { budget: Arc::clone(budget), account: budget.open_account(), quantum }
    }

    #[inline]
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn credit(&self) -> u64 {
        self.account.credit.get()
    }

    /// Credit that nothing is charged to.
    pub(crate) fn unused(&self) -> u64 {
        self.credit() - self.account.charged()
    }

    /// Charges bytes that are about to become resident.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), OverBudget> {
        let account = &*self.account;
        let unused = self.unused();
        if unused < bytes {
            let need = bytes - unused;
            let taken = self.budget.take_credit(need, need.max(self.quantum)).ok_or(OverBudget::new(bytes))?;
            account.credit.add(taken);
        }
        account.charged.add(bytes);
        account.charged_peak.set(account.charged_peak.get().max(account.charged.get()));
        debug_assert!(account.charged.get() <= account.credit.get(), "I2");
        Ok(())
    }

    /// Takes back the charge for bytes that are gone (I4). More credit than two quanta is not kept.
    pub(crate) fn uncharge(&self, bytes: u64) {
        self.account.charged.subtract(bytes);
        let unused = self.unused();
        if unused > 2 * self.quantum {
            self.give(unused - self.quantum);
        }
        debug_assert!(self.account.charged.get() <= self.account.credit.get(), "I2");
    }

    /// Gives all unused credit back.
    pub(crate) fn trim(&self) {
        self.give(self.unused());
    }

    fn give(&self, bytes: u64) {
        debug_assert!(bytes <= self.unused(), "I2");
        self.account.credit.subtract(bytes);
        self.budget.give_credit(bytes);
    }

    /// Notes that charged bytes are now used as `kind`.
    #[inline]
    pub(crate) fn begin_use(&self, kind: Kind, bytes: u64) {
        self.account.used[kind.bits()].add(bytes);
    }

    /// Notes that bytes used as `kind` are free again.
    #[inline]
    pub(crate) fn end_use(&self, kind: Kind, bytes: u64) {
        self.account.used[kind.bits()].subtract(bytes);
    }
}

#[cfg(test)]
mod tests;
