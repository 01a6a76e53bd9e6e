//! Who is shed when memory is short, in which order, and how many.

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_runtime::Instant;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::net::transport::Handshake;
use plimsoll_slab::Key;

use super::rest;
use crate::base::config::Config;
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::output::STALLED_AFTER;
use crate::h1::active::{Deadline, EXCHANGE_BYTES};
use crate::worker::connection::{Connection, Rest};
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

/// Connections looked at in one turn at most.
pub(super) const LOOKS_MAX: u32 = 512;
/// Connections shed in one turn at most.
pub(super) const SHED_MAX: u32 = 32;
/// How often a request that finds no room is tried again after room was made.
const TRIES_MAX: u32 = 4;
/// A connection is idle when it has asked for nothing for so long.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// A head that is incomplete has so long when others want its room.
const YOUNG_FOR: Duration = Duration::from_secs(1);
/// Addresses that are weighed at a time: one that holds more than this part of all is certainly among them.
const WEIGHED_MAX: usize = 32;
/// An address that holds more than this part of a worker's share of the line is large.
pub(super) const LARGE_PART: u64 = 16;
/// The level falls from orange when less than this part of the line is in use.
const RELIEVED_PERCENT: u64 = 80;

/// A handshake is not given up for want of memory before.
const HANDSHAKE_YOUNG_FOR: Duration = Duration::from_secs(2);

/// Why a connection may be shed; those of the first sort are before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShedSort {
    /// It has been told all, and its place is needed.
    Lingering,
    /// It had its time to end. [Younger ones](super::heads) go when nothing else is found.
    IncompleteHead,
    StalledOutput,
    /// Between requests.
    Idle,
    /// It has not asked for anything yet: what it asks now it would not hear without a word.
    Fresh,
}

impl<S: Service> Engine<S> {
    /// Does what needs room for a connection; when there is none, sheds others and tries again. The error is that
    /// of the last try.
    pub(crate) fn retried<T, E>(&mut self, key: Key, act: impl FnMut(&mut Self) -> Result<T, E>) -> Result<T, E> {
        self.retried_if(true, key, act)
    }

    /// The same, if others may be shed for it.
    pub(crate) fn retried_if<T, E>(
        &mut self,
        may_retry: bool,
        key: Key,
        mut act: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tries = if may_retry { 0 } else { TRIES_MAX };
        loop {
            match act(self) {
                Err(_) if tries < TRIES_MAX && self.make_room(Some(key)) => tries += 1,
                done => return done,
            }
        }
    }

    /// Sheds some connections, but not of `keep`; whether of any.
    pub(super) fn make_room(&mut self, keep: Option<Key>) -> bool {
        if keep.is_some() && self.worker.has_looked.get() {
            return false;
        }
        // A request that waits for room is worth a look at everybody, once a turn.
        let places = self.worker.table.borrow().places();
        let looks = if keep.is_some() { places } else { places.min(LOOKS_MAX) };
        let found = self.first_sort(looks, keep).is_some_and(|sort| self.shed_sort(sort, looks, keep));
        let is_wanted = keep.is_some() || self.worker.has_waiting() || self.worker.lacks_places();
        let found = found || is_wanted && self.shed_young_heads(keep);
        self.worker.has_looked.set(keep.is_some() && !found);
        found
    }

    /// Of the connections at the next so many places, which sort goes first. They are the next ones still.
    fn first_sort(&self, looks: u32, keep: Option<Key>) -> Option<ShedSort> {
        let (worker, table) = (&*self.worker, self.worker.table.borrow());
        let from = worker.looked_at.get();
        let keys = (0..looks).filter_map(|_| table.key_at(worker.next_look(table.places())));
        let sorts = keys.filter(|key| Some(*key) != keep).filter_map(|key| shed_sort_of(&table, key, worker));
        let first = sorts.min();
        worker.looked_at.set(from);
        first
    }

