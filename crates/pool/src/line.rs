//! The process's side of the ledger: how much of the line is handed out as credit.
//!
//! **I1**: the sum of all credits is at most the line, at any moment. There is one counter of it, which grows only by a
//! compare-and-swap that has checked the new value. A line that is lowered below the credits leaves an excess: until
//! that has come back nothing is handed out, so the sum only falls.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// Bytes of the line, and those that are credited.
#[derive(Debug)]
pub(crate) struct Line {
    limit: AtomicU64,
    /// I1: at most `limit`, or on its way down to it.
    credited: AtomicU64,
    /// The highest value that `credited` has had.
    peak: AtomicU64,
}

impl Line {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), credited: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    pub(crate) fn credited(&self) -> u64 {
        self.credited.load(Ordering::Acquire)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Sets the limit; what it was.
    pub(crate) fn set_limit(&self, limit: u64) -> u64 {
        self.limit.swap(limit, Ordering::AcqRel)
    }

    /// What is not handed out.
    pub(crate) fn free(&self) -> u64 {
        self.limit().saturating_sub(self.credited())
    }

    /// What is handed out beyond a limit that was lowered.
    pub(crate) fn excess(&self) -> u64 {
        self.credited().saturating_sub(self.limit())
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    /// Hands out `wish` bytes if there are as many, else exactly `need`. `None` if there are not even those.
    pub(crate) fn take(&self, need: u64, wish: u64) -> Option<u64> {
        debug_assert!(need <= wish);
        let mut credited = self.credited.load(Ordering::Relaxed);
        loop {
            let free = self.limit().saturating_sub(credited);
            let taken = match free {
                _ if free >= wish => wish,
                _ if free >= need => need,
                _ => return None,
            };
            match self.credited.compare_exchange_weak(credited, credited + taken, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.peak.fetch_max(credited + taken, Ordering::AcqRel);
                    return Some(taken);
                }
                Err(now) => credited = now,
            }
        }
    }

    /// Hands out as much as there is, up to `wish` bytes. `None` if there is nothing.
    pub(crate) fn take_up_to(&self, wish: u64) -> Option<u64> {
        let mut credited = self.credited.load(Ordering::Relaxed);
        loop {
            let taken = wish.min(self.limit().saturating_sub(credited));
            if taken == 0 {
                return None;
            }
            match self.credited.compare_exchange_weak(credited, credited + taken, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.peak.fetch_max(credited + taken, Ordering::AcqRel);
                    return Some(taken);
                }
                Err(now) => credited = now,
            }
        }
    }

    /// Takes back what was handed out and is no longer charged.
    pub(crate) fn give(&self, bytes: u64) {
        let before = self.credited.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "no more comes back than was handed out");
    }
}

#[cfg(test)]
mod tests;
