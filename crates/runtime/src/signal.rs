//! The orderly stop: SIGINT and SIGTERM (where the runtime's builder says so), or [`Runtime::stop`](crate::Runtime::stop).
#![forbid(unsafe_code)]

use core::future::{Future, poll_fn};
use core::task::Poll;

use crate::worker::Worker;

/// Waits until the runtime has been asked to stop. Ready at once from then on.
///
/// Cancel safe: it keeps nothing.
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let stop = plimsoll_runtime::Spawner::current();
/// stop.stop();
/// plimsoll_runtime::signal::stopped().await;
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub fn stopped() -> impl Future<Output = ()> {
    poll_fn(|cx| if Worker::current().poll_stop(cx.waker()) { Poll::Ready(()) } else { Poll::Pending })
}

/// Whether the runtime has been asked to stop.
pub fn is_stopping() -> bool {
    Worker::current().is_stopping()
}
