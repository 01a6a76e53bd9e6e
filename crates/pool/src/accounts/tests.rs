//! Properties, against a naive model that keeps every use in a list: on each level the use is the sum of what was begun and not ended there
//! and below (I9), at most the quota (I5); a refusal is exact and changes nothing; accounts end when nobody needs them, and no sooner.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Budget, MemoryLimit, PoolConfig};

#[derive(Clone, Debug)]
enum Op {
    Tenant(u8),
    Child(usize),
    Close(usize),
    Begin { pick: usize, kind: usize, grains: u64 },
    End(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..6_u8).prop_map(Op::Tenant),
        3 => any::<usize>().prop_map(Op::Child),
        2 => any::<usize>().prop_map(Op::Close),
        6 => (any::<usize>(), 0..Kind::COUNT, 1..200_u64).prop_map(|(pick, kind, grains)| Op::Begin { pick, kind, grains }),
        5 => any::<usize>().prop_map(Op::End),
    ]
}

const TENANT_MAX: u64 = 20_000;
const CHILD_MAX: u64 = 9_000;

#[derive(Default)]
struct Model {
    /// Parent, handles.
    accounts: BTreeMap<AccountKey, (Option<AccountKey>, u32)>,
    names: BTreeMap<u8, AccountKey>,
    uses: Vec<(AccountKey, Kind, u64)>,
}

impl Model {
    fn is_in(&self, mut below: AccountKey, above: AccountKey) -> bool {
        loop {
            if below == above {
                return true;
            }
            match self.accounts[&below].0 {
                Some(parent) => below = parent,
                None => return false,
            }
        }
    }

    fn used(&self, key: AccountKey, kind: Option<Kind>) -> u64 {
        let uses = self.uses.iter().filter(|(of, is, _)| self.is_in(*of, key) && kind.is_none_or(|kind| kind == *is));
        uses.map(|(_, _, bytes)| bytes).sum()
    }

    fn sweep(&mut self) {
        loop {
            let idle = self.accounts.iter().find(|(key, (_, handles))| {
                *handles == 0
                    && self.used(**key, None) == 0
                    && !self.accounts.values().any(|(parent, _)| *parent == Some(**key))
            });
            let Some(idle) = idle.map(|(key, _)| *key) else { return };
            self.accounts.remove(&idle);
            self.names.retain(|_, key| *key != idle);
        }
    }
}

proptest! {
    #[test]
    fn use_is_what_is_used(seed: u64, ops in prop::collection::vec(op(), 1..200)) {
        let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
        let mut accounts = Accounts::new(seed);
        let mut model = Model::default();
        for op in ops {
            let keys: Vec<AccountKey> = model.accounts.keys().copied().collect();
            let pick = |pick: usize| keys.get(pick % keys.len().max(1)).copied();
            match op {
                Op::Tenant(name) => {
                    let key = accounts.tenant(&pool, u128::from(name) << 60, AccountLimits::default().use_bytes_max(TENANT_MAX), None).unwrap();
                    prop_assert_eq!(*model.names.entry(name).or_insert(key), key);
                    model.accounts.entry(key).or_insert((None, 0)).1 += 1;
                }
                Op::Child(at) => if let Some(parent) = pick(at) {
                    let key = accounts.child(&pool, parent, AccountLimits::default().use_bytes_max(CHILD_MAX).children_max(2));
                    let is_tenant = model.accounts[&parent].0.is_none();
                    let children = model.accounts.values().filter(|(above, _)| *above == Some(parent)).count();
                    match key {
                        Ok(key) => {
                            prop_assert!(is_tenant || children < 2);
                            model.accounts.insert(key, (Some(parent), 1));
                        }
                        Err(error) => prop_assert!(error == AccountError::Children && children == 2),
                    }
                },
                Op::Close(at) => if let Some(key) = pick(at).filter(|key| model.accounts[key].1 > 0) {
                    accounts.close(key);
                    model.accounts.get_mut(&key).unwrap().1 -= 1;
                },
                Op::Begin { pick: at, kind, grains } => if let Some(key) = pick(at) {
                    let bytes = grains * GRAIN_BYTES;
                    let fits = keys.iter().filter(|above| model.is_in(key, **above)).all(|above| {
                        let max = if model.accounts[above].0.is_none() { TENANT_MAX } else { CHILD_MAX };
                        model.used(*above, None) + bytes <= max
                    });
                    prop_assert_eq!(accounts.allows(key, bytes).is_ok(), fits);
                    prop_assert_eq!(accounts.begin_use(key, Kind::ALL[kind], bytes).is_ok(), fits);
                    if fits {
                        model.uses.push((key, Kind::ALL[kind], bytes));
                    }
                },
                Op::End(at) => if !model.uses.is_empty() {
                    let (key, kind, bytes) = model.uses.swap_remove(at % model.uses.len());
                    accounts.end_use(key, kind, bytes);
                },
            }
            model.sweep();
            prop_assert_eq!(accounts.len() as usize, model.accounts.len());
            for key in model.accounts.keys() {
                let stats = accounts.stats(*key).unwrap();
                for kind in Kind::ALL {
                    prop_assert_eq!(stats.used_bytes[kind.bits()], model.used(*key, Some(kind)));
                }
            }
        }
    }
}

