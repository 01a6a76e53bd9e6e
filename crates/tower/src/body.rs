//! The body of a request, in a form that any thread may read.
//!
//! The exchange itself stays on its worker, with the task that the handler is; a [`Slot`] is between the two. What is
//! asked for is one frame, when it is asked for: that is the back-pressure to the client.

use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use http_body::{Frame, SizeHint};
use plimsoll_http::{Error, Request, Trailers};
use plimsoll_runtime::Lease;

use crate::slot::{Reader, Slot};

/// Frames up to this many bytes are copied to the heap; larger ones stay where they were received.
const COPIED_BYTES_MAX: usize = 4 * 1_024;

/// The body of a request: frames of data, and trailers where there are some.
///
/// It is received from the client as it is read. It can be sent to other threads and read there, as services ask for
/// that can move; its exchange stays where it is. A frame of more than 4 KiB keeps its buffer of the pool, under the
/// memory line, until it is dropped; smaller ones are copies.
///
/// When the service has answered and the answer has left, or its client goes away, the rest of it is
/// [`Error::Disconnected`].
pub struct Body {
    /// `None` where nothing is to come.
    slot: Option<Arc<Slot>>,
    /// Bytes that are still to come, where the head says it.
    left: Option<u64>,
    end: End,
}

/// What comes behind the last byte of a body whose length is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing.
    Plain,
    /// Perhaps trailers, as in HTTP/2.
    MayTrail,
}

impl Body {
    /// One without bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { slot: None, left: Some(0), end: End::Plain }
    }

    /// Nothing more is to come.
    fn close(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.give_up();
        }
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
        let frame = match core::task::ready!(slot.poll_frame(cx)) {
            // All its bytes were read: the exchange may be over.
            Some(Err(Error::Disconnected)) if self.left == Some(0) => None,
            frame => frame,
        };
        let data_bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map(|data| data.len() as u64);
        if let (Some(left), Some(bytes)) = (self.left, data_bytes) {
            self.left = Some(left.saturating_sub(bytes));
        }
        if data_bytes.is_none() || (self.left == Some(0) && self.end == End::Plain) {
            self.close();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.slot.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("left", &self.left).finish_non_exhaustive()
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
        let slot = Arc::new(Slot::new());
        let end = if request.version() == Version::HTTP_2 { End::MayTrail } else { End::Plain };
        (Self { request, slot: Some(Arc::clone(&slot)) }, Body { slot: Some(slot), left, end })
    }

    /// Polls a future of this task, and receives the body meanwhile. The future stays where it is: it is large.
    #[inline]
    pub(crate) fn poll_alongside<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        loop {
            let kept = self.slot.as_ref().and_then(|slot| slot.begin_turn());
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            let is_asked = self.slot.as_ref().is_some_and(|slot| slot.end_turn(kept, cx.waker()));
            if !is_asked || self.look(cx) == Look::Nothing {
                return Poll::Pending;
            }
        }
    }

    /// Receives what was asked for.
    fn look(&mut self, cx: &mut Context<'_>) -> Look {
        let Poll::Ready(chunk) = pin!(self.request.chunk()).poll(cx) else { return Look::Nothing };
        let next = match chunk {
            Ok(Some(lease)) => Reader::Ready(Frame::data(shared_bytes(lease))),
            Ok(None) => match self.request.trailers().as_ref().map(to_map) {
                Some(trailers) => Reader::Ready(Frame::trailers(trailers)),
                None => Reader::Ended,
            },
            Err(error) => Reader::Failed(error),
        };
        let Some(reader) = self.slot.as_ref().and_then(|slot| slot.answer(next)) else { return Look::Nothing };
        if reader.will_wake(cx.waker()) {
            return Look::Answered;
        }
        reader.wake();
        Look::Nothing
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.end();
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
