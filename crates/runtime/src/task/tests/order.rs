//! When tasks are polled: order, wakes on the worker's own thread, the limit of a run.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::future::{pending, poll_fn};
use core::task::Poll;
use std::rc::Rc;

use super::rig::{Log, Place, Rig, poll, result, stuck, yields};

#[test]
fn first_in_first_out() {
    let rig = Rig::new();
    let log = Log::default();
    for name in ["a", "b", "c"] {
        let log = log.clone();
        drop(rig.spawn(async move { log.push(name) }));
    }
    assert_eq!(rig.tasks.len(), 3);
    assert_eq!(rig.tasks.run(usize::MAX), 3);
    assert_eq!(log.take(), ["a", "b", "c"]);
    assert_eq!((rig.tasks.len(), rig.tasks.polls_total()), (0, 3));
    rig.end();
}

#[test]
fn a_task_that_wakes_itself_goes_to_the_back() {
    let rig = Rig::new();
    let log = Log::default();
    for name in ["a", "b"] {
        let log = log.clone();
        let task = async move {
            for _ in 0..2 {
                log.push(name);
                yields(1).await;
            }
        };
        drop(rig.spawn(task));
    }
    rig.settle();
    assert_eq!(log.take(), ["a", "b", "a", "b"]);
    rig.end();
}

#[test]
fn a_run_polls_at_most_as_often_as_it_was_told() {
    let rig = Rig::new();
    let endless = rig.spawn(yields(usize::MAX));
    let one = rig.spawn(async { 1 });
    assert_eq!(rig.tasks.run(1), 1);
    assert!(!one.is_finished() && rig.tasks.has_ready());
    assert_eq!(rig.tasks.run(1), 1);
    assert!(one.is_finished());
    assert_eq!(rig.tasks.run(100), 100);
    endless.abort();
    assert_eq!(rig.tasks.run(100), 0, "it is in the list, but there is nothing to poll");
    assert!(!rig.tasks.has_ready());
    drop((endless, one));
    rig.end();
}

#[test]
fn many_wakes_are_one_poll() {
    let rig = Rig::new();
    let (task, waker, place) = rig.stuck();
    for _ in 0..3 {
        let copy = waker.clone();
        waker.wake_by_ref();
        copy.wake();
    }
    assert_eq!(rig.settle(), 1);
    drop((waker, place.take(), task));
    assert_eq!(rig.tasks.len(), 1, "a pending task lives on without its handle");
    rig.end();
}

#[test]
fn a_wake_during_the_poll_queues_it_again_once() {
    let rig = Rig::new();
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let task = rig.spawn(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        let copy = cx.waker().clone();
        cx.waker().wake_by_ref();
        copy.wake();
        if counted.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(rig.settle(), 3);
    assert_eq!(polls.get(), 3);
    assert!(task.is_finished());
    drop(task);
    rig.end();
}

#[test]
fn a_wake_after_the_end_does_nothing() {
    let rig = Rig::new();
    let place = Place::default();
    let left = place.clone();
    let task = rig.spawn(poll_fn(move |cx| {
        left.put(cx.waker());
        Poll::Ready(7)
    }));
    rig.settle();
    let waker = place.take();
    waker.wake_by_ref();
    assert!(!rig.tasks.has_ready());
    assert_eq!(result(task).expect("an output"), 7);
    waker.wake_by_ref();
    assert!(!rig.tasks.has_ready() && rig.cell_bytes() > 0, "the waker keeps the cell");
    drop(waker);
    assert_eq!(rig.cell_bytes(), 0);
    rig.end();
}

#[test]
fn a_run_within_a_poll_does_nothing() {
    let rig = Rc::new(Rig::new());
    let within = Rc::clone(&rig);
    let task = rig.spawn(poll_fn(move |cx| {
        cx.waker().wake_by_ref();
        Poll::Ready(within.tasks.run(usize::MAX))
    }));
    let other = rig.spawn(async {});
    assert_eq!(rig.settle(), 2);
    assert_eq!(result(task).expect("an output"), 0);
    drop(other);
}

#[test]
fn the_current_task_is_known_in_its_poll_only() {
    let rig = Rc::new(Rig::new());
    let mut ids = Vec::new();
    assert_eq!(rig.tasks.current(), None);
    for _ in 0..2 {
        let within = Rc::clone(&rig);
        let task = rig.spawn(async move {
            let first = within.tasks.current();
            yields(1).await;
            (first, within.tasks.current())
        });
        rig.settle();
        let (first, second) = result(task).expect("an output");
        assert!(first.is_some() && first == second);
        ids.push(first);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(rig.tasks.current(), None);
}

#[test]
fn an_observer_learns_names_and_ends_a_run() {
    let rig = Rig::new();
    drop((rig.spawn(async {}), rig.spawn(pending::<()>())));
    let mut names = Vec::new();
    let polls = rig.tasks.run_observed(usize::MAX, |name| {
        names.push(name);
        true
    });
    assert_eq!(polls, 1, "the first poll stalled");
    assert_eq!(rig.tasks.run_observed(usize::MAX, |name| !names.contains(&name) && name.contains("Pending")), 1);
    assert!(names[0].contains("an_observer_learns"), "{names:?}");
    rig.end();
}

#[test]
fn an_observer_that_panics_leaves_a_worker_that_runs() {
    let rig = Rig::new();
    drop((rig.spawn(async {}), rig.spawn(async {})));
    let run = || rig.tasks.run_observed(usize::MAX, |_| panic!("observer"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    assert_eq!(rig.tasks.run(usize::MAX), 1);
    rig.end();
}

#[test]
fn two_workers_of_one_thread_keep_their_tasks_apart() {
    let (one, two) = (Rig::new(), Rig::new());
    let (at_one, at_two) = (Place::default(), Place::default());
    let (a, b) = (one.spawn(stuck(&at_one)), two.spawn(stuck(&at_two)));
    one.settle();
    two.settle();
    at_two.take().wake();
    assert!(!one.tasks.has_ready() && two.tasks.has_ready());
    at_one.take().wake();
    assert_eq!((one.settle(), two.settle()), (1, 1));
    drop((a, b, at_one, at_two));
    one.end();
    two.end();
}

#[test]
fn nothing_sleeps_while_something_is_ready() {
    let rig = Rig::new();
    let mut task = rig.spawn(async {});
    assert!(!rig.tasks.prepare_sleep());
    rig.settle();
    assert!(poll(&mut task).is_ready());
    assert!(rig.tasks.prepare_sleep());
    rig.tasks.woke();
    rig.tasks.woke();
    assert_eq!(rig.rung(), 0);
    drop(task);
    rig.end();
}
