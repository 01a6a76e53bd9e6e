//! What the next receive is worth, after what came before.

use plimsoll_pool::{Budget, Kind, Lease, MemoryLimit, Pool, PoolConfig};

use super::*;

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default()).expect("room for a pool")
}

fn lease(pool: &Pool, class: Class, len: usize) -> Lease {
    let mut lease = pool.try_acquire_class(class, Kind::Buffers).expect("room");
    assert_eq!(lease.extend(&vec![0; len]), len);
    lease
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(10_000 + ms)
}

/// A connection that has received full leases of the lowest class until its wish was `class`.
fn grown_to(pool: &Pool, class: Class) -> Receive {
    let mut receive = Receive::new(AdaptiveSize::new(Class::K4, Class::K128), 8);
    while receive.size.wish() < class {
        let wish = receive.size.wish();
        receive.received(&Bytes::Owned(lease(pool, wish, wish.bytes())), Some(1 << 20), at(0));
    }
    receive
}

#[test]
fn a_body_that_fills_its_leases_gets_larger_ones_at_once() {
    let pool = pool();
    let mut receive = Receive::new(AdaptiveSize::new(Class::K4, Class::K128), 8);
    assert_eq!(receive.next(Some(1 << 20), Class::K128), None, "nothing is known yet");
    let mut sizes = Vec::new();
    for _ in 0..6 {
        let wish = receive.size.wish();
        receive.received(&Bytes::Owned(lease(&pool, wish, wish.bytes())), Some(1 << 20), at(0));
        sizes.extend(receive.next(Some(1 << 20), Class::K128));
    }
    assert_eq!(sizes, [Class::K8, Class::K16, Class::K32, Class::K64, Class::K128, Class::K128]);
}

#[test]
fn a_slow_peer_gets_no_lease_to_wait_in() {
    let pool = pool();
    let mut receive = grown_to(&pool, Class::K64);
    receive.received(&Bytes::Owned(lease(&pool, Class::K64, 1_000)), None, at(1));
    assert_eq!(receive.next(None, Class::K128), None);
}

#[test]
fn one_receive_that_brought_little_does_not_end_large_ones_for_good() {
    let pool = pool();
    for class in [Class::K8, Class::K16, Class::K32, Class::K128] {
        let mut receive = grown_to(&pool, class);
        receive.received(&Bytes::Owned(lease(&pool, class, 1_000)), None, at(1));
        assert_eq!(receive.next(None, Class::K128), None, "{class:?}");
        let full = receive.size.wish().bytes().min(RECEIVE_BYTES_MAX);
        receive.came_shared(full - 1);
        assert_eq!(receive.next(None, Class::K128), None, "{class:?}: less than was there room for");
        receive.came_shared(full);
        assert_eq!(receive.next(None, Class::K128), Some(receive.size.wish()), "{class:?}: more is there again");
    }
}

#[test]
fn no_lease_is_larger_than_the_rest_of_the_body_or_the_cap() {
    let receive = grown_to(&pool(), Class::K64);
    assert_eq!(receive.next(Some(5_000), Class::K128), Some(Class::K8));
    assert_eq!(receive.next(Some(1), Class::K128), Some(Class::K4));
    assert_eq!(receive.next(Some(1 << 40), Class::K16), Some(Class::K16));
    assert_eq!(receive.next(None, Class::K128), Some(Class::K64));
}

#[test]
fn a_pause_makes_it_forget() {
    let pool = pool();
    let mut receive = grown_to(&pool, Class::K64);
    receive.received(&Bytes::Owned(lease(&pool, Class::K64, 64 << 10)), None, at(999));
    assert_eq!(receive.next(None, Class::K128), Some(Class::K64));
    receive.received(&Bytes::Owned(lease(&pool, Class::K64, 64 << 10)), None, at(999 + 1_000));
    assert!(receive.next(None, Class::K128) < Some(Class::K64));
}

#[test]
fn the_cap_falls_with_the_level() {
    assert_eq!(Level::ALL.map(|level| cap(level, 1 << 20)), [Class::K128, Class::K16, Class::K4, Class::K4]);
}

