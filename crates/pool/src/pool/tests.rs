//! Properties, for leases of all classes acquired, freed, freed by other threads, released, charged beside and refused
//! at random, on real memory with a source that refuses some requests. After every operation:
//!
//! * live leases do not overlap, and what was written to them is still there;
//! * what is charged is the resident units, the metadata and the charges beside, and at most the line (I1, I2); peak
//!   and credits agree;
//! * the kinds sum up to what is charged, each is what its live leases have (I9);
//! * a refusal at the line means that nothing is left to release and what was asked for does not fit.
//!
//! In the end, with everything dropped and released, only the fixed part is charged; with the pool closed, nothing, or
//! only while leases of an adopted arena live.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::class::Division;
use crate::error::Shortage;
use crate::page::page_bytes;
use crate::{MemoryLimit, SimPages};

#[derive(Clone, Debug)]
enum Op {
    Acquire { len: usize, kind: usize, count: usize },
    Free { pick: usize, count: usize },
    FreeRemotely { pick: usize, count: usize },
    Drain,
    Release(u64),
    Trim,
    Charge { kind: usize, bytes: u64 },
    Uncharge,
    Arm(bool),
    RefuseCommits(u32),
    RefuseReleases(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![3 => 0_usize..1100, 2 => 0_usize..22_000, 1 => 0_usize..132_000];
    prop_oneof![
        8 => (len, 0..Kind::COUNT, 1_usize..12).prop_map(|(len, kind, count)| Op::Acquire { len, kind, count }),
        4 => (any::<usize>(), 1_usize..12).prop_map(|(pick, count)| Op::Free { pick, count }),
        4 => (any::<usize>(), 1_usize..12).prop_map(|(pick, count)| Op::FreeRemotely { pick, count }),
        2 => Just(Op::Drain),
        1 => prop_oneof![0_u64..400_000, Just(u64::MAX)].prop_map(Op::Release),
        1 => Just(Op::Trim),
        1 => (0..Kind::COUNT, 0_u64..200_000).prop_map(|(kind, bytes)| Op::Charge { kind, bytes }),
        1 => Just(Op::Uncharge),
        1 => any::<bool>().prop_map(Op::Arm),
        1 => prop_oneof![3 => Just(0), 1 => Just(500)].prop_map(Op::RefuseCommits),
        1 => prop_oneof![3 => Just(0), 1 => Just(400)].prop_map(Op::RefuseReleases),
    ]
}

/// A lease, and the byte that is all over it.
struct Held {
    lease: Lease,
    mark: u8,
}

impl Held {
    fn new(mut lease: Lease, mark: u8) -> Self {
        let room = lease.class().bytes();
        while lease.len() < room {
            lease.extend(&[mark; 4096]);
        }
        Self { lease, mark }
    }

