//! The steps of an HTTP/2 connection: what came is taken in, what there is to send is sent, and what is waited for is
//! armed. A step works on its own connection alone, and says what becomes of it. What requests bring is in `requests`,
//! how long anything may take in `deadlines`, what becomes of it when the peer has ended its half in `half`, how they
//! come to wait in `waiting`.

mod deadlines;
mod half;
mod requests;
mod waiting;

use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_codec::h2::{ErrorCode, Event, Step as CodecStep, request_view};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, JoinHandle, OverBudget};
use plimsoll_slab::Key;

use super::no_room::{NextStream, TurnWait, Wanted, make};
use super::output::Growing;
use super::peer_half::PeerHalf;
use super::pending::Phase;
use super::room::STEP_BYTES_MAX;
use super::shared::{Decoding, Env};
use super::step::{NewRequest, Step, Turned, Worker};
use super::streams::Slots;
use super::{HTTP2_PARKED_BYTES, Http2, TABLES_BYTES};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::Line;
use crate::exchange::source::Source;
use crate::memory::desk::Desk;

/// A turn through the input of a connection. It has the worker's scratch memory, as long as it is.
pub(crate) struct Turn {
    decoding: PoolBox<Decoding>,
    /// When it began.
    now: Instant,
    now_ms: u64,
    /// What had found no room before.
    wanted: Option<Wanted>,
    /// What becomes of the next stream,
    next: NextStream,
    /// and why it is refused, if it is, until its head has been taken.
    refused: Option<Shed>,
}

impl Turn {
    /// The head and the fields of a request that came last.
    #[inline(always)]
    pub(crate) fn view(&self) -> (RequestView<'_>, &[FieldSlot]) {
        let Decoding { bytes, slots, repeat } = &*self.decoding;
        request_view(bytes, &slots[..], repeat)
    }

    /// Gives the scratch memory back.
    pub(crate) fn end(self, env: Env<'_>) {
        env.shared.scratch.borrow_mut().decoding = Some(self.decoding);
    }
}

impl Http2 {
    /// Begins a connection, when its preface has come.
    pub(crate) fn begin(&mut self, env: Env<'_>, key: Key) {
        self.share = env.share_while_weighed(key, HTTP2_PARKED_BYTES + TABLES_BYTES);
        self.phase.close_on(self.codec.begin(&mut Growing(&mut self.output, &env.pool)));
        if env.is_stopping() {
            self.send_goaway(env);
        }
    }

    /// Takes what was kept of the input, with what has just come.
    #[inline]
    pub(crate) fn source(
        &mut self,
        env: Env<'_>,
        fresh: Option<plimsoll_runtime::net::Bytes>,
    ) -> Result<Source, OverBudget> {
        let kept = self.input.take();
        Source::join(&env, kept, fresh, || self.has_exchanges())
    }

    /// Begins a turn through the input. Without room for that the connection waits.
    #[inline(always)]
    pub(crate) fn begin_turn(
        &mut self,
        env: Env<'_>,
        worker: &mut impl Worker,
        key: Key,
        input: &[u8],
    ) -> Result<Turn, OverBudget> {
        (self.listed, self.since.rested) = (false, None);
        let now = plimsoll_runtime::now();
        let wanted = ::core::mem::take(&mut self.need.wanted);
        if self.needs_tables(input) {
            worker.retried(key, || self.open_tables(&env.pool)).inspect_err(|over| {
                self.need.note_over(Priority::Head, over);
            })?;
        }
        self.adapt(env);
        if wanted.is_some() || self.answers > 0 {
            // Who waited comes before what is new. Bodies alone do not: beside a long one the input would never be
            // looked at.
            self.pump(env);
        }
        let decoding = env.shared.scratch.borrow_mut().take_decoding(&env.pool, &env.config.http2_limits);
        let decoding = decoding.inspect_err(|over| self.need.note_over(Priority::Head, over))?;
        Ok(Turn { decoding, now, now_ms: now.as_millis(), wanted, next: NextStream::Begins, refused: None })
    }

