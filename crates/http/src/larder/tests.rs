//! The larder: at the line a few requests can begin, and what they took comes back; a low line keeps little.

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};

use super::*;

fn pool(line: MemoryLimit) -> Pool {
    Pool::new(&Budget::new(line), PoolConfig::default()).expect("room for a pool")
}

/// Takes all memory that is free.
fn hoard(pool: &Pool) -> Vec<Lease> {
    let mut hoard = Vec::new();
    for class in [Class::K128, Class::K16, Class::K4, Class::B1024, Class::B512, Class::B64] {
        while let Ok(lease) = pool.try_acquire_class(class, Kind::Buffers) {
            hoard.push(lease);
        }
    }
    hoard
}

#[test]
fn at_the_line_a_few_requests_can_begin_and_what_they_took_comes_back() {
    let pool = pool(MemoryLimit::mib(8));
    let larder = Larder::new(&pool, 8 << 20);
    assert!(larder.is_full());
    let hoard = hoard(&pool);
    let mut taken = Vec::new();
    for _ in 0..PORTIONS_MAX {
        taken.push(larder.exchange().expect("it is kept"));
        let head = larder.head(&[b'h'; 1_000]).expect("it is kept");
        assert_eq!((&head[..], head.kind()), (&[b'h'; 1_000][..], Kind::Fixed));
        taken.push(head);
    }
    assert!(larder.exchange().is_none() && larder.head(b"GET").is_none());
    larder.restock();
    assert!(larder.exchange().is_none(), "there is no memory");
    drop(hoard);
    larder.restock();
    assert!(larder.is_full() && larder.head(&[0; 1_025]).is_none());
}

#[test]
fn a_low_line_keeps_little() {
    let pool = pool(MemoryLimit::mib(2));
    let larder = Larder::new(&pool, 1 << 20);
    assert!(larder.is_full());
    let portions = core::iter::from_fn(|| larder.exchange()).count();
    assert_eq!(portions, (1 << 20) / 128 / (512 + 1_024), "an exchange and a head each");
    assert!(Larder::new(&pool, 64 << 10).exchange().is_none(), "a share so low has none");
}
