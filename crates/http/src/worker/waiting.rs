//! Which connections of the table wait for memory, and for what.

use ::core::net::SocketAddr;
use ::core::time::Duration;

use plimsoll_pool::Priority;
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::base::peers::by_ip;
use crate::h1::active::EXCHANGE_BYTES;
use crate::h2::STREAM_BYTES;
use crate::memory::desk::Connections;
use crate::memory::waits::Waits;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

/// Room for so many connections is kept while memory is short.
const PLACES_MIN: usize = 16;
/// A head, and a handler's future with its task.
const USUAL_BYTES: usize = 1_024;

impl Connections for WorkerState {
    fn socket_address(&self, key: Key) -> Option<SocketAddr> {
        let mut table = self.table.borrow_mut();
        table.get(key)?;
        table.peer_address(key).ok().map(by_ip)
    }

    /// Whether who has a place still waits. A stream of a connection that is worked on now does.
    fn waits(&self, waits: &Waits) -> bool {
        let Some(stream) = waits.stream else { return self.is_queued_itself(waits.key) };
        match self.table.borrow().get(waits.key) {
            Some(Connection::Http2(http2)) => http2.awaits_begin(stream.get()) || http2.is_held(stream.get()),
            Some(Connection::Taken) => true,
            _ => false,
        }
    }

    fn displaced(&self, who: &Waits) {
        let mut table = self.table.borrow_mut();
        if let (Some(stream), Some(Connection::Http2(http2))) = (who.stream, table.get_mut(who.key)) {
            http2.lose_place(stream.get());
        }
        table.schedule(who.key, Duration::ZERO);
    }
}

impl WorkerState {
    /// Whether a connection waits, beside its streams.
    pub(crate) fn is_queued_itself(&self, key: Key) -> bool {
        match self.table.borrow().get(key) {
            Some(Connection::Unread { .. }) => true,
            Some(Connection::Active(active)) => active.is_queued(),
            Some(Connection::Http2(http2)) => http2.is_queued(),
            Some(Connection::WebSocket(socket)) => socket.is_queued(),
            _ => false,
        }
    }

    /// Has a connection that is in the table, and that the engine does not look after right now, wait for room. Whether
    /// it waits.
    pub(crate) fn enqueue_in_table(&self, key: Key, want: Priority, over: &OverBudget) -> bool {
        let Some(mut active) = self.take(key) else { return false };
        let waits = active.awaits_room(self, key, want, over);
        self.put(key, Connection::Active(active));
        waits
    }

    /// Memory comes to be short: what each address holds already.
    #[cold]
    pub(crate) fn weigh_what_runs(&self) {
        let places = self.table.borrow().places();
        for place in 0..places {
            let Some(key) = self.table.borrow().key_at(place) else { continue };
            let may_run = match self.table.borrow().get(key) {
                Some(Connection::Active(active)) => active.handler.is_some(),
                Some(Connection::Http2(http2)) => http2.has_exchanges(),
                _ => false,
            };
            if !may_run {
                continue;
            }
            let host = self.host_of(key);
            match self.table.borrow_mut().get_mut(key) {
                Some(Connection::Active(active)) => {
                    active.share = Some(self.peer_share_of(host, EXCHANGE_BYTES + USUAL_BYTES));
                }
                Some(Connection::Http2(http2)) => {
                    for (client, share) in http2.running_shares() {
                        *share = Some(self.peer_share_of(client.unwrap_or(host), STREAM_BYTES + USUAL_BYTES));
                    }
                }
                _ => {}
            }
        }
    }

    /// A connection that is not of HTTP/1 got room; whether a handler or a task of it takes it.
    pub(crate) fn wake_fed(&self, key: Key) -> bool {
        let mut table = self.table.borrow_mut();
        match table.get_mut(key) {
            Some(Connection::Http2(http2)) => http2.grant(self, key),
            Some(Connection::WebSocket(socket)) => {
                let has_waited = socket.feed();
                if has_waited && socket.enlist() {
                    self.enlist(key);
                }
                has_waited
            }
            _ => false,
        }
    }

    /// Makes room for the next connections, if there is memory for that.
    pub(crate) fn reserve_places(&self) -> Result<(), OverBudget> {
        self.reserve.draw(|| self.table.borrow_mut().reserve_entries(PLACES_MIN))
    }

    /// Whether there is hardly room for further connections.
    pub(crate) fn lacks_places(&self) -> bool {
        self.table.borrow().vacancies() < PLACES_MIN
    }
}

impl<S: Service> Engine<S> {
    /// Whether a request may be begun as far as memory and other handlers go: nobody else waits for it, and there is
    /// some.
    pub(crate) fn has_room(&mut self, key: Key) -> bool {
        if self.worker.has_all_handlers() || self.worker.is_drawn() {
            return false;
        }
        // The queue is looked through only for who might be begun: it may be long.
        if !self.worker.may_hold_more(key) {
            return false;
        }
        let is_next = self.worker.fed.get() == Some(key) || self.worker.is_newcomer(key);
        let overtakes = self.worker.has_waiting() && !is_next && self.worker.is_turn_of_others(key);
        !overtakes && self.retried(key, |engine| engine.worker.try_room(key)).is_ok()
    }

    /// Whether memory is short and a request may not be begun for that.
    pub(crate) fn lacks_room(&mut self, key: Key) -> bool {
        self.worker.is_scarce() && !self.has_room(key)
    }
}
