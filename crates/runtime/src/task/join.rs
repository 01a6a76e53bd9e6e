//! The handle of a task.
#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::cell::Join;
use super::join_error::JoinError;

/// The result of a task: a future of what the task's own future returns.
///
/// Dropping the handle detaches the task: it runs on, and its output is dropped when it ends. The output of a task that
/// has ended waits in the handle. A handle stays on the worker of its task.
///
/// # Cancel safety
///
/// Awaiting `&mut handle` and giving up loses nothing: the handle can be awaited again. Awaiting the handle by value
/// and giving up detaches the task.
///
/// # Panics
///
/// When polled again after it was ready.
///
/// ```
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let handle = plimsoll_runtime::spawn(async { 6 * 7 })?;
/// assert_eq!(handle.await.expect("it neither panics nor is aborted"), 42);
///
/// let endless = plimsoll_runtime::spawn(std::future::pending::<()>())?;
/// endless.abort();
/// assert!(endless.is_finished());
/// assert!(endless.await.unwrap_err().is_cancelled());
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub struct JoinHandle<T>(Join<T>);

impl<T> JoinHandle<T> {
    pub(super) fn new(join: Join<T>) -> Self {
        Self(join)
    }

    /// Drops the task's future: at once, or if this is called from within the task's own poll, right after that poll,
    /// unless the poll completes it. The handle then yields [`JoinError::Cancelled`]. Nothing happens to a task that
    /// has ended, or the second time.
    ///
    /// A panic of the future's drop is caught. The memory goes home when the handle and all wakers are gone, and if
    /// the task was ready to be polled, in the worker's next turn.
    pub fn abort(&self) {
        self.0.cancel();
    }

    /// Has the task end with its owner: dropped, what this gives [aborts](Self::abort) it.
    ///
    /// ```
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let worked = std::rc::Rc::new(());
    /// let held = std::rc::Rc::clone(&worked);
    /// let ticks = plimsoll_runtime::spawn(async move {
    ///     let _held = held;
    ///     std::future::pending::<()>().await
    /// })?;
    /// drop(ticks.abort_on_drop());
    /// assert_eq!(std::rc::Rc::strong_count(&worked), 1);
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    #[must_use = "dropped, it aborts the task"]
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }

    /// Whether the task has ended, so that awaiting the handle does not wait.
    pub fn is_finished(&self) -> bool {
        self.0.has_ended()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx.waker())
    }
}

/// A task that ends with its owner: see [`JoinHandle::abort_on_drop`]. Awaited, it yields what the handle does.
///
/// # Cancel safety
///
/// Awaiting it by value and giving up aborts the task; awaiting `&mut` of it and giving up loses nothing.
#[must_use = "dropped, it aborts the task"]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> fmt::Debug for AbortOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortOnDrop").field("is_finished", &self.0.is_finished()).finish()
    }
}

// The handle is a pointer to the output, not its place.
impl<T> Unpin for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}