#[test]
fn a_body_that_fills_the_largest_lease_gets_several_at_a_time() {
    let pool = pool();
    let mut receive = grown_to(&pool, Class::K128);
    assert_eq!(receive.several(1 << 30, Class::K128), None, "none of the largest has been filled");
    receive.received(&Bytes::Owned(lease(&pool, Class::K128, 128 << 10)), Some(1 << 30), at(0));
    let mut counts = Vec::new();
    for _ in 0..4 {
        let (class, count) = receive.several(1 << 30, Class::K128).expect("more than one");
        assert_eq!(class, Class::K128);
        receive.received_several(class.bytes() * count, class, count, at(1));
        counts.push(count);
    }
    assert_eq!(counts, [2, 4, 8, 8]);
    assert_eq!(receive.several(300 << 10, Class::K128), Some((Class::K128, 3)), "no more than what is left fills");
    assert_eq!(receive.several(128 << 10, Class::K128), None);
    assert_eq!(receive.several(1 << 30, Class::K16), None, "memory is short");
}

#[test]
fn several_leases_become_fewer_when_they_are_not_filled() {
    let pool = pool();
    let mut receive = grown_to(&pool, Class::K128);
    receive.received(&Bytes::Owned(lease(&pool, Class::K128, 128 << 10)), Some(1 << 30), at(0));
    receive.received_several(256 << 10, Class::K128, 2, at(1));
    receive.received_several(300 << 10, Class::K128, 4, at(2));
    assert_eq!(receive.several(1 << 30, Class::K128), Some((Class::K128, 4)), "more than half");
    receive.received_several(200 << 10, Class::K128, 4, at(3));
    assert_eq!(receive.several(1 << 30, Class::K128), Some((Class::K128, 2)));
    receive.received_several(100 << 10, Class::K128, 2, at(4));
    assert_eq!(receive.several(1 << 30, Class::K128), None);
    assert_eq!(receive.next(Some(1 << 30), Class::K128), Some(Class::K128), "one is still worth it");
}

#[test]
fn after_a_pause_or_without_memory_several_are_out_of_the_question() {
    let pool = pool();
    let grown = || {
        let mut receive = grown_to(&pool, Class::K128);
        receive.received(&Bytes::Owned(lease(&pool, Class::K128, 128 << 10)), Some(1 << 30), at(0));
        assert_eq!(receive.several(1 << 30, Class::K128), Some((Class::K128, 2)));
        receive
    };
    let mut receive = grown();
    receive.found_no_room();
    assert_eq!((receive.several(1 << 30, Class::K128), receive.next(None, Class::K128)), (None, None));
    let mut receive = grown();
    receive.received_several(1_000, Class::K128, 2, at(0));
    assert_eq!((receive.several(1 << 30, Class::K128), receive.next(None, Class::K128)), (None, None), "a slow peer");
    let mut receive = grown();
    receive.received_several(256 << 10, Class::K128, 2, at(5_000));
    assert_eq!(receive.size.wish(), Class::K8, "what was learnt is forgotten");
}

#[test]
fn a_limit_of_one_lease_is_kept() {
    let pool = pool();
    let mut receive = Receive::new(AdaptiveSize::new(Class::K8, Class::K8), 1);
    for _ in 0..5 {
        receive.received(&Bytes::Owned(lease(&pool, Class::K8, 8 << 10)), Some(1 << 30), at(0));
        assert_eq!(receive.several(1 << 30, Class::K128), None);
        assert_eq!(receive.next(Some(1 << 30), Class::K128), Some(Class::K8));
    }
}

#[test]
fn a_narrow_line_allows_fewer_leases() {
    let config = Config::default();
    let counts = [1, 8, 16, 32, 1024].map(|mib: u64| leases_max(&config, mib << 20));
    assert_eq!(counts, [1, 2, 4, 8, 8]);
    let small = Config { body_receive: AdaptiveSize::new(Class::K4, Class::K4), ..Config::default() };
    assert_eq!(leases_max(&small, 1 << 20), 8);
    assert_eq!(leases_max(&Config { body_receive_leases_max: 3, ..config }, 1 << 30), 3);
}

#[test]
fn the_cap_falls_with_the_bytes_that_one_of_many_may_have() {
    let caps = [1 << 20, 128 << 10, 127 << 10, 40 << 10, 5 << 10, 100].map(|bytes| cap(Level::Calm, bytes));
    assert_eq!(caps, [Class::K128, Class::K128, Class::K64, Class::K32, Class::K4, Class::K4]);
    assert_eq!(cap(Level::Yellow, 8 << 10), Class::K8);
    assert_eq!(cap(Level::Red, 100), Class::K4);
}

#[test]
fn a_body_is_received_into_a_part_of_the_line_at_a_time() {
    let config = Config::default();
    let highest = config.body_receive.highest().bytes() as u64;
    for (line_share, leases) in [(0, 1), (LINE_PART * highest, 1), (3 * LINE_PART * highest, 3), (1 << 40, 8)] {
        assert_eq!(leases_max(&config, line_share), leases, "of {line_share} bytes");
    }
}
