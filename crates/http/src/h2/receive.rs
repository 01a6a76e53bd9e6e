//! How a connection receives: what comes has a place, or it stays in the socket.
//!
//! ```text
//!   calm         a receive is armed; what it brings is kept when it is more than a step can use
//!   yellow, up   only a wait is armed, which holds nothing --readable--> a place is made, then received into it
//!                                                                            | none
//!                                                                            v
//!                                                                       waits in line
//! ```
//!
//! When memory comes to be short, receives that were armed before are recalled, so that they are waits, too. That is
//! told once a millisecond at most: for what comes meanwhile, and finds the line reached already, there is a little of
//! what is kept for newcomers and for answers, and else the connection ends.

use std::rc::{Rc, Weak};

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::memory::{self, Level};
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Errno, JoinHandle, Kind, OverBudget, spawn, yield_now};
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
        match self.holds_back() {
            false => table.receive(key),
            // What it was granted is for this.
            true if self.fed.get() == Some(key) => self.receive_placed(table, key, http2),
            true => table.await_readable(key),
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

impl<S: Service> Engine<S> {
    /// There is something to receive, or the end of it.
    pub(crate) fn readable_http2(&mut self, key: Key) {
        if let Some(http2) = self.core.take_http2(key) {
            self.receive_readable(key, http2);
        }
    }

    /// Receives what there is. Without a place for it the connection waits, or goes on waiting.
    pub(super) fn receive_readable(&mut self, key: Key, mut http2: PoolBox<Http2>) {
        let armed = self.retried(key, |engine| {
            let core = &engine.core;
            let mut table = core.table.borrow_mut();
            if core.holds_back() { core.receive_placed(&mut table, key, &mut http2) } else { table.receive(key) }
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
