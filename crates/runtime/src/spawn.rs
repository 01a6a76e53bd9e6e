//! Starting work: tasks here and on other workers, and calls that block.
#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex};

use plimsoll_pool::{Budget, Pool, PoolStats, catch_panic};
use plimsoll_reactor::Instant;

use crate::gauges::Metrics;
use crate::shared::Shared;
use crate::task::JoinHandle;
use crate::worker::Worker;
use crate::{Error, Misuse, Result, sys};

/// Starts a task on this worker. It runs whether or not the handle is awaited; a panic in it ends it alone.
///
/// The task's cell, with the future inside, is charged to the pool before it is made.
///
/// # Errors
///
/// [`Error::OverBudget`] at the memory line. The future is dropped.
///
/// # Panics
///
/// Outside of a runtime.
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let handle = plimsoll_runtime::spawn(async { 6 * 7 })?;
/// assert_eq!(handle.await.expect("it does not panic"), 42);
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn spawn<F: Future + 'static>(future: F) -> Result<JoinHandle<F::Output>> {
    Worker::current().tasks.spawn(future).map_err(|(over, _future)| over.into())
}

/// Starts a task on another worker (0 to [`workers`] - 1): `make` runs there and makes the future. The handle yields
/// the output.
///
/// Dropping the handle detaches the task.
///
/// # Errors
///
/// [`Error::Misuse`] for a worker that does not exist, [`Error::InboxFull`] when 4,096 closures wait for it,
/// [`Error::ShuttingDown`] at the end. The handle's own: [`Error::OverBudget`] when the worker had no room for the
/// task, [`Error::Panicked`], [`Error::ShuttingDown`].
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(2).build()?.block_on(async {
/// let there = plimsoll_runtime::spawn_on(1, || async { plimsoll_runtime::worker_index() })?;
/// assert_eq!(there.await?, 1);
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn spawn_on<F>(worker: usize, make: impl FnOnce() -> F + Send + 'static) -> Result<RemoteHandle<F::Output>>
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    Spawner::current().spawn_on(worker, make)
}

/// Reaches a runtime's workers from any thread.
#[derive(Clone)]
pub struct Spawner(Arc<Shared>);

impl Spawner {
    /// Of the runtime that this is called in.
    pub fn current() -> Self {
        Self(Arc::clone(&Worker::current().shared))
    }

    /// As [`spawn_on`].
    ///
    /// # Errors
    ///
    /// As [`spawn_on`].
    pub fn spawn_on<F>(
        &self,
        worker: usize,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<RemoteHandle<F::Output>>
    where
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let inbox = self.0.inboxes.get(worker).ok_or(Misuse::NoSuchWorker)?;
        if self.0.quits_by().is_some() {
            return Err(Error::ShuttingDown);
        }
        let place = Arc::new(Mutex::new(Place::Empty));
        let fill = Filler(Arc::clone(&place));
        inbox.send(Box::new(move || {
            let future = make();
            let refusal = Arc::clone(&fill.0);
            let spawned = Worker::current().tasks.spawn(async move {
                let output = future.await;
                fill.put(Ok(output));
            });
            if let Err((over, refused)) = spawned {
                tracing::warn!(%over, "no room for a task from another worker");
                // Before the future goes, which would say that the runtime ends.
                Filler(refusal).put(Err(over.into()));
                drop(refused);
            }
        }))?;
        Ok(RemoteHandle(place))
    }

    /// Asks the runtime for an orderly stop.
    pub fn stop(&self) {
        self.0.begin_stop();
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("workers", &self.0.inboxes.len()).finish()
    }
}

/// Runs a call that blocks on a thread of the bounded blocking pool, and waits for its result. In a simulation it runs
/// inline.
///
/// Dropping the future does not stop the call; its result is dropped when it ends.
///
/// # Errors
///
/// [`Error::BlockingQueueFull`], [`Error::Panicked`] when the call panics.
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let sum = plimsoll_runtime::spawn_blocking(|| (1..=100).sum::<u32>()).await?;
/// assert_eq!(sum, 5_050);
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub async fn spawn_blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let worker = Worker::current();
    if worker.shared.simulated {
        return catch_panic(call).ok_or(Error::Panicked);
    }
    let place = Arc::new(Mutex::new(Place::Empty));
    let fill = Filler(Arc::clone(&place));
    let job = Box::new(move || {
        fill.put(catch_panic(call).ok_or(Error::Panicked));
    });
    worker.blocking().run(job).map_err(|_| Error::BlockingQueueFull)?;
    RemoteHandle(place).await
}

enum Place<T> {
    Empty,
    Waiting(Waker),
    Filled(Result<T>),
    Taken,
}

/// Fills the place; with an error if it is dropped before: in a panic, or with work that was never run.
struct Filler<T>(Arc<Mutex<Place<T>>>);

impl<T> Filler<T> {
    fn put(&self, result: Result<T>) {
        let mut place = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if matches!(*place, Place::Filled(_) | Place::Taken) {
            return;
        }
        let before = core::mem::replace(&mut *place, Place::Filled(result));
        drop(place);
        if let Place::Waiting(waker) = before {
            // A panic in it is not the work's; in the drop of this, during one of the work's, it would end the process.
            catch_panic(|| waker.wake());
        }
    }
}

impl<T> Drop for Filler<T> {
    fn drop(&mut self) {
        let error = if std::thread::panicking() { Error::Panicked } else { Error::ShuttingDown };
        self.put(Err(error));
    }
}

/// The output of work elsewhere; see [`spawn_on`].
pub struct RemoteHandle<T>(Arc<Mutex<Place<T>>>);

impl<T> fmt::Debug for RemoteHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteHandle")
    }
}

