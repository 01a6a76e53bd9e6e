//! Figures of a worker that any thread may read. Written by their worker only, once a turn.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_pool::{Level, Pool, PoolStats};
use plimsoll_reactor::Driver;

use crate::stall::{TURN_MS, Turns};
use crate::task::Tasks;

/// One worker's figures, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauges {
    turns: AtomicU64,
    completions: AtomicU64,
    ops_in_flight: AtomicU64,
    tasks: AtomicU64,
    enobufs: AtomicU64,
    stale: AtomicU64,
    fds: AtomicU64,
    stalls: AtomicU64,
    turns_over: [AtomicU64; TURN_MS.len()],
    turn_ms_max: AtomicU64,
    stats: std::sync::Mutex<Option<PoolStats>>,
    stats_wanted: std::sync::atomic::AtomicBool,
}

/// What the workers of a runtime have done and hold, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Turns of the workers' loops.
    pub loop_turns_total: u64,
    /// Completions taken from the drivers.
    pub completions_total: u64,
    /// Operations in flight now.
    pub ops_in_flight: u64,
    /// Live tasks.
    pub tasks: u64,
    /// Receives that had to queue for a buffer.
    pub enobufs_total: u64,
    /// Completions whose operation was unknown; not 0 only if a kernel misbehaves.
    pub stale_total: u64,
    /// Descriptors that the workers hold open.
    pub fds: u64,
    /// Polls that took longer than [`Builder::stall_limit`](crate::Builder::stall_limit): each was named in a warning.
    pub stalls_total: u64,
    /// Turns whose polls took longer than each of [`TURN_MS`](Self::TURN_MS), as far as the workers' coarse clocks have
    /// seen it: while they run, nothing else of that worker does.
    pub long_turns_total: [u64; TURN_MS.len()],
    /// The longest of these, of any worker, in milliseconds.
    pub turn_ms_max: u64,
    /// How full the process is.
    pub level: Level,
    /// How many wait for memory.
    pub waiters: u64,
    /// What the kernel holds for connections, by estimate.
    pub kernel_bytes_estimate: u64,
    /// Bytes of the program's own heap, if [`Counted`](plimsoll_pool::alloc::Counted) is its allocator; else 0.
    pub heap_bytes: u64,
    /// Live tasks of [tokio's context](crate::Builder), which run on its own thread; 0 without one.
    pub tokio_tasks: u64,
}

impl Metrics {
    /// The lengths of turns that [`long_turns_total`](Self::long_turns_total) tells apart, in milliseconds.
    pub const TURN_MS: [u64; TURN_MS.len()] = TURN_MS;
}

impl Gauges {
    /// Stores what the worker knows. Plain stores: there is one writer.
    pub(crate) fn publish(&self, driver: &Driver, tasks: &Tasks, fds: u64, pool: &Pool) {
        let counters = driver.counters();
        self.turns.store(counters.turns, Ordering::Relaxed);
        self.completions.store(counters.completed, Ordering::Relaxed);
        self.stale.store(counters.stale, Ordering::Relaxed);
        self.ops_in_flight.store(driver.in_flight() as u64, Ordering::Relaxed);
        self.tasks.store(tasks.len() as u64, Ordering::Relaxed);
        self.enobufs.store(driver.enobufs_total(), Ordering::Relaxed);
        self.fds.store(fds, Ordering::Relaxed);
        if self.stats_wanted.load(Ordering::Relaxed) {
            self.give_stats(pool);
        }
    }

    #[cold]
    fn give_stats(&self, pool: &Pool) {
        self.stats_wanted.store(false, Ordering::Relaxed);
        *self.stats.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(pool.stats());
    }

    /// Adds turns that took long.
    #[cold]
    pub(crate) fn add_turns(&self, turns: Turns) {
        self.stalls.fetch_add(turns.stalls, Ordering::Relaxed);
        for (sum, over) in self.turns_over.iter().zip(turns.over) {
            sum.fetch_add(over, Ordering::Relaxed);
        }
        self.turn_ms_max.fetch_max(turns.longest_ms, Ordering::Relaxed);
    }

    /// Asks the worker for its pool's figures; answers with the last ones it gave.
    pub(crate) fn pool_stats(&self) -> Option<PoolStats> {
        self.stats_wanted.store(true, Ordering::Relaxed);
        self.stats.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Adds this worker's figures to a sum.
    pub(crate) fn add_to(&self, sum: &mut Metrics) {
        sum.loop_turns_total += self.turns.load(Ordering::Relaxed);
        sum.completions_total += self.completions.load(Ordering::Relaxed);
        sum.ops_in_flight += self.ops_in_flight.load(Ordering::Relaxed);
        sum.tasks += self.tasks.load(Ordering::Relaxed);
        sum.enobufs_total += self.enobufs.load(Ordering::Relaxed);
        sum.stale_total += self.stale.load(Ordering::Relaxed);
        sum.fds += self.fds.load(Ordering::Relaxed);
        sum.stalls_total += self.stalls.load(Ordering::Relaxed);
        for (sum, over) in sum.long_turns_total.iter_mut().zip(&self.turns_over) {
            *sum += over.load(Ordering::Relaxed);
        }
        sum.turn_ms_max = sum.turn_ms_max.max(self.turn_ms_max.load(Ordering::Relaxed));
    }
}
