//! Futures that are started on the spot in a cell kept ready.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::future::{Future, poll_fn, ready};
use core::pin::Pin;
use core::task::Poll;
use std::rc::Rc;

use plimsoll_pool::MemoryLimit;

use super::super::{Spare, Started};
use super::rig::{Bomb, Log, Place, Rig, Traced, message, result, yields};

fn spare<F: Future + 'static>(rig: &Rig, _like: &impl Fn() -> F) -> Spare<F> {
    rig.tasks.spare().expect("there is room")
}

#[test]
fn ready_at_once_and_used_again() {
    let rig = Rig::new();
    let make = || async { 5 };
    let mut cell = spare(&rig, &make);
    let bytes = rig.cell_bytes();
    for _ in 0..3 {
        let Started::Ready(output, again) = rig.tasks.start(cell, make) else { panic!("it is ready") };
        assert_eq!((output, rig.cell_bytes(), rig.tasks.len()), (5, bytes, 0));
        cell = again;
    }
    assert!(!rig.tasks.has_ready());
    assert_eq!(rig.tasks.polls_total(), 3);
    drop(cell);
    rig.end();
}

#[test]
fn pending_becomes_an_ordinary_task() {
    let rig = Rc::new(Rig::new());
    let within = Rc::clone(&rig);
    let make = move || {
        let within = Rc::clone(&within);
        async move {
            let first = within.tasks.current();
            yields(2).await;
            (first, within.tasks.current())
        }
    };
    let cell = spare(&rig, &make);
    let Started::Pending(task) = rig.tasks.start(cell, &make) else { panic!("it yields") };
    assert_eq!((rig.tasks.len(), rig.tasks.current()), (1, None));
    assert_eq!(rig.settle(), 2);
    let (first, second) = result(task).expect("an output");
    assert!(first.is_some() && first == second);
    drop(make);
    Rc::into_inner(rig).expect("nothing is left").end();
}

#[test]
fn a_waker_that_was_kept_takes_the_cell() {
    let rig = Rig::new();
    let place = Place::default();
    let left = place.clone();
    let make = move || {
        let left = left.clone();
        poll_fn(move |cx| {
            left.put(cx.waker());
            Poll::Ready(1)
        })
    };
    let cell = spare(&rig, &make);
    let bytes = rig.cell_bytes();
    let Started::Ready(1, again) = rig.tasks.start(cell, &make) else { panic!("it is ready") };
    assert_eq!(rig.cell_bytes(), 2 * bytes, "the old cell and a fresh one");
    let waker = place.take();
    waker.wake_by_ref();
    std::thread::scope(|scope| {
        scope.spawn(|| waker.wake_by_ref());
    });
    assert!(!rig.tasks.has_ready(), "nothing is on its way");
    assert_eq!(rig.settle(), 0);
    drop(waker);
    assert_eq!(rig.cell_bytes(), bytes);
    drop(again);
    rig.end();
}

#[test]
fn no_room_for_another_cell() {
    let rig = Rig::with_line(MemoryLimit::kib(600));
    let place = Place::default();
    let left = place.clone();
    let make = move || {
        let left = left.clone();
        let block = [0_u8; 60_000];
        poll_fn(move |cx| {
            left.put(cx.waker());
            Poll::Ready(block.len())
        })
    };
    let cell = spare(&rig, &make);
    let mut others = Vec::new();
    while let Ok(other) = rig.pool.try_acquire(64, plimsoll_pool::Kind::Buffers) {
        others.push(other);
    }
    while let Ok(other) = rig.pool.try_acquire(65_536, plimsoll_pool::Kind::Buffers) {
        others.push(other);
    }
    let Started::ReadyNoSpare(60_000) = rig.tasks.start(cell, &make) else { panic!("ready, and no room") };
    drop((others, place.take()));
    rig.end();
}

