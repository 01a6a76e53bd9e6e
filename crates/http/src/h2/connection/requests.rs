//! What requests bring: the beginning of a stream and its handler, parts of bodies, trailers.

use std::rc::Rc;

use plimsoll_codec::h1::{FieldSlot, RequestHead, RequestView};
use plimsoll_codec::h2::{ErrorCode, StreamKey, request_view};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::exchange::source::Source;
use crate::h2::room::{NextStream, TurnWait};
use crate::h2::streams::{Exchange, Incoming, find};
use crate::h2::window::shrink_window;
use crate::h2::{Decoding, Http2};
use crate::worker::engine::Engine;
use crate::worker::service::{NoRoom, Service};
use crate::worker::state::Core;

impl<S: Service> Engine<S> {
    /// Looks whether the request that comes next, if one does, may be begun. Asked each time: a head may come in parts,
    /// and there may be room when it is whole.
    pub(super) fn admit(&mut self, key: Key, http2: &mut Http2, rest: &[u8]) -> NextStream {
        let core = &self.core;
        let is_pressed = core.holds_back() || core.is_starving() || core.has_all_handlers();
        let may_wait = http2.turn != TurnWait::Own || !core.turns.is_free();
        http2.codec.admit_next();
        if !is_pressed && !may_wait || !http2.codec.is_request_next(rest) {
            return NextStream::Begins;
        }
        let next = match http2.turn {
            TurnWait::Refused => NextStream::IsRefused(Shed::Cpu),
            _ if may_wait && core.waits_for_turn(key) => {
                http2.turn = TurnWait::Awaited;
                return NextStream::StaysUnread;
            }
            _ if is_pressed => self.next_stream(key, http2),
            _ => NextStream::Begins,
        };
        http2.turn = TurnWait::Own;
        match next {
            NextStream::StaysUnread if self.core.has_marked() => {
                http2.hunger.wanted = None;
                return NextStream::IsRefused(Shed::Queue);
            }
            NextStream::IsRefused(_) if !self.core.has_marked() => http2.codec.refuse_next(),
            _ => {}
        }
        next
    }

    /// Begins a request, behind which the source has what came, or has it wait, or refuses it. `false` when the
    /// connection was closed meanwhile.
    pub(super) fn request_http2(
        &mut self,
        key: Key,
        place: &mut Option<PoolBox<Http2>>,
        scratch: &Decoding,
        source: &mut Source,
        stream: StreamKey,
        (head, pseudo_fields, ends, next): (&RequestHead, u16, bool, NextStream),
    ) -> bool {
        let core = Rc::clone(&self.core);
        let Some(mut http2) = place.take() else { return false };
        let (view, slots) = request_view(&scratch.bytes, &scratch.slots[..], head, pseudo_fields);
        let slot = if next == NextStream::Begins { None } else { self.marked_slot(view.path()) };
        let is_marked = slot.is_some();
        http2.requests = http2.requests.wrapping_add(1);
        let exchange = match core.h2_spare.take() {
            Some(mut spare) => {
                spare.renew(stream, head, ends, core.config.body_timeout);
                Some(spare)
            }
            None => {
                let place = || core.pool.try_acquire_class(PoolBox::<Exchange>::CLASS, Kind::Codec);
                // Of what is spared for those who wait, as was asked before.
                let may_wait = matches!(next, NextStream::Waits | NextStream::IsJudged);
                let place = place().ok().or_else(|| if may_wait { core.spared_stream(key, place) } else { None });
                let fresh = || Exchange::new(stream, head, ends, core.config.body_timeout);
                place.map(|place| PoolBox::from_lease(place, fresh()))
            }
        };
        let is_last = core.config.requests_max.is_some_and(|max| http2.requests >= max);
        if is_last || core.is_too_old(http2.born) {
            core.say_farewell(&mut http2);
        }
        let Some(mut exchange) = exchange else {
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
        http2.slots.parts().1[usize::from(stream.slot)] = Some(exchange);
        let may_begin = is_marked
            || match next {
                NextStream::Begins => true,
                NextStream::IsJudged => self.has_room(key),
                NextStream::Waits | NextStream::StaysUnread | NextStream::IsRefused(_) => false,
            };
        // What came with it is not lost when this takes the rest of the memory.
        let begins = may_begin && source.place(&core).is_ok();
        let begun = if begins {
            self.begin_stream(key, http2, stream, (&view, slots, is_marked))
        } else {
            Some((http2, Err(NoRoom)))
        };
        let Some((mut http2, begun)) = begun else {
            core.forget_client(key);
            return false;
        };
        if begun.is_err() {
            self.wait_or_be_refused(key, &mut http2, stream, (&view, slots), next);
        }
        core.forget_client(key);
        *place = Some(http2);
        true
    }

    /// There is no room for a stream.
    #[cold]
    fn wait_or_be_refused(
        &mut self,
        key: Key,
        http2: &mut Http2,
        stream: StreamKey,
        (view, slots): (&RequestView<'_>, &[FieldSlot]),
        next: NextStream,
    ) {
        let core = &self.core;
        let reason = match next {
            NextStream::IsRefused(reason) => Some(reason),
            _ => {
                let exchange = http2.slots.exchange(stream);
                let unmarked = exchange.filter(|exchange| exchange.slot.is_none() && !core.is_drawn());
                let waits = unmarked.is_some_and(|exchange| core.await_begin(key, exchange, view, slots).is_ok());
                (!waits).then(|| core.why_not_begun())
            }
        };
        if let Some(reason) = reason {
            core.refuse_unbegun(http2, stream, reason);
        }
    }
}

impl<S: Service> Engine<S> {
    /// Takes a part of a body. Without room for it the connection waits, and is read no further.
    pub(super) fn data_http2(
        &mut self,
        key: Key,
        http2: &mut Http2,
        stream: StreamKey,
        part: &[u8],
    ) -> Result<(), OverBudget> {
        if http2.slots.exchange(stream).is_some_and(|exchange| exchange.waiting.is_some()) {
            return self.take_early_data(key, http2, stream, part);
        }
        let core = Rc::clone(&self.core);
        let taken = self.retried(key, |_| core.take_data(http2, stream, part));
        if let Err(over) = &taken {
            http2.hunger.note_over(Priority::Body, over);
            http2.hunger.stream = Some(stream);
        } else if http2.hunger.stream == Some(stream) {
            http2.hunger.stream = None;
        }
        taken
    }
}

impl Core {
    pub(in crate::h2) fn note_shed(&self, reason: Shed) {
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
        let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.is_wanted()) else { return };
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
            if exchange.request != Incoming::NoRoom {
                exchange.request = Incoming::Done;
            }
            exchange.patience.pause(plimsoll_runtime::now());
            shrink_window(codec, exchange);
            exchange.wake_reader();
        }
        self.with_parts(http2, |parts| self.end_if_done(parts, stream));
    }

    /// Takes a part of a body, if there is room for it.
    pub(in crate::h2) fn take_data(
        &self,
        http2: &mut Http2,
        stream: StreamKey,
        bytes: &[u8],
    ) -> Result<(), OverBudget> {
        if let Some(exchange) = http2.slots.exchange(stream).filter(|exchange| exchange.takes_data()) {
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
