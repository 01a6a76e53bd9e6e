//! Connections that stay: whether one more may, where each is counted, and who is told to end.

use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;

use plimsoll_runtime::{Instant, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::memory::by_address::Columns;
use crate::memory::desk::Desk;
use crate::memory::lasting::{ExchangeId, Number, Sort, Stage};

/// Said of one that finds no room: what it would take is not known yet.
const WANTED_BYTES: u64 = 1_024;

impl Desk {
    /// Whether one more may stay.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] while memory is short and those that there are hold three quarters of the worker's share: it is
    /// refused before it begins.
    pub(crate) fn may_stay(&self) -> Result<(), OverBudget> {
        let most = self.line_share() / 4 * 3;
        if !self.is_weighed() || self.lasting.bytes() < most {
            return Ok(());
        }
        self.shed_for_room(Shed::Queue);
        Err(OverBudget::new(WANTED_BYTES))
    }

    /// One of a connection's stays, and counts for its address: where, is for [`left`](Self::left).
    pub(crate) fn stays(&self, key: Key, sort: Sort) -> Columns {
        self.lasting.enter(sort);
        self.crowd.add(self.host_of(key), self.lasting.bytes_of(sort))
    }

    /// It is over.
    pub(crate) fn left(&self, columns: Columns, sort: Sort) {
        self.lasting.leave(sort);
        self.crowd.remove(columns, self.lasting.bytes_of(sort));
    }

    /// What left the table as one sort turns out to be another.
    pub(crate) fn stays_as(&self, columns: Columns, from: Sort, to: Sort) {
        self.left(columns, from);
        self.lasting.enter(to);
        self.crowd.add_to(columns, self.lasting.bytes_of(to));
    }

    /// A connection of the table has become a WebSocket of a sort.
    pub(crate) fn websocket_stays(&self, key: Key, sort: Sort) {
        self.lasting.enter(sort);
        let columns = self.crowd.columns(self.host_of(key));
        // Without room for the list it is not counted for its address.
        let is_listed = self.lasting.websockets.borrow_mut().put(&self.pool, key.index() as usize, columns);
        if is_listed {
            self.crowd.add_to(columns, self.lasting.bytes_of(sort));
        }
    }

    /// A WebSocket has left the table.
    pub(crate) fn websocket_left(&self, key: Key, sort: Sort) {
        self.lasting.leave(sort);
        let columns = self.lasting.websockets.borrow_mut().take(key.index() as usize);
        if let Some(columns) = columns {
            self.crowd.remove(columns, self.lasting.bytes_of(sort));
        }
    }

    /// Where a WebSocket of the table is counted.
    pub(crate) fn websocket_columns(&self, key: Key) -> Option<Columns> {
        self.lasting.websockets.borrow().get(key.index() as usize).copied()
    }

    /// An exchange stays, for a client; its place in the list. Without room there it is not counted for the client, and
    /// cannot be told to end.
    pub(crate) fn enter_stay(&self, sort: Sort, host: u64, exchange: ExchangeId) -> Option<Number> {
        self.lasting.enter(sort);
        let columns = self.crowd.columns(host);
        let at = self.list_stay(sort, columns, Some(exchange));
        if at.is_some() && sort.is_counted() {
            self.crowd.add_to(columns, self.lasting.bytes_of(sort));
        }
        at
    }

    /// It does so no longer.
    pub(crate) fn leave_stay(&self, sort: Sort, at: Option<Number>) {
        self.lasting.leave(sort);
        let columns = at.map(|at| self.unlist_stay(at));
        if let Some(columns) = columns.filter(|_| sort.is_counted()) {
            self.crowd.remove(columns, self.lasting.bytes_of(sort));
        }
    }

    /// Puts one into the list, if there is room for it.
    pub(crate) fn list_stay(&self, sort: Sort, columns: Columns, exchange: Option<ExchangeId>) -> Option<Number> {
        self.lasting.stays.borrow_mut().put(&self.pool, sort, columns, exchange)
    }

    /// Takes it out again; where it is counted.
    pub(crate) fn unlist_stay(&self, at: Number) -> Columns {
        let entry = self.lasting.stays.borrow_mut().take(at).expect("it was put there, and is taken once");
        // Its waker goes now, while the list is not borrowed: it may hold what stays, too.
        entry.columns
    }

    /// Ready when it is to end.
    pub(crate) fn poll_told(&self, at: Number, cx: &Context<'_>) -> Poll<()> {
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
    pub(crate) fn open_stays(&self, mut act: impl FnMut(Key, Columns, Sort) -> bool) {
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
    pub(crate) fn next_unended(&self, now: Instant, after: Duration) -> Option<ExchangeId> {
        self.lasting.stays.borrow_mut().next_unended(now, after)
    }

    /// How a stream of events was told to end, if an exchange is one.
    pub(crate) fn find_stay(&self, exchange: ExchangeId) -> Option<(Key, Stage)> {
        self.lasting.stays.borrow().find(exchange)
    }
}
