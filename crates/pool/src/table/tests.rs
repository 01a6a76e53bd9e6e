//! Properties, against a map: values are found by their keys and by no others, stale keys find nothing, pages are charged, the limit holds.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Budget, MemoryLimit, PoolConfig};

proptest! {
    #[test]
    fn behaves_as_a_map(
        len_max in 1..61_u32,
        before_the_wrap in 0..8_u32,
        ops in prop::collection::vec((any::<bool>(), any::<usize>()), 1..300),
    ) {
        let budget = Budget::new(MemoryLimit::mib(1));
        let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
        let mut table: Table<[u64; 30], 15> = Table::starting_at(len_max, 0_u32.wrapping_sub(2 * before_the_wrap));
        let mut model: BTreeMap<Key, u64> = BTreeMap::new();
        let mut gone: Vec<Key> = Vec::new();
        for (turn, (adds, pick)) in ops.into_iter().enumerate() {
            if adds {
                match table.make_room(&pool) {
                    Ok(()) => {
                        let key = table.insert([turn as u64; 30]);
                        prop_assert_eq!(table.key_at(key.index), key);
                        prop_assert!(model.insert(key, turn as u64).is_none());
                    }
                    Err(_) => prop_assert_eq!(model.len(), len_max as usize),
                }
            } else if let Some(key) = model.keys().nth(pick % model.len().max(1)).copied() {
                prop_assert_eq!(table.remove(key).map(|value| value[3]), model.remove(&key));
                gone.push(key);
            }
            prop_assert_eq!(table.len() as usize, model.len());
            prop_assert!(model.iter().all(|(key, value)| table.get(*key) == Some(&[*value; 30])));
            prop_assert!(gone.iter().all(|key| table.get(*key).is_none()));
            prop_assert_eq!(table.iter_from(0).count(), model.len());
            prop_assert!(!model.is_empty() || table.pages.len() <= 1, "an empty table keeps one page");
        }
        drop(table);
        prop_assert_eq!(budget.charged_by(Kind::Fixed), pool.stats().fixed_bytes);
    }
}

#[test]
fn the_line_refuses_pages() {
    let budget = Budget::new(MemoryLimit::kib(24));
    let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
    let mut table: Table<[u64; 30], 15> = Table::new(10_000);
    let mut count = 0;
    while table.make_room(&pool).is_ok() {
        table.insert([0; 30]);
        count += 1;
    }
    assert!((15..=75).contains(&count), "{count}");
    assert!(budget.charged() <= 24 << 10);
}

#[test]
fn a_table_grows_at_the_line_by_what_its_worker_has() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
    let mut table: Table<[u64; 60], 8> = Table::new(10_000);
    let mut ballast: Vec<_> = core::iter::from_fn(|| pool.try_acquire(PAGE_BYTES, Kind::Buffers).ok()).collect();
    let beside = budget.charge(Kind::Slots, budget.limit().as_bytes() - budget.credited());
    assert!(beside.is_ok() && budget.charge(Kind::Slots, 1).is_err(), "no part of the line is left");
    let mut pages = 0;
    while table.len() < 8 * 100 {
        match table.make_room(&pool) {
            Ok(()) => drop(table.insert([1; 60])),
            Err(_) => {
                drop(ballast.pop().expect("a page of the ballast is a page of the table"));
                pages += 1;
            }
        }
    }
    assert!((100..=105).contains(&pages), "100 pages and their names, but {pages}");
}

/// Tables that are filled and emptied again and again, until the generations of some entries have wrapped and those of others have not.
#[test]
fn a_stale_key_finds_nothing_though_generations_wrap_and_pages_go() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default()).unwrap();
    for before_the_wrap in 0..12_u32 {
        let mut table: Table<u32, 4> = Table::starting_at(12, 0_u32.wrapping_sub(2 * before_the_wrap));
        let mut gone = Vec::new();
        for round in 1..8 {
            let mut live = Vec::new();
            for value in 0..12 {
                table.make_room(&pool).unwrap();
                live.push(table.insert(value));
                assert!(
                    gone.iter().all(|key| table.get(*key).is_none()),
                    "{before_the_wrap} before the wrap, in round {round}"
                );
            }
            // One entry is used more than the others.
            for _ in 0..round {
                let key = live.pop().expect("twelve of them");
                table.remove(key);
                gone.push(key);
                live.push(table.insert(0));
            }
            for key in live {
                assert!(table.remove(key).is_some());
                gone.push(key);
            }
            assert_eq!(table.pages.len(), 1);
        }
    }
}

#[test]
fn a_table_has_as_many_pages_as_a_lease_has_names() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(80)), PoolConfig::default()).unwrap();
    let mut table: Table<[u64; 500], 1> = Table::new(u32::MAX);
    for page in 0..16_384 {
        assert_eq!(table.make_room(&pool), Ok(()), "page {page}");
        table.insert([1; 500]);
    }
    assert_eq!(table.make_room(&pool).unwrap_err().cause(), crate::Shortage::TooLarge);
    let first = table.key_at(0);
    table.remove(first);
    assert_eq!(table.make_room(&pool), Ok(()), "in place of one that went");
}