impl<T> Future for RemoteHandle<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloning and dropping wakers runs code of others: not under the lock.
        let mut known = None;
        loop {
            let mut place = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match &*place {
                Place::Filled(_) => match core::mem::replace(&mut *place, Place::Taken) {
                    Place::Filled(result) => return Poll::Ready(result),
                    _ => unreachable!("matched above"),
                },
                Place::Waiting(waker) if waker.will_wake(cx.waker()) => return Poll::Pending,
                Place::Empty | Place::Waiting(_) => {}
                Place::Taken => panic!("polled after it was ready"),
            }
            if let Some(waker) = known.take() {
                let before = core::mem::replace(&mut *place, Place::Waiting(waker));
                drop(place);
                drop(before);
                return Poll::Pending;
            }
            drop(place);
            known = Some(cx.waker().clone());
        }
    }
}

/// Lets other ready tasks run first.
pub async fn yield_now() {
    struct Yield(bool);
    impl Future for Yield {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if core::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Yield(false).await;
}

/// The worker's time: monotonic, taken once a turn, virtual in a simulation. It stands still while tasks run: to
/// measure how long something takes, ask [`clock`].
pub fn now() -> Instant {
    Worker::with_current(|worker| worker.now())
}

/// The time as it is: of the same monotonic clock as [`now`], read when it is asked for, which takes some tens of
/// nanoseconds. In a simulation it is [`now`].
///
/// ```
/// use plimsoll_runtime::{Runtime, clock, now};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (turn, begun) = (now(), clock());
///     std::thread::sleep(std::time::Duration::from_millis(2)); // it computes
///     assert!(clock() - begun >= std::time::Duration::from_millis(2));
///     assert_eq!(now(), turn, "the turn has not ended");
/// });
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
///
/// # Panics
///
/// Outside of a runtime.
pub fn clock() -> Instant {
    Worker::with_current(Worker::clock)
}

/// The time as it moves within a turn, which [`now`] does not: by a clock that takes a few nanoseconds to read and is
/// as fine as the kernel's tick, 1 to 10 ms. In a simulation it is [`now`]. Only differences between two of its values
/// mean anything.
///
/// ```
/// use plimsoll_runtime::{Runtime, coarse_now};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let took = runtime.block_on(async {
///     let begun = coarse_now();
///     std::thread::sleep(std::time::Duration::from_millis(50));
///     coarse_now().since(begun)
/// });
/// assert!(took.as_millis() >= 30, "{took:?}");
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
///
/// # Panics
///
/// Outside of a runtime.
pub fn coarse_now() -> Instant {
    Worker::with_current(Worker::coarse_now)
}

/// Seconds since 1970-01-01 in UTC; in a simulation, since the world's start plus a fixed date.
pub fn unix_seconds() -> u64 {
    /// 2026-01-01: every simulated world begins then.
    const SIMULATED_START: u64 = 1_767_225_600;
    Worker::with_current(|worker| {
        if worker.shared.simulated {
            return SIMULATED_START + worker.now().as_millis() / 1_000;
        }
        sys::unix_seconds()
    })
}

/// This worker's pool.
pub fn pool() -> Pool {
    Worker::current().pool.clone()
}

/// The runtime's budget.
pub fn budget() -> Arc<Budget> {
    Arc::clone(&Worker::current().shared.budget)
}

/// How many workers the runtime has.
pub fn workers() -> usize {
    Worker::current().shared.inboxes.len()
}

/// The number of this worker, from 0.
pub fn worker_index() -> usize {
    Worker::current().index
}

/// The same; `None` on a thread that is no worker, or on none of Plimsoll's at all.
///
/// ```
/// assert_eq!(plimsoll_runtime::try_worker_index(), None);
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// assert_eq!(plimsoll_runtime::try_worker_index(), Some(0));
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn try_worker_index() -> Option<usize> {
    Worker::try_current().map(|worker| worker.index)
}

/// What the runtime's workers have done and hold.
pub fn metrics() -> Metrics {
    Worker::current().shared.metrics()
}

/// The figures of the workers' pools: this worker's as they are now, the others' as they were when they were last asked
/// for. A worker that was never asked before is missing; it answers at its next turn.
pub fn pool_stats() -> Vec<PoolStats> {
    let here = Worker::current();
    let of = |index: usize| {
        if index == here.index { Some(here.pool.stats()) } else { here.shared.gauges[index].pool_stats() }
    };
    (0..here.shared.gauges.len()).filter_map(of).collect()
}
