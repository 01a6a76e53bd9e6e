//! A line that is moved: who gets what of a higher one, what comes back under a lower one, and what is refused.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;
use crate::{
    Admission, AdmissionConfig, Decay, DecayConfig, DecaySpeed, Footprint, Lease, Level, Pool, PoolConfig, Priority,
};

fn pool(budget: &Arc<Budget>) -> Pool {
    Pool::new(budget, PoolConfig::default()).expect("room for a pool")
}

fn fill(pool: &Pool) -> Vec<Lease> {
    core::iter::from_fn(|| pool.try_acquire(1 << 16, Kind::Buffers).ok()).collect()
}

#[test]
fn a_higher_line_serves_who_waits() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let pool = pool(&budget);
    let rung = Arc::new(AtomicUsize::new(0));
    let ring = Arc::clone(&rung);
    let ring = Arc::new(move || _ = ring.fetch_add(1, Ordering::Relaxed));
    let admission = Admission::with_doorbell(&pool, AdmissionConfig::default(), ring).expect("room");
    let held = fill(&pool);
    let mut waits = pin!(admission.reserve(Footprint::one(1 << 16), Priority::Body, 1));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    let before = rung.load(Ordering::Relaxed);
    assert_eq!(budget.set_limit(MemoryLimit::mib(2)), Ok(MemoryLimit::mib(1)), "what there was");
    assert!(rung.load(Ordering::Relaxed) > before, "its worker hears of it");
    admission.tick(1_000_000);
    assert!(waits.as_mut().poll(&mut cx).is_ready(), "without anything having come back");
    assert!(budget.charged() > 1 << 20, "{}", budget.charged());
    drop(held);
}

#[test]
fn under_a_lower_line_free_memory_goes_back_by_itself_and_the_rest_when_it_is_given_back() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let pool = pool(&budget);
    let admission = Admission::new(&pool, AdmissionConfig::default().reserve_bytes(512 << 10)).expect("room");
    let mut decay = Decay::new(DecayConfig::default());
    let mut held = fill(&pool);
    assert_eq!(admission.tick(2_000_000).map(|change| change.to), Some(Level::Orange));
    held.truncate(held.len() / 2);
    let used = budget.charged() - budget.free();
    budget.set_limit(MemoryLimit::mib(2)).expect("above the floor");
    let mut now = Duration::from_millis(10);
    admission.tick(now.as_nanos() as u64);
    for _ in 0..1_000 {
        decay.tick(&pool, now, || DecaySpeed::Slow);
        admission.tick(now.as_nanos() as u64);
        match decay.next_deadline() {
            Some(at) if at > now + Duration::from_millis(125) => break,
            Some(at) => now = at.max(now + Duration::from_micros(100)),
            None => break,
        }
    }
    assert!(now < Duration::from_millis(200), "{now:?}");
    assert!(budget.credited() <= used + (128 << 10), "only what is used stays: {} {used}", budget.credited());
    assert!(budget.charged() > 2 << 20, "it is above the line");
    assert!(pool.try_acquire(1 << 16, Kind::Buffers).is_err(), "nothing is handed out meanwhile");
    assert!(budget.level() >= Level::Orange);
    held.clear();
    for _ in 0..200 {
        now += Duration::from_millis(63);
        decay.tick(&pool, now, || DecaySpeed::Slow);
        admission.tick(now.as_nanos() as u64);
    }
    assert!(budget.charged() < 1 << 20 && budget.credited() <= 2 << 20, "{} {}", budget.charged(), budget.credited());
    assert_eq!(budget.level(), Level::Calm);
    let reserve = pool.credit().reserve_left();
    assert_eq!(reserve, 128 << 10, "what is kept for newcomers is the same part of the line");
    let again = fill(&pool);
    assert!(budget.charged() <= 2 << 20 && budget.credited() <= 2 << 20, "the new line is the line");
    drop(again);
}

#[test]
fn a_line_below_what_is_fixed_is_refused() {
    let budget = Budget::new(MemoryLimit::mib(4));
    budget.set_working_bytes(256 << 10);
    let fixed = [(Kind::Rings, 300), (Kind::Stacks, 200), (Kind::Fixed, 100)]
        .map(|(kind, kib)| budget.charge(kind, kib << 10).expect("room"));
    let buffers = budget.charge(Kind::Buffers, 2 << 20).expect("room");
    assert_eq!(budget.floor_bytes(), (600 + 256) << 10, "what is in use is no part of it");
    let low = budget.set_limit(MemoryLimit::kib(855)).expect_err("too low");
    assert_eq!((low.asked_bytes, low.floor_bytes), (855 << 10, 856 << 10));
    assert!(low.to_string().contains(&(856 << 10).to_string()), "{low}");
    assert_eq!(budget.limit(), MemoryLimit::mib(4), "nothing has changed");
    assert_eq!(budget.set_limit(MemoryLimit::kib(856)), Ok(MemoryLimit::mib(4)));
    drop((fixed, buffers));
}

#[test]
fn the_kernels_part_is_what_the_line_leaves() {
    let budget = Budget::new(MemoryLimit::mib(40));
    assert_eq!(budget.kernel_bytes_max(), None);
    budget.set_limit(MemoryLimit::mib(20)).expect("no floor");
    assert_eq!(budget.kernel_bytes_max(), None, "there is no container");
    budget.set_container_bytes(100 << 20);
    assert_eq!(budget.kernel_bytes_max(), Some(60 << 20));
    budget.set_limit(MemoryLimit::mib(60)).expect("no floor");
    assert_eq!(budget.kernel_bytes_max(), Some(20 << 20));
}

#[test]
fn the_level_is_that_of_the_line_there_is() {
    let budget = Budget::new(MemoryLimit::mib(10));
    let _half = budget.charge(Kind::Buffers, 5 << 20).expect("room");
    assert!(budget.is_surely_calm());
    for (mib, level) in [(6, Level::Yellow), (5, Level::Orange), (4, Level::Orange), (20, Level::Calm)] {
        budget.set_limit(MemoryLimit::mib(mib)).expect("no floor");
        assert_eq!(budget.is_surely_calm(), level == Level::Calm && budget.level() == level, "{mib} MiB");
        budget.observe();
        assert_eq!(budget.level(), level, "{mib} MiB");
    }
    assert!(budget.is_surely_calm());
}

proptest! {
    /// Whatever is charged, given back and set: more is handed out only within the line of that moment (I1).
    #[test]
    fn credit_grows_only_within_the_line(ops in prop::collection::vec((0..3_u8, 1_u64..4_000), 1..200)) {
        let budget = Budget::new(MemoryLimit::bytes(2_000));
        let mut charges = Vec::new();
        for (what, bytes) in ops {
            let (before, limit) = (budget.credited(), budget.limit().as_bytes());
            match what {
                0 => match budget.charge(Kind::Slots, bytes) {
                    Ok(charge) => {
                        charges.push(charge);
                        prop_assert!(before + bytes <= limit);
                    }
                    Err(_) => prop_assert!(before + bytes > limit),
                },
                1 if !charges.is_empty() => drop(charges.swap_remove(bytes as usize % charges.len())),
                _ => {
                    prop_assert_eq!(budget.set_limit(MemoryLimit::bytes(bytes)), Ok(MemoryLimit::bytes(limit)));
                }
            }
            let sum = charges.iter().map(|charge| charge.bytes()).sum::<u64>();
            prop_assert_eq!((budget.charged(), budget.credited()), (sum, sum));
        }
    }
}
