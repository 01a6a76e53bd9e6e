//! Wakers on other threads: while the worker sleeps, while it polls, after it has ended.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};

use super::super::Tasks;
use super::rig::{Place, Rig, cell_bytes, message, result, stuck, yields};

/// Rounds of the tests that look for races.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };

/// A bell that a worker waits for.
#[derive(Default)]
struct Alarm {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    fn ring(&self) {
        *self.rung.lock().expect("nobody panics") = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().expect("nobody panics");
        while !*rung {
            rung = self.changed.wait(rung).expect("nobody panics");
        }
        *rung = false;
    }
}

/// A worker that sleeps when nothing is ready, until `done`.
fn run_until(tasks: &Tasks, alarm: &Alarm, done: impl Fn() -> bool) {
    while !done() {
        tasks.run(8);
        if !done() && tasks.prepare_sleep() {
            alarm.wait();
        }
        tasks.woke();
    }
}

fn worker() -> (Tasks, Pool, Arc<Alarm>) {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(16)), PoolConfig::default()).expect("address space is plenty");
    let alarm = Arc::<Alarm>::default();
    let bell = Arc::clone(&alarm);
    (Tasks::new(&pool, Arc::new(move || bell.ring())), pool, alarm)
}

#[test]
fn a_sleeping_worker_is_rung_once() {
    let rig = Rig::new();
    let (one, two) = (Place::default(), Place::default());
    let (a, b) = (rig.spawn(stuck(&one)), rig.spawn(stuck(&two)));
    rig.settle();
    let (one_waker, two_waker) = (one.take(), two.take());
    let wake = || {
        thread::scope(|scope| {
            scope.spawn(|| {
                two_waker.wake_by_ref();
                one_waker.wake_by_ref();
                two_waker.wake_by_ref();
            });
        });
    };
    wake();
    assert_eq!(rig.rung(), 0, "it is awake");
    assert!(rig.tasks.has_ready() && !rig.tasks.prepare_sleep());
    assert_eq!(rig.settle(), 2);
    assert!(rig.tasks.prepare_sleep());
    wake();
    assert_eq!(rig.rung(), 1);
    rig.tasks.woke();
    assert_eq!(rig.settle(), 2);
    drop((a, b, one, two, one_waker, two_waker));
    rig.end();
}

/// Also one that announced its sleep and was woken by something else, such as a timer: a ring costs a system call.
#[test]
fn a_worker_that_is_awake_again_is_not_rung() {
    let rig = Rig::new();
    let (task, waker, place) = rig.stuck();
    assert!(rig.tasks.prepare_sleep());
    rig.tasks.woke();
    thread::scope(|scope| {
        scope.spawn(|| waker.wake_by_ref());
    });
    assert_eq!(rig.rung(), 0);
    assert_eq!(rig.settle(), 1, "it finds the wake by itself");
    drop((task, place, waker));
    rig.end();
}

#[test]
fn a_wake_after_the_end_rings_nobody() {
    let rig = Rig::new();
    let (task, waker, _place) = rig.stuck();
    task.abort();
    assert!(rig.tasks.prepare_sleep());
    thread::scope(|scope| {
        scope.spawn(|| waker.wake_by_ref());
    });
    assert_eq!(rig.rung(), 0);
    rig.tasks.woke();
    assert!(!rig.tasks.has_ready());
    drop((task, waker));
    rig.end();
}

#[test]
fn a_worker_wakes_the_tasks_of_another() {
    let rig = Rig::new();
    let (task, waker, place) = rig.stuck();
    assert!(rig.tasks.prepare_sleep());
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = Rig::new();
            let waker = waker.clone();
            let task = other.spawn(async move { waker.wake() });
            other.settle();
            result(task).expect("an output");
            other.end();
        });
    });
    assert_eq!(rig.rung(), 1);
    rig.tasks.woke();
    assert_eq!(rig.settle(), 1);
    drop((task, place, waker));
    rig.end();
}

#[test]
fn remote_wakes_keep_their_order() {
    let rig = Rig::new();
    let order = Rc::new(std::cell::RefCell::new(Vec::new()));
    let mut wakers = Vec::new();
    for name in 0..5 {
        let (place, order) = (Place::default(), Rc::clone(&order));
        let left = place.clone();
        drop(rig.spawn(poll_fn(move |cx| {
            order.borrow_mut().push(name);
            left.put(cx.waker());
            Poll::<()>::Pending
        })));
        rig.settle();
        wakers.push(place.take());
    }
    order.take();
    thread::scope(|scope| {
        scope.spawn(move || [3, 0, 4, 1].map(|name: usize| wakers[name].wake_by_ref()));
    });
    assert_eq!(rig.settle(), 4);
    assert_eq!(order.take(), [3, 0, 4, 1]);
    rig.end();
}

