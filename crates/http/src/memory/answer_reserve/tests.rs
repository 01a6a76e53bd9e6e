//! The answer reserve: at the line there is room for output, and what was taken comes back.

use plimsoll_pool::{Admission, AdmissionConfig, Budget, MemoryLimit, PoolConfig};

use super::*;

fn pool(line: MemoryLimit) -> Pool {
    Pool::new(&Budget::new(line), PoolConfig::default()).expect("room for a pool")
}

/// Takes all memory that is free.
fn fill(pool: &Pool) -> Vec<Lease> {
    let mut held = Vec::new();
    for class in [Class::K128, Class::K16, Class::K4, Class::B1024, Class::B512, Class::B64] {
        while let Ok(lease) = pool.try_acquire_class(class, Kind::Buffers) {
            held.push(lease);
        }
    }
    held
}

fn count(reserve: &AnswerReserve) -> usize {
    reserve.leases.borrow().len()
}

#[test]
fn at_the_line_there_is_room_and_it_comes_back() {
    let pool = pool(MemoryLimit::mib(8));
    let reserve = AnswerReserve::new(&pool, 8 << 20, 65_536);
    let all = (8 << 20) / 64 / CLASS.bytes();
    assert_eq!(count(&reserve), all);
    let held = fill(&pool);
    let mut taken: Vec<_> = ::core::iter::from_fn(|| reserve.take()).collect();
    assert_eq!(taken.len(), all);
    assert!(taken.iter().all(|lease| lease.is_empty() && lease.capacity() == CLASS.bytes()));
    let mut sent = taken.pop().expect("there are some");
    sent.extend(b"HTTP/1.1 200 OK\r\n");
    reserve.put_back(sent);
    let again = reserve.take().expect("it is back");
    assert!(again.is_empty());
    reserve.restock();
    assert_eq!(count(&reserve), 0, "there is no memory");
    drop((held, taken, again));
    reserve.restock();
    assert!(reserve.is_full() && count(&reserve) == all);
}

#[test]
fn what_is_not_of_the_reserve_or_too_much_goes_to_the_pool() {
    let pool = pool(MemoryLimit::mib(8));
    let reserve = AnswerReserve::new(&pool, 1 << 20, 65_536);
    let other = pool.try_acquire_class(CLASS, Kind::Buffers).expect("there is room");
    reserve.put_back(other);
    assert_eq!(count(&reserve), 16, "64 KiB at least");
    let _one = reserve.take();
    reserve.put_back(pool.try_acquire_class(Class::K16, Kind::Buffers).expect("there is room"));
    assert_eq!(count(&reserve), 15);
}

#[test]
fn a_low_line_keeps_little_and_no_line_not_too_much() {
    let pool = pool(MemoryLimit::mib(2));
    assert_eq!(bytes(u64::MAX), 1 << 20);
    assert_eq!(count(&AnswerReserve::new(&pool, 64 << 10, 65_536)), 2);
    assert_eq!(count(&AnswerReserve::new(&pool, 16 << 10, 65_536)), 0);
}

#[test]
fn its_list_is_as_long_as_it_is_said_to_be() {
    let pool = pool(MemoryLimit::mib(8));
    for share in [16 << 10, 64 << 10, 1 << 20, 8 << 20] {
        let reserve = AnswerReserve::new(&pool, share, 65_536);
        assert_eq!(list_bytes(share), (count(&reserve) * size_of::<Lease>()) as u64, "of {share} bytes");
    }
}

#[test]
fn half_of_what_is_kept_for_newcomers_stays_for_them() {
    const KEPT: u64 = 256 << 10;
    let pool = pool(MemoryLimit::mib(8));
    let _admission = Admission::new(&pool, AdmissionConfig::default().reserve_bytes(KEPT)).expect("room");
    let reserve = AnswerReserve::new(&pool, 64 << 10, 65_536);
    let held = fill(&pool);
    let kept = pool.kept_for_newcomers();
    assert!(kept > KEPT / 2, "others leave {kept} bytes");
    let drawn: Vec<_> =
        ::core::iter::from_fn(|| reserve.draw(|| pool.try_acquire_class(Class::K4, Kind::Buffers)).ok()).collect();
    let left = pool.kept_for_newcomers();
    assert!(!drawn.is_empty() && left <= KEPT / 2, "{left} bytes are left");
    assert!(left > KEPT / 4, "{left} bytes are left");
    drop(held);
}
