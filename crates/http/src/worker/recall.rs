//! Receives that are taken back when memory comes to be short: they were armed while there was plenty, and what they
//! bring could have no place.

use std::rc::{Rc, Weak};

use plimsoll_codec::h1::RequestState;
use plimsoll_runtime::memory::{self, Level};
use plimsoll_runtime::{AbortOnDrop, JoinHandle, spawn, yield_now};

use crate::worker::connection::Connection;
use crate::worker::state::WorkerState;

/// Places of the table that are looked at in a turn.
const LOOKS_MAX: u32 = 512;

impl WorkerState {
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

/// Recalls receives when memory comes to be short, for as long as what this gives lives. Without room for it they end
/// at the line when what comes has no place.
pub(crate) fn begin(worker: &Rc<WorkerState>) -> Option<AbortOnDrop<()>> {
    let spawned = spawn(recall(Rc::downgrade(worker)));
    spawned.inspect_err(|error| tracing::warn!(%error, "receives are not recalled")).ok().map(JoinHandle::abort_on_drop)
}

async fn recall(worker: Weak<WorkerState>) {
    let mut levels = memory::watch();
    let mut level = memory::level();
    loop {
        let before = ::core::mem::replace(&mut level, levels.changed().await);
        if before > Level::Calm || level == Level::Calm {
            continue;
        }
        let mut from = Some(0);
        while let Some(place) = from {
            let Some(worker) = worker.upgrade() else { return };
            from = worker.recall_receives(place);
            drop(worker);
            if from.is_some() {
                yield_now().await;
            }
        }
    }
}
