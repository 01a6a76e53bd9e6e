//! The body of a request, in a form that any thread may read.
//!
//! ```text
//!  the reader: poll_frame             the handler's task: Pump::poll
//!     Idle -> Asked(waker)  ----------->  receives, sets Ready or Ended or Failed
//!     Ready -> Idle         <-----------  wakes the reader
//! ```
//!
//! The exchange itself stays on its worker, with the task that the handler is. What is asked for is one frame, when it
//! is asked for: that is the back-pressure to the client.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use plimsoll_http::{Error, Request, Trailers};
use plimsoll_runtime::Lease;

/// Frames up to this many bytes are copied to the heap; larger ones stay where they were received.
const COPIED_BYTES_MAX: usize = 4 * 1_024;

/// The body of a request: frames of data, and trailers where there are some.
///
/// It is received from the client as it is read. It can be sent to other threads and read there, as services ask for
/// that can move; its exchange stays where it is. A frame of more than 4 KiB keeps its buffer of the pool, under the
/// memory line, until it is dropped; smaller ones are copies.
///
/// When the service has answered and the answer has left, or its client goes away, the rest of it is
/// [`Error::Gone`].
pub struct Body {
    /// `None` where the request has none.
    slot: Option<Arc<Slot>>,
    /// Bytes that are still to come, where the head says it.
    left: Option<u64>,
}

impl Body {
    /// One without bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { slot: None, left: Some(0) }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(slot) = &self.slot else { return Poll::Ready(None) };
        let frame = core::task::ready!(slot.poll_frame(cx));
        if let (Some(left), Some(data)) = (self.left, frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()))
        {
            self.left = Some(left.saturating_sub(data.len() as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            let before = mem::replace(&mut slot.lock().state, State::Unwanted);
            drop(before);
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("left", &self.left).finish_non_exhaustive()
    }
}

/// What the reader of a body and the handler's task share.
struct Slot(Mutex<Shared>);

struct Shared {
    state: State,
    task: Task,
}

/// The handler's task.
enum Task {
    /// It has not looked yet, or was woken and will look.
    Looks,
    Waits(Waker),
    /// It has ended: no more is received.
    Over,
}

enum State {
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

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing that can panic is done under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut shared = self.lock();
        match mem::replace(&mut shared.state, State::Ended) {
            State::Ready(frame) => {
                shared.state = State::Idle;
                Poll::Ready(Some(Ok(frame)))
            }
            State::Failed(error) => Poll::Ready(Some(Err(error))),
            State::Ended | State::Unwanted => Poll::Ready(None),
            State::Idle | State::Asked(_) if matches!(shared.task, Task::Over) => Poll::Ready(Some(Err(Error::Gone))),
            before @ (State::Idle | State::Asked(_)) => {
                shared.state = State::Asked(cx.waker().clone());
                // The task itself looks after each poll of the service.
                let is_elsewhere = matches!(&shared.task, Task::Waits(task) if !task.will_wake(cx.waker()));
                let task = if is_elsewhere { mem::replace(&mut shared.task, Task::Looks) } else { Task::Looks };
                drop(shared);
                if let Task::Waits(task) = task {
                    task.wake();
                }
                drop(before);
                Poll::Pending
            }
        }
    }
}

/// The handler's side of a body: it receives what the reader asks for, on the exchange's own worker.
pub(crate) struct Pump {
    pub(crate) request: Request,
    slot: Option<Arc<Slot>>,
}

/// What a look at the body has brought.
#[derive(PartialEq, Eq)]
enum Look {
    /// Nothing for this task.
    Nothing,
    /// A frame that this very task asked for.
    Answered,
}

impl Pump {
    /// A request and its body.
    pub(crate) fn new(request: Request) -> (Self, Body) {
        let left = request.content_length();
        if left == Some(0) {
            return (Self { request, slot: None }, Body::empty());
        }
        let slot = Arc::new(Slot(Mutex::new(Shared { state: State::Idle, task: Task::Looks })));
        (Self { request, slot: Some(Arc::clone(&slot)) }, Body { slot: Some(slot), left })
    }

    /// Polls a future of this task, and receives the body meanwhile. The future stays where it is: it is large.
    #[inline]
    pub(crate) fn poll_alongside<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if self.look(cx) == Look::Nothing {
                return Poll::Pending;
            }
        }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Look {
        let Some(slot) = &self.slot else { return Look::Nothing };
        let mut shared = slot.lock();
        let is_known = matches!(&shared.task, Task::Waits(task) if task.will_wake(cx.waker()));
        let before =
            if is_known { None } else { Some(mem::replace(&mut shared.task, Task::Waits(cx.waker().clone()))) };
        let is_asked = matches!(shared.state, State::Asked(_));
        drop(shared);
        drop(before);
        if !is_asked {
            return Look::Nothing;
        }
        let chunk = pin!(self.request.chunk()).poll(cx);
        let Poll::Ready(chunk) = chunk else { return Look::Nothing };
        let next = match chunk {
            Ok(Some(lease)) => State::Ready(Frame::data(shared_bytes(lease))),
            Ok(None) => match self.request.trailers().as_ref().map(to_map) {
                Some(trailers) => State::Ready(Frame::trailers(trailers)),
                None => State::Ended,
            },
            Err(error) => State::Failed(error),
        };
        self.answer(next).map_or(Look::Nothing, |reader| {
            let is_this_task = reader.will_wake(cx.waker());
            if is_this_task {
                return Look::Answered;
            }
            reader.wake();
            Look::Nothing
        })
    }

    /// Gives the reader what it asked for, and tells whom to wake.
    fn answer(&self, next: State) -> Option<Waker> {
        let mut shared = self.slot.as_ref()?.lock();
        if matches!(shared.state, State::Unwanted) {
            return None;
        }
        let State::Asked(reader) = mem::replace(&mut shared.state, next) else { return None };
        Some(reader)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        let Some(slot) = &self.slot else { return };
        let mut shared = slot.lock();
        let task = mem::replace(&mut shared.task, Task::Over);
        let is_asked = matches!(shared.state, State::Asked(_));
        let asked = is_asked.then(|| mem::replace(&mut shared.state, State::Idle));
        drop(shared);
        drop(task);
        if let Some(State::Asked(reader)) = asked {
            reader.wake();
        }
    }
}

fn shared_bytes(lease: Lease) -> Bytes {
    if lease.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(&lease) } else { lease.into() }
}

/// Fields that came behind a body. The codec has checked them; one that is none here is left out.
fn to_map(trailers: &Trailers) -> HeaderMap {
    let fields = trailers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let mut map = HeaderMap::new();
    fields.for_each(|(name, value)| _ = map.append(name, value));
    map
}
