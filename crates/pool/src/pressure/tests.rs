//! Properties: whoever watches learns of a change once, several changes in between are one; the last waker of a watch
//! is the one that is woken, and a watch that ends keeps nobody.
#![forbid(unsafe_code)]

use core::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;
use crate::MemoryLimit;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll(watch: &mut Watch, wakes: &Arc<Wakes>) -> Poll<Level> {
    watch.poll_changed(&mut Context::from_waker(&Arc::clone(wakes).into()))
}

const LIMIT: MemoryLimit = MemoryLimit::bytes(1_000);

#[test]
fn several_changes_are_one_and_are_told_once() {
    let budget = Budget::new(LIMIT);
    let pressure = budget.pressure();
    let (mut watch, wakes) = (budget.watch(), Arc::default());
    assert!(poll(&mut watch, &wakes).is_pending());
    assert!(pressure.observe(749).is_none() && wakes.count() == 0, "no change");
    for (used, level) in [(750, Level::Yellow), (900, Level::Orange)] {
        let transition = pressure.observe(used).expect("a change");
        assert_eq!((transition.to, watch.level()), (level, level));
    }
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut watch, &wakes), Poll::Ready(Level::Orange));
    assert!(poll(&mut watch, &wakes).is_pending());
    // There and back again is a change, too.
    pressure.observe(0);
    pressure.observe(900);
    assert_eq!((poll(&mut watch, &wakes), wakes.count()), (Poll::Ready(Level::Orange), 2));
    assert_eq!(Level::ALL.map(|level| pressure.entered(level)), [1, 1, 2, 0]);
    assert!(poll(&mut budget.watch(), &wakes).is_pending(), "what was before is no change");
}

#[test]
fn the_last_waker_of_a_watch_is_woken() {
    let budget = Budget::new(LIMIT);
    let mut watch = budget.watch();
    let (first, second, others): (Arc<Wakes>, Arc<Wakes>, Arc<Wakes>) = Default::default();
    let mut other = budget.watch();
    assert!(poll(&mut other, &others).is_pending());
    for wakes in [&first, &first, &second] {
        assert!(poll(&mut watch, wakes).is_pending());
    }
    assert_eq!(budget.pressure().watched().wakers.len(), 2, "one of each");
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
    budget.pressure().observe(800);
    assert_eq!((first.count(), second.count(), others.count()), (0, 1, 1));
}

#[test]
fn the_same_waker_is_not_cloned_again() {
    let budget = Budget::new(LIMIT);
    let (mut watch, wakes) = (budget.watch(), Arc::new(Wakes::default()));
    let waker: Waker = Arc::clone(&wakes).into();
    for _ in 0..3 {
        assert!(watch.poll_changed(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(Arc::strong_count(&wakes), 3, "ours, and one that waits");
    }
}

#[test]
fn a_watch_that_ends_is_forgotten_and_the_others_are_not() {
    let budget = Budget::new(LIMIT);
    let (gone, kept): (Arc<Wakes>, Arc<Wakes>) = Default::default();
    let (mut one, mut two) = (budget.watch(), budget.watch());
    assert!(poll(&mut one, &gone).is_pending() && poll(&mut two, &kept).is_pending());
    drop(one);
    assert_eq!((Arc::strong_count(&gone), Arc::strong_count(&kept)), (1, 2));
    drop(budget.watch());
    budget.pressure().observe(800);
    assert_eq!((gone.count(), kept.count()), (0, 1));
}

#[test]
fn those_who_wait_are_a_sum() {
    let pressure = Pressure::new(Marks::default(), 1_000);
    for (before, now, waiting) in [(0, 3, 3), (0, 2, 5), (3, 3, 5), (3, 1, 3), (2, 0, 1)] {
        pressure.change_waiting(before, now);
        assert_eq!(pressure.waiting(), waiting);
    }
    let transition = pressure.observe(0).expect("somebody waits");
    assert_eq!((transition.to, transition.waiting, pressure.level()), (Level::Red, 1, Level::Red));
}
