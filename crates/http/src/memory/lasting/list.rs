//! Lists of those that stay: charged, and grown a little at a time.

use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use super::Sort;
use super::stays::{ExchangeId, Number, Stage};
use crate::base::counters::Shed;
use crate::exchange::handle::Ticket;
use crate::memory::by_address::Columns;
use crate::worker::connection::Connection;
use crate::worker::state::Core;

/// What is added to a list at a time, in bytes.
const GROWTH_BYTES: usize = 2_048;

/// Places with numbers, which may be empty.
pub(super) struct Listed<T> {
    places: Vec<Option<T>>,
    charge: Option<Charge>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { places: Vec::new(), charge: None }
    }
}

impl<T> Listed<T> {
    /// Puts something into an empty place; `false` without room for a longer list.
    pub(super) fn put(&mut self, pool: &Pool, at: usize, value: T) -> bool {
        if at >= self.places.len() {
            let step = (GROWTH_BYTES / size_of::<Option<T>>()).max(1);
            let len = (at + 1).next_multiple_of(step).max(self.places.len() / 4 * 5);
            let Ok(larger) = pool.charge(Kind::Slots, (len * size_of::<Option<T>>()) as u64) else { return false };
            self.places.reserve_exact(len - self.places.len());
            self.places.resize_with(len, || None);
            self.charge = Some(larger);
        }
        let before = self.places[at].replace(value);
        debug_assert!(before.is_none(), "a place is taken once");
        true
    }

    pub(super) fn take(&mut self, at: usize) -> Option<T> {
        self.places.get_mut(at)?.take()
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref()
    }
}

/// One in the list, until this is dropped.
pub(crate) struct Listing {
    core: Rc<Core>,
    at: Number,
}

impl Listing {
    /// Of a connection without an exchange. `None` without room for it.
    pub(crate) fn new(core: &Rc<Core>, sort: Sort, columns: Columns) -> Option<Self> {
        let at = core.list_stay(sort, columns, None)?;
        Some(Self { core: Rc::clone(core), at })
    }

    /// Ready when it is to end.
    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.core.poll_told(self.at, cx)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.core.unlist_stay(self.at);
    }
}

impl Core {
    /// Puts one into the list, if there is room for it.
    pub(super) fn list_stay(&self, sort: Sort, columns: Columns, ticket: Option<&Ticket>) -> Option<Number> {
        let exchange = ticket.map(|ticket| ExchangeId::new(ticket.key, ticket.number, ticket.stream));
        self.lasting.stays.borrow_mut().put(&self.pool, sort, columns, exchange)
    }

    /// Takes it out again; where it is counted.
    pub(super) fn unlist_stay(&self, at: Number) -> Columns {
        let entry = self.lasting.stays.borrow_mut().take(at).expect("it was put there, and is taken once");
        // Its waker goes now, while the list is not borrowed: it may hold what stays, too.
        entry.columns
    }

    /// Ready when it is to end.
    pub(super) fn poll_told(&self, at: Number, cx: &Context<'_>) -> Poll<()> {
        let is_known = {
            let mut stays = self.lasting.stays.borrow_mut();
            match stays.waker(at) {
                Some(waker) => waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())),
                None => return if stays.stage(at).is_some() { Poll::Ready(()) } else { Poll::Pending },
            }
        };
        if !is_known {
            // Wakers are made and dropped by their owners' code: while nothing is borrowed.
            let waker = cx.waker().clone();
            let mut stays = self.lasting.stays.borrow_mut();
            let outdated = stays.waker(at).and_then(|known| known.replace(waker));
            drop(stays);
            drop(outdated);
        }
        Poll::Pending
    }

    /// Those that can be told, the newest first.
    pub(crate) fn untold_stays(&self, mut act: impl FnMut(Key, Columns, Sort) -> bool) {
        let stays = self.lasting.stays.borrow();
        for (key, columns, sort) in stays.open() {
            if !act(key, columns, sort) {
                return;
            }
        }
    }

    /// Tells one to end, unless it is gone: who was told before it may have run what it likes.
    pub(crate) fn tell_stay(&self, key: Key, now: Instant) {
        let told = self.lasting.stays.borrow_mut().tell(key, now);
        if let Some(waker) = told {
            self.shed_for_room(Shed::Lasting);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// When the first was told of the streams of events that have not ended since.
    pub(crate) fn first_told(&self) -> Option<Instant> {
        self.lasting.stays.borrow().first_told()
    }

    /// A stream of events that was told so long ago, and has not ended: it is ended by the server.
    pub(crate) fn next_unended(self: &Rc<Self>, now: Instant, after: Duration) -> Option<Ticket> {
        let exchange = self.lasting.stays.borrow_mut().next_unended(now, after)?;
        let (key, number, stream) = exchange.parts();
        let of_stream = |stream| Ticket::of_stream(self, key, stream);
        Some(stream.map_or_else(|| Ticket::new(self, key, number), of_stream))
    }

    /// How the stream of events was told to end that a stream of HTTP/2, or a connection of HTTP/1 now is, if it is
    /// one.
    pub(crate) fn find_events(&self, key: Key, stream: Option<StreamKey>) -> Option<(Key, Stage)> {
        let number = match self.table.borrow().get(key) {
            Some(Connection::Active(active)) => active.requests,
            _ if stream.is_some() => 0,
            _ => return None,
        };
        self.lasting.stays.borrow().find(ExchangeId::new(key, number, stream))
    }
}