    fn is_intact(&self) -> bool {
        self.lease.len() == self.lease.class().bytes() && self.lease.iter().all(|byte| *byte == self.mark)
    }
}

struct Test {
    budget: Arc<Budget>,
    pool: Pool,
    held: Vec<Held>,
    /// Freed by others, not drained: kinds and class bytes.
    underway: Vec<(Kind, u64)>,
    charges: Vec<Charge>,
    refuses_releases: bool,
    next_mark: u8,
}

impl Test {
    fn acquire(&mut self, len: usize, kind: Kind) -> Result<(), TestCaseError> {
        let limit = self.budget.limit().as_bytes();
        match self.pool.try_acquire(len, kind) {
            Ok(lease) => {
                prop_assert_eq!(Some(lease.class()), Class::for_len(len));
                prop_assert_eq!((lease.len(), lease.kind()), (0, kind));
                self.next_mark = self.next_mark.wrapping_add(1);
                self.held.push(Held::new(lease, self.next_mark));
            }
            Err(over) => match (over.cause(), Class::for_len(len)) {
                (Shortage::TooLarge, class) => prop_assert_eq!(class, None),
                (Shortage::System(errno), Some(_)) => prop_assert_eq!(errno, 12),
                (Shortage::Line, Some(class)) => {
                    let unit = u64::from(Division::of(class, page_bytes()).unit_bytes);
                    let stats = self.pool.stats();
                    prop_assert!(
                        self.refuses_releases || stats.releasable_bytes() == 0,
                        "all that was free is released first"
                    );
                    prop_assert_eq!(stats.classes[class as usize].releasable_bytes, 0);
                    prop_assert!(self.budget.charged() + unit + METADATA_BYTES_MAX > limit, "refusals are exact");
                }
                other => prop_assert!(false, "{:?}", other),
            },
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (stats, limit) = (self.pool.stats(), self.budget.limit().as_bytes());
        let resident: u64 = stats.classes.iter().map(|class| class.resident_bytes).sum();
        let beside: u64 = self.charges.iter().map(Charge::bytes).sum();
        let charged = self.budget.charged();
        prop_assert_eq!(stats.charged_bytes, resident + stats.fixed_bytes);
        prop_assert_eq!(charged, stats.charged_bytes + beside);
        prop_assert!(charged <= self.budget.credited() && self.budget.credited() <= limit, "the line");
        prop_assert!(charged <= self.budget.peak() && self.budget.peak() <= limit);
        prop_assert_eq!(Kind::ALL.iter().map(|kind| self.budget.charged_by(*kind)).sum::<u64>(), charged);
        let live: u64 = stats.classes.iter().map(|class| class.live).sum();
        let underway = if self.underway.is_empty() { 0 } else { self.underway.len() as u64 };
        prop_assert_eq!(live, self.held.len() as u64 + underway);
        prop_assert_eq!(stats.cached_bytes(), self.budget.free());
        for kind in Kind::ALL {
            let leased =
                self.held.iter().filter(|held| held.lease.kind() == kind).map(|held| held.lease.class().bytes() as u64);
            let returning = self.underway.iter().filter(|(other, _)| *other == kind).map(|(_, bytes)| *bytes);
            let beside = self.charges.iter().filter(|charge| charge.kind() == kind).map(Charge::bytes);
            let more = match kind {
                Kind::Fixed => stats.fixed_bytes,
                Kind::Buffers => stats.cached_bytes(),
                _ => 0,
            };
            prop_assert_eq!(self.budget.charged_by(kind), leased.chain(returning).chain(beside).sum::<u64>() + more);
        }
        let mut spans: BTreeMap<usize, usize> = BTreeMap::new();
        for held in &self.held {
            spans.insert(held.lease.as_ptr().addr(), held.lease.class().bytes());
        }
        prop_assert_eq!(spans.len(), self.held.len());
        let ends = spans.iter().map(|(start, bytes)| start + bytes);
        prop_assert!(ends.zip(spans.keys().skip(1)).all(|(end, next)| end <= *next), "live leases do not overlap");
        Ok(())
    }

    fn step(&mut self, op: Op, source: &SimPages) -> Result<(), TestCaseError> {
        match op {
            Op::Acquire { len, kind, count } => {
                for _ in 0..count {
                    let underway = self.pool.stats().classes.iter().map(|class| class.live).sum::<u64>();
                    self.acquire(len, Kind::ALL[kind])?;
                    // An acquire that finds nothing takes back what others freed; which it did shows in the live count.
                    let live = self.pool.stats().classes.iter().map(|class| class.live).sum::<u64>();
                    if live < underway + 1 && live == self.held.len() as u64 {
                        self.underway.clear();
                    }
                }
            }
            Op::Free { pick, count } => {
                for turn in 0..count.min(self.held.len()) {
                    let held = self.held.swap_remove(pick.wrapping_add(turn * 13) % self.held.len());
                    prop_assert!(held.is_intact());
                }
            }
            Op::FreeRemotely { pick, count } => {
                for turn in 0..count.min(self.held.len()) {
                    let held = self.held.swap_remove(pick.wrapping_add(turn * 13) % self.held.len());
                    prop_assert!(held.is_intact());
                    self.underway.push((held.lease.kind(), held.lease.class().bytes() as u64));
                    held.lease.drop_remotely();
                }
            }
            Op::Drain => {
                prop_assert_eq!(self.pool.drain_remote(), self.underway.len());
                self.underway.clear();
            }
            Op::Arm(armed) => {
                prop_assert_eq!(self.pool.arm_doorbell(armed), self.underway.len());
                self.underway.clear();
            }
            Op::Release(bytes_max) => {
                let before = self.budget.charged();
                let released = self.pool.release_free(bytes_max);
                self.underway.clear();
                prop_assert!(released <= bytes_max);
                prop_assert_eq!(self.budget.charged(), before - released);
                if bytes_max == u64::MAX && !self.refuses_releases {
                    prop_assert_eq!(self.pool.stats().releasable_bytes(), 0);
                }
            }
            Op::Trim => {
                self.pool.trim_credit();
                prop_assert_eq!(self.budget.credited(), self.budget.charged());
            }
            Op::Charge { kind, bytes } => match self.pool.charge(Kind::ALL[kind], bytes) {
                Ok(charge) => self.charges.push(charge),
                Err(over) => {
                    // It took everything back before it refused.
                    self.underway.clear();
                    prop_assert_eq!(over.wanted_bytes(), bytes);
                    prop_assert!(self.budget.charged() + bytes > self.budget.limit().as_bytes());
                    prop_assert!(self.refuses_releases || self.pool.stats().releasable_bytes() == 0);
                }
            },
            Op::Uncharge => _ = self.charges.pop(),
            Op::RefuseCommits(per_mille) => source.refuse_commits(per_mille),
            Op::RefuseReleases(per_mille) => {
                self.refuses_releases = per_mille > 0;
                source.refuse_releases(per_mille);
            }
        }
        // Operations that may or may not have taken back what others freed.
        let live: u64 = self.pool.stats().classes.iter().map(|class| class.live).sum();
        if live == self.held.len() as u64 {
            self.underway.clear();
        }
        Ok(())
    }
}

/// What a class may need for a step beside its unit.
const METADATA_BYTES_MAX: u64 = 6000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_line_holds(limit in 56_000 + page_bytes() as u64..4_000_000, seed: u64, ops in prop::collection::vec(op(), 1..60), ends_adopted: bool) {
        let budget = Budget::new(MemoryLimit::bytes(limit));
        let source = SimPages::new(seed);
        let pool = Pool::new(&budget, PoolConfig::default().pages(PageChoice::Simulated(source.clone()))).unwrap();
        let mut test = Test {
            budget, pool, held: Vec::new(), underway: Vec::new(), charges: Vec::new(), refuses_releases: false, next_mark: 0,
        };
        for op in ops {
            test.step(op, &source)?;
            test.check()?;
        }
        source.refuse_releases(0);
        test.charges.clear();
        let Test { budget, pool, held, .. } = test;
        if ends_adopted {
            let leases = held.len() as u64;
            let closed = pool.close();
            prop_assert_eq!(closed, if leases == 0 { Closed::Ended } else { Closed::Adopted { leases } });
            prop_assert_eq!(budget.adopted_arenas(), usize::from(leases > 0));
            let charged = budget.charged();
            for (left, held) in (0..held.len()).rev().zip(held) {
                prop_assert_eq!(budget.charged(), charged, "charged until the last lease");
                prop_assert!(held.is_intact());
                drop(held);
                prop_assert_eq!(budget.adopted_arenas(), usize::from(left > 0));
            }
        } else {
            prop_assert!(held.iter().all(Held::is_intact));
            drop(held);
            pool.release_free(u64::MAX);
            let stats = pool.stats();
            prop_assert_eq!(budget.charged(), stats.fixed_bytes);
            prop_assert_eq!(budget.charged_by(Kind::Fixed), stats.fixed_bytes);
            prop_assert_eq!(pool.close(), Closed::Ended);
        }
        prop_assert_eq!((budget.charged(), budget.credited(), budget.adopted_arenas()), (0, 0, 0));
    }
}

fn pool(limit: MemoryLimit) -> Pool {
    Pool::new(&Budget::new(limit), PoolConfig::default()).unwrap()
}

#[test]
fn a_line_below_the_fixed_part_is_an_error() {
    let budget = Budget::new(MemoryLimit::kib(4));
    assert!(matches!(Pool::new(&budget, PoolConfig::default()), Err(Error::OverBudget(_))));
    assert_eq!((budget.charged(), budget.credited()), (0, 0));
    assert!(fixed_bytes() < page_bytes() as u64 + (4 << 10));
}

#[test]
fn free_memory_of_one_class_makes_room_for_another() {
    let pool = pool(MemoryLimit::kib(512));
    let large: Vec<Lease> = core::iter::from_fn(|| pool.try_acquire(65_536, Kind::Buffers).ok()).collect();
    assert!(large.len() >= 6);
    assert!(pool.try_acquire(65_536, Kind::Buffers).is_err());
    let count = large.len();
    drop(large);
    let small: Vec<Lease> = core::iter::from_fn(|| pool.try_acquire(4096, Kind::Buffers).ok()).collect();
    assert!(small.len() >= (count - 1) * 16, "{} of {}", small.len(), count * 16);
    assert!(pool.budget().charged() <= 512 << 10);
}

#[test]
fn leases_dropped_elsewhere_make_room_at_the_line() {
    let pool = pool(MemoryLimit::kib(512));
    let leases: Vec<Lease> = core::iter::from_fn(|| pool.try_acquire(16_384, Kind::Buffers).ok()).collect();
    thread::spawn(move || drop(leases)).join().unwrap();
    assert!(pool.try_acquire(131_072, Kind::Buffers).is_ok(), "without a call to drain");
}

#[test]
fn leases_go_around_four_threads() {
    const TURNS: usize = 3000;
    let budget = Budget::new(MemoryLimit::mib(8));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::sync_channel::<Lease>(64)).unzip();
    thread::scope(|scope| {
        for (worker, receiver) in receivers.into_iter().enumerate() {
            let (next, budget) = (senders[(worker + 1) % 4].clone(), &budget);
            scope.spawn(move || {
                let pool = Pool::new(budget, PoolConfig::default().workers(4)).unwrap();
                for turn in 0..TURNS {
                    let len = [40, 900, 4000, 17_000][turn % 4];
                    if let Ok(mut lease) = pool.try_acquire(len, Kind::Buffers) {
                        lease.extend(&[worker as u8; 64]);
                        // A full queue drops it here, an ended one too.
                        let _ = next.try_send(lease);
                    }
                    while let Ok(lease) = receiver.try_recv() {
                        assert_eq!(lease[..], [lease[0]; 64]);
                    }
                    pool.drain_remote();
                    assert!(budget.credited() <= 8 << 20);
                    assert!(budget.charged() <= 8 << 20);
                }
                drop(next);
                // Pools end while their leases are still on the way: some are dropped by the channel.
            });
        }
        drop(senders);
    });
    assert_eq!((budget.charged(), budget.credited(), budget.adopted_arenas()), (0, 0, 0));
}

