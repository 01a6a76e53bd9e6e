//! What requests bring: the beginning of a stream, parts of bodies, trailers.

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::h2::Http2;
use crate::h2::no_room::{NextStream, TurnWait};
use crate::h2::shared::{Decoding, Env};
use crate::h2::step::{NewRequest, Worker};
use crate::h2::streams::{Exchange, Incoming, find};
use crate::memory::reserved_routes::Slot;

impl Http2 {
    /// Looks whether the request that comes next, if one does, may be begun. Asked each time: a head may come in parts,
    /// and there may be room when it is whole.
    #[inline]
    pub(super) fn admit(&mut self, env: Env<'_>, worker: &mut impl Worker, key: Key, rest: &[u8]) -> NextStream {
        let is_pressed = env.holds_back() || env.has_waiting() || env.has_all_handlers();
        let may_wait = self.turn != TurnWait::Own || !worker.is_turn_free();
        self.codec.admit_next();
        if !is_pressed && !may_wait || !self.codec.is_request_next(rest) {
            return NextStream::Begins;
        }
        let next = match self.turn {
            TurnWait::Refused => NextStream::IsRefused(Shed::Cpu),
            _ if may_wait && worker.waits_for_turn(key) => {
                self.turn = TurnWait::Awaited;
                return NextStream::StaysUnread;
            }
            _ if is_pressed => self.next_stream(env, worker, key),
            _ => NextStream::Begins,
        };
        self.turn = TurnWait::Own;
        match next {
            NextStream::StaysUnread if env.has_marked() => {
                self.need.wanted = None;
                return NextStream::IsRefused(Shed::Queue);
            }
            NextStream::IsRefused(_) if !env.has_marked() => self.codec.refuse_next(),
            _ => {}
        }
        next
    }

    /// Makes the exchange of a request, behind which so much of the input is there; for the client that the connection
    /// is for from now on. `false` when there is no room for it: then its stream is refused.
    #[inline]
    pub(crate) fn add_exchange(
        &mut self,
        env: Env<'_>,
        key: Key,
        (request, view): (NewRequest, &RequestView<'_>),
        slot: Option<Slot>,
        rest: &[u8],
    ) -> bool {
        let (NewRequest { stream, ends, next }, head) = (request, view.request());
        self.requests = self.requests.wrapping_add(1);
        let exchange = match env.shared.spare.take() {
            Some(mut spare) => {
                spare.renew(stream, head, ends, env.config.body_timeout);
                Some(spare)
            }
            None => {
                let place = || env.pool.try_acquire_class(PoolBox::<Exchange>::CLASS, Kind::Codec);
                // Of the spare memory for those who wait, as was asked before.
                let may_wait = matches!(next, NextStream::Waits | NextStream::IsJudged);
                let place = place().ok().or_else(|| if may_wait { env.spared_stream(key, place) } else { None });
                let fresh = || Exchange::new(stream, head, ends, env.config.body_timeout);
                place.map(|place| PoolBox::from_lease(place, fresh()))
            }
        };
        let is_last = env.config.requests_max.is_some_and(|max| self.requests >= max);
        if is_last || env.is_too_old(self.born) {
            self.send_goaway(env);
        }
        let Some(mut exchange) = exchange else {
            env.shed_for_room(Shed::Head);
            self.with_parts(env, |parts| parts.break_off(stream, ErrorCode::RefusedStream));
            return false;
        };
        exchange.slot = slot;
        if exchange.request == Incoming::Withheld && self.codec.is_body_next(stream, rest) {
            exchange.request = Incoming::Body;
        }
        if env.log.is_some() {
            let line = format!("{} {} HTTP/2.0", head.method, view.target());
            exchange.line = env.pool.try_copy(line.as_bytes(), Kind::Buffers).ok();
            exchange.peer = env.peer_address(key);
        }
        exchange.client = env.note_client(key, view);
        self.slots.parts().1[usize::from(stream.slot)] = Some(exchange);
        true
    }

    /// There is no room for a stream.
    #[cold]
    pub(crate) fn wait_or_be_refused(
        &mut self,
        env: Env<'_>,
        key: Key,
        stream: StreamKey,
        (view, slots): (&RequestView<'_>, &[FieldSlot]),
        next: NextStream,
    ) {
        let reason = match next {
            NextStream::IsRefused(reason) => Some(reason),
            _ => {
                let exchange = self.slots.exchange(stream);
                let unmarked = exchange.filter(|exchange| exchange.slot.is_none() && !env.is_drawn());
                let waits = unmarked.is_some_and(|exchange| env.await_begin(key, exchange, view, slots).is_ok());
                (!waits).then(|| env.why_not_begun())
            }
        };
        if let Some(reason) = reason {
            self.refuse_unbegun(env, stream, reason);
        }
    }

    /// Takes a part of a body. Without room for it the connection waits, and is read no further.
    pub(super) fn data(
        &mut self,
        env: Env<'_>,
        worker: &mut impl Worker,
        key: Key,
        stream: StreamKey,
        part: &[u8],
    ) -> Result<(), OverBudget> {
        if self.slots.exchange(stream).is_some_and(|exchange| exchange.stage.waiting().is_some()) {
            return self.take_early_data(env, worker, key, stream, part);
        }
        let taken = worker.retried(key, || self.take_data(env, stream, part));
        if let Err(over) = &taken {
            self.need.note_over(Priority::Body, over);
            self.need.stream = Some(stream);
        } else if self.need.stream == Some(stream) {
            self.need.stream = None;
        }
        taken
    }

    /// Keeps the trailers of a request for its handler. Without room they are dropped, as anybody on the way may do
    /// (RFC 9110 6.5.1).
    pub(super) fn keep_trailers(&mut self, env: Env<'_>, stream: StreamKey, scratch: &mut Decoding, fields: u16) {
        let Decoding { bytes, slots, repeat } = scratch;
        let parts = self.split(env, bytes.as_mut_slice(), &mut slots[..], repeat);
        let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.is_wanted()) else { return };
        let lines = || parts.storage.trailers(fields);
        let bytes = lines().map(|(name, value)| name.len() + value.len() + 4).sum();
        let Ok(mut section) = env.pool.try_acquire(bytes, Kind::Buffers) else { return };
        for (name, value) in lines() {
            for part in [name, b": ", value, b"\r\n"] {
                section.extend(part);
            }
        }
        exchange.trailers = (!section.is_empty()).then_some(section);
    }

    /// All of a request has come: nothing more is waited for, nor kept for it.
    pub(super) fn end_request(&mut self, env: Env<'_>, stream: StreamKey) {
        let Self { slots, codec, .. } = self;
        if let Some(exchange) = slots.exchange(stream) {
            if exchange.request != Incoming::NoRoom {
                exchange.request = Incoming::Done;
            }
            exchange.min_rate.pause(plimsoll_runtime::now());
            exchange.shrink_window(codec);
            exchange.wake_reader();
        }
        self.with_parts(env, |parts| parts.end_if_done(stream));
    }

    /// Takes a part of a body, if there is room for it.
    pub(super) fn take_data(&mut self, env: Env<'_>, stream: StreamKey, bytes: &[u8]) -> Result<(), OverBudget> {
        if let Some(exchange) = self.slots.exchange(stream).filter(|exchange| exchange.takes_data()) {
            exchange.receive(&env, bytes)?;
            self.codec.take_data(bytes.len());
            return Ok(());
        }
        // Nobody will read it.
        self.codec.take_data(bytes.len());
        self.with_parts(env, |parts| parts.drop_data(stream, bytes.len()));
        Ok(())
    }
}
