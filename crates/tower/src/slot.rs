//! What the reader of a body, on any thread, and the handler's task have between them.
//!
//! ```text
//!  the reader: poll_frame             the handler's task, after each of its turns
//!     Idle -> Asked(waker)  ----------->  receives, sets Ready or Ended or Failed
//!     Ready -> Idle         <-----------  wakes the reader
//! ```
//!
//! The task looks at the end of each turn whether a frame is asked for. So whoever asks within a turn need not wake it;
//! whoever asks between two turns finds its waker and does. Wakers and frames, whose code is others', are dropped
//! outside of the lock.

use core::mem;
use core::task::{Context, Poll, Waker};
use std::sync::PoisonError;

use bytes::Bytes;
use http_body::Frame;
#[cfg(all(test, loom))]
use loom::sync::{Mutex, MutexGuard};
use plimsoll_http::Error;
#[cfg(not(all(test, loom)))]
use std::sync::{Mutex, MutexGuard};

pub(crate) struct Slot(Mutex<Shared>);

struct Shared {
    reader: Reader,
    task: Task,
}

pub(crate) enum Reader {
    /// Nobody asks.
    Idle,
    /// A frame is asked for.
    Asked(Waker),
    Ready(Frame<Bytes>),
    Failed(Error),
    /// All was read.
    Ended,
    /// The reader is gone.
    Unwanted,
}

/// The handler's task.
enum Task {
    /// It has its turn, or was woken for one: it will look.
    Looks,
    Waits(Waker),
    /// It has ended: no more is received.
    Over,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Shared { reader: Reader::Idle, task: Task::Looks }))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A waker's clone may panic under the lock: it leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader asks.
    pub(crate) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut shared = self.lock();
        match mem::replace(&mut shared.reader, Reader::Idle) {
            Reader::Ready(frame) => Poll::Ready(Some(Ok(frame))),
            Reader::Failed(error) => {
                shared.reader = Reader::Ended;
                Poll::Ready(Some(Err(error)))
            }
            Reader::Ended | Reader::Unwanted => {
                shared.reader = Reader::Ended;
                Poll::Ready(None)
            }
            Reader::Idle | Reader::Asked(_) if matches!(shared.task, Task::Over) => {
                Poll::Ready(Some(Err(Error::Disconnected)))
            }
            before @ (Reader::Idle | Reader::Asked(_)) => {
                shared.reader = Reader::Asked(cx.waker().clone());
                let task = shared.take_waker();
                drop(shared);
                drop(before);
                if let Some(task) = task {
                    task.wake();
                }
                Poll::Pending
            }
        }
    }

    /// The reader goes away.
    pub(crate) fn give_up(&self) {
        let before = mem::replace(&mut self.lock().reader, Reader::Unwanted);
        drop(before);
    }

    /// The task has its turn. What comes back is for the [end](Self::end_turn) of it.
    pub(crate) fn begin_turn(&self) -> Option<Waker> {
        self.lock().take_waker()
    }

    /// The task has done what it could; whether a frame is asked for.
    pub(crate) fn end_turn(&self, kept: Option<Waker>, waker: &Waker) -> bool {
        let (waker, other) = match kept {
            Some(kept) if kept.will_wake(waker) => (kept, None),
            other => (waker.clone(), other),
        };
        let mut shared = self.lock();
        shared.task = Task::Waits(waker);
        let is_asked = matches!(shared.reader, Reader::Asked(_));
        drop(shared);
        drop(other);
        is_asked
    }

    /// Gives the reader what it asked for, and tells whom to wake.
    pub(crate) fn answer(&self, next: Reader) -> Option<Waker> {
        let mut shared = self.lock();
        if !matches!(shared.reader, Reader::Asked(_)) {
            drop(shared);
            drop(next);
            return None;
        }
        match mem::replace(&mut shared.reader, next) {
            Reader::Asked(reader) => Some(reader),
            _ => unreachable!("looked at above"),
        }
    }

    /// The task ends. Who waits is told.
    pub(crate) fn end(&self) {
        let mut shared = self.lock();
        let task = mem::replace(&mut shared.task, Task::Over);
        let is_asked = matches!(shared.reader, Reader::Asked(_));
        let asked = is_asked.then(|| mem::replace(&mut shared.reader, Reader::Idle));
        drop(shared);
        drop(task);
        if let Some(Reader::Asked(reader)) = asked {
            reader.wake();
        }
    }
}

impl Shared {
    /// The waker of a task that waits: it will look.
    fn take_waker(&mut self) -> Option<Waker> {
        if !matches!(self.task, Task::Waits(_)) {
            return None;
        }
        match mem::replace(&mut self.task, Task::Looks) {
            Task::Waits(waker) => Some(waker),
            _ => unreachable!("looked at above"),
        }
    }
}

#[cfg(test)]
mod tests;
