//! Pages come when timers need them and go when they are empty; a timer wakes whom it was told last, and never early.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use plimsoll_pool::{Budget, Kind, MemoryLimit, PoolConfig};
use plimsoll_slab::CHUNK_BYTES;

use super::*;

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker of its own, and how often it was woken.
fn waker() -> (Waker, Arc<Wakes>) {
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    (Waker::from(Arc::clone(&wakes)), wakes)
}

fn pool(line: MemoryLimit) -> Pool {
    Pool::new(&Budget::new(line), PoolConfig::default()).expect("address space is plenty")
}

fn pages(pool: &Pool) -> usize {
    pool.budget().charged_by(Kind::Slots) as usize / CHUNK_BYTES
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Timers on so many pages, the keys of each page together.
fn full(pool: &Pool, timers: &mut Timers, count: usize) -> Vec<Vec<TimerKey>> {
    let mut keys: Vec<Vec<TimerKey>> = Vec::new();
    let (waker, _) = waker();
    loop {
        if timers.0.needs_chunk() {
            if keys.len() == count {
                return keys;
            }
            keys.push(Vec::new());
        }
        let key = timers.insert(pool, at(1), waker.clone()).expect("there is room");
        keys.last_mut().expect("a page").push(key);
    }
}

#[test]
fn pages_come_with_timers_and_go_without() {
    let pool = pool(MemoryLimit::mib(16));
    let mut timers = Timers::new(at(0));
    assert_eq!((timers.len(), pages(&pool), timers.has_empty_pages()), (0, 0, false));
    let keys = full(&pool, &mut timers, 6);
    assert_eq!((timers.len(), pages(&pool)), (keys.iter().map(Vec::len).sum(), 6));
    timers.release_pages();
    assert!(pages(&pool) == 6 && !timers.has_empty_pages(), "all are in use");
    for key in keys[1..].iter().flatten() {
        assert!(timers.remove(*key).is_some());
    }
    assert!(timers.has_empty_pages());
    timers.release_some_pages(0);
    assert_eq!(pages(&pool), 6);
    timers.release_some_pages(2);
    assert_eq!(pages(&pool), 4);
    timers.release_pages();
    assert!(pages(&pool) == 1 && !timers.has_empty_pages());
    timers.release_some_pages(2);
    assert_eq!((timers.len(), pages(&pool)), (keys[0].len(), 1));
    drop(timers);
    assert_eq!(pages(&pool), 0);
}

#[test]
fn a_timer_without_a_page_is_refused() {
    let pool = pool(MemoryLimit::kib(600));
    let mut timers = Timers::new(at(0));
    let (waker, _) = waker();
    let refused = (0..100_000).find(|_| timers.insert(&pool, at(1), waker.clone()).is_err());
    assert_eq!(refused, Some(timers.len()), "what was set is set");
    let (next, woken) = (timers.next_deadline(), timers.pop());
    assert_eq!((next, woken.is_none()), (Some(at(1)), true));
}

#[test]
fn the_last_waker_is_woken() {
    let (pool, mut timers) = (pool(MemoryLimit::mib(16)), Timers::new(at(0)));
    let ((first, first_wakes), (second, second_wakes)) = (waker(), waker());
    let key = timers.insert(&pool, at(5), first.clone()).expect("there is room");
    assert_eq!((timers.will_wake(key, &first), timers.will_wake(key, &second)), (Some(true), Some(false)));
    let before = timers.remember(key, second.clone());
    assert!(before.will_wake(&first));
    assert_eq!((timers.will_wake(key, &first), timers.will_wake(key, &second)), (Some(false), Some(true)));
    timers.advance(at(5));
    timers.pop().expect("it is due").wake();
    let counts = [first_wakes, second_wakes].map(|wakes| wakes.0.load(Ordering::Relaxed));
    assert_eq!((counts, timers.pop().is_none()), ([0, 1], true));
    assert_eq!(timers.will_wake(key, &second), None, "it has fired");
    assert!(timers.remember(key, first.clone()).will_wake(&first), "nobody needs it");
    assert!(timers.remove(key).is_none() && timers.len() == 0);
}

#[test]
fn a_deadline_is_moved_until_it_was_reached() {
    let (pool, mut timers) = (pool(MemoryLimit::mib(16)), Timers::new(at(0)));
    let key = timers.insert(&pool, at(5), waker().0).expect("there is room");
    assert!(timers.reset(key, at(9)));
    assert_eq!(timers.next_deadline(), Some(at(9)));
    timers.advance(at(8));
    assert!(timers.pop().is_none());
    timers.advance(at(9));
    assert!(timers.pop().is_some());
    assert!(!timers.reset(key, at(20)), "too late");
    assert_eq!((timers.len(), timers.next_deadline()), (0, None));
}

/// The wheel counts milliseconds, an instant nanoseconds.
#[test]
fn a_timer_is_due_at_the_first_millisecond_that_is_not_early() {
    let (pool, mut timers) = (pool(MemoryLimit::mib(16)), Timers::new(at(0)));
    for (nanos, due) in [(1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
        let key = timers.insert(&pool, Instant::from_nanos(nanos), waker().0).expect("there is room");
        assert_eq!(timers.next_deadline(), Some(at(due)), "{nanos} ns");
        timers.advance(at(due - 1) + Duration::from_nanos(999_999));
        assert!(timers.pop().is_none(), "{nanos} ns");
        assert!(timers.reset(key, Instant::from_nanos(nanos)));
        assert_eq!(timers.next_deadline(), Some(at(due)), "{nanos} ns, moved");
        assert!(timers.remove(key).is_some());
    }
}
