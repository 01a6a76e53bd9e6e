//! Whoever holds the bytes, and for however long: they stay as they were received, and the slot comes back.

use std::thread;

use bytes::Bytes;

use crate::{Budget, Class, Closed, Kind, Lease, MemoryLimit, Pool, PoolConfig};

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default()).expect("room for a pool")
}

fn live(pool: &Pool) -> u64 {
    pool.drain_remote();
    pool.stats().classes.iter().map(|class| class.live).sum()
}

/// As a receive leaves it: some bytes of before consumed, the rest of the slot never written.
fn received(pool: &Pool, bytes: &[u8]) -> Lease {
    let mut lease = pool.try_acquire_class(Class::K4, Kind::Buffers).expect("room");
    lease.extend(b"before");
    lease.extend(bytes);
    lease.consume(6);
    lease
}

#[test]
fn bytes_show_the_view_and_no_more() {
    let pool = pool();
    // A slot that is used again holds what others left in it.
    drop(pool.try_copy(&[b'x'; 4_096], Kind::Buffers).expect("room"));
    let lease = received(&pool, b"hello");
    let at = lease.as_ptr().cast_const();
    let bytes = Bytes::from(lease);
    assert_eq!((&bytes[..], bytes.as_ptr()), (&b"hello"[..], at), "the same bytes, not a copy");
    assert!(bytes.try_into_mut().is_err(), "never as a buffer that may grow into the rest of the slot");
    assert_eq!(live(&pool), 0);
}

#[test]
fn the_slot_comes_back_with_the_last_clone_or_slice() {
    let pool = pool();
    let bytes = Bytes::from(received(&pool, b"hello world"));
    let (clone, slice) = (bytes.clone(), bytes.slice(6..));
    drop(bytes);
    drop(clone);
    assert_eq!(live(&pool), 1);
    let other = thread::spawn(move || assert_eq!(&slice[..], b"world"));
    other.join().expect("no panic");
    assert_eq!(live(&pool), 0);
}

#[test]
fn a_view_of_nothing_keeps_no_slot() {
    let pool = pool();
    let bytes = Bytes::from(pool.try_acquire(4_096, Kind::Buffers).expect("room"));
    assert!(bytes.is_empty());
    assert_eq!(live(&pool), 0);
}

#[test]
fn bytes_outlive_their_pool_and_its_thread() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let of_worker = std::sync::Arc::clone(&budget);
    let worker = thread::spawn(move || {
        let pool = Pool::new(&of_worker, PoolConfig::default()).expect("room for a pool");
        let bytes: Vec<Bytes> = (0..100_u8).map(|index| Bytes::from(received(&pool, &[index; 1_000]))).collect();
        assert_eq!(pool.close(), Closed::Adopted { leases: 100 });
        bytes
    });
    let bytes = worker.join().expect("no panic");
    assert_eq!(budget.adopted_arenas(), 1);
    assert!(budget.charged() >= 100 * 4_096, "still charged");
    for (index, bytes) in bytes.iter().enumerate() {
        assert!(bytes.len() == 1_000 && bytes.iter().all(|byte| usize::from(*byte) == index));
    }
    drop(bytes);
    assert_eq!((budget.adopted_arenas(), budget.charged()), (0, 0));
}
