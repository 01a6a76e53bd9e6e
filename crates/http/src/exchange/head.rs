//! Callbacks that see the head of an answer right before it is encoded, whole or streamed.
//!
//! ```text
//!  Request::on_head --> kept by exchange --> ExchangeHandle::begin (streamed), Responder (whole): run once,
//!                                        |   the last one first
//!                                        \-> Responder dropped: forgotten
//! ```

use ::core::cell::{Cell, RefCell};
use ::core::fmt;
use ::core::mem::take;
use std::collections::BTreeMap;

use http::StatusCode;
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::exchange::response::Response;
use crate::memory::lasting::ExchangeId;

/// The head of an answer that is about to be encoded. See [`Request::on_head`](crate::Request::on_head).
pub struct ResponseHead<'a>(&'a mut Response);

impl ResponseHead<'_> {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// Sets another status, but of a response that was refused: see [`Response::header`].
    pub fn set_status(&mut self, status: StatusCode) {
        self.0.set_status(status);
    }

    /// The fields, in order. Those that are the server's, such as `Date`, are not among them.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.headers()
    }

    /// The value of the first field of a name, in any case of letters.
    pub fn header_value(&self, name: &str) -> Option<&[u8]> {
        self.0.header_value(name)
    }

    /// Adds a field.
    ///
    /// # Errors
    ///
    /// As [`Response::try_header`]; the head is as it was.
    pub fn add_header(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.0.push_field(name, value.as_ref())
    }

    /// Takes all fields of a name out.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when there is no room to put the others together; the head is as it was.
    pub fn remove_header(&mut self, name: &str) -> Result<(), Error> {
        self.0.remove_fields(name)
    }
}

impl fmt::Debug for ResponseHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHead").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// What is called with a head.
pub(crate) type HeadCallback = Box<dyn FnOnce(&mut ResponseHead<'_>)>;

/// The callbacks of a worker's exchanges. The number of an exchange is also that of its stream.
#[derive(Default)]
pub(crate) struct HeadCallbacks {
    by_exchange: RefCell<ByExchange>,
    /// Whether there are some: nearly always there are none, and each answer asks.
    is_any: Cell<bool>,
}

type ByExchange = BTreeMap<(Key, u32), (ExchangeId, Vec<HeadCallback>)>;

impl HeadCallbacks {
    /// Keeps one for an exchange that is still there.
    pub(crate) fn push(&self, id: ExchangeId, callback: HeadCallback) {
        let mut all = self.by_exchange.borrow_mut();
        all.entry((id.key(), id.number())).or_insert_with(|| (id, Vec::new())).1.push(callback);
        self.is_any.set(true);
    }

    /// Of how many exchanges there are some.
    pub(crate) fn len(&self) -> usize {
        self.by_exchange.borrow().len()
    }

    /// Forgets those of exchanges that are over: what came after the answer was never run.
    pub(crate) fn retain(&self, is_there: impl Fn(ExchangeId) -> bool) {
        let all = take(&mut *self.by_exchange.borrow_mut());
        let (kept, gone): (ByExchange, ByExchange) = all.into_iter().partition(|(_, (id, _))| is_there(*id));
        self.by_exchange.borrow_mut().extend(kept);
        // Dropped with nothing borrowed: what they have captured is the program's.
        drop(gone);
    }

    /// Runs those of an exchange, the last one first, with nothing borrowed.
    pub(crate) fn run(&self, id: ExchangeId, response: &mut Response) {
        if self.is_any.get() {
            self.run_all(id, response);
        }
    }

    #[cold]
    fn run_all(&self, id: ExchangeId, response: &mut Response) {
        for callback in self.take(id).into_iter().rev() {
            callback(&mut ResponseHead(response));
        }
    }

    /// Drops those of an exchange, with nothing borrowed.
    pub(crate) fn forget(&self, id: ExchangeId) {
        if self.is_any.get() {
            drop(self.take(id));
        }
    }

    #[cold]
    fn take(&self, id: ExchangeId) -> Vec<HeadCallback> {
        let mut all = self.by_exchange.borrow_mut();
        let taken = all.remove(&(id.key(), id.number()));
        self.is_any.set(!all.is_empty());
        taken.map(|(_, callbacks)| callbacks).unwrap_or_default()
    }
}
