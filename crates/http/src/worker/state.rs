//! What the engine of a worker and the handlers it started share: the connection table and everything written to it.

use ::core::cell::RefCell;
use ::core::ops::Deref;
use std::rc::{Rc, Weak};

use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Table;
use plimsoll_slab::Key;

use crate::base::access_record::LogHook;
use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::error::Error;
use crate::base::peers::Addresses;
use crate::exchange::head::HeadCallbacks;
use crate::h1::active::Active;
use crate::h1::body_receive;
use crate::h2;
use crate::hub::Members;
use crate::memory::desk::{Connections, Desk};
use crate::memory::lasting::ExchangeId;
use crate::websocket::KnownSettings;
use crate::worker::connection::Connection;
use crate::worker::stay_bytes::stay_bytes;
use crate::worker::turns::Turns;

/// The shared part of one worker's server.
pub(crate) struct WorkerState {
    desk: Desk,
    pub(crate) table: RefCell<Table<Connection>>,
    pub(crate) turns: Turns,
    /// Members of hubs, while there are some.
    pub(crate) members: RefCell<Weak<Members>>,
    pub(crate) http2: h2::Shared,
    pub(crate) heads: HeadCallbacks,
    pub(crate) websockets: RefCell<KnownSettings>,
    /// The paths of the routes, for handlers that ask for a parameter.
    #[cfg(feature = "router")]
    pub(crate) routes: ::core::cell::OnceCell<Rc<dyn crate::exchange::paths::Paths>>,
}

/// Drops a connection in whose place another was put: nearly always there is none.
#[cold]
fn drop_before(connection: Connection) {
    drop(connection);
}

impl Deref for WorkerState {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl WorkerState {
    pub(crate) fn new(
        table: Table<Connection>,
        config: Config,
        counters: Counters,
        addresses: Addresses,
        log: Option<LogHook>,
    ) -> Rc<Self> {
        let pool = plimsoll_runtime::pool();
        let line_share = pool.budget().limit().as_bytes() / counters.0.len() as u64;
        let config = Config { body_receive_leases_max: body_receive::leases_max(&config, line_share), ..config };
        let turns = Turns::new(&pool);
        let worker = Rc::new(Self {
            desk: Desk::new((config, log), line_share, pool, (counters, addresses), stay_bytes()),
            table: RefCell::new(table),
            turns,
            members: RefCell::default(),
            http2: h2::Shared::default(),
            heads: HeadCallbacks::default(),
            websockets: RefCell::default(),
            #[cfg(feature = "router")]
            routes: ::core::cell::OnceCell::new(),
        });
        let connections: Rc<dyn Connections> = worker.clone();
        worker.desk.serve(Rc::downgrade(&connections));
        worker
    }

    /// Begins a turn of the engine.
    pub(crate) fn begin_turn(&self) {
        self.turns.begin();
        if self.desk.begin_turn() {
            self.weigh_what_runs();
        }
    }

    /// The members of hubs on this worker.
    pub(crate) fn members(&self) -> Result<Rc<Members>, Error> {
        let known = self.members.borrow().upgrade();
        if let Some(members) = known {
            return Ok(members);
        }
        let members = Members::new()?;
        self.members.replace(Rc::downgrade(&members));
        Ok(members)
    }

    /// Whether a connection of HTTP/1 is between requests.
    pub(crate) fn is_parked(&self, key: Key) -> bool {
        matches!(self.table.borrow().get(key), Some(Connection::Parked { .. }))
    }

    /// Whether nothing was received of the next request of a connection of HTTP/1.
    pub(crate) fn is_between_requests(&self, key: Key) -> bool {
        self.is_parked(key) || self.is_unread(key)
    }

    /// Puts a connection back.
    pub(crate) fn put(&self, key: Key, connection: Connection) {
        let mut table = self.table.borrow_mut();
        let Some(place) = table.get_mut(key) else { return };
        let before = ::core::mem::replace(place, connection);
        match before {
            // There is nothing in it to be dropped.
            Connection::Taken => ::core::mem::forget(before),
            before => drop_before(before),
        }
    }

    /// Takes an active connection out of the table.
    // In each request: without a frame of its own.
    #[inline(always)]
    pub(crate) fn take(&self, key: Key) -> Option<PoolBox<Active>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Active(active) => Some(active),
            other => {
                *connection = other;
                None
            }
        }
    }

    /// Runs `act` on the exchange of HTTP/1 with this id, if it is still the one that is worked on.
    pub(crate) fn with<R>(&self, id: ExchangeId, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        let mut table = self.table.borrow_mut();
        match table.get_mut(id.key())? {
            Connection::Active(active) if active.requests == id.number() => Some(act(active)),
            _ => None,
        }
    }
}
