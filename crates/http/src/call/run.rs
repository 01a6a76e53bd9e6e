//! A call: a handler at work on a request that the program brought itself, and who takes its answer.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use bytes::Bytes;
use plimsoll_pool::Charge;
use plimsoll_runtime::{Kind, OverBudget, spawn};

use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::call::exchange::Called;
use crate::call::incoming::CallPart;
use crate::call::outgoing::Next;
use crate::exchange::response::Response;

/// What a call takes on the heap beside its handler's future: the exchange, the head while it is parsed, boxes.
const CALL_BYTES: usize = 2 * 1_024;

/// A handler's future.
pub(crate) type Handling = Pin<Box<dyn Future<Output = ()>>>;

/// A handler at work on a request of the program: see [`Callable::call`](crate::Callable::call).
///
/// First its answer's [head](Self::poll_head) is there, then the [parts](Self::poll_part) of its body. The handler has
/// its turns while one of these is polled, and goes on when what it wrote was taken.
///
/// Dropped, it ends the handler, but one that [must finish](crate::Request::must_finish) something goes on in a task
/// until it has.
pub struct Call {
    called: Rc<Called>,
    handler: Option<Handling>,
    /// What is still to come of a body whose length is known.
    length: Option<u64>,
    _charge: Option<Charge>,
}

impl Call {
    /// Of a handler whose calls reach `called`.
    pub(crate) fn new(called: Rc<Called>, handler: Handling) -> Result<Self, OverBudget> {
        let bytes = CALL_BYTES + size_of_val(&*handler);
        let charge = plimsoll_runtime::pool().charge(Kind::Tasks, bytes as u64)?;
        Ok(Self { called, handler: Some(handler), length: None, _charge: Some(charge) })
    }

    /// Without a handler: what was answered before there was one.
    pub(crate) fn answered(called: Rc<Called>, mut response: Response) -> Self {
        called.outgoing.borrow_mut().answer(Some(&mut response));
        Self { called, handler: None, length: None, _charge: None }
    }

    /// The answer's head. It is 500 for a handler that went away without one.
    ///
    /// Not polled again after it was ready.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<http::response::Parts> {
        let mut head = self.called.outgoing.borrow_mut().take_head();
        if head.is_none() {
            self.run(cx);
            head = self.called.outgoing.borrow_mut().take_head();
        }
        match head {
            Some((parts, length)) => {
                self.length = length;
                Poll::Ready(parts)
            }
            None => Poll::Pending,
        }
    }

    /// The next part of the answer's body, or `None` at its end.
    ///
    /// # Errors
    ///
    /// [`Misuse::AnswerCutShort`] when the handler ended before its answer did.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<CallPart, Error>>> {
        let mut next = self.called.outgoing.borrow_mut().take_next(cx);
        if let (Next::Nothing, true) = (&next, self.handler.is_some()) {
            self.run(cx);
            next = self.called.outgoing.borrow_mut().take_next(cx);
        }
        match next {
            Next::Part(part) => {
                if let (Some(length), CallPart::Data(data)) = (&mut self.length, &part) {
                    *length = length.saturating_sub(data.len() as u64);
                }
                Poll::Ready(Some(Ok(part)))
            }
            Next::End => Poll::Ready(None),
            Next::CutShort => Poll::Ready(Some(Err(Error::Misuse(Misuse::AnswerCutShort)))),
            Next::Nothing => Poll::Pending,
        }
    }

    /// What is left of the answer's body, if all of it is there already and no trailers are: then the call is over.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.called.outgoing.borrow_mut().take_whole().inspect(|_| self.length = Some(0))
    }

    /// Bytes of the answer's body that are still to come, if that is known. Asked for after its head.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether all of the answer was taken.
    pub fn is_over(&self) -> bool {
        self.called.outgoing.borrow().is_over()
    }

    /// Gives the handler a turn, and has whoever polls woken for the next.
    fn run(&mut self, cx: &mut Context<'_>) {
        // One that panics is not polled again: it is dropped meanwhile.
        let Some(mut handler) = self.handler.take() else { return };
        self.called.outgoing.borrow_mut().begin_turn();
        if handler.as_mut().poll(cx).is_pending() {
            self.handler = Some(handler);
        }
        self.called.outgoing.borrow_mut().end_turn(cx);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.called.incoming.lose();
        self.called.outgoing.borrow_mut().leave();
        let Some(mut handler) = self.handler.take() else { return };
        if !self.called.must_go_on() || plimsoll_runtime::try_worker_index().is_none() {
            return;
        }
        let called = Rc::clone(&self.called);
        let rest = poll_fn(move |cx| {
            called.outgoing.borrow_mut().end_turn(cx);
            match handler.as_mut().poll(cx) {
                Poll::Pending if called.must_go_on() => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        if spawn(rest).is_err() {
            tracing::warn!("no room for a task: a handler that must finish was dropped");
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("length", &self.length).finish_non_exhaustive()
    }
}
