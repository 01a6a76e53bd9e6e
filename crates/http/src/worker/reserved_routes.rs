//! Requests for marked routes, which are answered when there is no memory for others: see
//! [`memory::reserved_routes`](crate::memory::reserved_routes).

use plimsoll_slab::Key;

use crate::memory::reserved_routes::{Slot, Slots, path_of};
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;

impl<S: Service> Engine<S> {
    /// Looks whether some route is marked, once.
    pub(crate) fn look_for_marked(&self) {
        if self.service.has_marked() || !self.worker.config.reserved_paths.is_empty() {
            self.worker.marked.get_or_init(Slots::new).restock(&self.worker.pool);
        }
    }

    /// Looks after a connection, with what is kept for marked routes.
    pub(crate) fn as_marked<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        let draws = self.worker.draw_for_marked();
        let done = act(self);
        self.worker.end_draw(draws);
        done
    }

    /// A slot for a request of this path, if its route is marked and one is free.
    pub(crate) fn marked_slot(&self, path: &str) -> Option<Slot> {
        let slots = self.worker.marked.get()?;
        if self.is_marked(path) { slots.take() } else { None }
    }

    /// Whether what came begins with a request for a marked route, for which there is a slot.
    pub(crate) fn begins_marked(&self, bytes: &[u8]) -> bool {
        self.worker.marked.get().is_some_and(Slots::are_free) && path_of(bytes).is_some_and(|path| self.is_marked(path))
    }

    /// Whether what came for a connection may draw on what is kept: it begins with such a request, or with what only
    /// the decoder of HTTP/2 can tell, on a connection that keeps nothing of it if it is none.
    pub(crate) fn is_for_marked(&mut self, key: Key, bytes: Option<&[u8]>) -> bool {
        if !self.worker.has_marked() || !self.worker.holds_back() && !self.worker.has_waiting() {
            return false;
        }
        let is_idle_http2 = match self.worker.table.borrow().get(key) {
            Some(Connection::Http2(http2)) => !http2.has_exchanges(),
            Some(Connection::Active(active)) if active.input.is_some() => return false,
            Some(_) => return bytes.is_some_and(|bytes| self.begins_marked(bytes)),
            None => return false,
        };
        is_idle_http2 && !self.has_room(key)
    }

    fn is_marked(&self, path: &str) -> bool {
        self.worker.config.reserved_paths.iter().any(|marked| marked == path) || self.service.is_marked(path)
    }
}
