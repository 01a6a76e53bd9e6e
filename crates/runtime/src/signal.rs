//! The orderly stop: SIGINT and SIGTERM (where the runtime's builder says so), or
//! [`Runtime::stop`](crate::Runtime::stop). And SIGHUP, for programs that read something again.
#![forbid(unsafe_code)]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::rc::Rc;

use plimsoll_slab::Key;

use crate::worker::Worker;
use crate::{Result, sleep, sys};

/// How often it is looked whether SIGHUP came.
const HANGUP_STEP: Duration = Duration::from_millis(100);

/// SIGHUP from now on, as [`hangups`] gives it.
#[derive(Debug)]
pub struct Hangups {
    seen: u32,
}

/// Has SIGHUP tell this program to read something again, certificates for instance, in the place of ending it, until
/// the process ends. It is heard within 100 ms.
///
/// ```no_run
/// # async fn read_again() {}
/// # async fn follow() -> plimsoll_runtime::Result<()> {
/// let mut hangups = plimsoll_runtime::signal::hangups()?;
/// loop {
///     hangups.next().await;
///     read_again().await;
/// }
/// # }
/// ```
///
/// # Errors
///
/// [`Error::System`](crate::Error::System) with what the system says of the handler.
pub fn hangups() -> Result<Hangups> {
    sys::count_hangups().map_err(|error| crate::Error::System(error.into()))?;
    Ok(Hangups { seen: sys::hangups() })
}

impl Hangups {
    /// Waits for the next: several that came meanwhile are one.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) {
        while sys::hangups() == self.seen {
            sleep(HANGUP_STEP).await;
        }
        self.seen = sys::hangups();
    }
}

/// Waits until the runtime has been asked to stop. Ready at once from then on.
///
/// Cancel safe: dropped, it leaves nothing behind.
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let stop = plimsoll_runtime::Spawner::current();
/// stop.stop();
/// plimsoll_runtime::signal::stopped().await;
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn stopped() -> impl Future<Output = ()> {
    Stopped { waits: None }
}

/// Whether the runtime has been asked to stop.
pub fn is_stopping() -> bool {
    Worker::with_current(Worker::is_stopping)
}

struct Stopped {
    /// Where its waker is.
    waits: Option<(Rc<Worker>, Key)>,
}

impl Stopped {
    fn forget(&mut self) {
        if let Some((worker, key)) = self.waits.take() {
            // The waker goes when nothing of the worker is borrowed any more.
            let _waker = worker.forget_stop(key);
        }
    }
}

impl Future for Stopped {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if Worker::with_current(Worker::is_stopping) {
            this.forget();
            return Poll::Ready(());
        }
        if this.waits.as_ref().is_some_and(|(worker, key)| worker.wakes_at_stop(*key, cx.waker())) {
            return Poll::Pending;
        }
        let (worker, waker) = (Worker::current(), cx.waker().clone());
        this.forget();
        match worker.wait_for_stop(waker) {
            Ok(key) => this.waits = Some((worker, key)),
            // At the line it asks again each millisecond, as a sleep does.
            Err(_) => {
                worker.timer_refused();
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.forget();
    }
}
