//! The ends of a connection: closed gently, shed, cut off, and the stop of the server.

use std::rc::Rc;

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
    /// Closes a connection whose answer has been sent, so that the peer sees the answer: our half first, the rest when the peer has closed
    /// its own, or after a while.
    fn close_gently(&mut self, key: Key) {
        let Some(mut active) = self.core.take(key) else { return self.close(key) };
        self.core.log_streamed(&mut active);
        let handler = active.handler.take();
        drop(active);
        self.core.counters().active(-1);
        let mut table = self.core.table.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, self.core.config.linger_timeout);
        *table.get_mut(key).expect("a live connection") = Connection::Lingering { dropped_bytes: 0 };
        let receiving = table.receive(key);
        drop(table);
        if let Some(handler) = handler {
            handler.abort();
        }
        if receiving.is_err() {
            self.close(key);
        }
    }

    /// Lets go of a connection for which there is no room, with a 503 from static bytes if nothing of an answer was sent.
    fn shed(&mut self, key: Key, reason: Shed) {
        self.core.counters().shed(reason);
        let mut table = self.core.table.borrow_mut();
        let connection = table
            .get_mut(key)
            .map(|connection| ::core::mem::replace(connection, Connection::Lingering { dropped_bytes: 0 }));
        let silent = table.is_sending(key);
        drop(table);
        let begun = match connection {
            Some(Connection::Active(active)) => {
                let begun = !matches!(active.exchange.response(), ResponseState::Idle | ResponseState::Head);
                self.finish_active(active);
                begun
            }
            _ => false,
        };
        let mut table = self.core.table.borrow_mut();
        let told = !silent && !begun && table.send(key, SendBytes::Static(OVERLOADED)).is_ok();
        table.schedule(key, self.core.config.linger_timeout);
        drop(table);
        if told {
            self.core.counters().response(StatusCode::SERVICE_UNAVAILABLE.as_u16());
        } else {
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
    fn close(&mut self, key: Key) {
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
    fn begin_stop(&mut self) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        table.stop_accepting();
        let keys: Vec<Key> = table.keys().collect();
        let mut parked = Vec::new();
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

    fn is_drained(&self) -> bool {
        let table = self.core.table.borrow();
        table.is_empty() && !table.is_accepting()
    }
}

/// What a connection is told that there is no room for.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
