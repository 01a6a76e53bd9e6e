//! Connections that stay: WebSockets, members of hubs, streams of events, connections that left HTTP, and tunnels. They
//! end when their peers like, so they are a class of their own: while memory is short, one more begins only while all
//! of them hold at most three quarters of a worker's share. And what they hold counts for their address, as what
//! handlers hold does: one with many of them is no newcomer.
//!
//! When others have waited for memory for a while, the newest of the address that holds most are told to end
//! ([`relief`](crate::memory::pressure)). WebSockets and members of hubs are found in their tables; the others are in a
//! list of those that can be told:
//!
//! ```text
//!         told              its handler has not ended it within a second
//!  Open --------> Told(when) -------------------------------------------> Ended (a stream of events, by the server)
//! ```

mod list;
mod stays;

use ::core::cell::{Cell, RefCell};
use ::core::fmt;
use ::core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::exchange::handle::Ticket;
use crate::face::plan;
use crate::h2::STREAM_BYTES;
use crate::hub::MEMBER_BYTES;
use crate::memory::by_address::Columns;
use crate::websocket::{WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES};
use crate::worker::connection::{CONNECTION_BYTES, EXCHANGE_BYTES};
use crate::worker::state::Core;
use list::Listed;
pub(crate) use list::Listing;
use stays::{Number, Stays};
pub(crate) use stays::{Sort, Stage};

/// What a task holds that is not known, with its cell, at least.
const TASK_BYTES: usize = plan::TASK_BYTES;
/// A request's head, which its handler may keep.
const HEAD_BYTES: usize = 256;
/// The armed receive and the readiness of a connection.
const ARMED_BYTES: usize = 48;
/// The same of a stream of HTTP/2: with a WebSocket on it, more than a connection's.
const TUNNEL_TASK_BYTES: usize = 1_024;
/// A connection that a task has: its socket.
const SOCKET_BYTES: usize = 128;
/// Said of one that finds no room: what it would take is not known yet.
const WANTED_BYTES: u64 = 1_024;

/// Those of a worker.
#[derive(Default)]
pub(crate) struct Lasting {
    bytes: Cell<u64>,
    /// Of a handler that waits, with its cell.
    handler_bytes: Cell<usize>,
    /// Where each WebSocket of the table is counted, by the index of its connection: it has no room for that itself.
    websockets: RefCell<Listed<Columns>>,
    stays: RefCell<Stays>,
}

impl Lasting {
    /// Bytes with which those that there are count.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Before anything stays: how large the futures of handlers are.
    pub(crate) fn know_handlers(&self, handler_bytes: usize) {
        self.handler_bytes.set(plan::class_bytes(handler_bytes + plan::TASK_BYTES) as usize);
    }

    /// With how many bytes one of a sort counts: what it holds while nothing happens on it.
    pub(crate) fn bytes_of(&self, sort: Sort) -> usize {
        match sort {
            Sort::Called => CONNECTION_BYTES + ARMED_BYTES + WEBSOCKET_PARKED_BYTES,
            Sort::Awaited => CONNECTION_BYTES + ARMED_BYTES + WEBSOCKET_TASK_BYTES + TASK_BYTES,
            Sort::Member => MEMBER_BYTES + ARMED_BYTES,
            Sort::Released => SOCKET_BYTES + ARMED_BYTES + TASK_BYTES,
            Sort::Tunnel => STREAM_BYTES + TUNNEL_TASK_BYTES,
            Sort::Events => CONNECTION_BYTES + ARMED_BYTES + EXCHANGE_BYTES + HEAD_BYTES + self.handler_bytes.get(),
        }
    }

    fn enter(&self, sort: Sort) {
        self.bytes.set(self.bytes.get() + self.bytes_of(sort) as u64);
    }

    fn leave(&self, sort: Sort) {
        let bytes = self.bytes_of(sort) as u64;
        debug_assert!(self.bytes.get() >= bytes, "it has entered");
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}

/// One that stays, for as long as it does. Small: it is in the future of its handler, twice where that ends it.
pub(crate) struct Stay {
    core: Rc<Core>,
    /// In the list. Without room there it is not counted for its address, and cannot be told to end.
    at: Option<Number>,
    sort: Sort,
}

impl Stay {
    /// Of the exchange that a ticket is for.
    pub(crate) fn new(core: &Rc<Core>, ticket: &Ticket, sort: Sort) -> Self {
        core.lasting.enter(sort);
        let columns = core.crowd.columns(core.host_of_exchange(ticket.key, ticket.stream));
        let at = core.list_stay(sort, columns, Some(ticket));
        if at.is_some() && sort.is_counted() {
            core.crowd.add_to(columns, core.lasting.bytes_of(sort));
        }
        Self { core: Rc::clone(core), at, sort }
    }

    /// Ready when it is to end, as others wait for memory.
    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.at.map_or(Poll::Pending, |at| self.core.poll_told(at, cx))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.core.lasting.leave(self.sort);
        let columns = self.at.map(|at| self.core.unlist_stay(at));
        if let Some(columns) = columns.filter(|_| self.sort.is_counted()) {
            self.core.crowd.remove(columns, self.core.lasting.bytes_of(self.sort));
        }
    }
}

const _: () = assert!(size_of::<Stay>() <= 16, "a handler's future has room for it");

impl fmt::Debug for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stay").field(&self.sort).finish()
    }
}

impl Core {
    /// Whether one more may stay.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] while memory is short and those that there are hold three quarters of the worker's share: it is
    /// refused before it begins.
    pub(crate) fn may_stay(&self) -> Result<(), OverBudget> {
        let most = self.line_share / 4 * 3;
        if !self.is_weighed() || self.lasting.bytes.get() < most {
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
}
