//! Connections and streams that found no room: their places in line, what is kept for them, and what is spared for
//! them.

use ::core::cell::Cell;
use ::core::num::NonZeroU32;
use ::core::time::Duration;

use plimsoll_pool::{Place, PlaceKey, Priority, Queue};
use plimsoll_runtime::{Kind, Lease};
use plimsoll_slab::Key;

use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::memory::waits::{Grant, SPARED_BYTES, SPARED_OF_HOST, TooMany, WAIT_BYTES_MAX, Waits};

/// How often those that are gone are looked for in the full queue.
const SWEPT_EVERY: Duration = Duration::from_millis(10);

/// Whose turn it may be now: a request whose address holds too much lets others pass, and while as many handlers run
/// as may, all requests wait.
struct Servable<'a> {
    desk: &'a Desk,
    heads: Heads,
    /// What was found of an address last: those of one tend to wait behind each other.
    known: Cell<Option<(u64, bool)>>,
}

/// Which requests may be begun.
#[derive(Clone, Copy)]
enum Heads {
    None,
    All,
    /// Those of an address that holds no more.
    Of {
        held_bytes_max: u64,
    },
}

/// Nobody's turn it was, though some waited: it stays so for those while they hold as much, and may hold no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InVain {
    held_bytes_max: u64,
    removals: u64,
}

impl Servable<'_> {
    /// Whether nobody may be of those who waited when it was looked in vain.
    fn is_in_vain(&self) -> bool {
        let Heads::Of { held_bytes_max } = self.heads else { return false };
        let stands =
            |before: InVain| held_bytes_max <= before.held_bytes_max && self.desk.crowd.removals() == before.removals;
        self.desk.in_vain.get().is_some_and(stands)
    }

    /// It was looked in vain.
    fn was_in_vain(&self) {
        if let Heads::Of { held_bytes_max } = self.heads {
            self.desk.in_vain.set(Some(InVain { held_bytes_max, removals: self.desk.crowd.removals() }));
        }
    }

    fn of(&self, place: &Place<Waits>) -> bool {
        let held_bytes_max = match self.heads {
            _ if place.priority() != Priority::Head => return true,
            Heads::None => return false,
            Heads::All => return true,
            Heads::Of { held_bytes_max } => held_bytes_max,
        };
        if let Some((host, may_be)) = self.known.get()
            && host == place.name()
        {
            return may_be;
        }
        let may_be = self.desk.crowd.held_bytes(place.name()) <= held_bytes_max;
        self.known.set(Some((place.name(), may_be)));
        may_be
    }
}

impl Desk {
    /// Whether anybody waits for room.
    pub(crate) fn has_waiting(&self) -> bool {
        self.has_any.get()
    }

    /// Whether who has a place still waits.
    fn is_waiting(&self, who: &Waits) -> bool {
        self.connections().is_some_and(|connections| connections.waits(who))
    }

    /// Whose turn it is.
    pub(crate) fn next_in_turn(&self) -> Option<Place<Waits>> {
        let may_be = self.servable();
        if may_be.is_in_vain() {
            return None;
        }
        let first = self.first_of(|place| may_be.of(place));
        if first.is_none() {
            may_be.was_in_vain();
        }
        first
    }

    /// The first of such places. Those that are gone meanwhile are forgotten.
    fn first_of(&self, is_such: impl Fn(&Place<Waits>) -> bool) -> Option<Place<Waits>> {
        loop {
            let first = self.waiting.borrow().first(&is_such).copied()?;
            if self.is_waiting(first.item()) {
                return Some(first);
            }
            self.leave(first.key());
        }
    }

