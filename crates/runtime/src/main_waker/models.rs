//! The main waker and the doorbell in every interleaving of small programs, as they are, with loom's atomics:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-runtime --lib loom`.
//!
//! * A wake is either seen before the worker sleeps, or rings; what came before the wake is seen by the poll after it.
//! * A wake while the worker is awake rings nobody.
#![forbid(unsafe_code)]

use core::task::Waker;

use loom::sync::Arc as Tracked;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

/// As `block_on` does it: a future that wants so much, and nothing else to do.
fn block_on(main: &MainWaker, bell: &Doorbell, seen: &AtomicUsize, wanted: usize) {
    loop {
        if main.take() && seen.load(Ordering::Relaxed) >= wanted {
            return;
        }
        if main.prepare_sleep() {
            // A wake that is lost is a sleep without an end, which loom reports.
            bell.wait();
        }
        main.woke();
    }
}

#[test]
fn loom_a_wake_ends_the_sleep_of_block_on() {
    let mut model = loom::model::Builder::new();
    // Three threads that loop: every interleaving with so many preemptions.
    model.preemption_bound = Some(3);
    model.check(|| {
        let bell = Doorbell::of_model();
        let main = MainWaker::new(bell.clone());
        let seen = Tracked::new(AtomicUsize::new(0));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (waker, seen) = (Waker::from(Arc::clone(&main)), Tracked::clone(&seen));
                thread::spawn(move || {
                    seen.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                })
            })
            .collect();
        block_on(&main, &bell, &seen, 2);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn loom_only_a_sleep_is_rung() {
    loom::model(|| {
        let bell = Doorbell::of_model();
        let main = MainWaker::new(bell.clone());
        assert!(main.take());
        let waker = Waker::from(Arc::clone(&main));
        let other = thread::spawn(move || waker.wake());
        other.join().unwrap();
        assert!(!bell.was_rung() && main.take() && !main.take(), "one wake, and it was awake");
        assert!(main.prepare_sleep());
    });
}
