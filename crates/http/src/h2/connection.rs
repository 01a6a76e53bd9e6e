//! The engine's side of an HTTP/2 connection: steps through what came, and sends what there is. What requests bring is
//! in `requests`, how long anything may take in `deadlines`, what becomes of it when the peer has ended its half in
//! `half`, how they come to wait in `waiting`.

mod deadlines;
mod half;
mod requests;
mod waiting;

use std::rc::Rc;

use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h2::{ErrorCode, Event, Step};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, JoinHandle};
use plimsoll_slab::Key;

use super::output::Growing;
use super::room::{NextStream, STEP_BYTES_MAX, TurnWait, make, offered};
use super::streams::Slots;
use super::{Decoding, HTTP2_PARKED_BYTES, Http2, TABLES_BYTES};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::source::Source;
use crate::h1::active::Active;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

pub(super) use half::PeerHalf;

/// Why a turn through the input ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Input, output, memory or a handler is waited for.
    Over,
    /// More of the input is waited for, and of a frame of which there is a part.
    Part,
    /// The connection was closed meanwhile.
    Closed,
}

impl<S: Service> Engine<S> {
    /// A connection that began with the preface goes on as one of HTTP/2.
    pub(crate) fn become_http2(&mut self, key: Key, active: PoolBox<Active>, source: Source) {
        let core = Rc::clone(&self.core);
        let limits = core.config.http2_limits;
        let born = active.born;
        drop(active);
        core.put(key, Connection::LINGERING);
        let made = self.retried(key, |_| {
            core.h2_scratch.borrow_mut().prepare(&core.pool, &limits)?;
            Http2::new(&core.pool, &limits, born, offered(core.level()))
        });
        match made {
            Ok(mut http2) => {
                http2.seat = core.seat_while_weighed(key, HTTP2_PARKED_BYTES + TABLES_BYTES);
                let Http2 { codec, output, .. } = &mut *http2;
                http2.closing = codec.begin(&mut Growing(output, &core.pool)).is_err();
                if core.is_stopping() {
                    core.say_farewell(&mut http2);
                }
                self.drive_http2(key, http2, source);
            }
            Err(_) => {
                core.counters().active(-1);
                self.refuse_http2(key);
            }
        }
    }

    /// Goes on with a connection as far as it can, with what has just come.
    pub(crate) fn go_on_http2(
        &mut self,
        key: Key,
        mut http2: PoolBox<Http2>,
        fresh: Option<plimsoll_runtime::net::Bytes>,
    ) {
        let kept = http2.input.take();
        match Source::join(&self.core, kept, fresh, || http2.has_exchanges()) {
            Ok(source) => self.drive_http2(key, http2, source),
            Err(_) => self.end_without_room(key, http2, Shed::Head),
        }
    }