    /// Takes the next frame, or the next part of one, out of the input. `None` when nothing more is looked at now.
    #[inline(always)]
    pub(crate) fn next_frame(
        &mut self,
        env: Env<'_>,
        worker: &mut impl Worker,
        key: Key,
        (turn, rest): (&mut Turn, &[u8]),
    ) -> Option<CodecStep> {
        if !self.phase.is_open() || !env.has_room(&self.output) {
            return None;
        }
        if rest.is_empty() && self.codec.is_between_frames() {
            // Nothing to do is no reason to ask for room.
            return None;
        }
        // A window that came where nothing can be kept is used at once: it needs no memory.
        if self.output.spare_bytes() < STEP_BYTES_MAX
            && !self.codec.is_silent_next(rest)
            && make(&mut self.output, &mut self.need, env, STEP_BYTES_MAX).is_err()
        {
            return None;
        }
        if turn.refused.is_none() {
            turn.next = self.admit(env, worker, key, rest);
            match turn.next {
                NextStream::StaysUnread => return None,
                NextStream::IsRefused(reason) if !env.has_marked() => turn.refused = Some(reason),
                _ => {}
            }
        }
        let Decoding { bytes, slots, repeat } = &mut *turn.decoding;
        let parts = self.split(env, bytes.as_mut_slice(), &mut slots[..], repeat);
        let mut storage = parts.storage;
        let step = parts.codec.step(rest, &mut storage, &mut Growing(parts.output, &env.pool), turn.now_ms);
        step.inspect_err(|error| self.end_broken(env, error)).ok()
    }

    /// Does what a frame means.
    #[inline(always)]
    pub(crate) fn on_frame(
        &mut self,
        env: Env<'_>,
        worker: &mut impl Worker,
        key: Key,
        (turn, source): (&mut Turn, &mut Source),
        step: CodecStep,
    ) -> Turned {
        let consumed = step.consumed;
        if consumed > 0 {
            if self.since.frame.is_some() && !self.codec.is_in_block() {
                self.since.frame = None;
            }
            if let Some(reason) = turn.refused.take() {
                env.note_refused(reason);
            }
        }
        match step.event {
            Event::NeedMore { .. } => {
                source.consume(consumed);
                return if source.rest().is_empty() { Turned::Over } else { Turned::Part };
            }
            Event::NeedOutput => return Turned::Over,
            Event::Request { stream, ends } => {
                source.consume(consumed);
                return Turned::Request(NewRequest { stream, ends, next: turn.next });
            }
            Event::Data { stream, bytes, .. } => {
                source.consume(consumed);
                let part = &source.rest()[..bytes];
                if self.data(env, worker, key, stream, part).is_err() {
                    return Turned::Over;
                }
                source.consume(bytes);
                return Turned::On;
            }
            Event::NeedStreams if worker.retried(key, || self.slots.grow(&env.pool)).is_err() => {
                self.codec.refuse_next();
                turn.refused = Some(Shed::Queue);
            }
            Event::End { stream } => self.end_request(env, stream),
            Event::Trailers { stream, fields, .. } => {
                self.keep_trailers(env, stream, &mut turn.decoding, fields);
                self.end_request(env, stream);
            }
            Event::Reset { stream, .. } => {
                let ended = (ErrorCode::Cancel, ExchangeEnd::Peer);
                abort(self.with_parts(env, |parts| parts.cut(stream, ended)));
            }
            Event::Writable => self.pump(env),
            _ => {}
        }
        source.consume(consumed);
        Turned::On
    }

    /// What the input led to is sent, as far as it goes, and the rest of the input is kept.
    #[inline(always)]
    pub(crate) fn end_turn(
        &mut self,
        env: Env<'_>,
        line: &mut impl Line,
        key: Key,
        turn: Turn,
        (mut source, is_part): (Source, bool),
    ) -> Step {
        let (wanted, now) = (turn.wanted, turn.now);
        turn.end(env);
        if !self.phase.is_open() {
            source = Source::Empty;
        }
        // Whole frames that wait for our output, or for memory, are no fault of the peer.
        let is_part = is_part || self.codec.is_part_next(source.rest());
        self.since.frame = if is_part { self.since.frame.or(Some(now)) } else { None };
        self.adapt(env);
        self.pump(env);
        if self.peer.is_ended() && (is_part || source.rest().is_empty()) && self.phase.is_open() {
            source = Source::Empty;
            self.end_what_is_stuck(env);
        }
        if let Some(wanted) = wanted
            && self.need.wanted.is_none()
            && self.has_waiting_writers()
        {
            self.need.note(Priority::Output, wanted.bytes as usize);
        }
        self.stay(env, line, key, (source, now))
    }

    /// The socket has taken everything that was handed to it.
    pub(crate) fn sent(&mut self, desk: &Desk) {
        self.since.sending = None;
        let is_empty = self.output.is_empty();
        self.answered.settle(false, is_empty, desk.counters());
        if is_empty {
            self.codec.output_sent();
        }
    }

