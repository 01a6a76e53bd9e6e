//! Connections that go on as something else after an answer: they leave the table, or become a WebSocket in it.

use ::core::any::Any;

use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Stream;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::guard::ConnectionGuard;
use crate::h1::active::Active;
use crate::memory::lasting::Sort;
use crate::websocket::Opening;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;

/// What is done with a connection after its 101, or its 2xx to CONNECT.
pub(crate) type Upgrade = Box<dyn FnOnce(Stream, ConnectionGuard)>;

/// Who gets a connection after a 101: what an exchange of HTTP/1 keeps, and knows nothing of.
pub(crate) enum Successor {
    Upgrade(Upgrade),
    WebSocket(Opening),
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
        let columns = self.worker.stays(key, Sort::Released);
        let released = self.worker.table.borrow_mut().release(key, active.input.take());
        let Ok((_taken, stream)) = released else {
            self.worker.left(columns, Sort::Released);
            self.worker.put(key, Connection::Active(active));
            return self.shed(key, Shed::Parked);
        };
        let host = self.worker.peers.borrow_mut().released(key);
        self.finish_active(active, ExchangeEnd::Finished);
        upgrade(stream, ConnectionGuard::new(self.worker.clone(), host, columns));
    }
}