    fn drive_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, mut source: Source) {
        let core = Rc::clone(&self.core);
        (http2.listed, http2.since.rested) = (false, None);
        let now = plimsoll_runtime::now();
        let wanted = ::core::mem::take(&mut http2.hunger.wanted);
        if http2.needs_tables(source.rest())
            && let Err(over) = self.retried(key, |_| http2.open_tables(&core.pool))
        {
            http2.hunger.note_over(Priority::Head, &over);
            return self.stay_http2(key, http2, source, now);
        }
        core.adapt(&mut http2);
        if wanted.is_some() || http2.answers > 0 {
            // Who waited comes before what is new. Bodies alone do not: beside a long one the input would never be
            // looked at.
            core.pump(&mut http2);
        }
        let Some(mut scratch) = core.h2_scratch.borrow_mut().decoding.take() else {
            debug_assert!(false, "made with the first connection, and put back after each turn");
            core.put(key, Connection::Http2(http2));
            return self.close(key);
        };
        let mut place = Some(http2);
        let turn = self.turn_http2(key, &mut place, &mut source, &mut scratch);
        core.h2_scratch.borrow_mut().decoding = Some(scratch);
        let Some(mut http2) = place.filter(|_| turn != Turn::Closed) else { return };
        if http2.closing {
            source = Source::Empty;
        }
        // Whole frames that wait for our output, or for memory, are no fault of the peer.
        let is_part = turn == Turn::Part || http2.codec.is_part_next(source.rest());
        http2.since.frame = if is_part { http2.since.frame.or(Some(now)) } else { None };
        core.adapt(&mut http2);
        core.pump(&mut http2);
        if http2.peer.is_ended() && (is_part || source.rest().is_empty()) && !http2.closing {
            source = Source::Empty;
            core.end_what_is_stuck(&mut http2);
        }
        if let Some(wanted) = wanted
            && http2.hunger.wanted.is_none()
            && http2.has_starved()
        {
            http2.hunger.note(Priority::Output, wanted.bytes as usize);
        }
        self.stay_http2(key, http2, source, now);
    }

    /// Steps through the input. The connection is in `place` unless a handler is being started.
    fn turn_http2(
        &mut self,
        key: Key,
        place: &mut Option<PoolBox<Http2>>,
        source: &mut Source,
        scratch: &mut Decoding,
    ) -> Turn {
        let core = Rc::clone(&self.core);
        let now_ms = plimsoll_runtime::now().as_millis();
        let (mut refused, mut next) = (None, NextStream::Begins);
        loop {
            let Some(http2) = place.as_mut() else { return Turn::Closed };
            if http2.closing || !core.has_room(&http2.output) {
                return Turn::Over;
            }
            let Http2 { codec, output, hunger, .. } = &mut **http2;
            let rest = source.rest();
            if rest.is_empty() && codec.is_between_frames() {
                // Nothing to do is no reason to ask for room.
                return Turn::Over;
            }
            // A window that came where nothing can be kept is used at once: it needs no memory.
            if output.spare_bytes() < STEP_BYTES_MAX
                && !codec.is_silent_next(rest)
                && make(output, hunger, &core, STEP_BYTES_MAX).is_err()
            {
                return Turn::Over;
            }
            if refused.is_none() {
                next = self.admit(key, http2, rest);
                match next {
                    NextStream::StaysUnread => return Turn::Over,
                    NextStream::IsRefused(reason) if !core.has_marked() => refused = Some(reason),
                    _ => {}
                }
            }
            let parts = http2.split(scratch.bytes.as_mut_slice(), &mut scratch.slots[..], &mut scratch.repeat);
            let mut storage = parts.storage;
            let step = parts.codec.step(rest, &mut storage, &mut Growing(parts.output, &core.pool), now_ms);
            let (consumed, event) = match &step {
                Ok(Step { consumed, event }) => (*consumed, event),
                Err(error) => {
                    core.end_broken(http2, error);
                    return Turn::Over;
                }
            };
            if consumed > 0 {
                if http2.since.frame.is_some() && !http2.codec.is_in_block() {
                    http2.since.frame = None;
                }
                if let Some(reason) = refused.take() {
                    core.note_refused(reason);
                }
            }
            match *event {
                Event::NeedMore { .. } => {
                    source.consume(consumed);
                    return if source.rest().is_empty() { Turn::Over } else { Turn::Part };
                }
                Event::NeedOutput => return Turn::Over,
                Event::Request { stream, ref head, pseudo_fields, ends } => {
                    source.consume(consumed);
                    if !self.request_http2(key, place, scratch, source, stream, (head, pseudo_fields, ends, next)) {
                        return Turn::Closed;
                    }
                    continue;
                }
                Event::Data { stream, bytes, .. } => {
                    source.consume(consumed);
                    let part = &source.rest()[..bytes];
                    if self.data_http2(key, http2, stream, part).is_err() {
                        return Turn::Over;
                    }
                    source.consume(bytes);
                    continue;
                }
                Event::NeedStreams if self.retried(key, |_| http2.slots.grow(&core.pool)).is_err() => {
                    http2.codec.refuse_next();
                    refused = Some(Shed::Queue);
                }
                Event::End { stream } | Event::Trailers { stream, .. } => {
                    if let Event::Trailers { fields, .. } = *event {
                        core.keep_trailers(http2, stream, scratch, fields);
                    }
                    core.end_request(http2, stream);
                }
                Event::Reset { stream, .. } => {
                    let handler =
                        core.with_parts(http2, |parts| core.cut(parts, stream, (ErrorCode::Cancel, ExchangeEnd::Peer)));
                    abort(handler);
                }
                Event::Writable => core.pump(http2),
                _ => {}
            }
            source.consume(consumed);
        }
    }

    /// Something changed on a connection: a handler answered, wrote, or wants to read.
    pub(crate) fn look_after_http2(&mut self, key: Key) {
        if let Some(http2) = self.core.take_http2(key) {
            self.go_on_http2(key, http2, None);
        }
    }

    /// The socket has taken everything that was handed to it.
    pub(crate) fn sent_http2(&mut self, key: Key) {
        if let Some(mut http2) = self.core.take_http2(key) {
            http2.since.sending = None;
            let is_empty = http2.output.is_empty();
            http2.answered.settle(false, is_empty, self.core.counters());
            if http2.output.is_empty() {
                http2.codec.output_sent();
            }
            self.go_on_http2(key, http2, None);
        }
    }

    /// The server stops: the peer is told in two steps.
    pub(crate) fn stop_http2(&mut self, key: Key) {
        if let Some(mut http2) = self.core.take_http2(key) {
            self.core.say_farewell(&mut http2);
            self.go_on_http2(key, http2, None);
        }
    }

    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    pub(super) fn settle_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, now: Instant) {
        let core = Rc::clone(&self.core);
        if http2.closing {
            end_all(&core, &mut http2, ExchangeEnd::Peer);
            (http2.slots, http2.input, http2.hunger.wanted) = (Slots::None, None, None);
        }
        let is_over = http2.codec.live_streams() == 0 && http2.codec.is_going_away();
        let mut table = core.table.borrow_mut();
        if (core.is_drawn() || !core.reserve.is_full()) && !table.is_sending(key) && !http2.output.is_empty() {
            // It may be of the answer reserve, which serves the next when the socket takes all at once.
            if let Some(lease) = http2.output.send_now(&mut table, key) {
                core.reserve.put_back(lease);
                http2.codec.output_sent();
                core.list_http2(key, &mut http2);
            }
        }
        let mut flushed = http2.output.flush(&core.pool, &mut table, key);
        if flushed.is_err() && http2.output.flush_now(&mut table, key) {
            // The socket has taken all of it at once: as after a send.
            flushed = Ok(());
            http2.codec.output_sent();
            core.list_http2(key, &mut http2);
        }
        let is_sending = table.is_sending(key);
        let is_empty = http2.output.is_empty();
        http2.answered.settle(is_sending, is_empty, core.counters());
        if http2.untold.end && !is_sending {
            drop(table);
            return self.part_from_http2(key, http2);
        }
        http2.since.sending = if is_sending { http2.since.sending.or(Some(now)) } else { None };
        if let Err(over) = flushed {
            if http2.closing {
                drop(table);
                core.put(key, Connection::Http2(http2));
                return self.shed_http2(key, Shed::Output, ExchangeEnd::Overstay);
            }
            http2.hunger.note_over(Priority::Output, &over);
        }
        if (http2.closing || is_over) && !is_sending && http2.output.is_empty() {
            drop(table);
            self.finish_http2(http2, ExchangeEnd::Peer);
            core.put(key, Connection::LINGERING);
            return self.linger(key);
        }
        if core.level() >= Level::Yellow && http2.is_restless() {
            http2.rest(&core.pool);
        }
        let is_counted = http2.codec.live_streams() > 0 || http2.since.settings.is_some() && !http2.codec.is_settled();
        if is_counted != http2.counted {
            http2.counted = is_counted;
            core.counters().active(if is_counted { 1 } else { -1 });
        }
        // A peer that does not take what it asks for is not read either.
        let has_room = core.has_room(&http2.output) && !http2.codec.needs_output();
        let is_hungry = http2.hunger.wanted.is_some();
        http2.hunger.since = if is_hungry { http2.hunger.since.or(Some(now)) } else { None };
        // Whole frames that are kept are looked at when the send has left; what comes behind them can wait as long.
        let is_behind = is_sending && http2.input.is_some() && http2.since.frame.is_none();
        let reads = !http2.closing
            && !is_hungry
            && http2.turn == TurnWait::Own
            && has_room
            && !is_behind
            && !http2.peer.is_ended();
        let armed = match reads {
            true => core.receive_http2(&mut table, key, &mut http2),
            false if is_sending || http2.closing || http2.peer != PeerHalf::Open => {
                table.unwatch(key);
                Ok(())
            }
            false => table.watch(key),
        };
        if let Err(over) = armed {
            http2.hunger.note_over(Priority::Output, &over);
            http2.hunger.since = http2.hunger.since.or(Some(now));
        }
        http2.note_waits(now, reads);
        match http2.next_due(&core) {
            Some((until, _)) => table.schedule(key, until.since(now)),
            None => table.unschedule(key),
        }
        drop(table);
        core.starve_http2(key, &mut http2);
        core.put(key, Connection::Http2(http2));
    }

    /// Closes a connection for which there is no room, or no time.
    fn shed_http2(&mut self, key: Key, reason: Shed, why: ExchangeEnd) {
        self.core.counters().shed(reason);
        self.close_for(key, why);
    }

    /// The end of a connection that is not in the table any more.
    pub(crate) fn finish_http2(&self, mut http2: PoolBox<Http2>, why: ExchangeEnd) {
        if http2.counted {
            self.core.counters().active(-1);
        }
        end_all(&self.core, &mut http2, why);
        http2.answered.end(why, self.core.counters());
    }
}

impl Core {
    /// The codec cannot go on: its peer broke the protocol, or there is no room for what it has to say.
    fn end_broken(&self, http2: &mut Http2, error: &CodecError) {
        http2.closing = true;
        if *error != CodecError::OutputFull {
            return self.counters().shed(Shed::Misbehaviour);
        }
        http2.note_all(ExchangeEnd::Overstay);
        self.counters().shed(Shed::Output);
    }
}

fn abort(handler: Option<JoinHandle<()>>) {
    if let Some(handler) = handler {
        handler.abort();
    }
}

/// Ends all exchanges: drops their handlers but those that must finish. The connection is not in the table meanwhile.
fn end_all(core: &Core, http2: &mut Http2, why: ExchangeEnd) {
    for exchange in http2.slots.parts().1.iter_mut().flatten() {
        exchange.course.end(why, core.counters());
        if exchange.waiting.is_some() {
            core.wait_no_more(exchange);
        }
        let handler = exchange.handler.take();
        abort(handler.filter(|_| exchange.must_finish == 0));
        exchange.wake();
    }
}
