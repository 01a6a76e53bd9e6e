//! A worker's tasks with a pool and a bell that counts, and futures that tell what happens to them.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};

use super::super::{JoinError, JoinHandle, Tasks};

pub(super) struct Rig {
    pub(super) tasks: Tasks,
    pub(super) pool: Pool,
    pub(super) rung: Arc<AtomicUsize>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_line(MemoryLimit::mib(16))
    }

    pub(super) fn with_line(line: MemoryLimit) -> Self {
        let pool = Pool::new(&Budget::new(line), PoolConfig::default()).expect("address space is plenty");
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        let bell = move || {
            bell.fetch_add(1, Ordering::SeqCst);
        };
        Self { tasks: Tasks::new(&pool, Arc::new(bell)), pool, rung }
    }

    pub(super) fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.tasks.spawn(future).map_err(|(over, _)| over).expect("there is room")
    }

    /// A task that is pending for ever, and its waker. What it left that in takes the next one.
    pub(super) fn stuck(&self) -> (JoinHandle<()>, Waker, Place) {
        let place = Place::default();
        let task = self.spawn(stuck(&place));
        self.settle();
        let waker = place.take();
        (task, waker, place)
    }

    /// Runs until nothing is ready.
    pub(super) fn settle(&self) -> usize {
        let mut polls = 0;
        while self.tasks.has_ready() {
            polls += self.tasks.run(usize::MAX);
        }
        polls
    }

    pub(super) fn rung(&self) -> usize {
        self.rung.load(Ordering::SeqCst)
    }

    /// Bytes of live cells.
    pub(super) fn cell_bytes(&self) -> u64 {
        cell_bytes(&self.pool)
    }

    /// Drops the worker; every cell must have gone home by then, and the core goes with it.
    pub(super) fn end(self) {
        let Self { tasks, pool, rung } = self;
        drop(tasks);
        assert_eq!(cell_bytes(&pool), 0, "a cell is leaked");
        assert_eq!(Arc::strong_count(&rung), 1, "the core is leaked, and the bell in it");
    }
}

pub(super) fn cell_bytes(pool: &Pool) -> u64 {
    pool.drain_remote();
    pool.budget().charged_by(Kind::Tasks)
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(super) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(super) fn push(&self, line: impl Into<String>) {
        self.0.borrow_mut().push(line.into());
    }

    pub(super) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Logs its drop.
pub(super) struct Traced(pub(super) &'static str, pub(super) Log);

impl Drop for Traced {
    fn drop(&mut self) {
        self.1.push(format!("{} dropped", self.0));
    }
}

/// Panics when it is dropped.
pub(super) struct Bomb(pub(super) &'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

/// Where a test finds the waker of a future.
#[derive(Clone, Default)]
pub(super) struct Place(Rc<Cell<Option<Waker>>>);

impl Place {
    pub(super) fn put(&self, waker: &Waker) {
        drop(self.0.replace(Some(waker.clone())));
    }

    pub(super) fn take(&self) -> Waker {
        self.0.take().expect("the future left its waker here")
    }
}

/// Pending for ever; every poll leaves its waker.
pub(super) fn stuck(place: &Place) -> impl Future<Output = ()> + use<> {
    let place = place.clone();
    poll_fn(move |cx| {
        place.put(cx.waker());
        Poll::Pending
    })
}

/// Pending for that many polls, each of which wakes itself.
pub(super) fn yields(mut times: usize) -> impl Future<Output = ()> {
    poll_fn(move |cx| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Counts its wakes.
#[derive(Default)]
pub(super) struct Wakes(AtomicUsize);

impl Wakes {
    pub(super) fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::<Self>::default();
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a handle once.
pub(super) fn poll<T>(handle: &mut JoinHandle<T>) -> Poll<Result<T, JoinError>> {
    pin!(handle).poll(&mut Context::from_waker(Waker::noop()))
}

/// The result of a task that has ended.
pub(super) fn result<T>(mut handle: JoinHandle<T>) -> Result<T, JoinError> {
    match poll(&mut handle) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not ended"),
    }
}

/// The text of a panic.
pub(super) fn message<T>(result: Result<T, JoinError>) -> &'static str {
    match result {
        Err(JoinError::Panicked(payload)) => *payload.downcast::<&'static str>().expect("panics carry texts here"),
        Err(JoinError::Cancelled) => "(cancelled)",
        Ok(_) => "(an output)",
    }
}
