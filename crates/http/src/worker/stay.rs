//! Holds on [connections that stay](crate::memory::lasting).

use ::core::fmt;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_codec::h2::StreamKey;
use plimsoll_slab::Key;

use crate::exchange::handle::ExchangeHandle;
use crate::memory::by_address::Columns;
use crate::memory::lasting::{ExchangeId, Number, Sort, Stage};
use crate::worker::connection::Connection;
use crate::worker::state::WorkerState;

/// One that stays, for as long as it does. Small: it is in the future of its handler, twice where that ends it.
pub(crate) struct Stay {
    /// `None` where the program itself has called the handler: nobody tells it to end.
    worker: Option<Rc<WorkerState>>,
    /// In the list. Without room there it is not counted for its address, and cannot be told to end.
    at: Option<Number>,
    sort: Sort,
}

impl Stay {
    /// Of the exchange that a handle is for, which goes on for as long as its peer likes.
    pub(crate) fn of(handle: &ExchangeHandle, sort: Sort) -> Self {
        let worker = WorkerState::of_port(handle.port()).ok();
        let at = worker.as_ref().and_then(|worker| worker.enter_stay(sort, handle.host(), handle.id));
        Self { worker, at, sort }
    }

    /// Ready when it is to end, as others wait for memory.
    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        let (Some(worker), Some(at)) = (&self.worker, self.at) else { return Poll::Pending };
        worker.poll_told(at, cx)
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            worker.leave_stay(self.sort, self.at);
        }
    }
}

const _: () = assert!(size_of::<Stay>() <= 16, "a handler's future has room for it");

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stay").field(&self.sort).finish()
    }
}

/// One in the list, until this is dropped.
pub(crate) struct Listing {
    worker: Rc<WorkerState>,
    at: Number,
}

impl Listing {
    /// Of a connection without an exchange. `None` without room for it.
    pub(crate) fn new(worker: &Rc<WorkerState>, sort: Sort, columns: Columns) -> Option<Self> {
        let at = worker.list_stay(sort, columns, None)?;
        Some(Self { worker: Rc::clone(worker), at })
    }

    /// Ready when it is to end.
    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.worker.poll_told(self.at, cx)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.worker.unlist_stay(self.at);
    }
}

impl WorkerState {
    /// How the stream of events was told to end that a stream of HTTP/2, or a connection of HTTP/1 now is, if it is
    /// one.
    pub(crate) fn find_events(&self, key: Key, stream: Option<StreamKey>) -> Option<(Key, Stage)> {
        let number = match self.table.borrow().get(key) {
            Some(Connection::Active(active)) => active.requests,
            _ if stream.is_some() => 0,
            _ => return None,
        };
        self.find_stay(ExchangeId::new(key, number, stream))
    }
}
