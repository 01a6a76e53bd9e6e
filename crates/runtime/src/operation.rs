//! An operation in flight, as a future.
#![forbid(unsafe_code)]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_pool::OverBudget;
use plimsoll_reactor::{Completion, Op};
use plimsoll_slab::Key;

use crate::worker::Worker;

/// Resolves to the operation's completion. Dropping it cancels the operation; what that holds or brings is disposed of.
pub(crate) struct Operation {
    worker: Rc<Worker>,
    /// `None` once the answer was taken.
    keys: Option<(Key, Key)>,
}

impl Operation {
    /// Starts an operation.
    pub(crate) fn start<'fd>(worker: &Rc<Worker>, op: Op<'fd>) -> Result<Self, (OverBudget, Op<'fd>)> {
        let keys = worker.start(op)?;
        Ok(Self { worker: Rc::clone(worker), keys: Some(keys) })
    }
}

impl Future for Operation {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Completion> {
        let (waiter, _) = self.keys.expect("not polled after it was ready");
        let answer = self.worker.poll_answer(waiter, cx);
        if answer.is_ready() {
            self.keys = None;
        }
        answer
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some((waiter, op)) = self.keys.take() {
            self.worker.give_up(waiter, op);
        }
    }
}
