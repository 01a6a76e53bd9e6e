//! Who may begin a request while memory is short: an address that holds much leaves room for others.

use plimsoll_codec::h1::RequestView;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::forwarded;
use crate::base::peers::host_number;
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;
use crate::memory::wait::REQUEST_ROOM_BYTES;

/// An address begins another request while it holds at most so many times what is free.
const FREE_TIMES: u64 = 4;

impl Desk {
    /// Whether it is counted what addresses hold.
    pub(crate) fn is_weighed(&self) -> bool {
        self.weighed.get()
    }

    /// At the beginning of a turn: what is free, and when memory comes to be short, what runs already. The level is
    /// that of the last millisecond, the worker's own part is exact.
    pub(crate) fn weigh(&self) -> bool {
        let used = self.pool.used_bytes();
        self.used_at.set(used);
        let was_weighed = self.is_weighed();
        let much = if was_weighed { self.line_share() / 5 * 3 } else { self.line_share() / 4 * 3 };
        self.weighed.set(self.level() > Level::Calm || used > much);
        if !self.is_weighed() {
            self.free_bytes.set(self.line_share() / 4);
            return false;
        }
        let budget = self.pool.budget();
        self.free_bytes.set(budget.limit().as_bytes().saturating_sub(budget.in_use()) / self.workers());
        !was_weighed
    }

    /// Whether memory is not short, and nobody waits for it.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        !self.is_weighed() && !self.has_waiting()
    }

    /// Whether a request may be begun only after a look at what there is.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.level() >= Level::Yellow || self.has_waiting() || self.has_all_handlers()
    }

    /// Whether memory is so short that nothing is received without a place for it: looked at anew, as a turn may give
    /// out much.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_weighed() || self.pool.used_bytes() > self.line_share() / 4 * 3
    }

    /// What the pool has given out, to see what a request takes that is begun now; 0 while nothing is counted.
    pub(crate) fn used_before(&self) -> u64 {
        if self.is_weighed() { self.pool.used_bytes() } else { 0 }
    }

    /// Counts for its address what a request took that was begun: so many bytes for its exchange, and what has been
    /// given out since.
    #[inline]
    pub(crate) fn take_share(&self, key: Key, exchange_bytes: usize, used_before: u64) -> Option<PeerShare> {
        if used_before == 0 { None } else { Some(self.share_since(key, exchange_bytes, used_before)) }
    }

    fn share_since(&self, key: Key, exchange_bytes: usize, used_before: u64) -> PeerShare {
        let bytes = self.pool.used_bytes().saturating_sub(used_before) as usize;
        self.peer_share_of(self.host_of(key), exchange_bytes + bytes)
    }

    /// Counts so many bytes for a connection's address, while memory is short.
    pub(crate) fn share_while_weighed(&self, key: Key, bytes: usize) -> Option<PeerShare> {
        self.is_weighed().then(|| self.peer_share_of(self.host_of(key), bytes))
    }

    pub(crate) fn peer_share_of(&self, host: u64, bytes: usize) -> PeerShare {
        self.crowd.enter(host, bytes)
    }

    /// A request has come on a connection: for whom it is, where its peer is a proxy that is believed.
    #[inline]
    pub(crate) fn note_client(&self, key: Key, view: &RequestView<'_>) -> Option<u64> {
        if self.config.forwarded_from.is_empty() { None } else { self.note_forwarded(key, view) }
    }

    fn note_forwarded(&self, key: Key, view: &RequestView<'_>) -> Option<u64> {
        let trusted = &self.config.forwarded_from;
        let client = self.peer_address(key).and_then(|peer| forwarded::client(view, peer.ip(), trusted));
        let client = client.map(host_number);
        self.peers.borrow_mut().is_for(key, client);
        client
    }

    /// What is done next on a connection is for a client that a trusted proxy named.
    #[inline]
    pub(crate) fn set_client(&self, key: Key, client: Option<u64>) {
        if !self.config.forwarded_from.is_empty() {
            self.peers.borrow_mut().is_for(key, client);
        }
    }

    /// That request is over.
    #[inline]
    pub(crate) fn forget_client(&self, key: Key) {
        self.set_client(key, None);
    }

    /// Room for the head and a small answer of a connection's request. What is kept for newcomers is not for one from
    /// another, though the connection that brought it was taken for a newcomer's.
    pub(crate) fn try_room(&self, key: Key) -> Result<(), OverBudget> {
        let room = || self.pool.try_acquire(REQUEST_ROOM_BYTES, Kind::Buffers).map(drop);
        if self.is_weighed() && !self.is_newcomer(key) { self.pool.for_anybody(room) } else { room() }
    }

    /// Whether a connection's address may begin another request.
    pub(crate) fn may_hold_more(&self, key: Key) -> bool {
        if !self.is_weighed() {
            return true;
        }
        self.may_host_hold_more(self.host_of(key))
    }

    /// The same for an address, while it is counted.
    pub(crate) fn may_host_hold_more(&self, host: u64) -> bool {
        self.crowd.held_bytes(host) <= self.held_bytes_max()
    }

    /// So much an address may hold that begins another request.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        FREE_TIMES * self.free_now()
    }

    /// Whether a connection's address has nothing that runs, while memory is short: it may draw on what is kept for
    /// such.
    pub(crate) fn is_newcomer(&self, key: Key) -> bool {
        self.is_weighed() && self.crowd.held_bytes(self.host_of(key)) == 0
    }

    /// Free bytes of this worker's share; while memory is not short, at least.
    fn free_now(&self) -> u64 {
        let taken = self.pool.used_bytes().saturating_sub(self.used_at.get());
        self.free_bytes.get().saturating_sub(taken)
    }
}
