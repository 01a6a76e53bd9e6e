//! How tasks end: outputs, panics, aborts, the end of the worker, refusals.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::future::{Future, pending, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;

use plimsoll_pool::MemoryLimit;

use super::super::{JoinError, JoinHandle};
use super::rig::{Bomb, Log, Place, Rig, Traced, Wakes, message, poll, result, stuck, yields};

#[test]
fn joined_before_and_after_the_end() {
    let rig = Rig::new();
    let mut before = rig.spawn(async { String::from("output") });
    let (wakes, waker) = Wakes::new();
    assert!(pin!(&mut before).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(pin!(&mut before).poll(&mut Context::from_waker(&waker)).is_pending());
    rig.settle();
    assert_eq!(wakes.count(), 1);
    assert!(before.is_finished());
    assert_eq!(result(before).expect("an output"), "output");
    let after = rig.spawn(async { 2 });
    rig.settle();
    assert_eq!(result(after).expect("an output"), 2);
    rig.end();
}

#[test]
fn the_last_joiner_is_the_one_woken() {
    let rig = Rig::new();
    let mut task = rig.spawn(yields(1));
    let ((first, a), (second, b)) = (Wakes::new(), Wakes::new());
    assert!(pin!(&mut task).poll(&mut Context::from_waker(&a)).is_pending());
    assert!(pin!(&mut task).poll(&mut Context::from_waker(&b)).is_pending());
    rig.settle();
    assert_eq!((first.count(), second.count()), (0, 1));
    drop(task);
    rig.end();
}

#[test]
fn a_joiner_whose_waker_panics_hurts_nobody() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    let rig = Rig::new();
    let mut joined = rig.spawn(async { 1 });
    let waker = Waker::from(Arc::new(Panics));
    assert!(pin!(&mut joined).poll(&mut Context::from_waker(&waker)).is_pending());
    let other = rig.spawn(async { 2 });
    rig.settle();
    assert_eq!((result(joined).expect("an output"), result(other).expect("an output")), (1, 2));
    rig.end();
}

