//! The sketch: an address is never taken for less than it holds, and rarely for more; what leaves is counted no more.

use std::collections::BTreeMap;

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn crowd(share: u64) -> Crowd {
    let budget = Budget::new(MemoryLimit::mib(2));
    Crowd::new(&Pool::new(&budget, PoolConfig::default()).expect("room for a pool"), share)
}

#[test]
fn among_a_thousand_addresses_hardly_one_is_taken_for_another() {
    let crowd = crowd(32 << 20);
    let shares: Vec<_> = (0..1_000).map(|at| crowd.enter(0x7F00_0000 + 2 * at, 1_000)).collect();
    let mistaken = (0..1_000).filter(|at| crowd.held_bytes(0x7F00_0001 + 2 * at) > 0).count();
    assert!(mistaken < 100, "{mistaken} of 1,000 that hold nothing");
    drop(shares);
    assert!((0..2_000).all(|at| crowd.held_bytes(0x7F00_0000 + at) == 0));
}

#[test]
fn a_low_line_has_a_small_sketch() {
    assert_eq!(crowd(128 << 10).rows.counters[0].len(), 128);
    assert_eq!(crowd(0).rows.counters[0].len(), 1);
}

proptest! {
    #[test]
    fn nobody_is_taken_for_less(steps in vec((0_u64..50, 1_usize..100_000, any::<bool>()), 1..200)) {
        let crowd = crowd(64 << 10);
        let (mut shares, mut held) = (Vec::new(), BTreeMap::<u64, u64>::new());
        for (host, bytes, leaves) in steps {
            shares.push((host, bytes, crowd.enter(host, bytes)));
            *held.entry(host).or_default() += bytes as u64;
            if leaves {
                let (host, bytes, _share) = shares.swap_remove(shares.len() / 2);
                *held.entry(host).or_default() -= bytes as u64;
            }
            for (host, bytes) in &held {
                prop_assert!(crowd.held_bytes(*host) >= *bytes);
            }
        }
        shares.clear();
        prop_assert!((0..50).all(|host| crowd.held_bytes(host) == 0));
    }
}

#[test]
fn it_is_known_whether_somebody_came_to_hold_less() {
    let crowd = crowd(64 << 20);
    let (share, columns) = (crowd.enter(1, 100), crowd.add(2, 50));
    assert_eq!(crowd.removals(), 0);
    drop(share);
    assert_eq!(crowd.removals(), 1);
    crowd.remove(columns, 50);
    assert_eq!((crowd.removals(), crowd.held_bytes(1), crowd.held_bytes(2)), (2, 0, 0));
}
