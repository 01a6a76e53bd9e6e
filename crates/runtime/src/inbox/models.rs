//! The inbox and the doorbell in every interleaving of small programs, as they are, with loom's lock and atomics:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-runtime --lib loom`.
//!
//! * A closure that was sent is found before the worker sleeps, or ends its sleep; it runs once, in the order of one
//!   sender.
//! * A closure that meets the worker's end runs or is dropped, and is gone when both have ended.
#![forbid(unsafe_code)]

use loom::sync::Arc as Tracked;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

fn inbox() -> (Arc<Inbox>, Doorbell) {
    let (inbox, bell) = (Inbox::new(), Doorbell::of_model());
    inbox.doorbell.set(bell.clone()).expect("once");
    (inbox, bell)
}

/// What a worker's turn does with its inbox; how many closures there were.
fn turn(inbox: &Inbox) -> usize {
    if !inbox.is_pending() {
        return 0;
    }
    inbox.take().into_iter().map(|JobEntry(job)| job()).count()
}

#[test]
fn loom_what_is_sent_ends_the_sleep_of_the_worker() {
    loom::model(|| {
        let (inbox, bell) = inbox();
        let order = Tracked::new(AtomicUsize::new(0));
        let other = {
            let (inbox, order) = (Arc::clone(&inbox), Tracked::clone(&order));
            thread::spawn(move || {
                for number in 0..2 {
                    let order = Tracked::clone(&order);
                    let job = move || assert_eq!(order.fetch_add(1, Ordering::Relaxed), number);
                    assert!(inbox.send(Box::new(job)).is_ok());
                }
            })
        };
        let mut ran = turn(&inbox);
        while ran < 2 {
            if !inbox.is_pending() {
                bell.wait();
            }
            ran += turn(&inbox);
        }
        other.join().unwrap();
        assert_eq!((ran, turn(&inbox), order.load(Ordering::Relaxed)), (2, 0, 2));
    });
}

#[test]
fn loom_what_meets_the_end_is_not_kept() {
    struct Counted(Tracked<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    loom::model(|| {
        let (inbox, _bell) = inbox();
        let gone = Tracked::new(AtomicUsize::new(0));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (inbox, counted) = (Arc::clone(&inbox), Counted(Tracked::clone(&gone)));
                thread::spawn(move || assert!(inbox.send(Box::new(move || drop(counted))).is_ok()))
            })
            .collect();
        turn(&inbox);
        inbox.close();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(gone.load(Ordering::Relaxed), 2);
        assert_eq!(turn(&inbox), 0);
    });
}
