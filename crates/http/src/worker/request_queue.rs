//! The processor is a line, too: which requests begin in a turn of the engine, which wait for the next, and which hear
//! that there are too many.
//!
//! ```text
//!  readable --> nobody waits, and the turn has lasted for less than 5 ms? --yes--> begun
//!                  | no                                                             ^
//!                  v                                                                | its turn: one at least,
//!                waits, its bytes as they came --------------------------------------   until 5 ms are over
//!                  | the oldest has waited for over 100 ms, for 100 ms or all places are taken,
//!                  | and it is behind those that can be begun in 100 ms
//!                  v
//!                503 with Retry-After
//! ```
//!
//! Who waits is served in [turns over addresses](Queue), by the time that their handlers take, and refused from the
//! other end: the newest of the address that has most to wait for. A handler that is expected to take longer than a
//! turn begins first in its turn, or not in it: the answers of quick ones leave before. So a client with a quick
//! request waits for one handler at most, and not for all requests of a crowd.
//!
//! The delay is from the turn in which a request was seen to the one in which it is begun. When all places are taken
//! and the delay is short, the engine leaves its events where they are until the next turn: a burst of quick requests
//! takes no memory for waiting. When it is long, it makes room by refusing, and goes on with its events: behind those
//! of a crowd there may be one of somebody else.
//!
//! While memory is short, a request of HTTP/1.1 waits in its socket, and its place is all it takes.
//!
//! The clock is the coarse one, as fine as the kernel's tick. It is read before each request but the first of a turn,
//! and while they are quick only before every eighth.

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_pool::{Place, Priority};
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use crate::h1::active::Look;
use crate::h2::TurnWait;
use crate::memory::wait::MemoryWait;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;
use crate::worker::turns::{Clock, Delay, Kept, PLACES, PLACES_SHORT, TURN_MAX, Waits};

impl WorkerState {
    /// Whether a request of a connection waits for a turn; it has a place then, or is looked at again in the next.
    #[inline]
    pub(crate) fn waits_for_turn(&self, key: Key) -> bool {
        !self.turns.is_free() && self.must_wait_for_turn(key)
    }

    /// The same for one whose request is in its socket. It is asked again when that was received.
    pub(crate) fn waits_unread_for_turn(&self, key: Key) -> bool {
        let served = self.turns.served.get();
        let waits = self.waits_for_turn(key);
        self.turns.served.set(served);
        waits
    }

    #[cold]
    fn must_wait_for_turn(&self, key: Key) -> bool {
        let turns = &self.turns;
        if !turns.are_awaited() && !turns.is_over() {
            return false;
        }
        if turns.served.take() == Some(key) && !turns.is_over() {
            return false;
        }
        if self.fed.get() == Some(key) && !turns.is_over() {
            // What it was granted is there now, and would have to be waited for again.
            return false;
        }
        let mut line = turns.line.borrow_mut();
        if line.places.iter().any(|place| place.item().key == key) {
            return true;
        }
        // Those who have more requests read ahead leave places to what is still in the socket.
        let is_ahead = turns.served_last.get() == Some(key);
        let has_place = !is_ahead || turns.waiting.get() < PLACES / 2;
        let kept = if self.is_between_requests(key) { Kept::InSocket } else { Kept::InMemory };
        let waits = Waits { key, since: plimsoll_runtime::now(), kept };
        let host = self.host_of(key);
        let cost = line.costs.amount_of(host);
        if !has_place || line.places.add(host, Priority::Head, cost, waits).is_err() {
            drop(line);
            self.list_later(key);
            return true;
        }
        turns.waiting.set(line.places.len());
        true
    }

    /// Whether no more may wait for a turn: what else came stays where it is.
    fn is_line_of_turns_full(&self) -> bool {
        let waiting = self.turns.waiting.get();
        let hold = || {
            let line = self.turns.line.borrow();
            line.places.iter().filter(|place| place.item().kept == Kept::InMemory).count()
        };
        waiting >= PLACES || waiting >= PLACES_SHORT && self.holds_back() && hold() >= PLACES_SHORT
    }

    /// Whether a connection still waits for its turn.
    fn awaits_turn(&self, key: Key) -> bool {
        match self.table.borrow().get(key) {
            Some(Connection::Unread { .. }) => true,
            Some(Connection::Active(active)) => active.look == Look::Listed && active.handler.is_none(),
            Some(Connection::Http2(http2)) => http2.turn == TurnWait::Awaited,
            _ => false,
        }
    }

