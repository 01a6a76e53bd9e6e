//! How the next request of HTTP/1 is received while memory is short: its bytes stay in the socket until there is a
//! place for them.
//!
//! ```text
//!   calm         a receive is armed, which brings bytes in a buffer of the driver
//!   yellow, up   only a wait is armed, which holds nothing
//!
//!           readable                   room, and its turn
//!   Parked ----------> is there room? -------> received into a lease of its own --> Active
//!                            | none      ^
//!                            v           | granted
//!                     Unread, a place in line (for memory or for a turn of the processor): a key, and a watch whether
//!                            | the peer goes away
//!                            | admission_timeout; of a request with a body memory_timeout; at once when the line is full
//!                            v
//!                     received into a lease of the answer reserve, and answered 503
//! ```
//!
//! Whether a request brings a body is seen without taking its head from the socket.

use std::rc::Rc;

use plimsoll_codec::h1::{self, FieldSlot, Framing, HeadSearch};
use plimsoll_pool::{Class, PoolBox, Priority};
use plimsoll_runtime::net::{Bytes, Table};
use plimsoll_runtime::{Errno, Kind, Lease, OverBudget};
use plimsoll_slab::Key;

use crate::base::config::{HalfClose, Http2};
use crate::base::counters::Shed;
use crate::base::preface::{Preface, preface};
use crate::base::proxy_header;
use crate::h1::active::Active;
use crate::memory::wait::MemoryWait;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::memory::waits::Waits;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

/// Into this a head is received, with what comes behind it.
const PLACE: Class = Class::K4;
/// Less room than this behind what was kept of a head is not worth a call, if there is more to be had.
const ROOM_BYTES_MIN: usize = 64;
/// Fields of a head that is seen in the socket; one with more is taken for one without a body.
const FIELDS_SEEN: usize = 64;

/// What is seen of a request in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// A head, or a part of one.
    Request { has_body: bool },
    /// The same, for a marked route.
    Marked,
    /// The beginning of HTTP/2, which has ways of its own to wait.
    Http2,
}

impl WorkerState {
    /// Has a connection of HTTP/1 that is parked wait for a request, with the table in hand.
    pub(crate) fn await_request(&self, table: &mut Table<Connection>, key: Key) -> Result<(), OverBudget> {
        if self.holds_back() && !table.is_receiving(key) { table.await_readable(key) } else { table.receive(key) }
    }

    /// Whether a request waits in the socket of a connection.
    pub(crate) fn is_unread(&self, key: Key) -> bool {
        matches!(self.table.borrow().get(key), Some(Connection::Unread { .. }))
    }
}

impl<S: Service> Engine<S> {
    fn seen(&self, key: Key) -> Seen {
        let mut room = [0; PLACE.bytes()];
        let seen = self.worker.table.borrow_mut().peek_now(key, &mut room).unwrap_or(0);
        let mut bytes = &room[..seen];
        let peers = self.worker.peers.borrow();
        if peers.awaits_proxy(key) {
            let used = proxy_header::parse(bytes).ok().flatten().map_or(0, |(_origin, used)| used);
            bytes = &bytes[used..];
        }
        if self.worker.config.http2 != Http2::Off && !bytes.is_empty() && preface(bytes) != Preface::Other {
            return Seen::Http2;
        }
        if self.begins_marked(bytes) {
            return Seen::Marked;
        }
        let mut slots = [FieldSlot::EMPTY; FIELDS_SEEN];
        let fields = self.worker.config.limits.fields().min(FIELDS_SEEN);
        let limits = &self.worker.config.limits;
        let head = HeadSearch::default().search(bytes, limits).ok().flatten();
        let head = head.and_then(|range| h1::parse_head(&bytes[range], &mut slots[..fields], limits).ok());
        let has_body = head.is_some_and(|head| !matches!(head.framing, Framing::None | Framing::Length(0)));
        Seen::Request { has_body }
    }

    /// There is something to receive on a connection between requests, or the end of it.
    pub(crate) fn readable_parked(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        if worker.table.borrow().is_sending(key) {
            // Nothing more is read from who has not taken the last answer: looked at again when it has.
            return;
        }
        let has_turn = worker.turns.is_free();
        if has_turn && self.receives_unread(key) {
            return;
        }
        if has_turn && !worker.has_marked() && worker.has_no_place_for(key) {
            // What it is would make no difference.
            return self.refuse_unread(key, MemoryWait::TimedOut);
        }
        let has_body = match self.seen(key) {
            Seen::Request { has_body } => has_body,
            Seen::Marked => return self.as_marked(|engine| engine.receive_marked(key)),
            Seen::Http2 => match self.place(key) {
                Some(place) => return self.receive_head(key, place, MemoryWait::None),
                None => false,
            },
        };
        let waits_for_turn = !has_turn && worker.waits_unread_for_turn(key);
        if !has_turn && !waits_for_turn && self.receives_unread(key) {
            return;
        }
        let mut wait = MemoryWait::None;
        if !waits_for_turn
            && worker.enqueue_once(Waits::new(key, None), &mut wait, Priority::Head, REQUEST_ROOM_BYTES).is_err()
        {
            return self.refuse_unread(key, MemoryWait::TimedOut);
        }
        let mut table = worker.table.borrow_mut();
        let Some(connection) = table.get_mut(key) else { return };
        // One that goes on waiting has its time already.
        let Connection::Parked { requests, born, score, empty_lines, .. } = *connection else { return };
        *connection = Connection::Unread { requests, born, score, empty_lines };
        let config = &worker.config;
        table.schedule(key, config.wait_to_begin(has_body));
        if config.half_close == HalfClose::Gone {
            // Without room for it, its time is over later.
            let _no_room = table.watch(key);
        }
    }

