//! Properties: a permit gives the smallest lease that fits, and says what is left; deadlines and kinds of futures hold,
//! and what was granted is what was asked for.
#![forbid(unsafe_code)]

use core::pin::pin;
use core::task::Waker;

use super::*;
use crate::{AdmissionConfig, Budget, Class, MemoryLimit, Pool, PoolConfig, Priority};

fn port() -> Admission {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(2)), PoolConfig::default()).unwrap();
    Admission::new(&pool, AdmissionConfig::default()).unwrap()
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn now<T>(future: impl Future<Output = Result<T, Shed>>) -> T {
    match poll(future) {
        Poll::Ready(Ok(done)) => done,
        Poll::Ready(Err(shed)) => panic!("{shed}"),
        Poll::Pending => panic!("there is room"),
    }
}

#[test]
fn the_smallest_lease_that_fits_is_taken() {
    let admission = port();
    let footprint = Footprint::new().head(20_000).body(100).out(4096);
    let mut permit = now(admission.reserve(footprint, Priority::Head, 1));
    let all = 20_480 + 128 + 4096;
    assert_eq!(permit.left_bytes(), all);
    assert!(permit.take(20_481).is_none(), "beyond the footprint");
    let mut page = permit.take(129).expect("the page is the smallest with so many");
    assert_eq!((page.class(), permit.left_bytes()), (Class::K4, all - 4096));
    let small = permit.take(0).expect("any");
    let large = permit.take(128).expect("the last");
    assert_eq!((small.class(), large.class(), permit.left_bytes()), (Class::B128, Class::K20, 0));
    assert!(permit.take(0).is_none());
    page.extend(b"old");
    permit.put_back(page).expect("there is a place");
    let page = permit.take(4096).expect("it was put back");
    assert!(page.is_empty(), "emptied");
    for lease in [page, small, large] {
        permit.put_back(lease).expect("there is a place");
    }
    let beside = admission.pool().try_acquire(64, Kind::Buffers).unwrap();
    assert_eq!(permit.put_back(beside).map_err(|lease| lease.class()), Err(Class::B64), "it is full");
    assert_eq!(permit.left_bytes(), all);
}

#[test]
fn leases_are_of_the_kind_of_the_permit() {
    let admission = port();
    for kind in Kind::ALL {
        let mut permit = now(admission.reserve(Footprint::one(64), Priority::Head, 1).kind(kind));
        let lease = permit.take(64).expect("within the footprint");
        assert_eq!((lease.kind(), permit.left_bytes()), (kind, 0));
    }
}

#[test]
fn one_buffer_is_as_large_as_was_asked_for() {
    let admission = port();
    for (len, class) in [(0, Class::B64), (64, Class::B64), (1000, Class::B1024), (131_072, Class::K128)] {
        let lease = now(admission.acquire(len, Priority::Output, 1));
        assert_eq!((lease.class(), lease.kind(), lease.is_empty()), (class, Kind::Buffers, true));
    }
}

#[test]
fn deadlines_are_those_that_were_set() {
    let admission = port();
    admission.tick(100);
    let _rest: Vec<Permit> = core::iter::from_fn(|| admission.try_reserve(Footprint::one(131_072)).ok()).collect();
    let large = Footprint::one(131_072);
    let mut reserve = pin!(admission.reserve(large, Priority::Head, 1).deadline(500));
    let mut acquire = pin!(admission.acquire(131_072, Priority::Head, 1).deadline(600));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(reserve.as_mut().poll(&mut cx).is_pending());
    assert!(acquire.as_mut().poll(&mut cx).is_pending());
    assert_eq!(admission.waiting(), 2);
    for (now_ns, waiting) in [(499, 2), (500, 1), (599, 1), (600, 0)] {
        admission.tick(now_ns);
        assert_eq!(admission.waiting(), waiting, "at {now_ns}");
    }
    assert!(matches!(reserve.as_mut().poll(&mut cx), Poll::Ready(Err(Shed::Deadline))));
    assert!(matches!(acquire.as_mut().poll(&mut cx), Poll::Ready(Err(Shed::Deadline))));
    // Without one, that of the configuration, from the last tick on.
    let mut wait = pin!(admission.reserve(large, Priority::Head, 1));
    assert!(wait.as_mut().poll(&mut cx).is_pending());
    admission.tick(10_000_000_599);
    assert_eq!(admission.waiting(), 1);
    admission.tick(10_000_000_600);
    assert_eq!(admission.waiting(), 0);
}
