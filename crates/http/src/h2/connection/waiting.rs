//! How streams come to [wait](crate::h2::waiting) to be begun, and what becomes of them.

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{Instant, JoinHandle, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::Course;
use crate::h2::Http2;
use crate::h2::shared::Env;
use crate::h2::step::Worker;
use crate::h2::streams::{Exchange, Stage};
use crate::h2::waiting::Waiting;
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;

/// What comes of bodies on streams of a connection that wait: half of its window, so that the bodies of others go on.
const EARLY_BYTES_MAX: usize = 32 * 1_024;

impl Http2 {
    /// Whether a stream waits to be begun, in its place.
    pub(crate) fn awaits_begin(&self, stream: u32) -> bool {
        let mut exchanges = self.slots.exchanges().iter().flatten().filter(|exchange| exchange.id == stream);
        exchanges.any(|exchange| exchange.stage.waiting().is_some_and(|waiting| waiting.memory.is_queued()))
    }

    /// Another has taken the place of a stream: its time is over.
    pub(crate) fn lose_place(&mut self, stream: u32) {
        let exchanges = self.slots.parts().1.iter_mut().flatten();
        for exchange in exchanges.filter(|exchange| exchange.id == stream) {
            if let Stage::Waiting(waiting) = &mut exchange.stage {
                waiting.memory.lose_place();
                waiting.until = plimsoll_runtime::now();
            }
        }
    }

    /// Whether something was begun on it: not all of its streams wait for that.
    pub(in crate::h2) fn has_begun(&self) -> bool {
        self.slots.exchanges().iter().flatten().any(|exchange| exchange.stage.waiting().is_none())
    }

    /// A stream that waits to be begun, and is such.
    fn find_waiting(&self, is_such: impl Fn(&Exchange, &Waiting) -> bool) -> Option<StreamKey> {
        let exchanges = self.slots.exchanges().iter().enumerate();
        let mut waiting = exchanges.filter_map(|(slot, exchange)| {
            let exchange = exchange.as_ref()?;
            Some((slot, exchange, exchange.stage.waiting()?))
        });
        let (slot, exchange, _) = waiting.find(|(_, exchange, waiting)| is_such(exchange, waiting))?;
        Some(StreamKey { slot: slot as u16, id: exchange.id })
    }

    /// A stream that has waited to be begun for as long as it may.
    pub(crate) fn find_overdue(&self, now: Instant) -> Option<StreamKey> {
        self.find_waiting(|_, waiting| waiting.until <= now)
    }

    /// It is the turn of a stream, by its identifier, if that waits to be begun.
    pub(crate) fn grant_stream(&mut self, stream: u32) -> Option<StreamKey> {
        let stream = self.find_waiting(|exchange, _| exchange.id == stream)?;
        if let Stage::Waiting(waiting) = &mut self.slots.exchange(stream)?.stage {
            waiting.memory.grant();
        }
        Some(stream)
    }

    /// Takes what a stream waits with, which is to be begun. The connection is for the client of that from now on.
    pub(crate) fn take_waiting(&mut self, desk: &Desk, key: Key, stream: StreamKey) -> Option<PoolBox<Waiting>> {
        let exchange = self.slots.exchange(stream)?;
        let waiting = exchange.stage.take_waiting()?;
        desk.leave(waiting.place);
        desk.set_client(key, exchange.client);
        Some(waiting)
    }

    /// A stream that has waited is begun.
    pub(crate) fn resume(&mut self, stream: StreamKey) {
        if let Some(exchange) = self.slots.exchange(stream) {
            (exchange.stage, exchange.course) = (Stage::Handler, Course::Running);
        }
    }

    /// The handler of a stream was started, and will answer: unless it has, or its stream is over.
    #[inline]
    pub(crate) fn started(&mut self, stream: StreamKey, handler: JoinHandle<()>, share: Option<PeerShare>) {
        if let Some(exchange) = self.slots.exchange(stream).filter(|exchange| exchange.stage.is_running()) {
            exchange.handler = Some(handler);
            exchange.begun_at = Some(plimsoll_runtime::now());
            exchange.share = share;
        }
    }

    /// There was no room for a stream that has waited: it waits on, if it has a place, or is refused. The connection is
    /// for its peer again.
    pub(crate) fn wait_on(
        &mut self,
        env: Env<'_>,
        key: Key,
        stream: StreamKey,
        (mut waiting, may_wait): (PoolBox<Waiting>, bool),
    ) {
        let place = if may_wait { env.enqueue_stream(key, stream.id, &mut waiting.memory).ok() } else { None };
        env.forget_client(key);
        match (self.slots.exchange(stream), place) {
            (Some(exchange), Some(place)) => {
                waiting.place = place;
                (exchange.stage, exchange.course) = (Stage::Waiting(waiting), Course::None);
            }
            _ => self.refuse_unbegun(env, stream, env.why_not_begun()),
        }
    }

    /// For whom a stream is, if that is not the peer.
    pub(crate) fn client_of(&mut self, stream: StreamKey) -> Option<u64> {
        self.slots.exchange(stream).and_then(|exchange| exchange.client)
    }

    /// What comes of the body of a stream that waits. Without room for it the stream is refused, so that others go on;
    /// where no other was begun, the rest stays in the socket.
    pub(in crate::h2) fn take_early_data(
        &mut self,
        env: Env<'_>,
        worker: &mut impl Worker,
        key: Key,
        stream: StreamKey,
        bytes: &[u8],
    ) -> Result<(), OverBudget> {
        let Err(over) = worker.retried(key, || self.take_early(env, stream, bytes)) else { return Ok(()) };
        if !self.has_begun() {
            self.need.note_over(Priority::Head, &over);
            return Err(over);
        }
        self.refuse_waiting(env, stream);
        self.take_data(env, stream, bytes)
    }

    /// Keeps what comes of the body of a stream that waits.
    fn take_early(&mut self, env: Env<'_>, stream: StreamKey, bytes: &[u8]) -> Result<(), OverBudget> {
        let exchanges = self.slots.exchanges().iter().flatten().filter(|exchange| exchange.stage.waiting().is_some());
        let early: usize = exchanges.filter_map(|exchange| exchange.received.as_ref()).map(|lease| lease.len()).sum();
        if early + bytes.len() > EARLY_BYTES_MAX {
            return Err(OverBudget::new(bytes.len() as u64));
        }
        // Half of it stays for heads.
        env.shared.waiting.may_grow(bytes.len(), env.waiting_bytes_max() / 2)?;
        let Some(exchange) = self.slots.exchange(stream) else { return Ok(()) };
        exchange.receive(&env, bytes)?;
        if let Stage::Waiting(waiting) = &mut exchange.stage {
            waiting.hold(bytes.len());
        }
        self.codec.take_data(bytes.len());
        Ok(())
    }

    /// Refuses a stream that waits: 503.
    fn refuse_waiting(&mut self, env: Env<'_>, stream: StreamKey) {
        if let Some(exchange) = self.slots.exchange(stream) {
            exchange.wait_no_more(&env);
        }
        self.refuse_unbegun(env, stream, env.why_not_begun());
    }

    /// Answers a stream 503 that is not begun.
    pub(in crate::h2) fn refuse_unbegun(&mut self, env: Env<'_>, stream: StreamKey, reason: Shed) {
        env.note_shed(reason);
        if let Some(exchange) = self.slots.exchange(stream) {
            exchange.course = Course::None;
        }
        self.with_parts(env, |parts| parts.refuse_stream(stream));
    }
}
