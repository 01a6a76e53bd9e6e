//! What requests bring: the beginning of a stream and its handler, parts of bodies, trailers.

use std::rc::Rc;

use plimsoll_codec::h1::RequestHead;
use plimsoll_codec::h2::{ErrorCode, StreamKey, request_view};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::begun::Course;
use crate::connection::Connection;
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::h2::room::{NextStream, TurnWait};
use crate::h2::streams::{Exchange, Incoming, find};
use crate::h2::window::shrink_window;
use crate::h2::{Decoding, Http2, STREAM_BYTES};
use crate::server::{Answered, NoRoom, Service};
use crate::steps::Source;
use crate::ticket::Ticket;

impl<S: Service> Engine<S> {
    /// Looks whether the request that comes next, if one does, may be begun. Asked each time: a head may come in parts,
    /// and there may be room when it is whole.
    pub(super) fn admit(&mut self, key: Key, http2: &mut Http2, rest: &[u8]) -> NextStream {
        let core = &self.core;
        let is_pressed = core.holds_back() || core.is_starving() || core.has_all_handlers();
        let may_wait = http2.turn != TurnWait::Own || !core.turns.is_free();
        http2.codec.admit_next();
        if !is_pressed && !may_wait || !http2.codec.is_request_next(rest) {
            return NextStream::Begins(None);
        }
        let next = match http2.turn {
            TurnWait::Refused => NextStream::IsRefused(Shed::Cpu),
            _ if may_wait && core.waits_for_turn(key) => {
                http2.turn = TurnWait::Awaited;
                return NextStream::Waits;
            }
            _ if is_pressed => self.next_stream(key, http2),
            _ => NextStream::Begins(None),
        };
        http2.turn = TurnWait::Own;
        match next {
            NextStream::IsRefused(reason) if self.core.has_marked() => return NextStream::Begins(Some(reason)),
            NextStream::Waits if self.core.has_marked() => {
                http2.hunger.wanted = 0;
                return NextStream::Begins(Some(Shed::Queue));
            }
            NextStream::IsRefused(_) => http2.codec.refuse_next(),
            _ => {}
        }
        next
    }

    /// Starts the handler of a request, behind which the source has what came; where there is doubt whether it may
    /// begin, only if its route is marked. `false` when the connection was closed meanwhile.
    pub(super) fn request_http2(
        &mut self,
        key: Key,
        place: &mut Option<PoolBox<Http2>>,
        scratch: &Decoding,
        source: &Source,
        stream: StreamKey,
        (head, pseudo_fields, ends, doubt): (&RequestHead, u16, bool, Option<Shed>),
    ) -> bool {
        let core = Rc::clone(&self.core);
        let Some(mut http2) = place.take() else { return false };
        let (view, slots) = request_view(&scratch.bytes, &scratch.slots[..], head, pseudo_fields);
        let slot = doubt.and_then(|_| self.marked_slot(view.path()));
        let (is_marked, is_refused) = (slot.is_some(), doubt.is_some() && slot.is_none());
        if !is_refused {
            core.counters().request_http2();
            core.turns.begun();
        }
        http2.requests = http2.requests.wrapping_add(1);
        let exchange = match core.h2_spare.take() {
            Some(mut spare) => {
                spare.renew(stream, head, ends, core.config.body_timeout);
                Ok(spare)
            }
            None => {
                let fresh = Exchange::new(stream, head, ends, core.config.body_timeout);
                core.pool.try_boxed(fresh, Kind::Codec).map_err(|(over, _)| over)
            }
        };
        let is_last = core.config.requests_max.is_some_and(|max| http2.requests >= max);
        if is_last || core.is_too_old(http2.born) {
            core.say_farewell(&mut http2);
        }
        let Ok(mut exchange) = exchange else {
            core.shed_for_room(Shed::Head);
            core.with_parts(&mut http2, |parts| core.break_off(parts, stream, ErrorCode::RefusedStream));
            *place = Some(http2);
            return true;
        };
        exchange.slot = slot;
        if exchange.expects && http2.codec.is_body_next(stream, source.rest()) {
            exchange.expects = false;
        }
        if core.log.is_some() {
            let line = format!("{} {} HTTP/2.0", head.method, view.target());
            exchange.line = core.pool.try_copy(line.as_bytes(), Kind::Buffers).ok();
            exchange.peer = core.peer_address(key);
        }
        exchange.client = core.note_client(key, &view);
        let client = exchange.client;
        http2.slots.parts().1[usize::from(stream.slot)] = Some(exchange);
        if client.is_some() && !is_marked && !core.may_begin_for_client(key) {
            core.forget_client(key);
            core.shed_for_room(Shed::Queue);
            if let Some(exchange) = http2.slots.exchange(stream) {
                exchange.course = Course::None;
            }
            core.with_parts(&mut http2, |parts| core.refuse_stream(parts, stream));
            *place = Some(http2);
            return true;
        }
        core.put(key, Connection::Http2(http2));
        let used_before = core.used_before();
        let draws = is_marked && core.draw_for_marked();
        let answered = match is_refused {
            true => Err(NoRoom),
            false => self.start(&view, slots, Ticket::of_stream(&core, key, stream)),
        };
        core.end_draw(draws);
        let seat = if matches!(answered, Ok(Answered::Pending(_))) {
            core.take_seat(key, STREAM_BYTES, used_before)
        } else {
            None
        };
        core.forget_client(key);
        let Some(mut http2) = core.take_http2(key) else { return false };
        match answered {
            Ok(Answered::Ready) => {}
            Ok(Answered::Pending(handler)) => {
                if let Some(exchange) = http2.slots.exchange(stream).filter(|exchange| exchange.running) {
                    exchange.handler = Some(handler);
                    exchange.begun_at = Some(plimsoll_runtime::now());
                    exchange.seat = seat;
                }
            }
            Err(NoRoom) => {
                core.note_shed(doubt.unwrap_or(Shed::Body));
                if let Some(exchange) = http2.slots.exchange(stream) {
                    exchange.course = Course::None;
                }
                core.with_parts(&mut http2, |parts| core.refuse_stream(parts, stream));
            }
        }
        *place = Some(http2);
        true
    }
}

