//! Every interleaving of small programs over the lock-free parts: `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-runtime --lib loom`.
//!
//! * A wake from another thread is either seen by the worker before it sleeps, or rings.
//! * A node is taken exactly once, with what its pusher wrote before; after the close nothing is pushed.
//! * The last reference is found exactly once, after everything that others did with theirs.
//!
//! **I-LOOM**: loom sees every access to its cells in these programs, and fails the test if two of them are not ordered.
#![allow(unsafe_code)]

use core::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;

use super::count::{Count, Side};
use super::inject::{Inject, Pushed};

/// For three threads that loop: all interleavings with up to three preemptions.
fn bounded(program: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(program);
}

struct Node {
    link: AtomicPtr<Node>,
    /// Written by the pusher, read by the worker: loom complains if nothing orders the two.
    value: UnsafeCell<usize>,
}

impl Node {
    fn new() -> Self {
        Self { link: AtomicPtr::new(core::ptr::null_mut()), value: UnsafeCell::new(0) }
    }
}

struct Worker {
    inject: Inject<Node>,
    nodes: Vec<Node>,
    bell: Notify,
    rung: AtomicUsize,
}

// SAFETY: I-LOOM: loom checks the accesses to the values; the rest is atomic.
unsafe impl Sync for Worker {}
// SAFETY: I-LOOM: as above.
unsafe impl Send for Worker {}

impl Worker {
    fn new(nodes: usize) -> Arc<Self> {
        let nodes = (0..nodes).map(|_| Node::new()).collect();
        Arc::new(Self { inject: Inject::new(), nodes, bell: Notify::new(), rung: AtomicUsize::new(0) })
    }

    fn push(&self, index: usize) -> Pushed {
        let node = &self.nodes[index];
        // SAFETY: I-LOOM: a node is pushed once, and belongs to its pusher until then.
        node.value.with_mut(|value| unsafe { *value = index + 1 });
        let pushed = self.inject.push(NonNull::from(node), &node.link);
        if pushed == Pushed::Ring {
            self.rung.fetch_add(1, Ordering::Relaxed);
            self.bell.notify();
        }
        pushed
    }

    /// Follows a chain; gives how many nodes were in it.
    fn count(&self, mut node: *mut Node) -> usize {
        let mut count = 0;
        while let Some(index) = self.nodes.iter().position(|known| core::ptr::eq(known, node)) {
            // SAFETY: I-LOOM: it was taken off the stack.
            let value = self.nodes[index].value.with_mut(|value| unsafe { core::mem::take(&mut *value) });
            assert_eq!(value, index + 1, "written before it was pushed, taken once");
            node = self.nodes[index].link.load(Ordering::Relaxed);
            count += 1;
        }
        assert!(node.is_null(), "a chain of nodes");
        count
    }
}

#[test]
fn loom_no_wake_is_lost() {
    bounded(|| {
        let worker = Worker::new(2);
        let pushers: Vec<_> = (0..2)
            .map(|index| {
                let worker = Arc::clone(&worker);
                thread::spawn(move || assert_ne!(worker.push(index), Pushed::Closed))
            })
            .collect();
        let mut taken = worker.count(worker.inject.take());
        while taken < 2 {
            if worker.inject.prepare_sleep() {
                // If a wake were lost, nobody would ring, and loom would report the deadlock.
                worker.bell.wait();
            }
            worker.inject.woke();
            taken += worker.count(worker.inject.take());
        }
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert!(worker.inject.is_empty());
    });
}

#[test]
fn loom_a_sleep_ends_with_one_ring() {
    loom::model(|| {
        let worker = Worker::new(2);
        assert!(worker.inject.prepare_sleep());
        let other = Arc::clone(&worker);
        let pusher = thread::spawn(move || assert_ne!(other.push(0), Pushed::Closed));
        let _ = worker.push(1);
        pusher.join().unwrap();
        assert_eq!(worker.rung.load(Ordering::Relaxed), 1);
        worker.inject.woke();
        assert_eq!(worker.count(worker.inject.take()), 2);
    });
}

#[test]
fn loom_a_sleep_that_was_called_off() {
    loom::model(|| {
        let worker = Worker::new(1);
        let other = Arc::clone(&worker);
        let pusher = thread::spawn(move || assert_ne!(other.push(0), Pushed::Closed));
        let asleep = worker.inject.prepare_sleep();
        worker.inject.woke();
        pusher.join().unwrap();
        assert!(asleep || worker.rung.load(Ordering::Relaxed) == 0, "only a sleep is rung");
        assert!(!worker.inject.prepare_sleep(), "the node is there");
        assert_eq!(worker.count(worker.inject.take()), 1);
    });
}

#[test]
fn loom_after_the_close_nothing_is_pushed() {
    loom::model(|| {
        let worker = Worker::new(2);
        let pushers: Vec<_> = (0..2)
            .map(|index| {
                let worker = Arc::clone(&worker);
                thread::spawn(move || usize::from(worker.push(index) != Pushed::Closed))
            })
            .collect();
        let mut taken = worker.count(worker.inject.take());
        taken += worker.count(worker.inject.close());
        let pushed: usize = pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum();
        assert_eq!(taken, pushed);
        assert!(worker.inject.take().is_null() && worker.inject.is_empty());
    });
}

