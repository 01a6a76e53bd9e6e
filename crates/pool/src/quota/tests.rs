//! Properties, for the accounts of one tenant on several workers, after every operation: together they use at most the quota; what is said to be
//! used is that, and at most two quanta for each worker that uses anything; a refusal is wrong by no more than that; the local limit holds, too. What
//! ends leaves nothing. On threads: the sum holds in between.
//!
//! The counter itself is that of the [line](crate::line), which loom checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::accounts::{AccountKey, AccountLimits, Accounts};
use crate::{Budget, Kind, MemoryLimit, Pool, PoolConfig};

const WORKERS: usize = 3;
const QUOTA_BYTES: u64 = 96 << 10;
const LOCAL_BYTES_MAX: u64 = 80 << 10;

struct Worker {
    pool: Pool,
    accounts: Accounts,
    tenant: AccountKey,
    connection: AccountKey,
    held: Vec<u64>,
}

impl Worker {
    fn new(budget: &Arc<Budget>, quota: &Quota) -> Self {
        let pool = Pool::new(budget, PoolConfig::default()).unwrap();
        let mut accounts = Accounts::new(5);
        let limits = AccountLimits::default().use_bytes_max(LOCAL_BYTES_MAX);
        let tenant = accounts.tenant(&pool, 1, limits, Some(quota)).unwrap();
        let connection = accounts.child(&pool, tenant, AccountLimits::default()).unwrap();
        Self { pool, accounts, tenant, connection, held: Vec::new() }
    }

    fn used(&self) -> u64 {
        self.held.iter().sum()
    }

    fn begin(&mut self, bytes: u64) -> bool {
        let allowed = self.accounts.allows(self.connection, bytes).is_ok();
        let begun = self.accounts.begin_use(self.connection, Kind::Buffers, bytes).is_ok();
        assert_eq!(allowed, begun, "nobody else was faster");
        if begun {
            self.held.push(bytes);
        }
        begun
    }
}

proptest! {
    #[test]
    fn accounts_of_all_workers_stay_within_the_quota(
        ops in prop::collection::vec((0..WORKERS, any::<bool>(), 1_u64..600, any::<usize>()), 1..200),
    ) {
        let budget = Budget::new(MemoryLimit::mib(4));
        let quota = Quota::new(QUOTA_BYTES, WORKERS as u32);
        let quantum = quota.0.quantum;
        let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::new(&budget, &quota)).collect();
        for (at, begins, grains, pick) in ops {
            let bytes = 64 * grains;
            let before: u64 = workers.iter().map(Worker::used).sum();
            let worker = &mut workers[at];
            if begins {
                let local = worker.used();
                if !worker.begin(bytes) {
                    let slack = 2 * quantum * (WORKERS as u64 - 1);
                    prop_assert!(local + bytes > LOCAL_BYTES_MAX || before + bytes + slack > QUOTA_BYTES, "refused too early");
                }
            } else if !worker.held.is_empty() {
                let bytes = worker.held.swap_remove(pick % worker.held.len());
                worker.accounts.end_use(worker.connection, Kind::Buffers, bytes);
            }
            for worker in &workers {
                let stats = worker.accounts.stats(worker.tenant).unwrap();
                prop_assert_eq!(stats.total_bytes(), worker.used());
                prop_assert!(worker.used() <= LOCAL_BYTES_MAX);
            }
            let used: u64 = workers.iter().map(Worker::used).sum();
            let users = workers.iter().filter(|worker| worker.used() > 0).count() as u64;
            prop_assert!(used <= quota.used_bytes() && quota.used_bytes() <= QUOTA_BYTES);
            prop_assert!(quota.used_bytes() <= used + 2 * quantum * users);
        }
        // Two end in order, the third with everything it has.
        for mut worker in workers.drain(1..) {
            for bytes in core::mem::take(&mut worker.held) {
                worker.accounts.end_use(worker.connection, Kind::Buffers, bytes);
            }
            worker.accounts.close(worker.connection);
            worker.accounts.close(worker.tenant);
            prop_assert_eq!(worker.accounts.len(), 0);
            drop(worker.pool);
        }
        drop(workers);
        prop_assert_eq!(quota.used_bytes(), 0);
    }
}

#[test]
fn workers_on_threads_never_use_more_than_the_quota_together() {
    let budget = Budget::new(MemoryLimit::mib(16));
    let quota = Quota::new(QUOTA_BYTES, WORKERS as u32);
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..WORKERS as u64 {
            let (budget, quota, sum) = (&budget, &quota, &sum);
            scope.spawn(move || {
                let mut worker = Worker::new(budget, quota);
                let mut refused = 0;
                for round in 0..5_000_u64 {
                    let bytes = 64 * (1 + (round * 31 + thread * 7) % 500);
                    if worker.begin_shared(bytes) {
                        let now = sum.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(now <= QUOTA_BYTES, "{now}");
                    } else {
                        refused += 1;
                        while let Some(bytes) = worker.held.pop() {
                            sum.fetch_sub(bytes, Ordering::SeqCst);
                            worker.accounts.end_use(worker.connection, Kind::Buffers, bytes);
                        }
                    }
                }
                sum.fetch_sub(worker.used(), Ordering::SeqCst);
                assert!(refused > 0, "they want more than there is");
            });
        }
    });
    assert_eq!(quota.used_bytes(), 0, "parts go back with their accounts");
}

impl Worker {
    /// As [`begin`](Self::begin), while others do the same.
    fn begin_shared(&mut self, bytes: u64) -> bool {
        let begun = self.accounts.begin_use(self.connection, Kind::Buffers, bytes).is_ok();
        if begun {
            self.held.push(bytes);
        }
        begun
    }
}

#[test]
fn a_part_keeps_two_quanta_more_than_is_used_and_gives_back_what_is_beyond() {
    let quota = Quota::new(8_000, 1);
    let mut part = Part::new(&quota, 7_000);
    for (use_bytes, bytes) in [(1, 1_000), (1_001, 2_000), (2_001, 3_000)] {
        assert!(part.may_grow(use_bytes) && part.grow(use_bytes));
        assert_eq!((part.use_bytes_max(), quota.used_bytes()), (bytes, bytes), "by quanta");
    }
    for (use_bytes, bytes) in [(1_000, 3_000), (999, 1_999), (0, 0)] {
        part.shrink(use_bytes);
        assert_eq!((part.use_bytes_max(), quota.used_bytes()), (bytes, bytes), "used: {use_bytes}");
    }
    assert!(!part.may_grow(7_001) && !part.grow(7_001), "the local limit");
    assert!(part.grow(7_000));
    let other = Part::new(&quota, u64::MAX);
    assert!(other.may_grow(1_000) && !other.may_grow(1_001));
    drop(part);
    assert!(other.may_grow(8_000) && quota.used_bytes() == 0, "it goes back with the account");
}
