//! The figures of one worker in the ledger: its credit, and what it has charged and used.
//!
//! They are written by one thread and may be read by any: writing is a plain load, an addition and a plain store.
//!
//! **I2**: what a worker has charged is at most its credit.
//!
//! **I9**: for every kind, the use is the sum over its live slots of their classes' bytes, plus metadata for
//! [`Kind::Fixed`].
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::kind::Kind;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
struct Published(AtomicU64);

impl Published {
    #[inline]
    fn get(&self) -> u64 {
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
    /// Free bytes that would go back to the system at once, as they were when the worker last looked.
    releasable: Published,
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

    /// Credit that nothing is charged to.
    pub(crate) fn unused(&self) -> u64 {
        self.credit.get().saturating_sub(self.charged())
    }

    /// Charged bytes that somebody uses, or that lie between such.
    pub(crate) fn in_use(&self) -> u64 {
        self.charged().saturating_sub(self.releasable.get())
    }

    pub(crate) fn credit(&self) -> u64 {
        self.credit.get()
    }

    /// For its worker: what it could give back.
    pub(crate) fn set_releasable(&self, bytes: u64) {
        self.releasable.set(bytes);
    }

    /// For its worker: it has got credit.
    pub(crate) fn add_credit(&self, bytes: u64) {
        self.credit.add(bytes);
    }

    /// For its worker: it gives credit up that it has not charged.
    pub(crate) fn subtract_credit(&self, bytes: u64) {
        self.credit.subtract(bytes);
        debug_assert!(self.charged.get() <= self.credit.get(), "I2");
    }

    /// For its worker: bytes of its credit are charged.
    pub(crate) fn charge(&self, bytes: u64) {
        self.charged.add(bytes);
        self.charged_peak.set(self.charged_peak.get().max(self.charged.get()));
        debug_assert!(self.charged.get() <= self.credit.get(), "I2");
    }

    /// For its worker: bytes are charged no more.
    pub(crate) fn uncharge(&self, bytes: u64) {
        self.charged.subtract(bytes);
    }

    /// For its worker: charged bytes are now used as `kind`.
    #[inline]
    pub(crate) fn begin_use(&self, kind: Kind, bytes: u64) {
        self.used[kind.bits()].add(bytes);
    }

    /// For its worker: bytes used as `kind` are free again.
    #[inline]
    pub(crate) fn end_use(&self, kind: Kind, bytes: u64) {
        self.used[kind.bits()].subtract(bytes);
    }

    /// Ends the account: returns its credit, which is now no longer its own.
    pub(crate) fn end(&self) -> u64 {
        let credit = self.credit.get();
        for used in &self.used {
            used.set(0);
        }
        self.charged.set(0);
        self.credit.set(0);
        self.releasable.set(0);
        credit
    }
}
