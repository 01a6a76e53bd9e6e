//! A line that changes while the process runs.
//!
//! ```text
//!  higher: the line, the marks and the container's room follow; who waits is served
//!  lower:  the same, and nothing is handed out before the excess has come back:
//!            credit that nobody has charged, and pages that are free   at once, worker by worker
//!            what is in use                                            when it is given back
//! ```
#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::budget::Budget;
use crate::kind::Kind;
use crate::limit::MemoryLimit;
use crate::watermarks::Marks;

/// What follows the limit.
#[derive(Debug)]
pub(crate) struct Limits {
    /// One change at a time.
    changing: Mutex<()>,
    marks: Marks,
    /// The limit at the start.
    first: u64,
    /// Below this many credited bytes and without a heap that is counted, the level is calm.
    calm_below: AtomicU64,
    /// What workers need beside what is fixed, to do anything at all.
    working: AtomicU64,
}

impl Limits {
    pub(crate) fn new(marks: Marks, limit_bytes: u64) -> Self {
        Self {
            changing: Mutex::new(()),
            marks,
            first: limit_bytes,
            calm_below: AtomicU64::new(calm_below(marks, limit_bytes)),
            working: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn calm_below(&self) -> u64 {
        self.calm_below.load(Ordering::Relaxed)
    }

    /// What was kept of the first line, in the same part of one that is lower.
    pub(crate) fn part_of(&self, kept_of_first: u64, limit_bytes: u64) -> u64 {
        let part = u128::from(kept_of_first) * u128::from(limit_bytes.min(self.first)) / u128::from(self.first);
        part as u64
    }
}

fn calm_below(marks: Marks, limit_bytes: u64) -> u64 {
    limit_bytes / 100 * u64::from(marks.calm_below_percent())
}

/// Why a line cannot be so low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitTooLow {
    /// What was asked for, in bytes.
    pub asked_bytes: u64,
    /// The lowest that it can be now, in bytes: see [`Budget::floor_bytes`].
    pub floor_bytes: u64,
}

impl fmt::Display for LimitTooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked_bytes, floor_bytes } = self;
        write!(
            f,
            "a memory line of {asked_bytes} bytes is too low for what runs: at least {floor_bytes} bytes are needed, or fewer workers"
        )
    }
}

impl core::error::Error for LimitTooLow {}

impl Budget {
    /// Moves the line, from any thread, while everything runs. Gives the line that there was.
    ///
    /// *Higher* holds at once: who waits for memory is served.
    ///
    /// *Lower* holds at once for whatever is asked for from now on, and the level is that of the new line, so servers
    /// begin to shed. What is above it comes back: credit that a worker has not charged in its next turn (until then it
    /// may charge that, two quanta of 1/64 of its share of the line at most), free pages within half of
    /// [`DecayConfig::fast`](crate::DecayConfig::fast) and 1 MiB a turn from there, and what is in use when it is given
    /// back. [`charged`](Self::charged) is above the line so long, and only falls to it: exchanges that were begun are
    /// not cut for a lower line but as at any full one, so the last of it may take as long as they may. Nothing is
    /// handed out before that.
    ///
    /// What is reserved once stays as it was at the start: the fixed parts (rings, stacks, tables), what a server keeps
    /// for answers and lists, the number of workers.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, Kind, MemoryLimit};
    ///
    /// let budget = Budget::new(MemoryLimit::mib(2));
    /// let held = budget.charge(Kind::Buffers, 1 << 20)?;
    /// budget.set_limit(MemoryLimit::kib(512)).expect("there is no floor");
    /// assert_eq!(budget.charged(), 1 << 20, "what is held stays");
    /// assert!(budget.charge(Kind::Buffers, 1).is_err(), "and no more is given");
    /// drop(held);
    /// assert!(budget.charge(Kind::Buffers, 512 << 10).is_ok());
    /// # Ok::<(), plimsoll_pool::OverBudget>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LimitTooLow`] below [`floor_bytes`](Self::floor_bytes); nothing has changed then.
    pub fn set_limit(&self, limit: MemoryLimit) -> Result<MemoryLimit, LimitTooLow> {
        let _one_at_a_time = self.limits().changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked_bytes, floor_bytes) = (limit.as_bytes(), self.floor_bytes());
        if asked_bytes < floor_bytes {
            return Err(LimitTooLow { asked_bytes, floor_bytes });
        }
        let before = self.line().set_limit(asked_bytes);
        self.limits().calm_below.store(calm_below(self.limits().marks, asked_bytes), Ordering::Relaxed);
        self.pressure().set_limit(asked_bytes);
        self.container().line_changed(asked_bytes);
        if self.line().excess() > 0 {
            self.call_for_credit();
        }
        self.credit_queue().limit_changed(self.line());
        Ok(MemoryLimit::bytes(before))
    }

    /// The lowest line that can be [set](Self::set_limit) now: what is charged as fixed, for rings and for stacks, and
    /// what workers need beside that to do anything.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        let fixed: u64 = [Kind::Fixed, Kind::Rings, Kind::Stacks].map(|kind| self.charged_by(kind)).into_iter().sum();
        fixed + self.limits().working.load(Ordering::Relaxed)
    }

    /// Says what the workers of this budget need together beside what is fixed.
    pub fn set_working_bytes(&self, bytes: u64) {
        self.limits().working.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