    /// Gives a place up, which may be gone.
    pub(crate) fn leave(&self, place: PlaceKey) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.remove(place);
        self.has_any.set(!waiting.is_empty());
    }

    /// Whether a connection has a place.
    pub(crate) fn is_in_queue(&self, key: Key) -> bool {
        self.has_place(&Waits::new(key, None))
    }

    fn place_of(&self, who: &Waits) -> Option<PlaceKey> {
        self.waiting.borrow().first(|place| place.item().is_same(who)).map(Place::key)
    }

    /// Whether it is the turn of others than a connection, which is looked after now: also of its streams that wait.
    pub(crate) fn is_turn_of_others(&self, key: Key) -> bool {
        self.next_in_turn().is_some_and(|first| !first.item().is_connection(key))
    }

    /// Whose turn it is of those that were begun and wait for no more than so many bytes.
    pub(crate) fn first_begun(&self, bytes_max: usize) -> Option<Place<Waits>> {
        if !self.waiting.borrow().has_begun() {
            return None;
        }
        self.first_of(|place| place.priority() != Priority::Head && place.item().bytes as usize <= bytes_max)
    }

    /// Whose turn it is of those whose address has nothing that runs.
    pub(crate) fn first_newcomer(&self) -> Option<Place<Waits>> {
        let servable = self.servable();
        if self.has_all_handlers() || servable.is_in_vain() {
            return None;
        }
        let may_be = Servable { heads: Heads::Of { held_bytes_max: 0 }, ..servable };
        self.first_of(|place| place.priority() == Priority::Head && may_be.of(place))
    }

    /// Whether it may be the turn of who waits at a place.
    pub(crate) fn may_be_served(&self, place: &Place<Waits>) -> bool {
        self.servable().of(place)
    }

    fn servable(&self) -> Servable<'_> {
        let heads = match self.is_weighed() {
            _ if self.has_all_handlers() => Heads::None,
            true => Heads::Of { held_bytes_max: self.held_bytes_max() },
            false => Heads::All,
        };
        Servable { desk: self, heads, known: Cell::new(None) }
    }

    /// A connection does not wait for room any more.
    pub(crate) fn leave_queue(&self, key: Key) {
        self.leave_queue_as(&Waits::new(key, None));
    }

    /// The same for a connection or a stream.
    pub(crate) fn leave_queue_as(&self, who: &Waits) {
        let place = self.waiting.borrow().first(|place| place.item().is_same(who)).copied();
        if let Some(place) = place {
            self.peers.borrow().was_asked(who.key, place.name());
            self.leave(place.key());
        }
    }

    /// Whether a connection or a stream has a place among those that wait; another may have taken it.
    pub(crate) fn has_place(&self, who: &Waits) -> bool {
        self.place_of(who).is_some()
    }

    /// Somebody gets what it waited for.
    pub(crate) fn served(&self, who: &Waits) {
        let mut waiting = self.waiting.borrow_mut();
        if let Some(place) = waiting.first(|place| place.item().is_same(who)).map(Place::key) {
            waiting.serve(place);
            self.has_any.set(!waiting.is_empty());
        }
    }

    /// The host that a connection is from, or its request is for, as memory is shared: of IPv6 its /64.
    pub(crate) fn host_of(&self, key: Key) -> u64 {
        if let Some(client) = self.peers.borrow().client(key) {
            return client;
        }
        self.peer_host(key)
    }

    /// That of the connection's peer.
    pub(crate) fn peer_host(&self, key: Key) -> u64 {
        // One without an address was reset: it does not wait for long.
        self.peers.borrow().number(key, || self.connections()?.socket_address(key))
    }

    /// The same for a connection of any sort, or a stream that was begun.
    pub(crate) fn enqueue_once(
        &self,
        who: Waits,
        wait: &mut MemoryWait,
        want: Priority,
        bytes: usize,
    ) -> Result<(), TooMany> {
        if wait.is_queued() {
            return Ok(());
        }
        self.enqueue(who, wait, want, bytes).map(drop)
    }

    /// The same for a stream that is to be begun, by its identifier, for the client that its connection is
    /// [for](Self::host_of) now.
    pub(crate) fn enqueue_stream(&self, key: Key, stream: u32, wait: &mut MemoryWait) -> Result<PlaceKey, TooMany> {
        let who = Waits::new(key, NonZeroU32::new(stream));
        self.enqueue(who, wait, Priority::Head, REQUEST_ROOM_BYTES)
    }

    fn enqueue(&self, who: Waits, wait: &mut MemoryWait, want: Priority, bytes: usize) -> Result<PlaceKey, TooMany> {
        let bytes = bytes.min(WAIT_BYTES_MAX) << wait.grants().min(8);
        if bytes > WAIT_BYTES_MAX {
            return Err(TooMany);
        }
        let (host, who) = (self.host_of(who.key), Waits { bytes: bytes as u32, ..who });
        let mut waiting = self.waiting.borrow_mut();
        debug_assert!(!waiting.iter().any(|place| place.item().is_same(&who)), "it waits once");
        if self.is_full(&mut waiting) {
            let displaced = *waiting.displaced_by(host, want).ok_or(TooMany)?;
            // Nobody can be told while it is worked on.
            let Waits { key, stream, .. } =
                *Some(displaced.item()).filter(|waits| waits.key != who.key).ok_or(TooMany)?;
            waiting.remove(displaced.key());
            if let Some(connections) = self.connections() {
                connections.displaced(&Waits { key, stream, bytes: 0 });
            }
        }
        let place = waiting.add(host, want, 1, who).map_err(|_| TooMany)?;
        if waiting.get(place).is_some_and(|place| self.servable().of(place)) {
            self.in_vain.set(None);
        }
        wait.enqueue();
        self.has_any.set(true);
        Ok(place)
    }

    fn is_full(&self, waiting: &mut Queue<Waits>) -> bool {
        if waiting.is_full() && self.is_sweep_due() {
            // Some may be gone.
            let connections = self.connections();
            waiting.retain(|who| connections.as_ref().is_some_and(|connections| connections.waits(who)));
        }
        waiting.is_full()
    }

    /// Whether it was not looked for a while whether some of those in the full queue are gone.
    fn is_sweep_due(&self) -> bool {
        let now = plimsoll_runtime::now();
        let is_due = self.swept_at.get().is_none_or(|at| now.since(at) >= SWEPT_EVERY);
        if is_due {
            self.swept_at.set(Some(now));
        }
        is_due
    }

    /// Whether a request of a connection would find no place.
    pub(crate) fn has_no_place_for(&self, key: Key) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        self.is_full(&mut waiting) && waiting.displaced_by(self.host_of(key), Priority::Head).is_none()
    }

    /// The handler of a connection takes its turn: what was kept for it is free now.
    pub(crate) fn release_kept_for(&self, key: Key) {
        if self.kept_for.get() == Some(key) {
            self.release_kept();
        }
    }

    /// Takes what was kept for a connection.
    pub(crate) fn take_kept(&self, key: Key) -> Option<Grant> {
        if self.kept_for.get() != Some(key) {
            return None;
        }
        self.kept_for.set(None);
        self.kept.borrow_mut().take()
    }

    pub(crate) fn release_kept(&self) {
        self.kept_for.set(None);
        let kept = self.kept.borrow_mut().take();
        drop(kept);
    }

    /// Keeps memory for the handler of a connection, until its next turn.
    pub(crate) fn keep_for(&self, key: Key, grant: Grant) {
        self.kept_for.set(Some(key));
        let before = self.kept.borrow_mut().replace(grant);
        drop(before);
    }

    /// Room for a little that came on a connection, which waits for memory with it.
    pub(crate) fn spare_lease(&self, key: Key, bytes: usize) -> Option<Lease> {
        if bytes > SPARED_BYTES || !self.may_spare(key) {
            return None;
        }
        let lease = self.reserve.draw(|| self.pool.try_acquire(bytes, Kind::Buffers)).ok();
        lease.or_else(|| self.reserve.take_spare())
    }

    /// Does what needs a little room for a connection, with what is [kept](crate::memory::answer_reserve).
    pub(crate) fn spared<T, E>(&self, key: Key, act: impl FnMut() -> Result<T, E>) -> Option<T> {
        if self.may_spare(key) { self.reserve.spare(act) } else { None }
    }

    /// The same for a stream of it, which is to wait.
    pub(crate) fn spared_stream<T, E>(&self, key: Key, act: impl FnMut() -> Result<T, E>) -> Option<T> {
        if self.waiting_streams(self.host_of(key)) < SPARED_OF_HOST { self.reserve.spare(act) } else { None }
    }

    /// Streams of an address that wait.
    pub(crate) fn waiting_streams(&self, host: u64) -> usize {
        let waiting = self.waiting.borrow();
        waiting.iter().filter(|place| place.name() == host && place.item().stream.is_some()).count()
    }

    /// Whether few other connections of the address wait.
    fn may_spare(&self, key: Key) -> bool {
        let (host, waiting) = (self.host_of(key), self.waiting.borrow());
        let is_other = |waits: &Waits| waits.stream.is_none() && waits.key != key;
        waiting.iter().filter(|place| place.name() == host && is_other(place.item())).count() < SPARED_OF_HOST
    }
}

#[cfg(test)]
mod tests;