#[test]
fn the_last_lease_of_an_ended_worker_ends_its_arena() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let leases: Vec<Lease> = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
            let all: Vec<Lease> = (0..100).map(|_| pool.try_copy(&[3; 5000], Kind::Codec).unwrap()).collect();
            all.into_iter().step_by(2).collect()
        });
        worker.join().unwrap()
    });
    assert_eq!(budget.adopted_arenas(), 1);
    assert!(crate::adopted_arenas() >= 1, "other tests may have some too");
    assert_eq!(budget.charged_by(Kind::Codec), 50 * 8192);
    // Where two share a page, the other one of them is gone from it.
    let page = page_bytes() as u64;
    let held = if page > 8192 { (100 * 8192_u64).next_multiple_of(page) } else { 50 * 8192 };
    assert!(budget.charged() < held + 6_000 + page, "what was free at the end is gone");
    thread::scope(|scope| {
        let mut leases = leases.into_iter();
        for _ in 0..5 {
            let part: Vec<Lease> = leases.by_ref().take(10).collect();
            scope.spawn(move || part.into_iter().for_each(|lease| assert_eq!(lease[..], [3; 5000])));
        }
    });
    assert_eq!((budget.charged(), budget.credited(), budget.adopted_arenas()), (0, 0, 0));
    assert!(budget.peak() >= 100 * 8192);
}

