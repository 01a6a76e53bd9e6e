//! Tasks, their wakers and their cells in every interleaving of small programs, as they are, with loom's atomics and
//! cells: `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-runtime --lib loom`.
//!
//! * A wake from another thread is either seen by the worker before it sleeps, or rings, and rings once for a sleep.
//! * What came before a wake is seen by a poll after it.
//! * A cell is given back once, by whoever is the last to have it, after everything that others did with theirs; so is
//!   the core of the worker.
//! * What belongs to the worker's thread is touched there only: loom watches every cell of a header and of a core.
//!
//! The pool is the real one, too, with loom's atomics.
#![forbid(unsafe_code)]

use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};
use std::cell::RefCell;
use std::rc::Rc;

use loom::sync::Arc as Tracked;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
use plimsoll_reactor::Doorbell;

use super::{JoinHandle, Started, Tasks};

/// Every interleaving with up to so many preemptions.
fn bounded(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(program);
}

/// A worker's tasks, with a bell that it sleeps by.
struct Worker {
    tasks: Tasks,
    pool: Pool,
    bell: Doorbell,
    rings: Tracked<AtomicUsize>,
}

impl Worker {
    fn new() -> Self {
        let pool =
            Pool::new(&Budget::new(MemoryLimit::mib(16)), PoolConfig::default()).expect("address space is plenty");
        let bell = Doorbell::of_model();
        let rings = Tracked::new(AtomicUsize::new(0));
        let (rung, counted) = (bell.clone(), Tracked::clone(&rings));
        let ring = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            rung.ring();
        };
        Self { tasks: Tasks::new(&pool, std::sync::Arc::new(ring)), pool, bell, rings }
    }

    fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.tasks.spawn(future).map_err(|(over, _)| over).expect("there is room")
    }

    fn run(&self) {
        self.tasks.run_observed(usize::MAX, |_| false);
    }

    /// Turns until `done`, and sleeps when nothing is ready. A wake that is lost is a sleep without an end, which loom
    /// reports.
    fn run_until(&self, done: impl Fn() -> bool) {
        loop {
            self.run();
            if done() {
                return;
            }
            if self.tasks.prepare_sleep() {
                self.bell.wait();
            }
            self.tasks.woke();
        }
    }

    /// A task that has been polled and is pending for ever, and as many of its wakers.
    fn stuck(&self, wakers: usize) -> (JoinHandle<()>, Vec<Waker>) {
        let place = Rc::new(RefCell::new(Vec::new()));
        let given = Rc::clone(&place);
        let task = self.spawn(poll_fn(move |cx| {
            if given.borrow().is_empty() {
                given.borrow_mut().extend((0..wakers).map(|_| cx.waker().clone()));
            }
            Poll::<()>::Pending
        }));
        self.run();
        (task, place.take())
    }

    /// The worker ends, if it has not; everything has gone home.
    fn end(self) {
        let Self { tasks, pool, .. } = self;
        drop(tasks);
        pool.drain_remote();
        assert_eq!(pool.budget().charged_by(Kind::Tasks), 0, "a cell is leaked");
    }
}

#[test]
fn loom_what_comes_before_a_wake_is_seen_by_the_poll_after_it() {
    bounded(2, || {
        let worker = Worker::new();
        let data = Tracked::new(AtomicUsize::new(0));
        let (wakers, seen) = (Rc::new(RefCell::new(None)), Tracked::clone(&data));
        let mut place = Some(Rc::clone(&wakers));
        let mut task = worker.spawn(poll_fn(move |cx| {
            if let Some(place) = place.take() {
                place.replace(Some([cx.waker().clone(), cx.waker().clone()]));
            }
            // Nothing but the wake orders this load.
            if seen.load(Ordering::Relaxed) == 2 { Poll::Ready(()) } else { Poll::Pending }
        }));
        worker.run();
        let wakers = wakers.take().expect("it was polled");
        let others = wakers.map(|waker| {
            let data = Tracked::clone(&data);
            thread::spawn(move || {
                data.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            })
        });
        worker.run_until(|| task.is_finished());
        let output = core::pin::pin!(&mut task).poll(&mut core::task::Context::from_waker(Waker::noop()));
        assert!(matches!(output, Poll::Ready(Ok(()))));
        others.into_iter().for_each(|other| other.join().unwrap());
        drop(task);
        worker.end();
    });
}

