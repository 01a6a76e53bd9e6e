//! How a connection receives: what comes has a place, or it stays in the socket.
//!
//! ```text
//!   calm, no stream             a receive is armed, which brings bytes in a buffer of the driver
//!   streams, or yellow and up   only a wait is armed, which holds nothing --readable--> a place is made, then received
//!                                                                                           | none        into it
//!                                                                                           v
//!                                                                                      waits in line
//! ```
//!
//! What came in a buffer of the driver cannot stay there, and cannot go back into the socket. So it is received that
//! way only while nothing is lost with it: where there is no stream. When memory comes to be short, such receives are
//! recalled, so that they are waits, too. A request is begun out of such a buffer when what came behind it has a place
//! of its own. Few bytes need none: for them there is a little of what is kept for newcomers and for answers.

use std::rc::{Rc, Weak};

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::memory::{self, Level};
use plimsoll_runtime::net::{RECEIVE_BYTES_MAX, Table};
use plimsoll_runtime::{Errno, JoinHandle, Kind, Lease, OverBudget, spawn, yield_now};
use plimsoll_slab::Key;

use super::Http2;
use crate::base::exchange_end::ExchangeEnd;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

/// What is received at a time while memory is short: of one that holds something already, or at the level orange, and
/// of others.
const SMALL_BYTES: usize = 1_024;
const LARGER_BYTES: usize = 4 * SMALL_BYTES;
/// What fills no more than this part of its place is moved to a smaller one.
const SPARSE_PART: usize = 4;
/// Places of the table that are looked at in a turn.
const LOOKS_MAX: u32 = 512;

impl Core {
    /// Has the connection receive.
    pub(super) fn receive_http2(
        &self,
        table: &mut Table<Connection>,
        key: Key,
        http2: &mut Http2,
    ) -> Result<(), OverBudget> {
        if table.is_receiving(key) {
            return Ok(());
        }
        if !self.holds_back() && !http2.has_exchanges() {
            return table.receive(key);
        }
        // What it was granted is for this.
        if self.fed.get() == Some(key) { self.receive_placed(table, key, http2) } else { table.await_readable(key) }
    }

    /// Receives what is there into a place of its own, which is as large as what a receive brings at most, or behind
    /// what is kept.
    fn receive_at_once(&self, key: Key, http2: &mut Http2) -> Result<Came, OverBudget> {
        let place = match &mut http2.input {
            Some(input) => self.pool.try_grow(input, LARGER_BYTES).map(|()| http2.input.take())?,
            None => Some(self.pool.try_acquire(RECEIVE_BYTES_MAX, Kind::Buffers)?),
        };
        let bytes_max = place.as_ref().map_or(0, Lease::spare_capacity);
        let mut place = [place];
        let received = self.table.borrow_mut().receive_now(key, &mut place, bytes_max);
        let [place] = place;
        http2.input = place.filter(|place| !place.is_empty());
        Ok(match received {
            Ok(bytes @ 1..) => Came::Bytes(bytes),
            Ok(0) => Came::End,
            Err(Errno::AGAIN) => Came::Nothing,
            Err(errno) => Came::Failure(errno),
        })
    }

    /// What is kept of the input takes no more memory than it needs.
    pub(super) fn move_sparse(&self, input: &mut Lease) {
        if input.class().bytes() > LARGER_BYTES
            && input.len() <= input.class().bytes() / SPARSE_PART
            && let Ok(smaller) = self.pool.try_copy(input, Kind::Buffers)
        {
            *input = smaller;
        }
    }

    /// Receives into a place of its own.
    fn receive_placed(&self, table: &mut Table<Connection>, key: Key, http2: &mut Http2) -> Result<(), OverBudget> {
        if let Some(input) = &mut http2.input {
            self.pool.try_grow(input, SMALL_BYTES)?;
        }
        let bytes = if http2.input.is_some() || self.is_short() { SMALL_BYTES } else { LARGER_BYTES };
        table.receive_into(key, self.pool.try_acquire(bytes, Kind::Buffers)?)
    }

