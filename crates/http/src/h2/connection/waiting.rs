//! How streams come to [wait](crate::h2::waiting) to be begun, and what becomes of them.

use std::rc::Rc;

use plimsoll_codec::h1::{FIELDS_CEILING, FieldSlot, RequestView};
use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{Instant, Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::Course;
use crate::face::request::Request;
use crate::h2::streams::{Exchange, Incoming};
use crate::h2::waiting::Waiting;
use crate::h2::{Http2, STREAM_BYTES};
use crate::memory::lasting::ExchangeId;
use crate::memory::wait::MemoryWait;
use crate::memory::waits::Grant;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{Answered, NoRoom, Service};
use crate::worker::state::Core;

/// Streams of a worker that wait hold at most this part of its share of the line,
const SHARE_PART: u64 = 64;
/// or this under a low one, in bytes.
const HELD_BYTES_MIN: u64 = 16 * 1_024;
/// What one holds that has a usual head.
const USUAL_BYTES: u64 = 1_024;
/// A head that is not long.
const USUAL_HEAD_BYTES: usize = 256;
/// What comes of bodies on streams of a connection that wait: half of its window, so that the bodies of others go on.
const EARLY_BYTES_MAX: usize = 32 * 1_024;

impl Http2 {
    /// Whether a stream waits to be begun, in its place.
    pub(crate) fn awaits_begin(&self, stream: u32) -> bool {
        let mut exchanges = self.slots.exchanges().iter().flatten().filter(|exchange| exchange.id == stream);
        exchanges.any(|exchange| exchange.waiting.as_ref().is_some_and(|waiting| waiting.memory.is_queued()))
    }

    /// Another has taken the place of a stream: its time is over.
    pub(crate) fn lose_place(&mut self, stream: u32) {
        let exchanges = self.slots.parts().1.iter_mut().flatten();
        for exchange in exchanges.filter(|exchange| exchange.id == stream) {
            if let Some(waiting) = &mut exchange.waiting {
                waiting.memory.lose_place();
                waiting.until = plimsoll_runtime::now();
            }
        }
    }

    /// Whether something was begun on it: not all of its streams wait for that.
    pub(in crate::h2) fn has_begun(&self) -> bool {
        self.slots.exchanges().iter().flatten().any(|exchange| exchange.waiting.is_none())
    }

    /// A stream that waits to be begun, and is such.
    fn find_waiting(&self, is_such: impl Fn(&Exchange, &Waiting) -> bool) -> Option<StreamKey> {
        let exchanges = self.slots.exchanges().iter().enumerate();
        let mut waiting = exchanges.filter_map(|(slot, exchange)| {
            let exchange = exchange.as_ref()?;
            Some((slot, exchange, exchange.waiting.as_deref()?))
        });
        let (slot, exchange, _) = waiting.find(|(_, exchange, waiting)| is_such(exchange, waiting))?;
        Some(StreamKey { slot: slot as u16, id: exchange.id })
    }
}

impl Core {
    fn waiting_bytes_max(&self) -> u64 {
        (self.line_share / SHARE_PART).max(HELD_BYTES_MIN)
    }

    /// Whether one more stream of a connection may wait, once its head is decoded, as far as is known before.
    pub(in crate::h2) fn may_stream_wait(&self, key: Key) -> bool {
        let place = || {
            let exchange = self.pool.try_acquire_class(PoolBox::<Exchange>::CLASS, Kind::Codec)?;
            let waiting = self.pool.try_acquire_class(PoolBox::<Waiting>::CLASS, Kind::Codec)?;
            let head = self.pool.try_acquire(USUAL_HEAD_BYTES, Kind::Buffers)?;
            drop((exchange, waiting, head));
            Ok::<_, OverBudget>(())
        };
        let has_room = || place().is_ok() || self.spared_stream(key, place).is_some();
        !self.is_drawn() && !self.do_too_many_wait(key) && has_room()
    }

    /// Whether no more streams may wait, or none of the client that a connection is for.
    fn do_too_many_wait(&self, key: Key) -> bool {
        let most = self.waiting_bytes_max();
        let of_host = self.waiting_streams(self.host_of(key)) as u64 * USUAL_BYTES;
        self.h2_waiting.bytes() + USUAL_BYTES > most || 2 * of_host >= most
    }

    /// Has a stream wait to be begun, for the client that its connection is for now.
    ///
    /// # Errors
    ///
    /// There is no place for it, or no room for its head.
    pub(in crate::h2) fn await_begin(
        &self,
        key: Key,
        exchange: &mut Exchange,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
    ) -> Result<(), OverBudget> {
        if self.do_too_many_wait(key) {
            return Err(OverBudget::new(USUAL_BYTES));
        }
        let keep = || Request::keep_head(&self.pool, view, slots);
        let kept = keep().or_else(|over| self.spared_stream(key, keep).ok_or(over))?;
        let place = || self.pool.try_acquire_class(PoolBox::<Waiting>::CLASS, Kind::Codec);
        let place = place().or_else(|over| self.spared_stream(key, place).ok_or(over))?;
        let bytes = STREAM_BYTES + place.class().bytes() + kept.class().bytes();
        self.h2_waiting.may_grow(bytes, self.waiting_bytes_max())?;
        let mut memory = MemoryWait::None;
        let line = self.starve_stream(key, exchange.id, &mut memory);
        let line = line.map_err(|_too_many| OverBudget::new(bytes as u64))?;
        let time = self.config.wait_to_begin(exchange.request == Incoming::Body);
        let mut waiting = Waiting {
            memory,
            place: line,
            until: plimsoll_runtime::now() + time,
            parsed: view.request().clone(),
            kept,
            head_bytes: view.head().len() as u16,
            held_by_all: self.h2_waiting.clone(),
            held_bytes: 0,
        };
        waiting.hold(bytes);
        (exchange.running, exchange.course) = (false, Course::None);
        exchange.waiting = Some(PoolBox::from_lease(place, waiting));
        Ok(())
    }

    /// Keeps what comes of the body of a stream that waits.
    pub(in crate::h2) fn take_early(
        &self,
        http2: &mut Http2,
        stream: StreamKey,
        bytes: &[u8],
    ) -> Result<(), OverBudget> {
        let exchanges = http2.slots.exchanges().iter().flatten().filter(|exchange| exchange.waiting.is_some());
        let early: usize = exchanges.filter_map(|exchange| exchange.received.as_ref()).map(|lease| lease.len()).sum();
        if early + bytes.len() > EARLY_BYTES_MAX {
            return Err(OverBudget::new(bytes.len() as u64));
        }
        // Half of it stays for heads.
        self.h2_waiting.may_grow(bytes.len(), self.waiting_bytes_max() / 2)?;
        let Some(exchange) = http2.slots.exchange(stream) else { return Ok(()) };
        exchange.receive(self, bytes)?;
        if let Some(waiting) = &mut exchange.waiting {
            waiting.hold(bytes.len());
        }
        http2.codec.take_data(bytes.len());
        Ok(())
    }

    /// Refuses a stream that waits: 503.
    fn refuse_waiting(&self, http2: &mut Http2, stream: StreamKey) {
        if let Some(exchange) = http2.slots.exchange(stream) {
            self.wait_no_more(exchange);
        }
        self.refuse_unbegun(http2, stream, self.why_not_begun());
    }

    /// A stream does not wait to be begun any more.
    #[cold]
    pub(in crate::h2) fn wait_no_more(&self, exchange: &mut Exchange) {
        if let Some(waiting) = exchange.waiting.take() {
            self.leave(waiting.place);
        }
    }

    /// As what it counts that there is no room for a request.
    pub(in crate::h2) fn why_not_begun(&self) -> Shed {
        if self.has_all_handlers() { Shed::Cpu } else { Shed::Queue }
    }

    /// Answers a stream 503 that is not begun.
    pub(in crate::h2) fn refuse_unbegun(&self, http2: &mut Http2, stream: StreamKey, reason: Shed) {
        self.note_shed(reason);
        if let Some(exchange) = http2.slots.exchange(stream) {
            exchange.course = Course::None;
        }
        self.with_parts(http2, |parts| self.refuse_stream(parts, stream));
    }

    /// For whom an exchange is: the client that a trusted proxy names, or the peer.
    pub(crate) fn host_of_exchange(&self, key: Key, stream: Option<StreamKey>) -> u64 {
        let Some(stream) = stream else { return self.host_of(key) };
        let client = match self.table.borrow_mut().get_mut(key) {
            Some(Connection::Http2(http2)) => http2.slots.exchange(stream).and_then(|exchange| exchange.client),
            _ => None,
        };
        client.unwrap_or_else(|| self.peer_host(key))
    }
}

impl<S: Service> Engine<S> {
    /// Starts the handler of a stream whose exchange is there. `None` when the connection was closed meanwhile.
    // In each request: what it returns is not moved about.
    #[inline(always)]
    pub(in crate::h2) fn begin_stream(
        &mut self,
        key: Key,
        http2: PoolBox<Http2>,
        stream: StreamKey,
        (view, slots, is_marked): (&RequestView<'_>, &[FieldSlot], bool),
    ) -> Option<(PoolBox<Http2>, Result<(), NoRoom>)> {
        let core = Rc::clone(&self.core);
        core.counters().request_http2(1);
        core.turns.begun();
        core.put(key, Connection::Http2(http2));
        let used_before = core.used_before();
        let draws = is_marked && core.draw_for_marked();
        let answered = self.start(view, slots, core.ticket(ExchangeId::new(key, 0, Some(stream))));
        core.end_draw(draws);
        let seat = if matches!(answered, Ok(Answered::Pending(_))) {
            core.take_seat(key, STREAM_BYTES, used_before)
        } else {
            None
        };
        let mut http2 = core.take_http2(key)?;
        let begun = match answered {
            Ok(Answered::Ready) => Ok(()),
            Ok(Answered::Pending(handler)) => {
                if let Some(exchange) = http2.slots.exchange(stream).filter(|exchange| exchange.running) {
                    exchange.handler = Some(handler);
                    exchange.begun_at = Some(plimsoll_runtime::now());
                    exchange.seat = seat;
                }
                Ok(())
            }
            Err(no_room) => {
                core.counters().request_http2(-1);
                Err(no_room)
            }
        };
        Some((http2, begun))
    }

    /// Begins a stream that has waited, if that may be now. One that was `granted` room waits on without, another is
    /// refused. `None` when the connection was closed meanwhile.
    #[inline(never)]
    fn begin_waiting(
        &mut self,
        key: Key,
        mut http2: PoolBox<Http2>,
        stream: StreamKey,
        is_granted: bool,
    ) -> Option<PoolBox<Http2>> {
        let core = Rc::clone(&self.core);
        let Some(exchange) = http2.slots.exchange(stream) else { return Some(http2) };
        let (client, Some(mut waiting)) = (exchange.client, exchange.waiting.take()) else { return Some(http2) };
        core.leave(waiting.place);
        core.set_client(key, client);
        let may_begin = match is_granted {
            true => !core.has_all_handlers() && core.may_hold_more(key),
            false => self.has_room(key),
        };
        if may_begin {
            (exchange.running, exchange.course) = (true, Course::Running);
            let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
            let (head, rest) = waiting.kept.split_at(usize::from(waiting.head_bytes).next_multiple_of(8));
            let bytes = rest.as_chunks::<8>().0;
            let slots = &mut slots[..bytes.len()];
            slots.iter_mut().zip(bytes).for_each(|(slot, bytes)| *slot = FieldSlot::from_bytes(*bytes));
            let view = RequestView::new(&head[..usize::from(waiting.head_bytes)], &*slots, &waiting.parsed);
            let (back, begun) = self.begin_stream(key, http2, stream, (&view, slots, false))?;
            http2 = back;
            if begun.is_ok() {
                core.forget_client(key);
                return Some(http2);
            }
        }
        let place = if is_granted { core.starve_stream(key, stream.id, &mut waiting.memory).ok() } else { None };
        core.forget_client(key);
        match (http2.slots.exchange(stream), place) {
            (Some(exchange), Some(place)) => {
                waiting.place = place;
                (exchange.running, exchange.course) = (false, Course::None);
                exchange.waiting = Some(waiting);
            }
            _ => core.refuse_unbegun(&mut http2, stream, core.why_not_begun()),
        }
        Some(http2)
    }

    /// There is room for a stream that waited.
    pub(crate) fn feed_stream(&mut self, key: Key, stream: u32, mut grant: Grant) {
        let core = Rc::clone(&self.core);
        let Some(mut http2) = core.take_http2(key) else { return };
        let Some(stream) = http2.find_waiting(|exchange, _| exchange.id == stream) else {
            return core.put(key, Connection::Http2(http2));
        };
        if let Some(waiting) = http2.slots.exchange(stream).and_then(|exchange| exchange.waiting.as_mut()) {
            waiting.memory.grant();
        }
        // Free for this one, and granted to the next only when it has taken its part.
        grant.release();
        let begun = self.begin_waiting(key, http2, stream, true);
        drop(grant);
        if let Some(http2) = begun {
            self.go_on_http2(key, http2, None);
        }
    }

    /// Begins or refuses the streams that have waited for as long as they may. `None` when the connection was closed
    /// meanwhile.
    pub(in crate::h2) fn end_waits(
        &mut self,
        key: Key,
        mut http2: PoolBox<Http2>,
        now: Instant,
    ) -> Option<PoolBox<Http2>> {
        while let Some(stream) = http2.find_waiting(|_, waiting| waiting.until <= now) {
            http2 = self.begin_waiting(key, http2, stream, false)?;
        }
        Some(http2)
    }

    /// What comes of the body of a stream that waits. Without room for it the stream is refused, so that others go on;
    /// where no other was begun, the rest stays in the socket.
    pub(in crate::h2) fn take_early_data(
        &mut self,
        key: Key,
        http2: &mut Http2,
        stream: StreamKey,
        bytes: &[u8],
    ) -> Result<(), OverBudget> {
        let core = Rc::clone(&self.core);
        let Err(over) = self.retried(key, |_| core.take_early(http2, stream, bytes)) else { return Ok(()) };
        if !http2.has_begun() {
            http2.hunger.note_over(Priority::Head, &over);
            return Err(over);
        }
        core.refuse_waiting(http2, stream);
        core.take_data(http2, stream, bytes)
    }
}
