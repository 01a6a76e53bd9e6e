//! Waiting for a time: [`sleep`], [`timeout`], [`interval`].

#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::rc::Rc;

use plimsoll_reactor::Instant;

use super::TimerKey;
use crate::worker::Worker;
use crate::{Error, Result};

/// Waits for a duration, to the millisecond, never less.
///
/// Cancel safe: dropping it removes the timer.
///
/// ```
/// # use core::time::Duration;
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let start = plimsoll_runtime::now();
/// plimsoll_runtime::sleep(Duration::from_millis(5)).await;
/// assert!(plimsoll_runtime::now() - start >= Duration::from_millis(5));
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    let worker = Worker::current();
    let deadline = worker.now() + duration;
    Sleep { worker, deadline, key: None }
}

/// Waits until an instant of [`now`](crate::now).
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { worker: Worker::current(), deadline, key: None }
}

/// The future of [`sleep`].
///
/// A timer needs a few bytes of the pool. At the memory line, where even a page for timers is refused, the future asks
/// again each millisecond instead of failing; the worker's turns are as slow meanwhile.
pub struct Sleep {
    worker: Rc<Worker>,
    deadline: Instant,
    key: Option<TimerKey>,
}

impl Sleep {
    /// When it is ready.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Moves the deadline. It may be awaited again after it was ready.
    pub fn reset(&mut self, deadline: Instant) {
        let mut timers = self.worker.timers.borrow_mut();
        self.key = self.key.filter(|key| timers.reset(*key, deadline));
        self.deadline = deadline;
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(key) = this.key {
            let known = this.worker.timers.borrow_mut().will_wake(key, cx.waker());
            match known {
                Some(true) => {}
                Some(false) => {
                    let waker = cx.waker().clone();
                    let before = this.worker.timers.borrow_mut().remember(key, waker);
                    drop(before);
                }
                None => {
                    this.key = None;
                    let woken = this.worker.timers.borrow_mut().remove(key);
                    debug_assert!(woken.is_none(), "it has fired");
                    return Poll::Ready(());
                }
            }
            return Poll::Pending;
        }
        if this.worker.now() >= this.deadline {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let inserted = this.worker.timers.borrow_mut().insert(&this.worker.pool, this.deadline, waker);
        match inserted {
            Ok(key) => this.key = Some(key),
            Err(_) => {
                this.worker.timer_refused();
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let waker = self.worker.timers.borrow_mut().remove(key);
            drop(waker);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish()
    }
}

/// Gives a future a limited time.
///
/// # Errors
///
/// [`Error::TimedOut`]; the future has been dropped then, so its cancel safety decides what is lost.
///
/// ```
/// # use core::time::Duration;
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let never = core::future::pending::<()>();
/// let late = plimsoll_runtime::timeout(Duration::from_millis(2), never).await;
/// assert!(matches!(late, Err(plimsoll_runtime::Error::TimedOut)));
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output> {
    let mut future = core::pin::pin!(future);
    let mut sleep = sleep(duration);
    core::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut sleep).poll(cx).map(|()| Err(Error::TimedOut))
    })
    .await
}

/// Ticks at a fixed rate, first at once. Ticks that were missed are skipped, and the rhythm is kept.
///
/// # Panics
///
/// When the period is zero.
///
/// ```
/// # use core::time::Duration;
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let mut ticks = plimsoll_runtime::interval(Duration::from_millis(2));
/// let first = ticks.tick().await;
/// let second = ticks.tick().await;
/// assert_eq!(second - first, Duration::from_millis(2));
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period");
    let worker = Worker::current();
    let deadline = worker.now();
    Interval { period, sleep: Sleep { worker, deadline, key: None } }
}

/// See [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    sleep: Sleep,
}

impl Interval {
    /// Waits for the next tick; the instant at which it was due.
    ///
    /// Cancel safe: a tick that was not awaited to its end comes again.
    pub async fn tick(&mut self) -> Instant {
        core::future::poll_fn(|cx| Pin::new(&mut self.sleep).poll(cx)).await;
        let due = self.sleep.deadline;
        let now = self.sleep.worker.now();
        let missed = (now - due).as_nanos() / self.period.as_nanos();
        let next = due + self.period.saturating_mul(u32::try_from(missed + 1).unwrap_or(u32::MAX));
        self.sleep.reset(next);
        due
    }
}

#[cfg(test)]
mod tests;