    /// Looks at so many places for connections of a sort and sheds them; whether of any.
    fn shed_sort(&mut self, sort: ShedSort, looks: u32, keep: Option<Key>) -> bool {
        let worker = Rc::clone(&self.worker);
        let mut shed = 0;
        for _ in 0..looks {
            let found = {
                let table = worker.table.borrow();
                let key = table.key_at(worker.next_look(table.places()));
                key.filter(|key| Some(*key) != keep && shed_sort_of(&table, *key, &worker) == Some(sort))
            };
            let Some(key) = found else { continue };
            match sort {
                ShedSort::IncompleteHead => self.shed(key, Shed::Head),
                ShedSort::StalledOutput => {
                    worker.shed_for_room(Shed::Output);
                    self.close_for(key, ExchangeEnd::Timeout);
                }
                ShedSort::Fresh => self.shed(key, Shed::Parked),
                ShedSort::Idle => {
                    worker.shed_for_room(Shed::Parked);
                    worker.put(key, Connection::LINGERING);
                    self.linger(key);
                }
                ShedSort::Lingering => self.close_unread(key),
            }
            shed += 1;
            if shed == SHED_MAX {
                break;
            }
        }
        shed > 0
    }

    /// Times peers while others wait, and sheds the slowest that is too slow.
    pub(super) fn shed_slowest(&mut self, now: Instant) {
        let worker = Rc::clone(&self.worker);
        if worker.config.slow_bytes_per_second == 0 || self.overload.paced_until.is_some_and(|until| now < until) {
            return;
        }
        let table = worker.table.borrow();
        self.overload.paced_until = Some(now + rest(table.places().min(LOOKS_MAX)));
        let pace = &mut self.overload.pace;
        let slowest = pace.slowest(&table, now, &worker.config);
        let places = table.places();
        for _ in 0..places.min(LOOKS_MAX) {
            if pace.is_full() {
                break;
            }
            if let Some(key) = table.key_at(worker.next_look(places)) {
                pace.add(&table, key, now);
            }
        }
        drop(table);
        if let Some(key) = slowest {
            self.shed_slow(key);
            // There may be more.
            self.overload.paced_until = None;
            worker.look_again();
        }
    }

    fn shed_slow(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        worker.shed_for_room(Shed::Slow);
        let mut table = worker.table.borrow_mut();
        let is_sending = table.is_sending(key);
        if let Some(Connection::Active(active)) = table.get_mut(key)
            && !is_sending
        {
            return active.give_up_body();
        }
        if let Some(Connection::Http2(http2)) = table.get_mut(key)
            && !is_sending
        {
            return http2.give_up_bodies(plimsoll_runtime::now());
        }
        drop(table);
        self.close_for(key, ExchangeEnd::Timeout);
    }

    /// Something was done on a connection that may be timed; whether something may have come that no event tells of.
    pub(crate) fn look_at_pace(&mut self, key: Key, is_readable: bool) {
        let table = self.worker.table.borrow();
        let unread_bytes = match table.get(key) {
            Some(Connection::Active(active)) if is_readable => active.unread_bytes(),
            _ => 0,
        };
        self.overload.pace.look(&table, key, plimsoll_runtime::now(), unread_bytes);
    }

    /// Sheds the newest of what the address has that holds the most, until the level would fall.
    pub(super) fn shed_heaviest(&mut self, now: Instant) {
        let worker = Rc::clone(&self.worker);
        let budget = worker.pool.budget();
        let relieved = budget.limit().as_bytes() / 100 * RELIEVED_PERCENT;
        let wanted = worker.next_in_turn().map_or(0, |place| u64::from(place.item().bytes));
        let mut excess = budget.in_use().saturating_sub(relieved).max(wanted);
        let Some(heavy) = self.heaviest() else { return };
        // What the peer does not take first, though it cannot be told: an answer has begun.
        let unread = self.shed_host(heavy, true, &mut excess);
        let others = self.shed_host(heavy, false, &mut excess);
        if unread + others == 0 {
            return;
        }
        worker.look_again();
        self.overload.shed_at = Some(now);
        // There may be streams of events among them, which end later.
        self.overload.told.get_or_insert((now, u64::MAX));
        tracing::info!(unread, others, "others waited for memory: the address that holds most lost its newest");
    }