#[test]
fn loom_a_sleep_ends_with_one_ring() {
    bounded(2, || {
        let worker = Worker::new();
        let (tasks, wakers): (Vec<_>, Vec<_>) = (0..2).map(|_| worker.stuck(1)).unzip();
        assert!(worker.tasks.prepare_sleep());
        let others: Vec<_> = wakers.into_iter().flatten().map(|waker| thread::spawn(move || waker.wake())).collect();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(worker.rings.load(Ordering::Relaxed), 1);
        assert!(worker.tasks.has_ready());
        worker.tasks.woke();
        worker.run();
        drop(tasks);
        worker.end();
    });
}

#[test]
fn loom_a_wake_meets_an_abort_and_the_last_handle() {
    bounded(3, || {
        let worker = Worker::new();
        let (task, wakers) = worker.stuck(2);
        let other = thread::spawn(move || {
            for waker in wakers {
                waker.wake();
            }
        });
        task.abort();
        drop(task);
        worker.run();
        other.join().unwrap();
        worker.run();
        worker.end();
    });
}

/// Nobody of the worker has the cell when the last waker goes: it is given back from elsewhere, and the core with it.
#[test]
fn loom_the_last_waker_gives_the_cell_and_the_core_back() {
    bounded(3, || {
        let worker = Worker::new();
        let (task, wakers) = worker.stuck(2);
        let [first, second] = wakers.try_into().expect("two");
        let others = [first, second].map(|waker| {
            thread::spawn(move || {
                waker.wake_by_ref();
                drop(waker);
            })
        });
        drop(task);
        let Worker { tasks, pool, .. } = worker;
        drop(tasks);
        others.into_iter().for_each(|other| other.join().unwrap());
        pool.drain_remote();
        assert_eq!(pool.budget().charged_by(Kind::Tasks), 0, "a cell is leaked");
    });
}

/// More references than the balance of a count, made on either side and dropped on the other.
#[test]
fn loom_references_that_change_sides_are_settled() {
    bounded(2, || {
        let worker = Worker::new();
        let (task, mut wakers) = worker.stuck(4);
        let mine = wakers.pop().expect("four");
        let (give, given) = loom::sync::mpsc::channel();
        let other = thread::spawn(move || {
            // Two copies for the worker, and nothing is left here.
            give.send([wakers[0].clone(), wakers[1].clone()]).unwrap();
            drop(wakers);
        });
        let copies = [mine.clone(), mine.clone()];
        drop(given.recv().unwrap());
        drop((copies, mine));
        drop(task);
        other.join().unwrap();
        worker.end();
    });
}

/// A spare cell is used again only when nobody can reach it any more.
#[test]
fn loom_a_spare_whose_waker_is_elsewhere_is_not_used_again() {
    bounded(3, || {
        let worker = Worker::new();
        let spare = worker.tasks.spare().expect("there is room");
        let leave = |place: &Rc<RefCell<Option<Waker>>>| {
            let place = Rc::clone(place);
            poll_fn(move |cx| {
                place.replace(Some(cx.waker().clone()));
                Poll::Ready(())
            })
        };
        let place = Rc::new(RefCell::new(None));
        let Started::Ready((), mut spare) = worker.tasks.start(spare, || leave(&place)) else {
            panic!("it is ready at once")
        };
        for _ in 0..2 {
            let waker = place.take().expect("it left one");
            let other = thread::spawn(move || {
                waker.wake_by_ref();
                drop(waker);
            });
            let Started::Ready((), next) = worker.tasks.start(spare, || leave(&place)) else {
                panic!("it is ready at once")
            };
            spare = next;
            other.join().unwrap();
        }
        drop((spare, place));
        worker.run();
        worker.end();
    });
}

/// Wakes that come while the worker ends and after it do nothing, and keep nothing.
#[test]
fn loom_a_worker_ends_while_others_wake() {
    bounded(2, || {
        let worker = Worker::new();
        let (one, one_wakers) = worker.stuck(1);
        let (two, two_wakers) = worker.stuck(1);
        let others: Vec<_> = [one_wakers, two_wakers]
            .into_iter()
            .flatten()
            .map(|waker| {
                thread::spawn(move || {
                    waker.wake_by_ref();
                    waker.wake();
                })
            })
            .collect();
        let asleep = worker.tasks.prepare_sleep();
        worker.tasks.woke();
        worker.tasks.close();
        assert!(one.is_finished() && two.is_finished());
        drop((one, two));
        for other in others {
            other.join().unwrap();
        }
        assert!(worker.rings.load(Ordering::Relaxed) <= usize::from(asleep), "only a sleep is rung, and once");
        worker.end();
    });
}