#[test]
fn tasks_join_tasks() {
    let rig = Rig::new();
    let mut sum = rig.spawn(async { 0 });
    for _ in 0..100 {
        let before = sum;
        sum = rig.spawn(async move { before.await.expect("an output") + 1 });
    }
    rig.settle();
    assert_eq!(result(sum).expect("an output"), 100);
    rig.end();
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn a_result_is_taken_once() {
    let rig = Rig::new();
    let mut task = rig.spawn(async {});
    rig.settle();
    assert!(poll(&mut task).is_ready());
    let _ = poll(&mut task);
}

#[test]
fn an_output_nobody_wants_is_dropped_at_the_end() {
    let rig = Rig::new();
    let log = Log::default();
    let (future, output) = (Traced("future", log.clone()), Traced("output", log.clone()));
    let task = rig.spawn(async move {
        let _future = future;
        output
    });
    drop(task);
    assert!(log.take().is_empty());
    rig.settle();
    assert_eq!(log.take(), ["future dropped", "output dropped"]);
    rig.end();
}

#[test]
fn an_output_waits_for_its_handle() {
    let rig = Rig::new();
    let log = Log::default();
    let output = Traced("output", log.clone());
    let task = rig.spawn(async move { output });
    rig.settle();
    assert!(log.take().is_empty());
    drop(task);
    assert_eq!(log.take(), ["output dropped"]);
    rig.end();
}

#[test]
fn a_panic_in_a_poll_ends_its_task_alone() {
    let rig = Rig::new();
    let log = Log::default();
    let held = Traced("future", log.clone());
    let task = rig.spawn(async move {
        let _held = held;
        yields(1).await;
        panic!("in a poll");
    });
    let other = rig.spawn(yields(3));
    rig.settle();
    assert_eq!(log.take(), ["future dropped"]);
    assert_eq!(message::<()>(result(task)), "in a poll");
    assert!(result(other).is_ok());
    rig.end();
}

#[test]
fn a_panic_of_nobody_is_dropped() {
    let rig = Rig::new();
    drop(rig.spawn(async { panic!("nobody looks") }));
    let bomb = rig.spawn(async { std::panic::panic_any(Bomb("in the payload of a panic")) });
    rig.settle();
    drop(bomb);
    rig.end();
}

/// Panics in its poll, or when it is dropped.
struct Fragile {
    poll: Option<&'static str>,
    _bomb: Bomb,
}

impl Future for Fragile {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<u32> {
        match self.poll {
            Some(text) => panic!("{text}"),
            None => Poll::Ready(5),
        }
    }
}

#[test]
fn panics_in_drops_are_caught() {
    let rig = Rig::new();
    let both = rig.spawn(Fragile { poll: Some("poll"), _bomb: Bomb("future") });
    let completed = rig.spawn(Fragile { poll: None, _bomb: Bomb("future") });
    let aborted = rig.spawn(Fragile { poll: None, _bomb: Bomb("future") });
    aborted.abort();
    assert!(matches!(result(aborted), Err(JoinError::Cancelled)));
    let output = rig.spawn(async { Bomb("output") });
    drop(rig.spawn(async { Bomb("output") }));
    let closed = rig.spawn(async {
        let _bomb = Bomb("future");
        pending::<()>().await;
    });
    rig.settle();
    assert!(matches!(result(both), Err(JoinError::Panicked(_))));
    assert_eq!(result(completed).expect("the output counts"), 5);
    drop(output);
    rig.tasks.close();
    assert_eq!(message(result(closed)), "(cancelled)");
    rig.end();
}

#[test]
fn aborted_before_its_first_poll_while_idle_and_after_its_end() {
    let rig = Rig::new();
    let log = Log::default();
    let held = Traced("future", log.clone());
    let fresh = rig.spawn(async move { drop(held) });
    fresh.abort();
    fresh.abort();
    assert_eq!(log.take(), ["future dropped"]);
    let place = Place::default();
    let mut idle = rig.spawn(stuck(&place));
    rig.settle();
    let (wakes, waker) = Wakes::new();
    assert!(pin!(&mut idle).poll(&mut Context::from_waker(&waker)).is_pending());
    idle.abort();
    assert_eq!(wakes.count(), 1, "the joiner learns");
    place.take().wake();
    assert_eq!(rig.settle(), 0);
    let done = rig.spawn(async { 1 });
    rig.settle();
    done.abort();
    assert_eq!(result(done).expect("an abort after the end does nothing"), 1);
    assert_eq!((message(result(fresh)), message(result(idle))), ("(cancelled)", "(cancelled)"));
    assert_eq!(rig.tasks.len(), 0);
    rig.end();
}

/// A place for a handle that the task itself can reach.
type Own<T> = Rc<RefCell<Option<JoinHandle<T>>>>;

#[test]
fn aborted_from_within_its_poll() {
    let rig = Rig::new();
    let log = Log::default();
    let own: Own<()> = Rc::default();
    let (held, within, inner_log) = (Traced("future", log.clone()), Rc::clone(&own), log.clone());
    let task = rig.spawn(async move {
        let _held = held;
        within.borrow().as_ref().expect("it is there").abort();
        inner_log.push("still in the poll");
        yields(1).await;
        inner_log.push("polled again");
    });
    *own.borrow_mut() = Some(task);
    rig.settle();
    assert_eq!(log.take(), ["still in the poll", "future dropped"]);
    let task = own.take().expect("it is there");
    assert_eq!(message(result(task)), "(cancelled)");
    rig.end();
}

#[test]
fn aborted_in_the_poll_that_completes_it() {
    let rig = Rig::new();
    let own: Own<u32> = Rc::default();
    let within = Rc::clone(&own);
    let task = rig.spawn(poll_fn(move |_| {
        within.borrow().as_ref().expect("it is there").abort();
        Poll::Ready(3)
    }));
    *own.borrow_mut() = Some(task);
    rig.settle();
    let task = own.take().expect("it is there");
    assert_eq!(result(task).expect("the output counts"), 3);
    rig.end();
}

#[test]
fn a_future_that_owns_its_handle() {
    for abort in [false, true] {
        let rig = Rig::new();
        let own: Own<()> = Rc::default();
        let within = Rc::clone(&own);
        let task = rig.spawn(async move {
            yields(1).await;
            let handle = within.take().expect("it is there");
            if abort {
                handle.abort();
            }
            yields(1).await;
            drop(handle);
        });
        *own.borrow_mut() = Some(task);
        rig.settle();
        rig.end();
    }
}

#[test]
fn a_future_that_aborts_itself_in_its_drop() {
    struct Aborts(Own<()>);
    impl Drop for Aborts {
        fn drop(&mut self) {
            self.0.borrow().as_ref().expect("it is there").abort();
        }
    }
    let rig = Rig::new();
    let own: Own<()> = Rc::default();
    let aborts = Aborts(Rc::clone(&own));
    let task = rig.spawn(async move {
        let _aborts = aborts;
        pending::<()>().await;
    });
    *own.borrow_mut() = Some(task);
    rig.settle();
    own.borrow().as_ref().expect("it is there").abort();
    assert_eq!(message(result(own.take().expect("it is there"))), "(cancelled)");
    rig.end();
}

#[test]
fn closing_drops_futures_in_the_order_of_spawning() {
    let rig = Rig::new();
    let log = Log::default();
    let spawn = |name| {
        let held = Traced(name, log.clone());
        rig.spawn(async move {
            yields(1).await;
            let _held = held;
            pending::<()>().await;
        })
    };
    let (a, b, c, d) = (spawn("a"), spawn("b"), spawn("c"), spawn("d"));
    rig.tasks.run(2);
    b.abort();
    assert_eq!(log.take(), ["b dropped"]);
    rig.tasks.close();
    assert_eq!(log.take(), ["a dropped", "c dropped", "d dropped"]);
    assert_eq!((rig.tasks.len(), rig.tasks.has_ready()), (0, false));
    for task in [a, b, c, d] {
        assert_eq!(message(result(task)), "(cancelled)");
    }
    rig.end();
}

#[test]
fn what_is_started_during_or_after_the_close_ends_at_once() {
    let rig = Rc::new(Rig::new());
    let log = Log::default();
    struct SpawnsMore(Rc<Rig>, Log);
    impl Drop for SpawnsMore {
        fn drop(&mut self) {
            let held = Traced("late", self.1.clone());
            let task = self.0.spawn(async move { drop(held) });
            self.0.tasks.close();
            drop(task);
        }
    }
    let more = SpawnsMore(Rc::clone(&rig), log.clone());
    let early = rig.spawn(async move {
        let _more = more;
        pending::<()>().await;
    });
    rig.settle();
    rig.tasks.close();
    assert_eq!(log.take(), ["late dropped"]);
    let after = rig.spawn(async { 1 });
    assert!(after.is_finished());
    assert_eq!((message(result(early)), message(result(after))), ("(cancelled)", "(cancelled)"));
    Rc::into_inner(rig).expect("the tasks are gone").end();
}

#[test]
fn closed_from_within_a_poll() {
    let rig = Rc::new(Rig::new());
    let (within, log) = (Rc::clone(&rig), Log::default());
    let held = Traced("future", log.clone());
    let inner_log = log.clone();
    let task = rig.spawn(async move {
        let _held = held;
        let own = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        own.wake_by_ref();
        within.tasks.close();
        own.wake();
        inner_log.push("still in the poll");
        yields(1).await;
        inner_log.push("polled again");
    });
    rig.settle();
    assert_eq!(log.take(), ["still in the poll", "future dropped"]);
    assert_eq!(message(result(task)), "(cancelled)");
    Rc::into_inner(rig).expect("the task is gone").end();
}

#[test]
fn handles_and_wakers_outlive_their_worker() {
    let rig = Rig::new();
    let place = Place::default();
    let (pending, done) = (rig.spawn(stuck(&place)), rig.spawn(async { vec![1_u8; 100] }));
    rig.settle();
    let (waker, pool) = (place.take(), rig.pool.clone());
    drop(rig);
    waker.wake_by_ref();
    let copy = waker.clone();
    waker.wake();
    assert_eq!(result(done).expect("it ended before"), vec![1_u8; 100]);
    assert_eq!(message(result(pending)), "(cancelled)");
    assert!(super::rig::cell_bytes(&pool) > 0);
    drop(copy);
    assert_eq!(super::rig::cell_bytes(&pool), 0);
}

#[test]
fn a_refused_future_comes_back() {
    let rig = Rig::with_line(MemoryLimit::kib(600));
    let mut tasks = Vec::new();
    let refused = loop {
        let marker = tasks.len();
        let block = [0_u8; 60_000];
        let future = async move {
            pending::<()>().await;
            (block, marker)
        };
        match rig.tasks.spawn(future) {
            Ok(task) => tasks.push(task),
            Err((_over, future)) => break future,
        }
    };
    assert!(!tasks.is_empty() && tasks.len() <= 9, "{} cells of 64 KiB", tasks.len());
    assert_eq!(rig.tasks.len(), tasks.len());
    tasks.pop().expect("there is one").abort();
    rig.settle();
    drop(rig.tasks.spawn(refused).map_err(|(over, _)| over).expect("there is room again"));
    drop(tasks);
    rig.end();
}

#[test]
fn a_future_over_the_largest_class_is_refused() {
    let rig = Rig::new();
    let block = [1_u8; 131_072];
    let (_over, future) = rig.tasks.spawn(async move { block.len() }).expect_err("128 KiB and a header");
    drop(future);
    let small = Rc::new(Cell::new(0));
    let output = rig.tasks.spawn(async move { [small.get(); 140_000] });
    assert!(output.is_err(), "the output needs the place as well");
    drop(output);
    rig.end();
}

#[test]
fn alignment_is_kept() {
    #[repr(align(4096))]
    struct Page(u8);
    #[repr(align(64))]
    struct Line(u8);
    let rig = Rig::new();
    let (page, line) = (Page(1), Line(2));
    let place = Place::default();
    let left = place.clone();
    let task = rig.spawn(async move {
        poll_fn(|cx| {
            left.put(cx.waker());
            Poll::Ready(())
        })
        .await;
        yields(1).await;
        let aligned = (&raw const page).is_aligned() && (&raw const line).is_aligned();
        aligned.then_some(Page(page.0 + line.0))
    });
    rig.settle();
    assert_eq!(result(task).expect("an output").expect("aligned").0, 3);
    drop(place.take());
    rig.end();
}

#[test]
fn handles_and_errors_can_be_printed() {
    let rig = Rig::new();
    let task = rig.spawn(async { panic!("with a text") });
    assert_eq!(format!("{task:?}"), "JoinHandle { is_finished: false }");
    rig.settle();
    let error = result::<()>(task).expect_err("it panicked");
    assert_eq!(error.to_string(), "the task panicked, a bug in it: with a text");
    assert_eq!(format!("{error:?}"), "Panicked(\"with a text\")");
    assert!(error.is_panic() && !error.is_cancelled());
    assert!(JoinError::Cancelled.is_cancelled() && !JoinError::Cancelled.is_panic());
    assert!(JoinError::Cancelled.to_string().contains("cancelled"));
    rig.end();
}
