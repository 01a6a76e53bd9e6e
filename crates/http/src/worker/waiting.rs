//! Which connections of the table wait for memory, and for what.

use ::core::net::SocketAddr;
use ::core::time::Duration;

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::Priority;
use plimsoll_runtime::{Lease, OverBudget};
use plimsoll_slab::Key;

use crate::h1::active::{Active, EXCHANGE_BYTES};
use crate::h2::STREAM_BYTES;
use crate::memory::desk::Connections;
use crate::memory::wait::MemoryWait;
use crate::memory::waits::{TooMany, Waits};
use crate::worker::connection::Connection;
use crate::worker::state::Core;

/// Room for so many connections is kept while memory is short.
const PLACES_MIN: usize = 16;
/// A head, and a handler's future with its task.
const USUAL_BYTES: usize = 1_024;

impl Connections for Core {
    fn socket_address(&self, key: Key) -> Option<SocketAddr> {
        let mut table = self.table.borrow_mut();
        table.get(key)?;
        table.peer_address(key).ok()?.ip()
    }

    /// Whether who has a place still waits. A stream of a connection that is worked on now does.
    fn waits(&self, waits: &Waits) -> bool {
        let Some(stream) = waits.stream else { return self.is_hungry_itself(waits.key) };
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

impl Core {
    /// Whether a connection waits, beside its streams.
    pub(crate) fn is_hungry_itself(&self, key: Key) -> bool {
        match self.table.borrow().get(key) {
            Some(Connection::Unread { .. }) => true,
            Some(Connection::Active(active)) => active.is_queued(),
            Some(Connection::Http2(http2)) => http2.hunger.memory.is_queued(),
            Some(Connection::WebSocket(socket)) => socket.is_hungry(),
            _ => false,
        }
    }

    /// What an exchange waited for has been done without: its place is not for the next one.
    pub(crate) fn wait_no_longer(&self, key: Key, active: &mut Active) {
        if active.is_queued() {
            self.sate(key);
        }
        active.memory = MemoryWait::None;
    }

    /// Has a connection wait for room; for more of it each time it found none where there should have been some.
    ///
    /// # Errors
    ///
    /// [`TooMany`] wait, or it would be too much.
    pub(crate) fn starve(&self, key: Key, active: &mut Active, want: Priority, bytes: usize) -> Result<(), TooMany> {
        self.starve_as(Waits::new(key, None), &mut active.memory, want, bytes)
    }

    /// The same for one that is in the table, and that the engine does not look after right now. Whether it waits.
    pub(crate) fn starve_in_table(&self, key: Key, want: Priority, over: &OverBudget) -> bool {
        let bytes = usize::try_from(over.wanted_bytes()).unwrap_or(usize::MAX);
        let Some(mut active) = self.take(key) else { return false };
        let waits = self.starve(key, &mut active, want, bytes).is_ok();
        self.list(key, &mut active);
        self.put(key, Connection::Active(active));
        waits
    }

    /// Room for what came of a request and finds none in the pool: of a body, and of what follows a request whose
    /// handler runs, what is [kept for other ends](crate::memory::desk::Desk::spare_landed).
    pub(crate) fn spare(&self, key: Key, active: &Active, bytes: &[u8]) -> Option<Lease> {
        if active.exchange.request() != RequestState::Body && active.handler.is_none() {
            let mut lease = if active.is_queued() { self.spare_lease(key, bytes.len())? } else { return None };
            lease.extend(bytes);
            return Some(lease);
        }
        self.keep_landed(bytes, true)
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
                    active.seat = Some(self.seat_of(host, EXCHANGE_BYTES + USUAL_BYTES));
                }
                Some(Connection::Http2(http2)) => {
                    for (client, seat) in http2.running_seats() {
                        *seat = Some(self.seat_of(client.unwrap_or(host), STREAM_BYTES + USUAL_BYTES));
                    }
                }
                _ => {}
            }
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