impl Core {
    /// Whether a stream may be begun for the client that it is for. Before its head was read only the proxy was known.
    fn may_begin_for_client(&self, key: Key) -> bool {
        !self.is_weighed() || (self.may_hold_more(key) && self.try_room(key).is_ok())
    }

    fn note_shed(&self, reason: Shed) {
        match reason {
            Shed::Cpu => self.shed_for_cpu(),
            reason => self.shed_for_room(reason),
        }
    }

    /// A stream was answered 503 that was not begun.
    pub(super) fn note_refused(&self, reason: Shed) {
        self.note_shed(reason);
        self.counters().response(503);
    }

    /// Keeps the trailers of a request for its handler. Without room they are dropped, as anybody on the way may do
    /// (RFC 9110 6.5.1).
    pub(super) fn keep_trailers(&self, http2: &mut Http2, stream: StreamKey, scratch: &mut Decoding, fields: u16) {
        let parts = http2.split(scratch.bytes.as_mut_slice(), &mut scratch.slots[..], &mut scratch.repeat);
        let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.running) else { return };
        let lines = || parts.storage.trailers(fields);
        let bytes = lines().map(|(name, value)| name.len() + value.len() + 4).sum();
        let Ok(mut section) = self.pool.try_acquire(bytes, Kind::Buffers) else { return };
        for (name, value) in lines() {
            for part in [name, b": ", value, b"\r\n"] {
                section.extend(part);
            }
        }
        exchange.trailers = (!section.is_empty()).then_some(section);
    }

    /// All of a request has come: nothing more is waited for, nor kept for it.
    pub(super) fn end_request(&self, http2: &mut Http2, stream: StreamKey) {
        let Http2 { slots, codec, .. } = &mut *http2;
        if let Some(exchange) = slots.exchange(stream) {
            exchange.request = Incoming::Done;
            exchange.patience.pause(plimsoll_runtime::now());
            shrink_window(codec, exchange);
            exchange.wake_reader();
        }
        self.with_parts(http2, |parts| self.end_if_done(parts, stream));
    }

    /// Takes a part of a body, if there is room for it.
    pub(super) fn take_data(&self, http2: &mut Http2, stream: StreamKey, bytes: &[u8]) -> Result<(), OverBudget> {
        if let Some(exchange) = http2.slots.exchange(stream).filter(|exchange| exchange.running || exchange.held) {
            exchange.receive(self, bytes)?;
            http2.codec.take_data(bytes.len());
            return Ok(());
        }
        // Nobody will read it.
        http2.codec.take_data(bytes.len());
        self.with_parts(http2, |parts| self.drop_data(parts, stream, bytes.len()));
        Ok(())
    }
}