#[test]
fn two_pools_of_a_thread_are_apart() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let pools = [0, 1].map(|_| Pool::new(&budget, PoolConfig::default()).unwrap());
    let leases: Vec<Lease> = (0..100).map(|turn| pools[turn % 2].try_acquire(1000, Kind::Slots).unwrap()).collect();
    assert_eq!(pools.each_ref().map(|pool| pool.stats().classes[4].live), [50, 50]);
    drop(leases);
    assert_eq!(pools.each_ref().map(|pool| pool.stats().classes[4].live), [0, 0]);
    assert_eq!(pools.map(Pool::close), [Closed::Ended; 2]);
}

#[test]
fn an_armed_doorbell_rings_once() {
    let pool = pool(MemoryLimit::mib(8));
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rings);
    pool.set_doorbell(Box::new(move || _ = counted.fetch_add(1, Ordering::Relaxed)));
    let leases: Vec<Lease> = (0..9).map(|_| pool.try_acquire(100, Kind::Slots).unwrap()).collect();
    let mut leases = leases.into_iter();
    let mut drop_elsewhere = |count| {
        let part: Vec<Lease> = leases.by_ref().take(count).collect();
        thread::spawn(move || drop(part)).join().unwrap();
    };
    drop_elsewhere(3);
    assert_eq!((rings.load(Ordering::Relaxed), pool.arm_doorbell(true)), (0, 3));
    drop_elsewhere(3);
    assert_eq!((rings.load(Ordering::Relaxed), pool.drain_remote()), (1, 3));
    assert_eq!((pool.arm_doorbell(true), pool.arm_doorbell(false)), (0, 0));
    drop_elsewhere(3);
    assert_eq!((rings.load(Ordering::Relaxed), pool.drain_remote()), (1, 3));
}