    /// Sheds connections of a host, of those whose output is not taken or of all, until enough bytes are free; how
    /// many.
    fn shed_host(&mut self, host: u64, only_unread: bool, excess: &mut u64) -> u32 {
        let worker = Rc::clone(&self.worker);
        // Those who wait do not give way to others of their own address that wait.
        let spares_waiting = worker.waiting.borrow().iter().all(|place| place.name() == host);
        let mut release = 0;
        let places = worker.table.borrow().places();
        for place in (0..places).rev() {
            if *excess == 0 {
                break;
            }
            let found = {
                let table = worker.table.borrow();
                let key = table.key_at(place);
                let key = key.filter(|key| !spares_waiting || !worker.is_queued_itself(*key));
                key.map(|key| (key, held_bytes(&table, key, &worker.config), table.is_sending(key)))
            };
            let Some((key, bytes @ 1.., is_unread)) = found else { continue };
            if (only_unread && !is_unread) || worker.host_of(key) != host {
                continue;
            }
            release += 1;
            *excess = excess.saturating_sub(self.shed_one(key, is_unread, bytes, *excess));
        }
        release
    }

    /// Sheds a connection that holds so many bytes, or of enough of its streams; how many bytes that frees.
    pub(crate) fn shed_one(&mut self, key: Key, is_unread: bool, bytes: u64, excess: u64) -> u64 {
        if let Some(http2) = self.worker.take_http2(key) {
            let is_stalled = is_unread && http2.is_stalled(plimsoll_runtime::now(), STALLED_AFTER);
            if !is_stalled && http2.has_exchanges() {
                return self.give_up_streams(key, http2, excess);
            }
            self.end_http2(key, http2, Shed::Output);
            if is_unread && !is_stalled {
                // It ends when its send has left.
                return 0;
            }
        } else if self.worker.is_websocket(key) {
            self.shed_websocket(key);
        } else if self.worker.gives_way(key, None, plimsoll_runtime::now()) {
            // It ends as it should, and soon.
        } else if is_unread {
            self.worker.shed_for_room(Shed::Overstay);
            self.close_for(key, ExchangeEnd::Overstay);
        } else {
            self.shed(key, Shed::Overstay);
        }
        bytes
    }

    /// The host whose connections hold the most: frequent ones are found in one pass with a few counters (Misra and
    /// Gries 1982), by bytes.
    fn heaviest(&self) -> Option<u64> {
        let worker = &*self.worker;
        let mut weighed = [(0_u64, 0_u64); WEIGHED_MAX];
        let places = worker.table.borrow().places();
        for place in 0..places {
            let key = worker.table.borrow().key_at(place);
            let Some(key) = key else { continue };
            let mut bytes = held_bytes(&worker.table.borrow(), key, &worker.config);
            if bytes == 0 {
                continue;
            }
            let host = worker.host_of(key);
            if let Some((_, sum)) = weighed.iter_mut().find(|(known, sum)| *known == host && *sum > 0) {
                *sum += bytes;
                continue;
            }
            let least = weighed.iter().map(|(_, sum)| *sum).min().unwrap_or(0).min(bytes);
            weighed.iter_mut().for_each(|(_, sum)| *sum -= least);
            bytes -= least;
            if let Some(free) = weighed.iter_mut().find(|(_, sum)| *sum == 0) {
                *free = (host, bytes);
            }
        }
        // One that holds little is not why others wait.
        let share = worker.line_share() / LARGE_PART;
        weighed.into_iter().filter(|(_, sum)| *sum > share).max_by_key(|(_, sum)| *sum).map(|(host, _)| host)
    }
}

/// Bytes of the pool that a connection could give back; 0 for one that may not be shed.
fn held_bytes(table: &Table<Connection>, key: Key, config: &Config) -> u64 {
    let own = match table.get(key) {
        Some(Connection::Active(active)) if active.is_overstay(plimsoll_runtime::now(), config) => {
            EXCHANGE_BYTES + active.input_bytes() + active.output.held_bytes()
        }
        Some(Connection::Http2(http2)) => http2.sheddable_bytes(plimsoll_runtime::now(), config),
        Some(Connection::WebSocket(socket)) => socket.held_bytes(),
        _ => 0,
    };
    if own == 0 { 0 } else { (own + table.sending_bytes(key)) as u64 }
}