#[test]
fn wakes_until_the_poll_are_one_poll_whatever_their_thread() {
    let rig = Rig::new();
    let (task, waker, place) = rig.stuck();
    let remote = || {
        thread::scope(|scope| {
            scope.spawn(|| waker.wake_by_ref());
        });
    };
    remote();
    waker.wake_by_ref();
    assert_eq!(rig.settle(), 1, "remote, then local");
    waker.wake_by_ref();
    remote();
    remote();
    assert_eq!(rig.settle(), 1, "local, then remote");
    drop((task, place, waker));
    rig.end();
}

#[test]
fn no_wake_is_lost() {
    let (tasks, pool, alarm) = worker();
    let wakes = Arc::new(AtomicUsize::new(0));
    let (send, receive) = mpsc::channel::<Waker>();
    let waking = Arc::clone(&wakes);
    let waker_thread = thread::spawn(move || {
        for (round, waker) in receive.into_iter().enumerate() {
            waking.fetch_add(1, Ordering::Release);
            if round % 3 == 0 { waker.wake_by_ref() } else { waker.wake() }
        }
    });
    let seen = Arc::clone(&wakes);
    let rounds = Rc::new(Cell::new(0));
    let counted = Rc::clone(&rounds);
    let send = Cell::new(Some(send));
    let task = tasks.spawn(poll_fn(move |cx| {
        // Each wake is answered by asking for the next.
        let seen = seen.load(Ordering::Acquire);
        if seen == ROUNDS {
            send.take();
            return Poll::Ready(());
        }
        if seen == counted.get() {
            counted.set(seen + 1);
            let sender = send.take().expect("there until the end");
            sender.send(cx.waker().clone()).expect("the thread listens");
            send.set(Some(sender));
        }
        Poll::Pending
    }));
    let task = task.map_err(|(over, _)| over).expect("there is room");
    run_until(&tasks, &alarm, || task.is_finished());
    waker_thread.join().expect("it ends");
    result(task).expect("an output");
    drop(tasks);
    assert_eq!(cell_bytes(&pool), 0);
}

#[test]
fn many_threads_wake_many_tasks_while_they_run() {
    const TASKS: usize = 16;
    const THREADS: usize = 3;
    let (tasks, pool, alarm) = worker();
    let stop = Arc::new(AtomicBool::new(false));
    let mut handles = Vec::new();
    let mut wakers = Vec::new();
    for _ in 0..TASKS {
        let (place, stop) = (Place::default(), Arc::clone(&stop));
        let left = place.clone();
        let mut polling = false;
        let task = tasks.spawn(poll_fn(move |cx| {
            assert!(!core::mem::replace(&mut polling, true), "polled twice at once");
            left.put(cx.waker());
            polling = false;
            if stop.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        }));
        handles.push(task.map_err(|(over, _)| over).expect("there is room"));
        tasks.run(usize::MAX);
        wakers.push(place.take());
    }
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (wakers, stop) = (wakers.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let waker = wakers[(round * 7 + thread) % TASKS].clone();
                    if round % 2 == 0 { waker.wake() } else { waker.wake_by_ref() }
                }
                stop.store(true, Ordering::Release);
                for waker in wakers {
                    waker.wake();
                }
            })
        })
        .collect();
    drop(wakers);
    run_until(&tasks, &alarm, || tasks.len() == 0);
    for thread in threads {
        thread.join().expect("it ends");
    }
    drop((handles, tasks));
    assert_eq!(cell_bytes(&pool), 0);
}

#[test]
fn the_worker_ends_while_other_threads_wake() {
    for _ in 0..ROUNDS / 20 {
        let (tasks, pool, _alarm) = worker();
        let mut wakers = Vec::new();
        for _ in 0..4 {
            let place = Place::default();
            let task = tasks.spawn(stuck(&place)).map_err(|(over, _)| over).expect("there is room");
            drop(task);
            tasks.run(1);
            wakers.push(place.take());
        }
        let sleeping = tasks.prepare_sleep();
        assert!(sleeping);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let wakers = wakers.clone();
                thread::spawn(move || {
                    for waker in wakers {
                        waker.wake_by_ref();
                        drop(waker.clone());
                        waker.wake();
                    }
                })
            })
            .collect();
        drop(wakers);
        tasks.woke();
        tasks.run(1);
        drop(tasks);
        for thread in threads {
            thread.join().expect("it ends");
        }
        assert_eq!(cell_bytes(&pool), 0);
    }
}

