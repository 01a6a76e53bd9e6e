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

/// Requests of a worker for marked routes that run at a time,
const SLOTS: u8 = 4;
/// and what is kept for them: 64 KiB.
const PORTION: Class = Class::K4;
const PORTIONS: usize = 16;

/// The slots of a worker, and the portions of memory for them.
pub(crate) struct Slots {
    free: Rc<Cell<u8>>,
    pub(crate) portions: RefCell<Vec<Lease>>,
    /// A step is made with one of them.
    pub(crate) is_drawn: Cell<bool>,
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

    pub(crate) fn are_free(&self) -> bool {
        self.free.get() > 0
    }

    pub(crate) fn take(&self) -> Option<Slot> {
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

/// The path in a request line of HTTP/1, if that is there and in the usual form.
pub(crate) fn path_of(bytes: &[u8]) -> Option<&str> {
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