    /// Sends what there is to send, and arms what there is to wait for.
    pub(crate) fn settle(&mut self, env: Env<'_>, line: &mut impl Line, key: Key, now: Instant) -> Step {
        if !self.phase.is_open() {
            self.end_all(&env, ExchangeEnd::Peer);
            (self.slots, self.input, self.need.wanted) = (Slots::None, None, None);
        }
        let is_over = self.codec.live_streams() == 0 && self.codec.is_going_away();
        let flushed = self.flush(env, line, key);
        let is_sending = line.is_sending();
        let is_empty = self.output.is_empty();
        self.answered.settle(is_sending, is_empty, env.counters());
        if self.phase == Phase::Leaving && !is_sending {
            return self.leave(env, line);
        }
        self.since.sending = if is_sending { self.since.sending.or(Some(now)) } else { None };
        if let Err(over) = flushed {
            if !self.phase.is_open() {
                env.counters().shed(Shed::Output);
                return Step::Close(ExchangeEnd::Overstay);
            }
            self.need.note_over(Priority::Output, &over);
        }
        if (!self.phase.is_open() || is_over) && !is_sending && is_empty {
            return Step::Linger;
        }
        if env.level() >= Level::Yellow && self.is_restless() {
            self.rest(&env.pool);
        }
        let is_counted = self.codec.live_streams() > 0 || self.since.settings.is_some() && !self.codec.is_settled();
        if is_counted != self.counted {
            self.counted = is_counted;
            env.counters().active(if is_counted { 1 } else { -1 });
        }
        // A peer that does not take what it asks for is not read either.
        let has_room = env.has_room(&self.output) && !self.codec.needs_output();
        let is_queued = self.need.wanted.is_some();
        self.need.since = if is_queued { self.need.since.or(Some(now)) } else { None };
        // Whole frames that are kept are looked at when the send has left; what comes behind them can wait as long.
        let is_behind = is_sending && self.input.is_some() && self.since.frame.is_none();
        let reads = self.phase.is_open()
            && !is_queued
            && self.turn == TurnWait::Own
            && has_room
            && !is_behind
            && !self.peer.is_ended();
        let armed = match reads {
            true => self.arm_receive(env, line, key),
            false if is_sending || !self.phase.is_open() || self.peer != PeerHalf::Open => {
                line.unwatch();
                Ok(())
            }
            false => line.watch(),
        };
        if let Err(over) = armed {
            self.need.note_over(Priority::Output, &over);
            self.need.since = self.need.since.or(Some(now));
        }
        self.note_waits(now, reads);
        match self.next_due(&env) {
            Some((until, _)) => line.schedule(until.since(now)),
            None => line.unschedule(),
        }
        self.enqueue(env, key);
        Step::Rest
    }

    /// Hands output to the socket.
    fn flush(&mut self, env: Env<'_>, line: &mut impl Line, key: Key) -> Result<(), OverBudget> {
        if (env.is_drawn() || !env.reserve.is_full()) && !line.is_sending() && !self.output.is_empty() {
            // It may be of the answer reserve, which serves the next when the socket takes all at once.
            if let Some(lease) = line.send_lent(&mut self.output) {
                env.reserve.put_back(lease);
                self.codec.output_sent();
                self.list(&env, key);
            }
        }
        let flushed = line.flush(&env.pool, &mut self.output);
        if flushed.is_err() && line.flush_now(&mut self.output) {
            // The socket has taken all of it at once: as after a send.
            self.codec.output_sent();
            self.list(&env, key);
            return Ok(());
        }
        flushed
    }

    /// The end of a connection that is not in the table any more.
    pub(crate) fn finish(&mut self, desk: &Desk, why: ExchangeEnd) {
        if self.counted {
            desk.counters().active(-1);
        }
        self.end_all(desk, why);
        self.answered.end(why, desk.counters());
    }

    /// The codec cannot go on: its peer broke the protocol, or there is no room for what it has to say.
    fn end_broken(&mut self, env: Env<'_>, error: &CodecError) {
        self.phase.close();
        if *error != CodecError::OutputFull {
            return env.counters().shed(Shed::Misbehaviour);
        }
        self.note_all(ExchangeEnd::Overstay);
        env.counters().shed(Shed::Output);
    }

    /// Ends all exchanges: drops their handlers but those that must finish. The connection is not in the table
    /// meanwhile.
    fn end_all(&mut self, desk: &Desk, why: ExchangeEnd) {
        for exchange in self.slots.parts().1.iter_mut().flatten() {
            exchange.course.end(why, desk.counters());
            exchange.wait_no_more(desk);
            let handler = exchange.handler.take();
            abort(handler.filter(|_| exchange.must_finish == 0));
            exchange.wake();
        }
    }
}

fn abort(handler: Option<JoinHandle<()>>) {
    if let Some(handler) = handler {
        handler.abort();
    }
}
