//! Values of a worker whose owners are dropped where and when nobody expects it.

#![forbid(unsafe_code)]

mod support;

use core::time::Duration;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_runtime::{OnWorker, Runtime, now, sleep, spawn, yield_now};
use support::{on_each, until};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a panic that is meant");
    }
}

/// One value that panics when it is dropped takes no other one with it.
#[test]
fn a_value_that_panics_at_its_end_leaves_the_others() {
    on_each("a panic at the end", async || {
        let mut other = OnWorker::new(Rc::new(7))?;
        let drops = Rc::new(());
        let later = OnWorker::new(Rc::clone(&drops))?;
        let bomb = OnWorker::new(Bomb)?;
        std::thread::spawn(move || drop(bomb)).join().expect("it may be dropped there");
        sleep(Duration::from_millis(5)).await;
        yield_now().await;
        assert!(other.is_here());
        assert_eq!(other.with(|seven| **seven), 7);
        // And those that come home later still do.
        std::thread::spawn(move || drop(later)).join().expect("it may be dropped there");
        until("it came home", || Rc::strong_count(&drops) == 1).await;
        Ok(())
    });
}

/// A value that owns another one, which was made before it or after it, and whose end makes a third.
#[test]
fn values_may_own_each_other() {
    struct Nest(Option<OnWorker<Rc<Cell<u32>>>>, Rc<Cell<u32>>);
    impl Drop for Nest {
        fn drop(&mut self) {
            drop(self.0.take());
            let third = OnWorker::new(Rc::clone(&self.1)).expect("there is room");
            assert!(third.is_here());
            self.1.set(self.1.get() + 1);
        }
    }

    on_each("nests", async || {
        let count = Rc::new(Cell::new(0));
        let nest = || OnWorker::new(Nest(Some(OnWorker::new(Rc::clone(&count))?), Rc::clone(&count)));
        drop(nest()?);
        assert_eq!(count.get(), 1);
        let other = nest()?;
        std::thread::spawn(move || drop(other)).join().expect("it may be dropped there");
        until("it came home", || count.get() == 2).await;
        assert_eq!(Rc::strong_count(&count), 1);
        Ok(())
    });
}

/// A crowd that comes home does not keep the worker's other tasks waiting until the last has come.
#[test]
fn a_crowd_that_comes_home_lets_others_run() {
    const CROWD: usize = 4_000;

    on_each("a crowd", async || {
        let drops = Arc::new(AtomicUsize::new(0));
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let values = (0..CROWD).map(|_| OnWorker::new(Counted(Arc::clone(&drops)))).collect::<Result<Vec<_>, _>>()?;
        std::thread::spawn(move || drop(values)).join().expect("they may be dropped there");
        let is_over = Arc::clone(&drops);
        let turns = spawn(async move {
            let (mut turns, start) = (0, now());
            while is_over.load(Ordering::Relaxed) < CROWD {
                assert!(now() - start < support::wait_max());
                turns += 1;
                yield_now().await;
            }
            turns
        })?;
        let turns = turns.await.expect("it does not panic");
        assert!(turns >= 10, "{turns} turns while {CROWD} came home");
        Ok(())
    });
}

/// What is left at the worker's end may own others of it: nothing panics and nothing is left.
#[test]
fn nests_end_with_their_worker() {
    struct Nest(#[expect(dead_code, reason = "it is owned")] OnWorker<Rc<()>>);

    let counted = Rc::new(());
    let runtime = Runtime::builder().workers(1).build().expect("it starts");
    let nests = runtime.block_on(async {
        let nest = || Some(OnWorker::new(Nest(OnWorker::new(Rc::clone(&counted)).ok()?)).expect("there is room"));
        (0..300).filter_map(|_| nest()).collect::<Vec<_>>()
    });
    assert_eq!(nests.len(), 300);
    assert_eq!(runtime.shutdown().leaked_bytes, 0);
    assert_eq!(Rc::strong_count(&counted), 1);
    drop(nests);
}

/// Two runtimes in one thread: each keeps its own, and each says so of the other's.
#[test]
fn runtimes_of_one_thread_keep_theirs_apart() {
    let build = || Runtime::builder().workers(1).build().expect("it starts");
    let (one, two) = (build(), build());
    let mut value = one.block_on(async { OnWorker::new(Rc::new(1)) }).expect("there is room");
    let dropped = Rc::new(());
    let other = one.block_on(async { OnWorker::new(Rc::clone(&dropped)) }).expect("there is room");
    two.block_on(async {
        assert!(!value.is_here());
        drop(other);
    });
    assert_eq!(Rc::strong_count(&dropped), 2);
    one.block_on(async {
        assert_eq!(value.with(|one| **one), 1);
        until("it came home", || Rc::strong_count(&dropped) == 1).await;
    });
}