    /// Receives a request of which nothing was received, if there is room for it; whether there was.
    fn receives_unread(&mut self, key: Key) -> bool {
        if self.lacks_room(key) {
            return false;
        }
        let place = self.place(key);
        place.map(|place| self.receive_head(key, place, MemoryWait::Admitted)).is_some()
    }

    /// A request that waited in the socket is answered 503; if its time is over, unless there is room for it by now.
    pub(crate) fn refuse_unread(&mut self, key: Key, wait: MemoryWait) {
        // A parked one has no place for sure, and the queue may be long.
        if matches!(self.worker.table.borrow().get(key), Some(Connection::Unread { .. })) {
            self.worker.leave_queue(key);
        }
        self.worker.leave_turns(key);
        let place =
            self.worker.pool.try_acquire_class(PLACE, Kind::Buffers).ok().or_else(|| self.worker.reserve.take());
        match place {
            Some(place) => self.receive_head(key, place, wait),
            None => self.shed(key, Shed::Queue),
        }
    }

    /// A request for a marked route waits for nobody; where even what is kept is lent, it is refused.
    fn receive_marked(&mut self, key: Key) {
        match self.place(key) {
            Some(place) => self.receive_head(key, place, MemoryWait::None),
            None => self.refuse_unread(key, MemoryWait::TimedOut),
        }
    }

    fn place(&mut self, key: Key) -> Option<Lease> {
        self.retried(key, |engine| engine.worker.pool.try_acquire_class(PLACE, Kind::Buffers)).ok()
    }

    /// Receives the beginning of a request, which has waited as it says.
    fn receive_head(&mut self, key: Key, place: Lease, memory: MemoryWait) {
        match self.receive_into(key, place) {
            Ok(Some(bytes)) => {
                let parked = self.worker.table.borrow_mut().get_mut(key).map(::core::mem::take);
                self.begin_head(key, parked.unwrap_or_default(), bytes, memory);
            }
            Ok(None) => self.ended(key),
            Err(Errno::AGAIN) => self.park_again(key),
            Err(_) => self.close(key),
        }
    }

    /// More of a head is there, or of what comes before it: it is received behind what was kept.
    pub(crate) fn readable_head(&mut self, key: Key, mut active: PoolBox<Active>) {
        let kept = active.input.take();
        let place = match kept {
            Some(kept) if kept.spare_capacity() >= ROOM_BYTES_MIN => Some(kept),
            Some(mut kept) => {
                // Without room for twice as much, into what is left of it.
                let more = kept.len();
                let _no_room = self.retried(key, |engine| engine.worker.pool.try_grow(&mut kept, more));
                Some(kept).filter(|kept| kept.spare_capacity() > 0)
            }
            None => self.place(key),
        };
        let Some(place) = place else {
            self.worker.put(key, Connection::Active(active));
            return self.shed(key, Shed::Head);
        };
        let (bytes_max, mut place) = (place.spare_capacity(), [Some(place)]);
        let received = self.worker.table.borrow_mut().receive_now(key, &mut place, bytes_max);
        let [place] = place;
        active.input = place.filter(|place| !place.is_empty());
        match received {
            Ok(1..) | Err(Errno::AGAIN) => self.drive(key, active, None),
            Ok(0) => {
                self.worker.put(key, Connection::Active(active));
                self.ended(key);
            }
            Err(_) => {
                self.worker.put(key, Connection::Active(active));
                self.close(key);
            }
        }
    }

    /// Receives what is there; `None` at the end.
    fn receive_into(&self, key: Key, place: Lease) -> Result<Option<Bytes>, Errno> {
        let (bytes_max, mut place) = (place.spare_capacity(), [Some(place)]);
        let received = self.worker.table.borrow_mut().receive_now(key, &mut place, bytes_max)?;
        let [lease] = place;
        Ok(lease.filter(|_| received > 0).map(Bytes::Owned))
    }

    /// Nothing was there after all.
    fn park_again(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        worker.leave_queue(key);
        let mut table = worker.table.borrow_mut();
        let Some(connection) = table.get_mut(key) else { return };
        if let Connection::Unread { requests, born, score, empty_lines } = *connection {
            *connection = Connection::Parked { requests, born, score, empty_lines, answered: 0 };
            table.schedule(key, worker.idle_timeout(born));
        }
        if worker.await_request(&mut table, key).is_err() {
            drop(table);
            self.shed(key, Shed::Parked);
        }
    }

    /// The receive of a connection between requests was taken back and has brought nothing.
    pub(crate) fn recalled(&mut self, key: Key) {
        if self.worker.is_stopping() { self.unarmed(key) } else { self.park_again(key) }
    }
}