/// Why a connection may be shed, if it may.
pub(super) fn shed_sort_of(table: &Table<Connection>, key: Key, worker: &WorkerState) -> Option<ShedSort> {
    let config = &worker.config;
    let active = match table.get(key)? {
        Connection::Active(active) => active,
        Connection::Lingering { rest: Rest::Nothing, .. } if !table.is_sending(key) => {
            return worker.lacks_places().then_some(ShedSort::Lingering);
        }
        Connection::Parked { .. } if table.handshake(key) != Handshake::Over => {
            let awaits_proxy = worker.peers.borrow().awaits_proxy(key);
            let whole = if awaits_proxy { config.proxy_header_timeout } else { config.head_timeout };
            let age = whole.saturating_sub(table.scheduled_in(key)?);
            return match table.handshake(key) {
                Handshake::Begun => (age >= HANDSHAKE_YOUNG_FOR).then_some(ShedSort::IncompleteHead),
                // One whose bytes are there waits for its turn, and holds nothing.
                _ => (table.awaits_readable(key) && age >= IDLE_AFTER).then_some(ShedSort::Fresh),
            };
        }
        Connection::Parked { .. } if table.is_carried(key) && table.has_partial(key) => {
            let age = config.head_timeout.saturating_sub(table.scheduled_in(key)?);
            return (age >= YOUNG_FOR).then_some(ShedSort::IncompleteHead);
        }
        Connection::Parked { requests, born, .. } if !table.is_sending(key) && !worker.is_stopping() => {
            let (left, whole) = (table.scheduled_in(key)?, config.keep_alive_timeout);
            // Where its time is another one, it is not known since when it has it.
            if worker.peers.borrow().awaits_proxy(key) || worker.age_left(*born) <= left + IDLE_AFTER {
                return None;
            }
            // It was parked for a quarter of the time if memory was short then. Timers are coarse.
            let time = if left > whole / 4 + IDLE_AFTER { whole } else { whole / 4 };
            let sort = if *requests == 0 { ShedSort::Fresh } else { ShedSort::Idle };
            return (time.saturating_sub(left) >= IDLE_AFTER).then_some(sort);
        }
        Connection::Http2(http2) if table.is_sending(key) && http2.held_bytes() > 0 => {
            return http2.is_stalled(plimsoll_runtime::now(), STALLED_AFTER).then_some(ShedSort::StalledOutput);
        }
        Connection::WebSocket(socket) if table.is_sending(key) => {
            let is_stalled = socket.is_stalled(table.scheduled_in(key)?, STALLED_AFTER);
            return is_stalled.then_some(ShedSort::StalledOutput);
        }
        _ => return None,
    };
    match active.deadline {
        Deadline::Head => (head_age(table, key, config)? >= YOUNG_FOR).then_some(ShedSort::IncompleteHead),
        Deadline::Send if table.is_sending(key) && active.must_finish == 0 => {
            let left = table.scheduled_in(key)?;
            (config.send_timeout.saturating_sub(left) >= STALLED_AFTER).then_some(ShedSort::StalledOutput)
        }
        _ => None,
    }
}

/// Whether a connection has an incomplete head that had hardly time to end.
pub(super) fn has_young_head(table: &Table<Connection>, key: Key, config: &Config) -> bool {
    head_age(table, key, config).is_some_and(|age| age < YOUNG_FOR)
}

/// For how long a head has been incomplete.
fn head_age(table: &Table<Connection>, key: Key, config: &Config) -> Option<Duration> {
    let Some(Connection::Active(active)) = table.get(key) else { return None };
    let is_incomplete = active.deadline == Deadline::Head && active.handler.is_none() && !table.is_sending(key);
    is_incomplete.then_some(config.head_timeout.saturating_sub(table.scheduled_in(key)?))
}
