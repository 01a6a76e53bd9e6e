//! Properties: nobody is in the list twice; of two addresses that both wait, each is served in turns; whoever waits is served in the end, whatever
//! comes after; costs decide the shares.

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn hungry() -> Hungry {
    let budget = Budget::new(MemoryLimit::mib(2));
    Hungry::new(&Pool::new(&budget, PoolConfig::default()).expect("room for a pool"))
}

fn key(index: u32) -> Key {
    Key::unpack(1 << 32 | u64::from(index)).1
}

/// The indices of all that wait, in the order in which they are served.
fn order(hungry: &mut Hungry) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(place) = hungry.first(|_| true) {
        order.push(place.key.index());
        hungry.serve(place.key);
    }
    order
}

#[test]
fn many_connections_of_one_address_cost_another_one_turn() {
    let mut hungry = hungry();
    for index in 0..400 {
        hungry.add(key(index), 1, Want::Request, 8_192).expect("a place");
    }
    hungry.serve(key(0));
    for index in 1_000..1_003 {
        hungry.add(key(index), 2, Want::Request, 8_192).expect("a place");
    }
    let order = order(&mut hungry);
    assert_eq!(&order[..6], &[1, 1_000, 2, 1_001, 3, 1_002]);
    assert_eq!(order.len(), 402);
}

#[test]
fn what_has_begun_goes_first_and_does_not_keep_requests_waiting_for_ever() {
    let mut hungry = hungry();
    hungry.add(key(100), 2, Want::Request, 1).expect("a place");
    let mut served_before = 0;
    for index in 0..50 {
        hungry.add(key(index), 1, Want::Output, 1).expect("a place");
        let first = hungry.first(|_| true).expect("somebody waits").key;
        hungry.serve(first);
        if first == key(100) {
            break;
        }
        served_before += 1;
    }
    assert!((1..=4).contains(&served_before), "{served_before} answers before one request");
}

#[test]
fn the_list_is_bounded_and_charged_and_a_low_line_has_none() {
    let mut full = hungry();
    for index in 0..HUNGRY_MAX as u32 {
        full.add(key(index), u64::from(index), Want::Output, 1).expect("a place");
    }
    assert_eq!(full.add(key(9_999), 1, Want::Output, 1), Err(TooMany));
    assert_eq!(full.remove(key(9_999)).map(|place| place.key), None);
    assert_eq!(full.remove(key(3)).map(|place| place.key), Some(key(3)));
    assert_eq!(full.add(key(9_999), 1, Want::Output, 1), Ok(()));

    let budget = Budget::new(MemoryLimit::kib(256));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("room for a pool");
    let _rest = pool.charge(Kind::Fixed, budget.limit().as_bytes() - budget.charged()).expect("what is left");
    let mut none = Hungry::new(&pool);
    assert_eq!(none.add(key(1), 1, Want::Output, 1), Err(TooMany));
    assert!(none.is_empty() && none.first(|_| true).is_none());
}

#[test]
fn the_host_with_the_most_gives_a_place_up_for_another() {
    let mut hungry = hungry();
    for index in 0..HUNGRY_MAX as u32 {
        // Every fourth place is the smaller host's.
        let host = if index % 4 == 0 { 1 } else { 2 };
        hungry.add(key(index), host, Want::Request, 1).expect("a place");
    }
    assert!(hungry.is_full());
    assert_eq!(hungry.displace_for(2, Want::Request), None, "it has the most itself");
    assert!(hungry.has(key(HUNGRY_MAX as u32 - 1)));
    assert_eq!(hungry.displace_for(3, Want::Request), Some(key(HUNGRY_MAX as u32 - 1)), "what would be served last");
    assert!(!hungry.has(key(HUNGRY_MAX as u32 - 1)) && hungry.has(key(0)), "it has lost its place");
    hungry.add(key(1_000), 3, Want::Request, 1).expect("the place that has come free");
    assert!(hungry.displace_for(1, Want::Request).is_some(), "the smaller one of two is still helped");
    // Where all are alike, nobody goes for a newcomer that would be alike.
    let mut equal = self::hungry();
    for index in 0..HUNGRY_MAX as u32 {
        equal.add(key(index), u64::from(index), Want::Request, 1).expect("a place");
    }
    assert_eq!(equal.displace_for(9_999, Want::Request), None);
    assert_eq!(self::hungry().displace_for(1, Want::Request), None, "nobody waits");
}

#[test]
fn what_was_begun_gives_no_place_up_and_gets_that_of_a_request() {
    let mut hungry = hungry();
    for index in 0..HUNGRY_MAX as u32 {
        let want = if index == 7 { Want::Request } else { Want::Body };
        hungry.add(key(index), 1, want, 1).expect("a place");
    }
    assert_eq!(hungry.displace_for(2, Want::Request), None, "one for one is no gain");
    assert_eq!(hungry.displace_for(2, Want::Output), Some(key(7)), "it was not begun");
    hungry.add(key(1_000), 2, Want::Output, 1).expect("the place that has come free");
    assert_eq!(hungry.displace_for(3, Want::Body), None, "all were begun");
    assert_eq!(hungry.displace_for(3, Want::Request), None);
}

proptest! {
    /// Whatever comes and goes, each address gets within one turn of its share of those that wait.
    #[test]
    fn turns_are_shared_equally(hosts in vec(0_u64..4, 1..200)) {
        let mut hungry = hungry();
        for (index, host) in hosts.iter().enumerate() {
            hungry.add(key(index as u32), *host, Want::Body, 1).expect("a place");
        }
        let mut left = [0_i64; 4];
        hosts.iter().for_each(|host| left[*host as usize] += 1);
        let mut served = [0_i64; 4];
        for index in order(&mut hungry) {
            let host = hosts[index as usize] as usize;
            served[host] += 1;
            left[host] -= 1;
            // Nobody who still waits is more than one turn behind.
            let behind = (0..4).filter(|at| left[*at] > 0).map(|at| served[host] - served[at]).max();
            prop_assert!(behind.unwrap_or(0) <= 1, "{served:?} {left:?}");
        }
        prop_assert_eq!(left, [0; 4]);
    }
}
