//! Connections that go on as something else after an answer: they leave the table, or become a WebSocket in it.

use ::core::any::Any;
use ::core::fmt;
use std::rc::Rc;

use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Stream;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::h1::active::Active;
use crate::memory::by_address::Columns;
use crate::memory::lasting::Sort;
use crate::websocket::Opening;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

/// What is done with a connection after its 101, or its 2xx to CONNECT.
pub(crate) type Upgrade = Box<dyn FnOnce(Stream, Seat)>;

/// Who gets a connection after a 101: what an exchange of HTTP/1 keeps, and knows nothing of.
pub(crate) enum Successor {
    Upgrade(Upgrade),
    WebSocket(Opening),
}

/// A connection's place among those of the server, after it has left the table. While it lives, the connection counts
/// for [`Config::connections_max`](crate::Config::connections_max) and its peer's limit, and a stop waits for it.
pub struct Seat {
    pub(crate) core: Rc<Core>,
    host: Option<u128>,
    columns: Columns,
    sort: Sort,
}

impl Seat {
    pub(crate) fn is_stopping(&self) -> bool {
        self.core.is_stopping()
    }

    /// The connection is a member of a hub, and has no task.
    pub(crate) fn becomes_member(&mut self) {
        self.core.stays_as(self.columns, self.sort, Sort::Member);
        self.sort = Sort::Member;
    }

    /// Where it counts for its address.
    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.core.counters().closed();
        self.core.peers.borrow().left(self.host);
        self.core.left(self.columns, self.sort);
        self.core.must_finish(-1);
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}

impl<S: Service> Engine<S> {
    /// The answer has left behind which the connection is another's.
    pub(crate) fn succeed(&mut self, key: Key, active: PoolBox<Active>, successor: Box<dyn Any>) {
        match successor.downcast().map(|successor| *successor) {
            Ok(Successor::Upgrade(upgrade)) => self.hand_over(key, active, upgrade),
            Ok(Successor::WebSocket(opening)) => self.become_websocket(key, active, opening),
            Err(_) => unreachable!("there is no other successor"),
        }
    }

    /// The answer has left: the connection is no longer ours.
    fn hand_over(&mut self, key: Key, mut active: PoolBox<Active>, upgrade: Upgrade) {
        // While it is known from where it is.
        let columns = self.core.stays(key, Sort::Released);
        let released = self.core.table.borrow_mut().release(key, active.input.take());
        let Ok((_taken, stream)) = released else {
            self.core.left(columns, Sort::Released);
            self.core.put(key, Connection::Active(active));
            return self.shed(key, Shed::Parked);
        };
        let host = self.core.peers.borrow_mut().released(key);
        self.finish_active(active, ExchangeEnd::Finished);
        self.core.must_finish(1);
        upgrade(stream, Seat { core: Rc::clone(&self.core), host, columns, sort: Sort::Released });
    }
}