/// A wake as `remote.rs` does it, against a worker that takes, clears and polls.
#[test]
fn loom_what_came_before_a_wake_is_seen_by_a_poll_after_it() {
    struct Cell {
        notify: loom::sync::atomic::AtomicU8,
        data: AtomicUsize,
    }
    bounded(|| {
        let worker = Worker::new(1);
        let cell = Arc::new(Cell { notify: loom::sync::atomic::AtomicU8::new(0), data: AtomicUsize::new(0) });
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (worker, cell) = (Arc::clone(&worker), Arc::clone(&cell));
                thread::spawn(move || {
                    cell.data.fetch_add(1, Ordering::Relaxed);
                    if cell.notify.fetch_or(1, Ordering::Release) == 0 {
                        // The first wake only: a node of this test is pushed once.
                        let node = &worker.nodes[0];
                        if worker.inject.push(NonNull::from(node), &node.link) == Pushed::Ring {
                            worker.bell.notify();
                        }
                    }
                })
            })
            .collect();
        let mut seen = 0;
        while seen < 2 {
            if worker.inject.prepare_sleep() {
                worker.bell.wait();
            }
            worker.inject.woke();
            if !worker.inject.take().is_null() {
                cell.notify.fetch_and(!1, Ordering::Acquire);
                seen = cell.data.load(Ordering::Relaxed);
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

struct Counted {
    count: Count,
    /// Touched by every holder of a reference, and by whoever frees.
    value: UnsafeCell<usize>,
    freed: AtomicBool,
}

// SAFETY: I-LOOM: loom checks the value; `count` keeps its plain part to the owner's thread, as the tests call it.
unsafe impl Sync for Counted {}
// SAFETY: I-LOOM: as above.
unsafe impl Send for Counted {}

impl Counted {
    fn new() -> Arc<Self> {
        Arc::new(Self { count: Count::new(), value: UnsafeCell::new(0), freed: AtomicBool::new(false) })
    }

    fn read(&self) {
        // SAFETY: I-LOOM: nobody writes while there is a reference; loom checks that.
        self.value.with(|value| assert_eq!(unsafe { *value }, 0, "freed while there is a reference"));
    }

    fn remove(&self, side: Side) {
        self.read();
        if self.count.remove(side) {
            self.free();
        }
    }

    /// A reference is dropped by another thread, after a copy of it was made and dropped there.
    fn drop_elsewhere(thing: &Arc<Self>) -> thread::JoinHandle<()> {
        let other = Arc::clone(thing);
        thread::spawn(move || {
            other.count.add(Side::Other);
            other.remove(Side::Other);
            other.remove(Side::Other);
        })
    }

    fn merge(&self) {
        if self.count.merge() {
            self.free();
        }
    }

    fn free(&self) {
        assert!(!self.freed.swap(true, Ordering::Relaxed), "freed twice");
        // SAFETY: I-LOOM: the last reference is gone; loom checks that.
        self.value.with_mut(|value| unsafe { *value = 1 });
    }
}

#[test]
fn loom_the_last_reference_is_found_once() {
    loom::model(|| {
        let thing = Counted::new();
        thing.count.add(Side::Owner);
        let holder = Counted::drop_elsewhere(&thing);
        thing.merge();
        holder.join().unwrap();
        assert!(thing.freed.load(Ordering::Relaxed));
    });
}

#[test]
fn loom_references_that_change_sides() {
    loom::model(|| {
        let thing = Counted::new();
        let (first, second) = (Arc::new(AtomicBool::new(false)), Arc::clone(&thing));
        thing.count.add(Side::Owner);
        let handed_over = Arc::clone(&first);
        let holder = thread::spawn(move || {
            // A copy for the owner, handed over by the flag.
            second.count.add(Side::Other);
            handed_over.store(true, Ordering::Release);
            second.remove(Side::Other);
        });
        let has_copy = first.load(Ordering::Acquire);
        if has_copy {
            thing.remove(Side::Owner);
        }
        thing.merge();
        if !has_copy {
            // The owner's thread drops it late, when the count is merged.
            while !first.load(Ordering::Acquire) {
                thread::yield_now();
            }
            thing.remove(Side::Owner);
        }
        holder.join().unwrap();
        assert!(thing.freed.load(Ordering::Relaxed));
    });
}

#[test]
fn loom_unshared_means_that_nobody_has_a_reference() {
    loom::model(|| {
        let thing = Counted::new();
        thing.count.add(Side::Owner);
        let holder = Counted::drop_elsewhere(&thing);
        if thing.count.is_unshared() {
            // Used for something new, as a spare cell is: nobody may still read the old.
            // SAFETY: I-LOOM.
            thing.value.with_mut(|value| unsafe { *value = 0 });
        }
        holder.join().unwrap();
        assert!(thing.count.is_unshared());
        thing.merge();
        assert!(thing.freed.load(Ordering::Relaxed));
    });
}
