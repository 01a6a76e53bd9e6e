//! How fast peers are, while others wait for memory.
//!
//! Some connections at a time are timed, and others in their places when they were fast enough. Time counts only while
//! something is asked of the peer: to take the send that is in flight, or to send a part of a body that a handler waits
//! for. Nothing is timed, and nothing is kept, while memory is plenty.

use ::core::time::Duration;

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_runtime::Instant;
use plimsoll_runtime::net::{Event, Table};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::worker::connection::Connection;

/// Connections that are timed at once: one for so many bytes of a worker's share of the line,
const SHARE_BYTES: u64 = 32 * 1_024;
/// at most so many.
const TIMED_MAX: u64 = 256;

/// See the module.
pub(crate) struct Pace {
    /// Never longer than its capacity.
    timed: Vec<Timed>,
    _charge: Option<Charge>,
}

/// A connection that is timed.
#[derive(Clone, Copy, Debug)]
struct Timed {
    key: Key,
    /// Since when something is asked of its peer.
    since: Option<Instant>,
    /// So long something was, before that.
    asked: Duration,
    /// Bytes that the peer has taken or sent in this time.
    moved_bytes: u64,
    /// What the send in flight had left when it was looked at last.
    unsent_bytes: usize,
}

impl Timed {
    fn update(&mut self, now: Instant, asked: Option<usize>) {
        if let Some(since) = self.since.take() {
            self.asked += now.since(since);
        }
        self.since = asked.map(|_| now);
        self.unsent_bytes = asked.unwrap_or(0);
    }

    fn bytes_per_second(&self) -> u64 {
        self.moved_bytes.saturating_mul(1_000) / (self.asked.as_millis() as u64).max(1)
    }
}

impl Pace {
    fn count(line_share: u64) -> usize {
        (line_share / SHARE_BYTES).min(TIMED_MAX) as usize
    }

    /// Bytes of the list of a worker with this share of the line, in bytes.
    pub(crate) fn bytes(line_share: u64) -> u64 {
        (Self::count(line_share) * size_of::<Timed>()) as u64
    }

    /// For a worker with this share of the line, in bytes. Without room for it nobody is timed.
    pub(crate) fn new(pool: &Pool, line_share: u64) -> Self {
        let count = Self::count(line_share);
        let charge = pool.charge(Kind::Fixed, Self::bytes(line_share)).ok();
        Self { timed: Vec::with_capacity(if charge.is_some() { count } else { 0 }), _charge: charge }
    }

    /// Whether nobody is timed.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.timed.is_empty()
    }

    /// Memory is plenty.
    pub(crate) fn clear(&mut self) {
        self.timed.clear();
    }

    fn of(&mut self, key: Key) -> Option<&mut Timed> {
        self.timed.iter_mut().find(|timed| timed.key == key)
    }

    /// Counts the bytes of an event that is about to be dealt with. The connection, if it is timed: it is to be [looked
    /// at](Self::look) then.
    pub(crate) fn note(&mut self, event: &Event) -> Option<Key> {
        let (Event::Received(key, _) | Event::Sent(key, _) | Event::Readable(key)) = event else { return None };
        let timed = self.of(*key)?;
        let bytes = match event {
            Event::Received(_, bytes) => bytes.len(),
            Event::Sent(_, rest) => timed.unsent_bytes.saturating_sub(rest.as_slice().len()),
            _ => 0,
        };
        timed.moved_bytes += if timed.since.is_some() { bytes as u64 } else { 0 };
        Some(*key)
    }

    /// Bytes were received that no event brought.
    pub(crate) fn came(&mut self, key: Key, bytes: usize) {
        if let Some(timed) = self.of(key).filter(|timed| timed.since.is_some()) {
            timed.moved_bytes += bytes as u64;
        }
    }

    /// Something was done on a connection; how much of a body it has that came without being told in an event.
    pub(crate) fn look(&mut self, table: &Table<Connection>, key: Key, now: Instant, unread_bytes: usize) {
        if let Some(timed) = self.of(key) {
            timed.moved_bytes += if timed.since.is_some() { unread_bytes as u64 } else { 0 };
            timed.update(now, asked(table, key));
        }
    }

    /// Forgets those that are gone or were fast enough for the span; the slowest of the others for which that is over.
    /// What is asked of that one afterwards, such as to take an answer that says so, is timed anew.
    pub(crate) fn slowest(&mut self, table: &Table<Connection>, now: Instant, config: &Config) -> Option<Key> {
        let rate_min = u64::from(config.slow_bytes_per_second);
        self.timed.retain_mut(|timed| {
            let is_there = table.get(timed.key).is_some();
            if is_there {
                timed.update(now, asked(table, timed.key));
            }
            is_there && (timed.asked < config.slow_span || timed.bytes_per_second() < rate_min)
        });
        let is_of_span = |timed: &Timed| timed.asked >= config.slow_span && timed.since.is_some();
        let of_span = self.timed.iter().enumerate().filter(|(_, timed)| is_of_span(timed));
        let (at, _) = of_span.min_by_key(|(_, timed)| timed.bytes_per_second())?;
        Some(self.timed.swap_remove(at).key)
    }

    /// Begins to time a connection, if something is asked of its peer and there is a place.
    pub(crate) fn add(&mut self, table: &Table<Connection>, key: Key, now: Instant) {
        if self.is_full() || self.of(key).is_some() {
            return;
        }
        let Some(unsent_bytes) = asked(table, key) else { return };
        self.timed.push(Timed { key, since: Some(now), asked: Duration::ZERO, moved_bytes: 0, unsent_bytes });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.timed.len() == self.timed.capacity()
    }
}

/// What is asked of the peer of a connection: so many bytes to take, or 0 for a part of a body to send.
fn asked(table: &Table<Connection>, key: Key) -> Option<usize> {
    let sends = || table.is_sending(key).then(|| table.unsent_bytes(key));
    match table.get(key)? {
        Connection::Active(active) if active.must_finish > 0 => None,
        Connection::Active(active) => {
            let wants_body = active.reader.is_some() && active.exchange.request() == RequestState::Body;
            sends().or((wants_body && !active.is_queued()).then_some(0))
        }
        Connection::Parked { .. } | Connection::Lingering { .. } | Connection::Unread { .. } => sends(),
        Connection::Http2(http2) => {
            let sends = if http2.held_bytes() > 0 { sends() } else { None };
            sends.or_else(|| http2.asks_for_body().then_some(0))
        }
        // WebSockets are told to end.
        Connection::WebSocket(_) | Connection::Taken => None,
    }
}

#[cfg(test)]
mod tests;
