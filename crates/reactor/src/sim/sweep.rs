//! The same test over many seeds, on several threads.
#![forbid(unsafe_code)]

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Census;
use crate::sys;

/// Runs a test over a range of seeds: each seed has a world of its own, on one of `threads` threads.
///
/// ```
/// use plimsoll_reactor::sim::{SimConfig, Sweep, World};
///
/// let sweep = Sweep { first_seed: 1, seeds: 40, threads: 2 };
/// let census = sweep.run(
///     |seed| {
///         let world = World::new(SimConfig::new(seed));
///         // ... run a service in it, and assert what must hold ...
///         world.census()
///     },
///     |_done| {},
/// )?;
/// assert_eq!(census.ops_missing().count(), 13, "nothing happened in these worlds");
///
/// let failed = sweep.run(|seed| { assert_ne!(seed, 17, "unlucky"); Default::default() }, |_| {}).unwrap_err();
/// assert_eq!(failed.seed, 17);
/// # Ok::<(), plimsoll_reactor::sim::FailedSeed>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, one after the other.
    pub seeds: u64,
    /// Threads at most; at least one is used.
    pub threads: usize,
}

/// A seed whose test panicked. The lowest of those that were run: the other threads finish the seed they are at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSeed {
    /// The seed; it fails in the same way when it is run again.
    pub seed: u64,
    /// What the panic said.
    pub message: String,
}

impl fmt::Display for FailedSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} failed: {}", self.seed, self.message)
    }
}

impl core::error::Error for FailedSeed {}

/// What the threads of a sweep share.
#[derive(Default)]
struct Shared {
    taken: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    sum: Mutex<Sum>,
}

#[derive(Default)]
struct Sum {
    census: Census,
    failed: Option<FailedSeed>,
}

impl Sweep {
    /// Runs `test` with each seed, until all are done or one panics; the sum of what happened. `progress` is told after
    /// each seed how many are done, on the thread that did it.
    ///
    /// # Errors
    ///
    /// The seed that failed.
    pub fn run(
        &self,
        test: impl Fn(u64) -> Census + Sync,
        progress: impl Fn(u64) + Sync,
    ) -> Result<Census, FailedSeed> {
        let shared = Shared::default();
        sys::run_on_threads(self.threads.max(1), || self.run_some(&shared, &test, &progress));
        let sum = shared.sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        match sum.failed {
            Some(failed) => Err(failed),
            None => Ok(sum.census),
        }
    }

    /// One thread's share.
    fn run_some(&self, shared: &Shared, test: &impl Fn(u64) -> Census, progress: &impl Fn(u64)) {
        let mut census = Census::default();
        while !shared.stop.load(Ordering::Relaxed) {
            let at = shared.taken.fetch_add(1, Ordering::Relaxed);
            if at >= self.seeds {
                break;
            }
            let seed = self.first_seed.wrapping_add(at);
            match catch_unwind(AssertUnwindSafe(|| test(seed))) {
                Ok(counted) => census.add(&counted),
                Err(panic) => {
                    shared.stop.store(true, Ordering::Relaxed);
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                    let message = text.unwrap_or("it panicked").to_owned();
                    let mut sum = shared.sum();
                    if sum.failed.as_ref().is_none_or(|failed| seed < failed.seed) {
                        sum.failed = Some(FailedSeed { seed, message });
                    }
                }
            }
            progress(shared.done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        shared.sum().census.add(&census);
    }
}

impl Shared {
    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
