//! Properties: values are aligned, dropped once, in place, on any thread; their slots come back, also when a value
//! panics in its drop.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::{Budget, MemoryLimit, Pool, PoolConfig, page_bytes};

fn pool(limit: MemoryLimit) -> Pool {
    Pool::new(&Budget::new(limit), PoolConfig::default()).unwrap()
}

#[repr(align(4096))]
#[derive(Debug)]
struct Page(u8);

#[repr(align(128))]
#[derive(Debug)]
struct Wide([u8; 3]);

#[test]
fn values_are_aligned_and_have_their_class() {
    let pool = pool(MemoryLimit::mib(4));
    assert_eq!(
        (PoolBox::<()>::CLASS, PoolBox::<Wide>::CLASS, PoolBox::<Page>::CLASS),
        (Class::B64, Class::B128, Class::K4)
    );
    assert_eq!(PoolBox::<[u8; 20_000]>::CLASS, Class::K20);
    let boxes: Vec<_> = (0..40).map(|n| pool.try_boxed(Wide([n; 3]), Kind::Tasks).unwrap()).collect();
    assert!(boxes.iter().enumerate().all(|(n, wide)| wide.0 == [n as u8; 3] && (&raw const **wide).addr() % 128 == 0));
    let pages: Vec<_> = (0..5).map(|n| pool.try_boxed(Page(n), Kind::Tasks).unwrap()).collect();
    assert!(pages.iter().enumerate().all(|(n, page)| page.0 == n as u8));
    assert_eq!(pool.budget().charged_by(Kind::Tasks), 40 * 128 + 5 * 4096);
}

#[test]
fn every_kind_survives_the_tag() {
    let pool = pool(MemoryLimit::mib(1));
    for kind in Kind::ALL {
        let before = pool.budget().charged_by(kind);
        let boxed = pool.try_boxed([1_u8; 64], kind).unwrap();
        assert_eq!(PoolBox::kind(&boxed), kind);
        assert!(pool.budget().charged_by(kind) > before || kind == Kind::Buffers);
        assert_eq!(boxed.into_inner(), [1; 64]);
    }
    assert_eq!(pool.stats().classes[0].live, 0);
}

#[test]
fn values_are_dropped_once() {
    let pool = pool(MemoryLimit::mib(1));
    let counted = Rc::new(());
    let boxed = pool.try_boxed(Rc::clone(&counted), Kind::Tasks).unwrap();
    let other = pool.try_boxed(Rc::clone(&counted), Kind::Tasks).unwrap();
    assert_eq!(Rc::strong_count(&counted), 3);
    drop(boxed);
    assert_eq!(Rc::strong_count(&counted), 2);
    let inner = other.into_inner();
    assert_eq!(Rc::strong_count(&counted), 2);
    drop(inner);
    assert_eq!(Rc::strong_count(&counted), 1);
}

#[test]
fn a_refused_value_comes_back() {
    // The fixed part has a page.
    let pool = pool(MemoryLimit::bytes(12 * 1_024 + page_bytes() as u64));
    let (over, value) = pool.try_boxed([9_u8; 20_000], Kind::Tasks).unwrap_err();
    assert_eq!((over.wanted_bytes(), value[19_999]), (20_480, 9));
}

#[derive(Debug)]
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

#[test]
fn a_panic_in_a_drop_does_not_lose_the_slot() {
    let pool = pool(MemoryLimit::mib(1));
    let boxed = pool.try_boxed(Panics, Kind::Tasks).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(boxed))).is_err());
    assert_eq!(pool.stats().classes[0].live, 0);
}

#[test]
fn boxes_of_leases_and_pools_are_dropped_in_order() {
    let pool = pool(MemoryLimit::mib(1));
    let budget = Arc::clone(pool.budget());
    // The last handle of the pool is in the pool's own memory.
    let lease = pool.try_copy(b"abc", Kind::Buffers).unwrap();
    let boxed = pool.try_boxed((lease, pool.clone()), Kind::Tasks).unwrap();
    drop(pool);
    drop(boxed);
    assert_eq!((budget.charged(), budget.credited(), budget.adopted_arenas()), (0, 0, 0));
}
