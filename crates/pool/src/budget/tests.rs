//! Properties of charges: they count as their kind, grow and shrink, end with their drop, also from several threads at
//! once.

use super::*;
use crate::{Pool, PoolConfig, page_bytes};

#[test]
fn a_charge_grows_and_shrinks() {
    let budget = Budget::new(MemoryLimit::bytes(1000));
    let mut charge = budget.charge(Kind::Stacks, 400).unwrap();
    charge.grow(500).unwrap();
    assert_eq!((charge.bytes(), budget.charged_by(Kind::Stacks)), (900, 900));
    let over = charge.grow(101).unwrap_err();
    assert_eq!((over.wanted_bytes(), charge.bytes(), budget.charged()), (101, 900, 900));
    assert_eq!(budget.refusals(), 1);
    charge.shrink_to(100);
    charge.shrink_to(5000);
    assert_eq!((charge.bytes(), budget.charged(), budget.credited()), (100, 100, 100));
    drop(charge);
    assert_eq!((budget.charged(), budget.credited(), budget.peak()), (0, 0, 900));
}

#[test]
fn charges_of_many_threads_never_cross_the_line() {
    let budget = Budget::new(MemoryLimit::bytes(10_000));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let budget = &budget;
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    let charge = budget.charge(Kind::ALL[(round % 7) as usize], 1000 + 997 * thread);
                    assert!(budget.credited() <= 10_000, "I1");
                    assert!(budget.charged() <= 10_000);
                    drop(charge);
                }
            });
        }
    });
    assert_eq!((budget.charged(), budget.credited()), (0, 0));
    assert!(budget.peak() <= 10_000);
    assert!(Kind::ALL.iter().all(|kind| budget.charged_by(*kind) == 0));
}

#[test]
fn figures_are_those_of_pools_and_charges_together() {
    let budget = Budget::new(MemoryLimit::mib(8));
    assert!(!budget.has_several_pools() && budget.is_surely_calm());
    let pools = [0, 1].map(|_| Pool::new(&budget, PoolConfig::default().workers(2)).unwrap());
    assert!(budget.has_several_pools());
    let fixed: u64 = pools.iter().map(|pool| pool.stats().fixed_bytes).sum();
    assert_eq!((budget.charged(), budget.charged_by(Kind::Fixed)), (fixed, fixed));
    let leases = pools.each_ref().map(|pool| pool.try_acquire(100, Kind::Codec).unwrap());
    let beside = [(Kind::Rings, 1_000), (Kind::Codec, 10)].map(|(kind, bytes)| budget.charge(kind, bytes).unwrap());
    let fixed: u64 = pools.iter().map(|pool| pool.stats().fixed_bytes).sum();
    let page = page_bytes() as u64;
    assert_eq!(budget.charged(), fixed + 2 * page + 1_010);
    assert_eq!(budget.charged_by(Kind::Codec), 2 * 128 + 10);
    assert_eq!((budget.charged_by(Kind::Rings), budget.charged_by(Kind::Fixed)), (1_000, fixed));
    assert_eq!((budget.free(), budget.charged_by(Kind::Buffers)), (2 * (page - 128), 2 * (page - 128)));
    assert_eq!(budget.in_use(), budget.charged(), "nothing was said to be releasable");
    let credited = budget.credited();
    assert_eq!(credited, pools.iter().map(|pool| pool.stats().credit_bytes).sum::<u64>() + 1_010);
    pools[0].credit().account().set_releasable(page);
    assert_eq!(budget.in_use(), budget.charged() - page);
    drop((leases, beside));
    assert_eq!(budget.in_use(), fixed + page);
    let [kept, gone] = pools;
    drop(gone);
    assert!(!budget.has_several_pools());
    assert_eq!(budget.charged(), kept.stats().charged_bytes);
    assert_eq!(budget.peak(), budget.peak().max(fixed + 2 * page + 1_010));
}

#[test]
fn the_peak_is_no_more_than_credits_and_no_less_than_charges() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let first = budget.charge(Kind::Rings, 300_000).unwrap();
    drop(first);
    let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
    let most = pool.stats().charged_bytes;
    drop(pool);
    assert!((300_000..=300_000 + most).contains(&budget.peak()), "{}", budget.peak());
    let second = budget.charge(Kind::Rings, 1 << 20).unwrap();
    assert_eq!(budget.peak(), 1 << 20, "never above the line");
    drop(second);
}

#[test]
fn it_is_surely_calm_below_the_lowest_mark_only() {
    let budget = Budget::with_marks(MemoryLimit::bytes(1_000), Marks::new(50, 40, 90, 80));
    let mut charge = budget.charge(Kind::Rings, 399).unwrap();
    assert!(budget.is_surely_calm());
    charge.grow(1).unwrap();
    assert!(!budget.is_surely_calm(), "at the mark");
    charge.shrink_to(0);
    budget.pressure().change_waiting(0, 1);
    assert!(!budget.is_surely_calm() && budget.waiting() == 1, "somebody waits");
    assert_eq!(budget.observe().map(|transition| transition.to), Some(Level::Red));
    budget.pressure().change_waiting(1, 0);
    assert!(!budget.is_surely_calm(), "nobody has looked since");
    assert_eq!((budget.level(), budget.entered(Level::Red), budget.entered(Level::Calm)), (Level::Red, 1, 0));
    assert_eq!(budget.observe().map(|transition| (transition.from, transition.to)), Some((Level::Red, Level::Calm)));
    assert!(budget.is_surely_calm() && budget.entered(Level::Calm) == 1);
}

#[test]
fn the_part_of_the_kernel_is_beside_the_line() {
    let budget = Budget::new(MemoryLimit::mib(8));
    assert_eq!((budget.kernel_bytes_max(), budget.kernel_bytes_estimate()), (None, 0));
    budget.charge_kernel(5_000).unwrap();
    budget.set_container_bytes(20 << 20);
    assert_eq!(budget.kernel_bytes_max(), Some(8 << 20), "80 % of 20 MiB less the line");
    assert!(budget.charge_kernel(8 << 20).is_err());
    budget.charge_kernel((8 << 20) - 5_000).unwrap();
    assert_eq!((budget.kernel_bytes_estimate(), budget.charged()), (8 << 20, 0));
    budget.uncharge_kernel(8 << 20);
    assert_eq!(budget.kernel_bytes_estimate(), 0);
}

#[test]
fn arenas_that_outlive_their_pools_are_counted() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let before = adopted_arenas();
    let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
    let lease = pool.try_acquire(100, Kind::Buffers).unwrap();
    drop(pool);
    assert_eq!(budget.adopted_arenas(), 1);
    assert!(adopted_arenas() > 0, "of all budgets");
    assert!(budget.charged() > 4096 && budget.credited() >= budget.charged());
    drop(lease);
    assert_eq!((budget.adopted_arenas(), budget.charged(), budget.credited()), (0, 0, 0));
    // Other tests have arenas of their own.
    assert!(adopted_arenas() < before + 100);
}