    /// Takes receives back that were armed while memory was plenty, of connections from a place of the table on; up to
    /// which, if there are more.
    fn recall_receives(&self, from: u32) -> Option<u32> {
        let mut table = self.table.borrow_mut();
        let (places, to) = (table.places(), from.saturating_add(LOOKS_MAX));
        for place in from..places.min(to) {
            let Some(key) = table.key_at(place) else { continue };
            let recalls = match table.get(key) {
                Some(Connection::Parked { .. } | Connection::Http2(_)) => true,
                Some(Connection::Active(active)) => active.exchange.request() == RequestState::Body,
                _ => false,
            };
            if recalls && table.is_receiving(key) {
                table.cancel_receive(key);
            }
        }
        (to < places).then_some(to)
    }
}

/// What was received.
enum Came {
    Bytes(usize),
    Nothing,
    End,
    Failure(Errno),
}

impl<S: Service> Engine<S> {
    /// There is something to receive, or the end of it.
    pub(crate) fn readable_http2(&mut self, key: Key) {
        if let Some(http2) = self.core.take_http2(key) {
            self.receive_readable(key, http2);
        }
    }

    /// Receives what there is. Without a place for it the connection waits, or goes on waiting.
    pub(super) fn receive_readable(&mut self, key: Key, mut http2: PoolBox<Http2>) {
        if !self.core.holds_back()
            && let Ok(came) = self.core.receive_at_once(key, &mut http2)
        {
            return self.received_at_once(key, http2, came);
        }
        let armed = self.retried(key, |engine| {
            let core = &engine.core;
            core.receive_placed(&mut core.table.borrow_mut(), key, &mut http2)
        });
        let Err(over) = armed else {
            if !http2.hunger.unread {
                return self.core.put(key, Connection::Http2(http2));
            }
            (http2.hunger.unread, http2.hunger.wanted) = (false, None);
            return self.settle_http2(key, http2, plimsoll_runtime::now());
        };
        http2.hunger.unread = true;
        if http2.has_begun() {
            http2.hunger.note_over(Priority::Body, &over);
        } else {
            http2.hunger.note(Priority::Head, REQUEST_ROOM_BYTES);
        }
        self.settle_http2(key, http2, plimsoll_runtime::now());
    }

    fn received_at_once(&mut self, key: Key, mut http2: PoolBox<Http2>, came: Came) {
        if ::core::mem::take(&mut http2.hunger.unread) {
            http2.hunger.wanted = None;
        }
        match came {
            Came::Bytes(bytes) => {
                self.relief.pace.came(key, bytes);
                self.go_on_http2(key, http2, None);
            }
            Came::Nothing => self.settle_http2(key, http2, plimsoll_runtime::now()),
            Came::End => {
                self.core.put(key, Connection::Http2(http2));
                self.ended_http2(key);
            }
            Came::Failure(errno) => {
                self.core.put(key, Connection::Http2(http2));
                self.failed(key, errno);
            }
        }
    }

    /// An operation failed: the connection is closed, unless it is a receive that was taken back.
    pub(crate) fn failed(&mut self, key: Key, errno: Errno) {
        if errno == Errno::CANCELED
            && let Some(http2) = self.core.take_http2(key)
        {
            return self.settle_http2(key, http2, plimsoll_runtime::now());
        }
        if errno == Errno::CANCELED
            && let Some(active) = self.core.take(key)
        {
            return self.drive(key, active, None);
        }
        // What came had no place.
        let is_for_room = errno == Errno::NOBUFS;
        self.close_for(key, if is_for_room { ExchangeEnd::Overstay } else { ExchangeEnd::Peer });
    }
}

/// Sees to it that receives are recalled when memory comes to be short, for as long as it lives.
pub(crate) struct Recalling(Option<JoinHandle<()>>);

impl Recalling {
    /// For the connections of a worker. Without room for it they end at the line when what comes has no place.
    pub(crate) fn begin(core: &Rc<Core>) -> Self {
        let spawned = spawn(recall(Rc::downgrade(core)));
        Self(spawned.inspect_err(|error| tracing::warn!(%error, "receives are not recalled")).ok())
    }
}

impl Drop for Recalling {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

async fn recall(core: Weak<Core>) {
    let mut levels = memory::watch();
    let mut level = memory::level();
    loop {
        let before = ::core::mem::replace(&mut level, levels.changed().await);
        if before > Level::Calm || level == Level::Calm {
            continue;
        }
        let mut from = Some(0);
        while let Some(place) = from {
            let Some(core) = core.upgrade() else { return };
            from = core.recall_receives(place);
            drop(core);
            if from.is_some() {
                yield_now().await;
            }
        }
    }
}
