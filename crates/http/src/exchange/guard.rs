//! A connection that has left the table still counts.

use ::core::fmt;
use std::rc::Rc;

use crate::exchange::handle::Exchanges;
use crate::memory::by_address::Columns;
use crate::memory::desk::Desk;
use crate::memory::lasting::Sort;

/// A connection's place among those of the server, after it has left the table. While it lives, the connection counts
/// for [`Config::connections_max`](crate::Config::connections_max) and its peer's limit, and a stop waits for it.
pub struct ConnectionGuard {
    port: Rc<dyn Exchanges>,
    /// In halves, which are aligned as all the rest.
    host: Option<[u64; 2]>,
    columns: Columns,
    sort: Sort,
}

impl ConnectionGuard {
    /// Of one that has left the table, counted under `host` and as a released one.
    pub(crate) fn new(port: Rc<dyn Exchanges>, host: Option<u128>, columns: Columns) -> Self {
        let host = host.map(|host| [(host >> 64) as u64, host as u64]);
        let guard = Self { port, host, columns, sort: Sort::Released };
        guard.desk().must_finish(1);
        guard
    }

    /// The exchanges of its worker.
    pub(crate) fn port(&self) -> &Rc<dyn Exchanges> {
        &self.port
    }

    pub(crate) fn desk(&self) -> &Desk {
        self.port.desk().expect("its connection was in a table")
    }

    /// The connection is a member of a hub, and has no task.
    pub(crate) fn becomes_member(&mut self) {
        self.desk().stays_as(self.columns, self.sort, Sort::Member);
        self.sort = Sort::Member;
    }

    /// Where it counts for its address.
    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let desk = self.desk();
        desk.counters().closed();
        desk.peers.borrow().left(self.host.map(|[high, low]| u128::from(high) << 64 | u128::from(low)));
        desk.left(self.columns, self.sort);
        desk.must_finish(-1);
    }
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionGuard")
    }
}
