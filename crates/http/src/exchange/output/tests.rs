//! What is left of a send.

use plimsoll_runtime::{Budget, MemoryLimit};

use super::*;

fn left(pool: &Pool, class: Class, left: usize) -> Class {
    let mut lease = pool.try_acquire_class(class, Kind::Buffers).expect("room");
    let sent = class.bytes() - left;
    lease.extend(&(0..class.bytes()).map(|at| (at % 251) as u8).collect::<Vec<_>>());
    lease.consume(sent);
    let expected = lease.to_vec();
    let SendBytes::Lease(rest) = compacted(pool, SendBytes::Lease(lease)) else { panic!("a lease stays one") };
    assert!(rest[..] == expected[..], "the same bytes");
    rest.class()
}

#[test]
fn the_rest_of_a_short_send_moves_to_the_class_it_needs() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let pool = Pool::new(&budget, plimsoll_pool::PoolConfig::default()).expect("room for a pool");
    for (class, rest, expected) in [
        (Class::K64, 60_000, Class::K64),
        (Class::K64, 32_769, Class::K64),
        (Class::K64, 32_768, Class::K32),
        (Class::K64, 10, Class::B64),
        (Class::K20, 16_384, Class::K20),
        (Class::B1024, 512, Class::B512),
        (Class::B64, 1, Class::B64),
    ] {
        assert_eq!(left(&pool, class, rest), expected, "{rest} bytes of {class}");
    }
}

#[test]
fn at_the_line_the_rest_stays_where_it_is() {
    let budget = Budget::new(MemoryLimit::kib(160));
    let pool = Pool::new(&budget, plimsoll_pool::PoolConfig::default()).expect("room for a pool");
    let lease = pool.try_copy(&[7; 128 << 10], Kind::Buffers).expect("room");
    let _rest: Vec<_> = std::iter::from_fn(|| pool.try_acquire(4_096, Kind::Buffers).ok()).collect();
    let mut lease = lease;
    lease.consume(126 << 10);
    let SendBytes::Lease(rest) = compacted(&pool, SendBytes::Lease(lease)) else { panic!("a lease stays one") };
    assert_eq!((rest.class(), rest.len()), (Class::K128, 2 << 10));
}

#[test]
fn static_bytes_need_no_lease() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let pool = Pool::new(&budget, plimsoll_pool::PoolConfig::default()).expect("room for a pool");
    assert!(matches!(compacted(&pool, SendBytes::Static(b"rest")), SendBytes::Static(b"rest")));
}