#[test]
fn a_wake_of_itself_before_it_is_ready_is_harmless() {
    let rig = Rig::new();
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let make = move || {
        let counted = Rc::clone(&counted);
        poll_fn(move |cx| {
            counted.set(counted.get() + 1);
            cx.waker().wake_by_ref();
            if counted.get() % 2 == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
    };
    let cell = spare(&rig, &make);
    let Started::Ready((), cell) = rig.tasks.start(cell, &make) else { panic!("the first is ready") };
    assert!(rig.tasks.has_ready(), "the cell is in the list with nothing to poll");
    let Started::Pending(task) = rig.tasks.start(cell, &make) else { panic!("the second is not") };
    assert_eq!(rig.settle(), 1);
    assert!(task.is_finished());
    let cell = spare(&rig, &make);
    let Started::Pending(second) = rig.tasks.start(cell, &make) else { panic!("nor the fourth") };
    rig.settle();
    drop((task, second));
    let (first, second) = (spare(&rig, &make), spare(&rig, &make));
    polls.set(0);
    let Started::Ready((), first) = rig.tasks.start(first, &make) else { panic!("ready") };
    drop((first, second));
    assert_eq!(rig.settle(), 0, "dropped while it was in the list");
    drop(make);
    rig.end();
}

#[test]
fn panics_in_the_making_the_poll_and_the_drop() {
    type Boxed = Pin<Box<dyn Future<Output = u32>>>;
    let rig = Rig::new();
    let log = Log::default();
    let cell = rig.tasks.spare::<Boxed>().expect("there is room");
    let Started::Panicked(payload, Some(cell)) = rig.tasks.start(cell, || panic!("make")) else { panic!("it panics") };
    assert_eq!(payload.downcast_ref(), Some(&"make"));
    let held = Traced("future", log.clone());
    let started = rig.tasks.start(cell, || {
        Box::pin(async move {
            let _held = held;
            panic!("poll")
        })
    });
    let Started::Panicked(payload, Some(cell)) = started else { panic!("it panics") };
    assert_eq!(payload.downcast_ref(), Some(&"poll"));
    assert_eq!(log.take(), ["future dropped"]);
    struct Both(#[expect(dead_code)] Bomb);
    impl Future for Both {
        type Output = u32;
        fn poll(self: Pin<&mut Self>, _: &mut core::task::Context<'_>) -> Poll<u32> {
            Poll::Ready(9)
        }
    }
    let Started::Ready(9, cell) = rig.tasks.start(cell, || Box::pin(Both(Bomb("drop")))) else {
        panic!("the output counts")
    };
    assert!(!rig.tasks.has_ready());
    drop(cell);
    rig.end();
}

#[test]
fn starts_within_a_task_and_within_each_other() {
    let rig = Rc::new(Rig::new());
    let within = Rc::clone(&rig);
    let task = rig.spawn(async move {
        let outer = within.tasks.current();
        let cell = within.tasks.spare().expect("there is room");
        let deeper = Rc::clone(&within);
        let started = within.tasks.start(cell, || async move {
            let middle = deeper.tasks.current();
            let cell = deeper.tasks.spare().expect("there is room");
            let Started::Ready((), cell) = deeper.tasks.start(cell, || ready(())) else { panic!("it is ready") };
            drop(cell);
            (middle, deeper.tasks.current())
        });
        let Started::Ready((before, after), cell) = started else { panic!("it is ready") };
        drop(cell);
        assert!(before.is_some() && before == after && before != outer);
        assert_eq!(within.tasks.current(), outer);
    });
    rig.settle();
    result(task).expect("an output");
    Rc::into_inner(rig).expect("nothing is left").end();
}

#[test]
fn a_run_within_a_start_does_nothing() {
    let rig = Rc::new(Rig::new());
    let within = Rc::clone(&rig);
    let mut polls = 0;
    let make = move || {
        poll_fn(move |cx| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            assert_eq!(within.tasks.run(usize::MAX), 0);
            Poll::Pending
        })
    };
    let cell = rig.tasks.spare().expect("there is room");
    let Started::Pending(task) = rig.tasks.start(cell, make) else { panic!("it waits for its wake") };
    assert_eq!(rig.settle(), 1, "the wake was not lost");
    result(task).expect("an output");
    Rc::into_inner(rig).expect("nothing is left").end();
}

#[test]
fn started_after_the_close() {
    let rig = Rig::new();
    let (one, two) = (spare(&rig, &|| yields(1)), spare(&rig, &|| ready(3)));
    rig.tasks.close();
    let Started::Pending(task) = rig.tasks.start(one, || yields(1)) else { panic!("it yields") };
    assert_eq!(message(result(task)), "(cancelled)");
    let Started::Ready(3, cell) = rig.tasks.start(two, || ready(3)) else { panic!("it is ready") };
    drop(cell);
    rig.end();
}

#[test]
fn a_spare_outlives_its_worker() {
    let rig = Rig::new();
    let cell = spare(&rig, &|| ready(()));
    let pool = rig.pool.clone();
    drop(rig);
    assert_eq!(format!("{cell:?}"), "Spare { .. }");
    drop(cell);
    assert_eq!(super::rig::cell_bytes(&pool), 0);
}

#[test]
fn a_foreign_spare_stays_with_its_worker() {
    let (one, two) = (Rig::new(), Rig::new());
    let make = || yields(1);
    let cell = spare(&one, &make);
    let Started::Pending(task) = two.tasks.start(cell, make) else { panic!("it yields") };
    assert_eq!((one.tasks.len(), two.tasks.len()), (1, 0));
    assert_eq!((one.settle(), two.settle()), (1, 0));
    drop(task);
    one.end();
    two.end();
}
