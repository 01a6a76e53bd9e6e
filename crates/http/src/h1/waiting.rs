//! How an exchange waits for memory, and where the bytes go that came meanwhile.

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::Priority;
use plimsoll_runtime::{Lease, OverBudget};
use plimsoll_slab::Key;

use crate::h1::active::Active;
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;
use crate::memory::waits::{TooMany, Waits};

impl Active {
    /// Has the connection wait for room; for more of it each time it found none where there should have been some.
    ///
    /// # Errors
    ///
    /// [`TooMany`] wait, or it would be too much.
    pub(crate) fn enqueue(&mut self, desk: &Desk, key: Key, want: Priority, bytes: usize) -> Result<(), TooMany> {
        desk.enqueue_once(Waits::new(key, None), &mut self.memory, want, bytes)
    }

    /// The same for what found no room just now; it is looked after again. Whether it waits.
    pub(crate) fn awaits_room(&mut self, desk: &Desk, key: Key, want: Priority, over: &OverBudget) -> bool {
        let bytes = usize::try_from(over.wanted_bytes()).unwrap_or(usize::MAX);
        let waits = self.enqueue(desk, key, want, bytes).is_ok();
        self.list(desk, key);
        waits
    }

    /// What it waited for has been done without: its place is not for the next exchange.
    pub(crate) fn wait_no_longer(&mut self, desk: &Desk, key: Key) {
        if self.is_queued() {
            desk.leave_queue(key);
        }
        self.memory = MemoryWait::None;
    }

    /// Room for what came of a request and finds none in the pool: of a body, and of what follows a request whose
    /// handler runs, what is [kept for other ends](Desk::spare_landed).
    pub(super) fn spare_input(&self, desk: &Desk, key: Key, bytes: &[u8]) -> Option<Lease> {
        if self.exchange.request() != RequestState::Body && self.handler.is_none() {
            let mut lease = if self.is_queued() { desk.spare_lease(key, bytes.len())? } else { return None };
            lease.extend(bytes);
            return Some(lease);
        }
        desk.keep_landed(bytes, true)
    }
}
