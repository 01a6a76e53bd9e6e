//! The ends of a connection: closed gently, shed, cut off; and the stop of the server.

use http::StatusCode;
use plimsoll_codec::h1::ResponseState;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::SendBytes;
use plimsoll_slab::Key;

use crate::connection::{Active, Connection, Deadline};
use crate::counters::Shed;
use crate::engine::Engine;
use crate::server::Service;

impl<S: Service> Engine<S> {
    /// Closes a connection whose answer has been sent, so that the peer sees the answer.
    pub(crate) fn close_gently(&mut self, key: Key) {
        let Some(active) = self.core.take(key) else { return self.close(key) };
        self.core.put(key, Connection::Lingering { dropped_bytes: 0 });
        self.finish_active(active);
        self.linger(key);
    }

    /// Shuts our half down, and reads on until the peer has closed its own, or for a while: bytes that nobody read would make the kernel
    /// answer with a reset, which can overtake what we sent.
    pub(crate) fn linger(&mut self, key: Key) {
        let mut table = self.core.table.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, self.core.config.linger_timeout);
        let receiving = table.receive(key);
        drop(table);
        if receiving.is_err() {
            self.close(key);
        }
    }

    /// Lets go of a connection for which there is no room: with a 503 from static bytes, or if an answer is on its way, after that.
    pub(crate) fn shed(&mut self, key: Key, reason: Shed) {
        self.core.counters().shed(reason);
        let mut table = self.core.table.borrow_mut();
        let sending = table.is_sending(key);
        let Some(place) = table.get_mut(key) else { return };
        let connection = ::core::mem::replace(place, Connection::Lingering { dropped_bytes: 0 });
        drop(table);
        if let Connection::Active(active) = connection {
            if sending || has_begun(&active) {
                return self.shed_midway(key, active);
            }
            self.finish_active(active);
        }
        let mut table = self.core.table.borrow_mut();
        table.schedule(key, self.core.config.linger_timeout);
        let told = sending || table.send(key, SendBytes::Static(OVERLOADED)).is_ok();
        drop(table);
        if !told {
            self.close(key);
        } else if !sending {
            self.core.counters().response(StatusCode::SERVICE_UNAVAILABLE.as_u16());
        }
    }

    /// What was answered already still leaves.
    fn shed_midway(&mut self, key: Key, mut active: PoolBox<Active>) {
        let handler = active.handler.take();
        active.closing = true;
        active.input = None;
        let mut table = self.core.table.borrow_mut();
        let flushed = active.output.flush(&self.core.pool, &mut table, key);
        let leaves = flushed.is_ok() && table.is_sending(key);
        table.schedule(key, self.core.config.send_timeout);
        active.deadline = Deadline::Send;
        if let Some(place) = table.get_mut(key) {
            *place = Connection::Active(active);
        }
        drop(table);
        if let Some(handler) = handler {
            handler.abort();
        }
        if !leaves {
            self.close(key);
        }
    }

    fn finish_active(&self, mut active: PoolBox<Active>) {
        self.core.counters().active(-1);
        self.core.log_streamed(&mut active);
        let handler = active.handler.take();
        drop(active);
        if let Some(handler) = handler {
            handler.abort();
        }
    }

    /// Closes a connection at once. A handler that still runs is dropped.
    pub(crate) fn close(&mut self, key: Key) {
        let mut table = self.core.table.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let connection = table.close(key);
        drop(table);
        self.core.counters().closed();
        if let Connection::Active(active) = connection {
            self.finish_active(active);
        }
    }

    /// No new connections, and no new requests on those that are parked.
    pub(crate) fn begin_stop(&mut self) {
        let mut parked = Vec::new();
        let mut table = self.core.table.borrow_mut();
        table.stop_accepting();
        let keys: Vec<Key> = table.keys().collect();
        for key in keys {
            let sending = table.is_sending(key);
            match table.get_mut(key) {
                Some(Connection::Active(active)) => active.exchange.close_after(),
                Some(Connection::Parked { .. }) if !sending => parked.push(key),
                _ => {}
            }
        }
        drop(table);
        for key in parked {
            self.close(key);
        }
    }

    pub(crate) fn is_drained(&self) -> bool {
        let table = self.core.table.borrow();
        table.is_empty() && !table.is_accepting()
    }

    /// Closes everything at once.
    pub(crate) fn close_all(&mut self) {
        let mut table = self.core.table.borrow_mut();
        table.refuse();
        let keys: Vec<Key> = table.keys().collect();
        drop(table);
        for key in keys {
            self.close(key);
        }
    }
}

/// Whether something of an answer was written that the peer has not got yet, or has got a part of.
fn has_begun(active: &Active) -> bool {
    !active.output.is_empty() || !matches!(active.exchange.response(), ResponseState::Idle | ResponseState::Head)
}

/// What a connection is told that there is no room for.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
