//! Connections that stay: WebSockets, members of hubs, streams of events, connections that left HTTP, and tunnels. They end when their peers like, so they are a class
//! of their own: while memory is short, one more begins only while all of them hold at most three quarters of a worker's share. And what they hold counts
//! for their address, as what handlers hold does: one with many of them is no newcomer.

use ::core::cell::{Cell, RefCell};
use ::core::fmt;
use std::rc::Rc;

use plimsoll_pool::{Charge, Kind};
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::connection::{CONNECTION_BYTES, EXCHANGE_BYTES};
use crate::core::Core;
use crate::counters::Shed;
use crate::crowd::Columns;
use crate::h2::STREAM_BYTES;
use crate::websocket::WEBSOCKET_TASK_BYTES;

/// A handler's or a task's own part, which is not known.
const USUAL_BYTES: usize = 1_024;
/// The armed receive and the readiness of a connection.
const ARMED_BYTES: usize = 48;
/// A WebSocket in the table, while nothing happens on it.
const WEBSOCKET_BYTES: usize = CONNECTION_BYTES + ARMED_BYTES + WEBSOCKET_TASK_BYTES;
/// What is added to the list of WebSockets at a time.
const LISTED_AT_ONCE: usize = 256;

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A member of a hub, or a connection that a task has.
    Released,
    /// A stream of HTTP/2 that a task has.
    Tunnel,
    /// A stream of events, in its handler.
    Events,
}

impl Sort {
    const fn bytes(self) -> usize {
        match self {
            Self::Released => ARMED_BYTES + 512,
            Self::Tunnel => STREAM_BYTES + USUAL_BYTES,
            // With its head.
            Self::Events => EXCHANGE_BYTES + 2 * USUAL_BYTES,
        }
    }
}

/// Those of a worker.
#[derive(Default)]
pub(crate) struct Lasting {
    bytes: Cell<u64>,
    /// Where each WebSocket of the table is counted, by the index of its connection: it has no room for that itself.
    websockets: RefCell<Listed>,
}

#[derive(Default)]
struct Listed {
    places: Vec<Option<Columns>>,
    charge: Option<Charge>,
}

impl Lasting {
    fn enter(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
    }

    fn leave(&self, bytes: usize) {
        debug_assert!(self.bytes.get() >= bytes as u64, "it has entered");
        self.bytes.set(self.bytes.get().saturating_sub(bytes as u64));
    }
}

/// One that stays, for as long as it does.
pub(crate) struct Stay {
    core: Rc<Core>,
    sort: Sort,
    columns: Option<Columns>,
}

impl Stay {
    /// Of a connection's request, which it counts for. A handler that runs does so already.
    pub(crate) fn new(core: &Rc<Core>, key: Key, sort: Sort) -> Self {
        let columns = match sort {
            Sort::Events => {
                core.lasting.enter(sort.bytes());
                None
            }
            Sort::Released | Sort::Tunnel => Some(core.stays(key, sort)),
        };
        Self { core: Rc::clone(core), sort, columns }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        match self.columns {
            Some(columns) => self.core.left(columns, self.sort),
            None => self.core.lasting.leave(self.sort.bytes()),
        }
    }
}

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
    /// [`OverBudget`] while memory is short and those that there are hold three quarters of the worker's share: it is refused before it begins.
    pub(crate) fn may_stay(&self) -> Result<(), OverBudget> {
        let most = self.line_share / 4 * 3;
        if !self.is_weighed() || self.lasting.bytes.get() < most {
            return Ok(());
        }
        self.shed_for_room(Shed::Queue);
        Err(OverBudget::new(USUAL_BYTES as u64))
    }

    /// One of a connection's stays, and counts for its address: where, is for [`left`](Self::left).
    pub(crate) fn stays(&self, key: Key, sort: Sort) -> Columns {
        self.lasting.enter(sort.bytes());
        self.crowd.add(self.host_of(key), sort.bytes())
    }

    /// It is over.
    pub(crate) fn left(&self, columns: Columns, sort: Sort) {
        self.lasting.leave(sort.bytes());
        self.crowd.remove(columns, sort.bytes());
    }

    /// A connection of the table has become a WebSocket.
    pub(crate) fn websocket_stays(&self, key: Key) {
        self.lasting.enter(WEBSOCKET_BYTES);
        let at = key.index() as usize;
        let mut listed = self.lasting.websockets.borrow_mut();
        let Listed { places, charge } = &mut *listed;
        if at >= places.len() {
            let len = (at + 1).next_multiple_of(LISTED_AT_ONCE).max(places.len() / 4 * 5);
            let bytes = (len * size_of::<Option<Columns>>()) as u64;
            // Without room for the list it is not counted for its address.
            let Ok(larger) = self.pool.charge(Kind::Slots, bytes) else { return };
            places.reserve_exact(len - places.len());
            places.resize(len, None);
            *charge = Some(larger);
        }
        let before = places[at].replace(self.crowd.add(self.host_of(key), WEBSOCKET_BYTES));
        debug_assert!(before.is_none(), "a connection is one WebSocket");
    }

    /// A WebSocket has left the table.
    pub(crate) fn websocket_left(&self, key: Key) {
        self.lasting.leave(WEBSOCKET_BYTES);
        let columns = self.lasting.websockets.borrow_mut().places.get_mut(key.index() as usize).and_then(Option::take);
        if let Some(columns) = columns {
            self.crowd.remove(columns, WEBSOCKET_BYTES);
        }
    }
}
