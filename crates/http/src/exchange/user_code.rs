//! What runs code of the program when it wakes or is dropped: foreign wakers, and bytes with an owner. That code may
//! call exchanges again, so it runs when nothing is borrowed: the worker runs it between tasks, in this order.
//!
//! ```text
//!   step of a connection, call of a handler        the worker, between tasks
//!   ---------------------------------------        -------------------------
//!   UserWaker::wake, dropped   --> the thread's list --> Waker::wake, dropped
//!   UserBody dropped           -->                   --> Bytes dropped
//! ```
//!
//! Tasks' own wakers run no code of the program, and wake at once.

use ::core::cell::RefCell;
use ::core::mem::{replace, take};
use ::core::ops::{Deref, DerefMut};
use ::core::task::{Context, Waker};
use std::collections::VecDeque;

use bytes::Bytes;
use plimsoll_pool::catch_panic;
use plimsoll_runtime::worker_tasks;

use crate::exchange::response::Body;

/// A waker of somebody who waits for an exchange or a WebSocket.
pub(crate) struct UserWaker(Waker);

impl UserWaker {
    /// Of whoever polls.
    pub(crate) fn of(cx: &Context<'_>) -> Self {
        Self(cx.waker().clone())
    }

    /// Whether it wakes whoever polls.
    pub(crate) fn wakes(&self, cx: &Context<'_>) -> bool {
        self.0.will_wake(cx.waker())
    }

    pub(crate) fn wake(mut self) {
        match worker_tasks::is_of_task(&self.0) {
            true => self.0.wake_by_ref(),
            false => run_later(UserCode::Wake(self.take())),
        }
    }

    #[cold]
    fn drop_foreign(&mut self) {
        if !self.0.will_wake(Waker::noop()) {
            run_later(UserCode::Drop(self.take()));
        }
    }

    /// Leaves one that does nothing.
    fn take(&mut self) -> Waker {
        replace(&mut self.0, Waker::noop().clone())
    }
}

impl Drop for UserWaker {
    fn drop(&mut self) {
        if !worker_tasks::is_of_task(&self.0) {
            self.drop_foreign();
        }
    }
}

/// A body that a connection or a message holds.
#[derive(Debug, Default)]
pub(crate) struct UserBody(Body);

impl UserBody {
    pub(crate) fn into_body(mut self) -> Body {
        take(&mut self.0)
    }
}

impl From<Body> for UserBody {
    fn from(body: Body) -> Self {
        Self(body)
    }
}

impl Deref for UserBody {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.0
    }
}

impl DerefMut for UserBody {
    fn deref_mut(&mut self) -> &mut Body {
        &mut self.0
    }
}

impl Drop for UserBody {
    fn drop(&mut self) {
        if let Body::Bytes(bytes) = &mut self.0 {
            run_later(UserCode::Release(take(bytes)));
        }
    }
}

/// Drops a body when nothing is borrowed.
pub(crate) fn drop_later(body: Body) {
    drop(UserBody(body));
}

enum UserCode {
    Wake(Waker),
    Drop(Waker),
    Release(Bytes),
}

impl UserCode {
    fn run(self) {
        match self {
            Self::Wake(waker) => waker.wake(),
            Self::Drop(waker) => drop(waker),
            Self::Release(bytes) => drop(bytes),
        }
    }
}

thread_local! {
    /// No more than the exchanges of one turn have.
    static LATER: RefCell<VecDeque<UserCode>> = const { RefCell::new(VecDeque::new()) };
}

#[cold]
fn run_later(code: UserCode) {
    let mut code = Some(code);
    // At the end of a thread there may be no list any more, and without a worker nothing is borrowed.
    let is_listed =
        worker_tasks::run_soon(run_all) && LATER.try_with(|later| later.borrow_mut().extend(code.take())).is_ok();
    if !is_listed && let Some(code) = code {
        catch_panic(|| code.run());
    }
}

/// Runs what is listed now. What that lists has its turn later.
fn run_all() {
    let next = || LATER.with(|later| later.borrow_mut().pop_front());
    for _ in 0..LATER.with(|later| later.borrow().len()) {
        let Some(code) = next() else { return };
        catch_panic(|| code.run());
    }
}