#[test]
fn the_last_waker_is_dropped_elsewhere() {
    let rig = Rig::new();
    let (task, waker, place) = rig.stuck();
    let second = waker.clone();
    task.abort();
    assert_eq!(message(result(task)), "(cancelled)");
    let pool = rig.pool.clone();
    drop((rig, place));
    thread::scope(|scope| {
        scope.spawn(move || drop(second));
    });
    assert!(cell_bytes(&pool) > 0);
    thread::scope(|scope| {
        scope.spawn(move || drop(waker));
    });
    assert_eq!(cell_bytes(&pool), 0);
}

#[test]
fn a_thread_after_the_workers_is_not_taken_for_it() {
    let waker = thread::spawn(|| {
        let rig = Rig::new();
        let place = Place::default();
        drop(rig.spawn(stuck(&place)));
        rig.settle();
        let waker = place.take();
        rig.tasks.close();
        waker
    })
    .join()
    .expect("it ends");
    // Thread-local storage of ended threads is used again, so this one may look like the worker's.
    thread::spawn(move || {
        waker.wake_by_ref();
        drop(waker.clone());
        drop(waker);
    })
    .join()
    .expect("it ends");
}

#[test]
fn a_spare_whose_waker_is_elsewhere_is_replaced() {
    let (tasks, pool, alarm) = worker();
    let (send, receive) = mpsc::channel::<Waker>();
    let dropper = thread::spawn(move || receive.into_iter().for_each(Waker::wake));
    let make = || {
        let send = send.clone();
        poll_fn(move |cx| {
            send.send(cx.waker().clone()).expect("the thread listens");
            Poll::Ready(())
        })
    };
    let mut cell = tasks.spare().expect("there is room");
    for _ in 0..ROUNDS {
        let super::super::Started::Ready((), again) = tasks.start(cell, make) else { panic!("it is ready") };
        cell = again;
        tasks.run(4);
    }
    let task = tasks.spawn(yields(2)).map_err(|(over, _)| over).expect("there is room");
    run_until(&tasks, &alarm, || task.is_finished());
    drop((cell, send, task));
    dropper.join().expect("it ends");
    drop(tasks);
    assert_eq!(cell_bytes(&pool), 0);
}

/// As many as would reach the limit of a count in tests, were they alive.
const MANY: usize = 3 << 16;

/// Nothing here is alive for long: clones of a waker that are made here and dropped elsewhere, and the cells of tasks
/// whose last waker is.
#[test]
fn wakers_and_cells_that_go_elsewhere_reach_no_limit() {
    let rig = Rig::new();
    let (send, receive) = mpsc::sync_channel::<Vec<Waker>>(2);
    let dropper = thread::spawn(move || receive.into_iter().for_each(drop));
    let (kept, waker, place) = rig.stuck();
    for _ in 0..MANY / 256 {
        send.send(vec![waker.clone(); 256]).expect("the other thread takes them");
    }
    for _ in 0..MANY / 256 {
        let wakers: Vec<Waker> = (0..256)
            .map(|_| {
                let task = rig.spawn(stuck(&place));
                rig.settle();
                task.abort();
                place.take()
            })
            .collect();
        send.send(wakers).expect("the other thread takes them");
        rig.pool.drain_remote();
    }
    drop(send);
    dropper.join().expect("it did not panic");
    drop((kept, waker));
    rig.end();
}

/// One waker, kept elsewhere, that wakes for every poll: the references are those of wakes on their way.
#[test]
fn wakes_from_elsewhere_reach_no_limit() {
    let (tasks, pool, alarm) = worker();
    let (ask, asked) = mpsc::sync_channel::<()>(1);
    let (give, given) = mpsc::channel::<Waker>();
    let other = thread::spawn(move || {
        let waker = given.recv().expect("the task leaves it");
        asked.into_iter().for_each(|()| waker.wake_by_ref());
    });
    let mut polls = 0;
    let mut task = tasks
        .spawn(poll_fn(move |cx| {
            if polls == 0 {
                give.send(cx.waker().clone()).expect("somebody listens");
            }
            polls += 1;
            if polls == MANY {
                return Poll::Ready(());
            }
            ask.send(()).expect("somebody listens");
            Poll::Pending
        }))
        .map_err(|(over, _)| over)
        .expect("there is room");
    run_until(&tasks, &alarm, || task.is_finished());
    assert!(super::rig::poll(&mut task).is_ready());
    other.join().expect("it did not panic");
    drop((task, tasks));
    assert_eq!(cell_bytes(&pool), 0);
}