#[test]
fn the_newest_of_the_largest_bucket_is_named() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    let mut accounts = Accounts::new(1);
    let tenant = accounts.tenant(&pool, 7, AccountLimits::default(), None).unwrap();
    let open = |accounts: &mut Accounts, bytes| {
        let key = accounts.child(&pool, tenant, AccountLimits::default()).unwrap();
        accounts.begin_use(key, Kind::Buffers, bytes).unwrap();
        key
    };
    assert_eq!(accounts.newest_of_the_largest(), None, "who uses nothing is not shed for what is used");
    open(&mut accounts, 10_240 * 2);
    let newer = open(&mut accounts, 16_384);
    let small = open(&mut accounts, 4096);
    assert_eq!(accounts.newest_of_the_largest(), Some(newer), "20,480 and 16,384 are in one bucket");
    accounts.end_use(newer, Kind::Buffers, 16_384);
    accounts.close(small);
    assert_eq!(accounts.stats(small).map(|stats| stats.total_bytes()), Some(4096), "it lives while something is used");
    assert_eq!(accounts.tenant_of(newer), Some(tenant));
}

/// More names than there are buckets, so that every bucket has a chain.
#[test]
fn names_that_share_a_bucket_are_kept_apart() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    let limits = AccountLimits::default();
    for names in [1, BUCKETS as u128, 3 * BUCKETS as u128 + 1] {
        let mut accounts = Accounts::new(3);
        let keys: Vec<AccountKey> =
            (0..names).map(|name| accounts.tenant(&pool, name << 50, limits, None).unwrap()).collect();
        assert_eq!(u128::from(accounts.len()), names);
        for (name, key) in keys.iter().enumerate() {
            assert_eq!(accounts.tenant(&pool, (name as u128) << 50, limits, None), Ok(*key));
            accounts.close(*key);
        }
        // Every third first, so that the others are reached through chains that lost some.
        for first in 0..3 {
            for (name, key) in keys.iter().enumerate().skip(first).step_by(3) {
                assert!(accounts.stats(*key).is_some(), "{name} of {names} has a handle");
                accounts.close(*key);
                assert!(accounts.stats(*key).is_none(), "{name} of {names} has none");
            }
            for (name, key) in keys.iter().enumerate().skip(first + 1).filter(|(name, _)| name % 3 > first) {
                assert_eq!(accounts.tenant(&pool, (name as u128) << 50, limits, None), Ok(*key));
                accounts.close(*key);
            }
        }
        assert_eq!(accounts.len(), 0);
    }
}

#[test]
fn there_are_no_more_accounts_than_there_may_be() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    let limits = AccountLimits::default();
    for max in [1, 2, PER_PAGE as u32, PER_PAGE as u32 + 1] {
        let mut accounts = Accounts::with_limit(1, max);
        let tenant = accounts.tenant(&pool, 0, limits, None).unwrap();
        let children: Vec<AccountKey> =
            (1..max).map(|_| accounts.child(&pool, tenant, limits).expect("there is room")).collect();
        assert!(matches!(accounts.child(&pool, tenant, limits), Err(AccountError::OverBudget(_))), "{max}");
        assert!(matches!(accounts.tenant(&pool, 1, limits, None), Err(AccountError::OverBudget(_))), "{max}");
        assert_eq!(accounts.stats(tenant).map(|stats| stats.children), Some(max - 1), "the refused one is not counted");
        children.iter().for_each(|key| accounts.close(*key));
        accounts.close(tenant);
        assert!(accounts.tenant(&pool, 1, limits, None).is_ok());
    }
}

#[test]
fn no_account_uses_more_than_is_counted() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    let quota = Quota::new(u64::MAX / 2, 1);
    for quota in [None, Some(&quota)] {
        let mut accounts = Accounts::new(1);
        let tenant = accounts.tenant(&pool, 7, AccountLimits::default(), quota).unwrap();
        let key = accounts.child(&pool, tenant, AccountLimits::default()).unwrap();
        assert_eq!(accounts.begin_use(key, Kind::Codec, USE_BYTES_MAX - GRAIN_BYTES), Ok(()));
        let refused = Err(AccountError::Quota { wanted_bytes: 2 * GRAIN_BYTES });
        assert_eq!(
            (accounts.allows(key, 2 * GRAIN_BYTES), accounts.begin_use(key, Kind::Codec, 2 * GRAIN_BYTES)),
            (refused, refused)
        );
        assert_eq!(accounts.begin_use(key, Kind::Codec, GRAIN_BYTES), Ok(()));
        assert!(accounts.begin_use(key, Kind::Buffers, GRAIN_BYTES).is_err(), "all kinds together");
        assert_eq!(accounts.stats(tenant).unwrap().used_bytes[Kind::Codec.bits()], USE_BYTES_MAX);
        accounts.end_use(key, Kind::Codec, USE_BYTES_MAX);
        assert_eq!(accounts.stats(tenant).unwrap().total_bytes(), 0);
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
            let accounts = Accounts::new(seed);
            let buckets: Vec<usize> = names.iter().map(|name| accounts.bucket_of(*name)).collect();
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