    /// Whose turn it is, and of which host; those that are gone meanwhile are forgotten.
    fn next_turn(&self) -> Option<(Key, u64)> {
        loop {
            let (first, micros) = {
                let line = self.turns.line.borrow();
                let first = line.places.first(|_| true).copied()?;
                (first, line.costs.of(first.name()))
            };
            let key = first.item().key;
            let awaits = self.awaits_turn(key);
            if awaits && self.turns.clock.get() != Clock::Fresh && micros >= TURN_MAX.as_micros() as u64 {
                self.turns.clock.set(Clock::Over);
                return None;
            }
            self.turns.serve(first.key());
            if awaits {
                self.turns.line.borrow_mut().rate.count(plimsoll_runtime::now());
                return Some((key, first.name()));
            }
        }
    }

    /// One that is refused, as those before it take too long: for long enough, or as there is no place.
    fn next_refused(&self, now: Instant, is_full: bool) -> Option<Key> {
        loop {
            let mut line = self.turns.line.borrow_mut();
            let oldest = line.places.iter().min_by_key(|place| place.item().since).copied();
            if let Some(place) = oldest
                && !self.awaits_turn(place.item().key)
            {
                drop(line);
                self.turns.serve(place.key());
                continue;
            }
            line.delay = line.delay.after(oldest.map_or(Duration::ZERO, |place| now.since(place.item().since)), now);
            let is_late = line.delay == Delay::TooLong || is_full && line.delay != Delay::Short;
            if !is_late || line.places.len() <= line.rate.of_interval(now) {
                return None;
            }
            let newest = line.places.last(|host| line.costs.of(host))?.key();
            let newest = line.places.remove(newest)?;
            self.turns.waiting.set(line.places.len());
            return Some(newest.key);
        }
    }

    /// A connection does not wait for a turn any more.
    pub(crate) fn leave_turns(&self, key: Key) {
        if self.turns.are_awaited() {
            let mut line = self.turns.line.borrow_mut();
            if let Some(place) = line.places.first(|place| place.item().key == key).map(Place::key) {
                line.places.remove(place);
                self.turns.waiting.set(line.places.len());
            }
        }
    }
}

impl<S: Service> Engine<S> {
    /// Begins what waited for a turn, for as long as this one lasts, and refuses what has no hope.
    #[inline]
    pub(crate) fn take_turns(&mut self) {
        if self.worker.turns.are_awaited() {
            self.take_turns_now();
        }
    }

    fn take_turns_now(&mut self) {
        let worker = Rc::clone(&self.worker);
        let now = plimsoll_runtime::now();
        self.refuse_the_late(now, false);
        // What memory keeps from beginning costs next to nothing, and is no reason to go on for ever.
        for _ in 0..PLACES {
            if worker.turns.is_over() {
                break;
            }
            let Some((key, host)) = worker.next_turn() else { break };
            let begun = plimsoll_runtime::coarse_now();
            worker.turns.served.set(Some(key));
            worker.turns.served_last.set(Some(key));
            self.as_newcomer(key, |engine| engine.look_after(key));
            worker.turns.served.set(None);
            worker.turns.served_last.set(None);
            let took = plimsoll_runtime::coarse_now().since(begun);
            worker.turns.line.borrow_mut().costs.add(host, took, now);
        }
    }

    /// Whether further events stay where they are until the next turn: no more may wait, and none of those is late.
    #[inline]
    pub(crate) fn has_enough(&mut self) -> bool {
        self.worker.turns.are_awaited() && self.worker.is_line_of_turns_full() && {
            self.refuse_the_late(plimsoll_runtime::coarse_now(), true);
            self.worker.is_line_of_turns_full()
        }
    }

    fn refuse_the_late(&mut self, now: Instant, is_full: bool) {
        let worker = Rc::clone(&self.worker);
        while let Some(key) = worker.next_refused(now, is_full) {
            self.refuse_turn(key);
        }
    }

    /// Answers a request that waits for its turn with a 503.
    fn refuse_turn(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        if !worker.awaits_turn(key) {
            // Begun otherwise meanwhile, as a marked route is.
            return;
        }
        if let Some(mut http2) = worker.take_http2(key) {
            http2.turn = TurnWait::Refused;
            return self.go_on_http2(key, http2, None);
        }
        if worker.is_unread(key) {
            self.refuse_unread(key, MemoryWait::Refused);
        } else if let Some(mut active) = worker.take(key) {
            (active.memory, active.look) = (MemoryWait::Refused, Look::Event);
            self.drive(key, active, None);
        }
        if let Some(Connection::Active(active)) = worker.table.borrow_mut().get_mut(key)
            && active.memory == MemoryWait::Refused
        {
            // Its head is not whole: what becomes of it is decided when it is.
            active.memory = MemoryWait::None;
        }
    }
}
