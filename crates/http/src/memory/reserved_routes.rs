//! Routes that are always answered: what they need is kept for them.
//!
//! Where a route is marked (by [`Router::reserved`](crate::Router::reserved) or
//! [`Config::reserved_paths`](crate::Config::reserved_paths)), each worker keeps [`PORTIONS`] leases from the start,
//! and lets [`SLOTS`] requests for such routes run at a time beside all others. They wait for nobody: not for memory, a
//! turn or another handler to end.
//!
//! ```text
//!            a request comes that finds no room     its answer is with the socket
//!   leases ---------------------------------> free ------------------------------> leases
//! ```
//!
//! That is one step of the engine, within which nobody else takes anything: so what was free for the request is kept
//! again. What a handler holds that is not ready at once, or the socket does not take, is missing until it comes free;
//! at the end of that turn it is kept again.
//!
//! On HTTP/2 the path of a request is known when its head is decoded, which cannot be undone. So a stream that would
//! wait for memory is decoded. If its route is not marked, it waits then; it is refused where that was done with what
//! is kept: on a connection with nothing else to do, at the line.

use ::core::cell::{Cell, RefCell};
use std::rc::Rc;

use plimsoll_pool::{Class, Kind, Lease, Pool};
use plimsoll_slab::Key;

use crate::face::server::Service;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::state::Core;

/// Requests of a worker for marked routes that run at a time,
const SLOTS: u8 = 4;
/// and what is kept for them: 64 KiB.
const PORTION: Class = Class::K4;
const PORTIONS: usize = 16;

/// The slots of a worker, and the portions of memory for them.
pub(crate) struct Slots {
    free: Rc<Cell<u8>>,
    portions: RefCell<Vec<Lease>>,
    /// A step is made with one of them.
    is_drawn: Cell<bool>,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Rc<Cell<u8>>);

impl Slots {
    /// Bytes that a worker keeps.
    pub(crate) const BYTES: u64 = (PORTIONS * PORTION.bytes()) as u64;

    pub(crate) fn new() -> Self {
        let portions = RefCell::new(Vec::with_capacity(PORTIONS));
        Self { free: Rc::new(Cell::new(SLOTS)), portions, is_drawn: Cell::new(false) }
    }

    fn are_free(&self) -> bool {
        self.free.get() > 0
    }

    fn take(&self) -> Option<Slot> {
        self.free.set(self.free.get().checked_sub(1)?);
        Some(Slot(Rc::clone(&self.free)))
    }

    /// Makes portions, as far as there is memory.
    pub(crate) fn restock(&self, pool: &Pool) {
        let mut portions = self.portions.borrow_mut();
        while portions.len() < PORTIONS {
            let Ok(portion) = pool.try_acquire_class(PORTION, Kind::Fixed) else { return };
            portions.push(portion);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Core {
    /// Whether some route is marked.
    pub(crate) fn has_marked(&self) -> bool {
        self.marked.get().is_some()
    }

    /// Frees what is kept, until [`end_draw`](Self::end_draw); `false` where that is done already, or nothing is kept.
    pub(crate) fn draw_for_marked(&self) -> bool {
        let Some(slots) = self.marked.get().filter(|slots| !slots.is_drawn.get()) else { return false };
        slots.is_drawn.set(true);
        slots.portions.borrow_mut().clear();
        true
    }

    /// Takes it back.
    pub(crate) fn end_draw(&self, draws: bool) {
        if draws && let Some(slots) = self.marked.get() {
            slots.is_drawn.set(false);
            slots.restock(&self.pool);
        }
    }

    /// Whether a step is made with what is kept: what it wrote is handed to the socket at once.
    pub(crate) fn is_drawn(&self) -> bool {
        self.marked.get().is_some_and(|slots| slots.is_drawn.get())
    }
}

impl<S: Service> Engine<S> {
    /// Looks whether some route is marked, once.
    pub(crate) fn look_for_marked(&self) {
        if self.service.has_marked() || !self.core.config.reserved_paths.is_empty() {
            self.core.marked.get_or_init(Slots::new).restock(&self.core.pool);
        }
    }

    /// Looks after a connection, with what is kept for marked routes.
    pub(crate) fn as_marked<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        let draws = self.core.draw_for_marked();
        let done = act(self);
        self.core.end_draw(draws);
        done
    }

    /// A slot for a request of this path, if its route is marked and one is free.
    pub(crate) fn marked_slot(&self, path: &str) -> Option<Slot> {
        let slots = self.core.marked.get()?;
        if self.is_marked(path) { slots.take() } else { None }
    }

    /// Whether what came begins with a request for a marked route, for which there is a slot.
    pub(crate) fn begins_marked(&self, bytes: &[u8]) -> bool {
        self.core.marked.get().is_some_and(Slots::are_free) && path_of(bytes).is_some_and(|path| self.is_marked(path))
    }

    /// Whether what came for a connection may draw on what is kept: it begins with such a request, or with what only
    /// the decoder of HTTP/2 can tell, on a connection that keeps nothing of it if it is none.
    pub(crate) fn is_for_marked(&mut self, key: Key, bytes: Option<&[u8]>) -> bool {
        if !self.core.has_marked() || !self.core.holds_back() && !self.core.is_starving() {
            return false;
        }
        let is_idle_http2 = match self.core.table.borrow().get(key) {
            Some(Connection::Http2(http2)) => !http2.has_exchanges(),
            Some(Connection::Active(active)) if active.input.is_some() => return false,
            Some(_) => return bytes.is_some_and(|bytes| self.begins_marked(bytes)),
            None => return false,
        };
        is_idle_http2 && !self.has_room(key)
    }

    fn is_marked(&self, path: &str) -> bool {
        self.core.config.reserved_paths.iter().any(|marked| marked == path) || self.service.is_marked(path)
    }
}

/// The path in a request line of HTTP/1, if that is there and in the usual form.
fn path_of(bytes: &[u8]) -> Option<&str> {
    let mut words = bytes.split(|byte| *byte == b' ');
    let (_method, target) = (words.next()?, words.next()?);
    words.next()?;
    let path = target.split(|byte| *byte == b'?').next()?;
    str::from_utf8(path).ok().filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_what_the_request_line_says() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"GET /health HTTP/1.1\r\nHost: h\r\n", Some("/health")),
            (b"HEAD /health?full=1 HTTP/1.1\r\n", Some("/health")),
            (b"GET /hea", None),
            (b"GET /health", None),
            (b"OPTIONS * HTTP/1.1\r\n", None),
            (b"GET /\xff HTTP/1.1\r\n", None),
            (b"", None),
        ];
        for (bytes, path) in cases {
            assert_eq!(path_of(bytes), path, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_slot_is_free_again_when_it_is_dropped() {
        let slots = Slots::new();
        let mut taken: Vec<Slot> = core::iter::from_fn(|| slots.take()).collect();
        assert_eq!((taken.len(), slots.are_free()), (usize::from(SLOTS), false));
        let last = taken.pop();
        drop(last);
        assert!(slots.are_free() && slots.take().is_some());
    }
}
