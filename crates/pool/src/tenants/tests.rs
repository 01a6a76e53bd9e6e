//! Properties, against a naive model that keeps tenants by name: a name leads to one tenant as long as that is there; a tenant keeps its lanes and
//! its debt, and ends when it is neither open nor waits, and no sooner; keys of those that have ended name nothing. Beside that: chains and hashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Budget, MemoryLimit, PoolConfig};

#[derive(Clone, Debug)]
enum Op {
    Open(u8),
    Close(usize),
    Wait { pick: usize, priority: usize, lane: u32 },
    EndWait { pick: usize, priority: usize, debt: u32 },
}

fn op() -> impl Strategy<Value = Op> {
    let priority = || 0..Priority::COUNT;
    prop_oneof![
        4 => (0..12_u8).prop_map(Op::Open),
        4 => any::<usize>().prop_map(Op::Close),
        2 => (any::<usize>(), priority(), 0..9_u32).prop_map(|(pick, priority, lane)| Op::Wait { pick, priority, lane }),
        3 => (any::<usize>(), priority(), any::<u32>()).prop_map(|(pick, priority, debt)| Op::EndWait { pick, priority, debt }),
    ]
}

/// What there should be of a tenant.
#[derive(Debug)]
struct Known {
    key: TenantKey,
    handles: u32,
    lanes: [Option<u32>; Priority::COUNT],
    debt: u32,
}

fn pick(model: &mut BTreeMap<u8, Known>, at: usize) -> Option<&mut Known> {
    let count = model.len().max(1);
    model.values_mut().nth(at % count)
}

proptest! {
    #[test]
    fn a_tenant_is_there_while_it_is_open_or_waits(seed: u64, ops in prop::collection::vec(op(), 1..200)) {
        let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
        let mut tenants = Tenants::new(seed);
        let mut model: BTreeMap<u8, Known> = BTreeMap::new();
        let mut ended: Vec<TenantKey> = Vec::new();
        for op in ops {
            match op {
                Op::Open(name) => {
                    let key = tenants.open(&pool, u128::from(name) << 60).unwrap();
                    let known = model.entry(name).or_insert(Known { key, handles: 0, lanes: [None; _], debt: 0 });
                    prop_assert_eq!(known.key, key);
                    known.handles += 1;
                }
                Op::Close(at) => if let Some(known) = pick(&mut model, at).filter(|known| known.handles > 0) {
                    tenants.close(known.key);
                    known.handles -= 1;
                },
                Op::Wait { pick: at, priority, lane } => if let Some(known) = pick(&mut model, at) {
                    tenants.set_lane(known.key, Priority::ALL[priority], Some(lane));
                    known.lanes[priority] = Some(lane);
                },
                Op::EndWait { pick: at, priority, debt } => if let Some(known) = pick(&mut model, at) {
                    tenants.set_debt(known.key, debt);
                    tenants.set_lane(known.key, Priority::ALL[priority], None);
                    (known.lanes[priority], known.debt) = (None, debt);
                },
            }
            let is_idle = |known: &Known| known.handles == 0 && known.lanes == [None; Priority::COUNT];
            ended.extend(model.values().filter(|known| is_idle(known)).map(|known| known.key));
            model.retain(|_, known| !is_idle(known));
            prop_assert_eq!(tenants.table.len() as usize, model.len());
            for known in model.values() {
                prop_assert!(tenants.is_there(known.key));
                prop_assert_eq!(Priority::ALL.map(|priority| tenants.lane(known.key, priority)), known.lanes);
                prop_assert_eq!(tenants.debt(known.key), known.debt);
            }
            for key in &ended {
                prop_assert!(!tenants.is_there(*key), "stale");
                prop_assert_eq!((tenants.lane(*key, Priority::Head), tenants.debt(*key)), (None, 0));
            }
        }
    }
}

/// More names than there are buckets, so that every bucket has a chain.
#[test]
fn names_that_share_a_bucket_are_kept_apart() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    for names in [1, BUCKETS as u128, 3 * BUCKETS as u128 + 1] {
        let mut tenants = Tenants::new(3);
        let keys: Vec<TenantKey> = (0..names).map(|name| tenants.open(&pool, name << 50).unwrap()).collect();
        assert_eq!(u128::from(tenants.table.len()), names);
        for (name, key) in keys.iter().enumerate() {
            assert_eq!(tenants.open(&pool, (name as u128) << 50), Ok(*key));
            tenants.close(*key);
        }
        // Every third first, so that the others are reached through chains that lost some.
        for first in 0..3 {
            for (name, key) in keys.iter().enumerate().skip(first).step_by(3) {
                assert!(tenants.is_there(*key), "{name} of {names} has a handle");
                tenants.close(*key);
                assert!(!tenants.is_there(*key), "{name} of {names} has none");
            }
            for (name, key) in keys.iter().enumerate().skip(first + 1).filter(|(name, _)| name % 3 > first) {
                assert_eq!(tenants.open(&pool, (name as u128) << 50), Ok(*key));
                tenants.close(*key);
            }
        }
        assert_eq!(tenants.table.len(), 0);
    }
}

#[test]
fn there_are_no_more_tenants_than_there_may_be() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    for max in [1, 2, PER_PAGE as u32, PER_PAGE as u32 + 1] {
        let mut tenants = Tenants::with_limit(1, max);
        let keys: Vec<TenantKey> =
            (0..max).map(|name| tenants.open(&pool, name.into()).expect("there is room")).collect();
        assert!(tenants.open(&pool, u128::MAX).is_err(), "{max}");
        assert_eq!(tenants.open(&pool, 0), Ok(keys[0]), "one that is there needs no room");
        tenants.close(keys[0]);
        keys.iter().for_each(|key| tenants.close(*key));
        assert_eq!(tenants.table.len(), 0, "the refused one is not counted");
        assert!(tenants.open(&pool, u128::MAX).is_ok());
    }
}

/// Names of every sort: in a row, in either half, few bits apart.
#[test]
fn names_are_spread_over_the_buckets_and_by_the_seed() {
    let names = |of: fn(u64) -> [u64; 2]| (0..4 * BUCKETS as u64).map(of).collect::<Vec<_>>();
    let sorts = [
        names(|at| [at, 0]),
        names(|at| [0, at]),
        names(|at| [at << 40, at << 20]),
        names(|at| [at.reverse_bits(), u64::MAX]),
        names(|at| [at, at]),
    ];
    for (sort, names) in sorts.iter().enumerate() {
        let buckets = [0, 1, u64::MAX, 0x1234_5678_9abc_def0].map(|seed| {
            let tenants = Tenants::new(seed);
            let buckets: Vec<usize> = names.iter().map(|name| tenants.bucket_of(*name)).collect();
            let mut filled = [0_u32; BUCKETS];
            buckets.iter().for_each(|bucket| filled[*bucket] += 1);
            // Four on average; as many as 16 in one is a chance of one in a million.
            assert!(filled.iter().all(|count| *count < 16), "sort {sort}, seed {seed:x}: {:?}", filled.iter().max());
            assert!(filled.iter().filter(|count| **count == 0).count() < BUCKETS / 20, "sort {sort}, seed {seed:x}");
            buckets
        });
        for other in &buckets[1..] {
            let same = buckets[0].iter().zip(other).filter(|(one, other)| one == other).count();
            assert!(same < names.len() / 50, "sort {sort}: {same} are where another seed has them");
        }
    }
}