thread_local! {
    static OF_THIS_THREAD: std::cell::RefCell<Option<Pool>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_doorbell_may_set_another_one_when_it_goes() {
    struct Successor(Arc<AtomicUsize>);
    impl Drop for Successor {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            OF_THIS_THREAD.with_borrow(|pool| pool.as_ref().unwrap().set_doorbell(Box::new(|| ())));
        }
    }
    let pool = pool(MemoryLimit::mib(8));
    OF_THIS_THREAD.set(Some(pool.clone()));
    let dropped = Arc::new(AtomicUsize::new(0));
    let successor = Successor(Arc::clone(&dropped));
    pool.set_doorbell(Box::new(move || _ = &successor));
    // Under the lock of the doorbell this would wait for itself.
    pool.set_doorbell(Box::new(|| ()));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    OF_THIS_THREAD.set(None);
    assert_eq!(pool.close(), Closed::Ended);
}

#[test]
fn handles_share_a_pool() {
    let first = pool(MemoryLimit::mib(8));
    let second = first.clone();
    let lease = first.try_copy(b"abc", Kind::Codec).unwrap();
    assert_eq!(first.close(), Closed::Shared);
    assert_eq!(second.budget().charged_by(Kind::Codec), 64);
    drop(lease);
    assert_eq!(second.close(), Closed::Ended);
}

#[test]
fn released_memory_comes_back_as_zeros_to_nobody() {
    let pool = pool(MemoryLimit::mib(8));
    let mut lease = pool.try_copy(b"secret", Kind::Buffers).unwrap();
    lease.clear();
    assert!(lease.is_empty());
    drop(lease);
    let recycled = pool.try_acquire(6, Kind::Buffers).unwrap();
    assert_eq!(recycled[..], [], "the bytes of the one before are there, and not shown");
}

/// The burst and decay of the design's experiment: 20,000 live, then 400 at random with churn.
#[test]
fn after_churn_little_more_is_held_than_needed() {
    for (class, held_max) in [(Class::K16, 1.02), (Class::K4, 1.02), (Class::B512, 1.15), (Class::B64, 1.15)] {
        let pool = pool(MemoryLimit::gib(1));
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % below
        };
        let mut live: Vec<Lease> = (0..20_000).map(|_| pool.try_acquire_class(class, Kind::Buffers).unwrap()).collect();
        while live.len() > 400 {
            drop(live.swap_remove(next(live.len())));
        }
        for turn in 0..8000 {
            drop(live.swap_remove(next(live.len())));
            live.push(pool.try_acquire_class(class, Kind::Buffers).unwrap());
            if turn % 500 == 0 {
                pool.release_free(u64::MAX);
            }
        }
        pool.release_free(u64::MAX);
        let stats = pool.stats();
        let needed = (400 * class.bytes()).next_multiple_of(page_bytes());
        let held = stats.classes[class as usize].resident_bytes as f64 / needed as f64;
        assert!(held <= held_max, "{class}: {held}");
    }
}

/// In place while its slot has room, then in the smallest class; at the line nothing changes.
#[test]
fn a_lease_that_grows_keeps_its_bytes_and_kind() {
    // 16 pages.
    let pages = MemoryLimit::bytes(16 * page_bytes() as u64);
    let pool = Pool::new(&Budget::new(pages), PoolConfig::default()).unwrap();
    let mut lease = pool.try_copy(&[1; 60], Kind::Codec).unwrap();
    let at = lease.as_ptr();
    pool.try_grow(&mut lease, 4).unwrap();
    assert_eq!((lease.as_ptr(), lease.class()), (at, Class::B64), "there was room");
    lease.consume(50);
    pool.try_grow(&mut lease, 54).unwrap();
    assert_eq!((lease.as_ptr(), &lease[..], lease.spare_capacity()), (at, &[1; 10][..], 54), "at its start");
    pool.try_grow(&mut lease, 55).unwrap();
    assert_eq!((&lease[..], lease.class(), lease.kind()), (&[1; 10][..], Class::B128, Kind::Codec));
    for more in [128 << 10, usize::MAX, 15 * page_bytes()] {
        let over = pool.try_grow(&mut lease, more).unwrap_err();
        assert_eq!((&lease[..], lease.class()), (&[1; 10][..], Class::B128), "{over}");
    }
}
