//! Connections that stay: WebSockets, members of hubs, streams of events, connections that left HTTP, and tunnels. They
//! end when their peers like, so they are a class of their own: while memory is short, one more begins only while all
//! of them hold at most three quarters of a worker's share. And what they hold counts for their address, as what
//! handlers hold does: one with many of them is no newcomer.
//!
//! When others have waited for memory for a while, the newest of the address that holds most are told to end
//! ([`pressure`](crate::worker::pressure)). WebSockets and members of hubs are found in their tables; the others are in
//! a list of those that can be told:
//!
//! ```text
//!         told              its handler has not ended it within a second
//!  Open --------> Told(when) -------------------------------------------> Ended (a stream of events, by the server)
//! ```

mod list;
mod stays;

use ::core::cell::{Cell, RefCell};

use crate::memory::by_address::Columns;
use list::Listed;
use stays::Stays;
pub(crate) use stays::{ExchangeId, Number};
pub(crate) use stays::{Sort, Stage};

/// What one of each [`Sort`] holds while nothing happens on it, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StayBytes {
    pub(crate) called: usize,
    pub(crate) awaited: usize,
    pub(crate) member: usize,
    pub(crate) released: usize,
    pub(crate) tunnel: usize,
    /// Beside the handler.
    pub(crate) events: usize,
}

/// Those of a worker.
pub(crate) struct Lasting {
    bytes: Cell<u64>,
    stay_bytes: StayBytes,
    /// Of a handler that waits, with its cell.
    handler_bytes: Cell<usize>,
    /// Where each WebSocket of the table is counted, by the index of its connection: it has no room for that itself.
    pub(crate) websockets: RefCell<Listed<Columns>>,
    pub(crate) stays: RefCell<Stays>,
}

impl Lasting {
    pub(crate) fn new(stay_bytes: StayBytes) -> Self {
        Self {
            bytes: Cell::new(0),
            stay_bytes,
            handler_bytes: Cell::new(0),
            websockets: RefCell::default(),
            stays: RefCell::default(),
        }
    }

    /// Before anything stays: what a handler that waits takes.
    pub(crate) fn know_handlers(&self, handler_bytes: usize) {
        self.handler_bytes.set(handler_bytes);
    }

    /// With how many bytes one of a sort counts: what it holds while nothing happens on it.
    pub(crate) fn bytes_of(&self, sort: Sort) -> usize {
        match sort {
            Sort::Called => self.stay_bytes.called,
            Sort::Awaited => self.stay_bytes.awaited,
            Sort::Member => self.stay_bytes.member,
            Sort::Released => self.stay_bytes.released,
            Sort::Tunnel => self.stay_bytes.tunnel,
            Sort::Events => self.stay_bytes.events + self.handler_bytes.get(),
        }
    }

    /// Bytes with which those that there are count.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn enter(&self, sort: Sort) {
        self.bytes.set(self.bytes.get() + self.bytes_of(sort) as u64);
    }

    pub(crate) fn leave(&self, sort: Sort) {
        let bytes = self.bytes_of(sort) as u64;
        debug_assert!(self.bytes.get() >= bytes, "it has entered");
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}
