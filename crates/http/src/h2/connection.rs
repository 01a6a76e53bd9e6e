//! The engine's side of an HTTP/2 connection: steps through what came, sends what there is, keeps the deadlines.

use ::core::time::Duration;
use std::rc::Rc;

use http::StatusCode;
use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::RequestHead;
use plimsoll_codec::h2::{ErrorCode, Event, Step, StreamKey, request_view};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, JoinHandle, Kind, OverBudget};
use plimsoll_slab::Key;

use super::output::Growing;
use super::room::{NextStream, STEP_BYTES_MAX, make, offered};
use super::streams::{Exchange, Incoming, Slots, find};
use super::{Decoding, Http2, Since};
use crate::connection::{Active, Connection};
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::hungry::Want;
use crate::patience::Patience;
use crate::server::{Answered, Service};
use crate::steps::Source;
use crate::ticket::Ticket;

/// How often a connection that waits for memory asks again.
const MEMORY_RETRY: Duration = Duration::from_millis(250);
/// How long a connection without streams keeps what it would need again for the next one.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Why a turn through the input ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// More input, output, memory or a handler is waited for.
    Over,
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
                let Http2 { codec, output, .. } = &mut *http2;
                http2.closing = codec.begin(&mut Growing(output, &core.pool)).is_err();
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
        match Source::join(&self.core, http2.input.take(), fresh) {
            Ok(source) => self.drive_http2(key, http2, source),
            Err(_) => self.end_without_room(key, http2, Shed::Head),
        }
    }

    fn drive_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, mut source: Source) {
        let core = Rc::clone(&self.core);
        (http2.listed, http2.since.rested) = (false, None);
        let now = plimsoll_runtime::now();
        let wanted = ::core::mem::take(&mut http2.hunger.wanted);
        if let Err(over) = self.retried(key, |_| http2.open_tables(&core.pool)) {
            http2.hunger.note_over(Want::Request, &over);
            return self.stay_http2(key, http2, source, now);
        }
        core.adapt(&mut http2);
        core.pump(&mut http2);
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
        core.adapt(&mut http2);
        core.pump(&mut http2);
        let asks_again = ::core::mem::take(&mut http2.hunger.asks_again);
        if wanted > 0 && http2.hunger.wanted == 0 && (asks_again || http2.has_starved()) {
            http2.hunger.note(Want::Output, wanted as usize);
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
        let mut is_refused = false;
        loop {
            let Some(http2) = place.as_mut() else { return Turn::Closed };
            if http2.closing || !core.has_room(&http2.output) {
                return Turn::Over;
            }
            let has_more = !source.rest().is_empty() || !http2.codec.is_idle();
            let Http2 { codec, output, hunger, .. } = &mut **http2;
            // A window that came where nothing can be kept is used at once: it needs no memory.
            let is_silent = output.spare_bytes() < STEP_BYTES_MAX && codec.is_silent_next(source.rest());
            if has_more && !is_silent && make(output, hunger, &core.pool, STEP_BYTES_MAX).is_err() {
                return Turn::Over;
            }
            if !is_refused {
                match self.admit(key, http2, source.rest()) {
                    NextStream::Begins => {}
                    NextStream::Waits => return Turn::Over,
                    NextStream::IsRefused => is_refused = true,
                }
            }
            let parts = http2.split(scratch.bytes.as_mut_slice(), &mut scratch.slots[..], &mut scratch.repeat);
            let mut storage = parts.storage;
            let step = parts.codec.step(source.rest(), &mut storage, &mut Growing(parts.output, &core.pool), now_ms);
            let Step { consumed, event } = match step {
                Ok(step) => step,
                Err(error) => {
                    http2.closing = true;
                    core.counters().shed(if error == CodecError::OutputFull {
                        Shed::Output
                    } else {
                        Shed::Misbehaviour
                    });
                    return Turn::Over;
                }
            };
            if consumed > 0 {
                http2.since.frame = None;
                if ::core::mem::take(&mut is_refused) {
                    core.counters().shed(Shed::Head);
                }
            }
            match event {
                Event::NeedMore { .. } | Event::NeedOutput => {
                    source.consume(consumed);
                    return Turn::Over;
                }
                Event::Request { stream, head, pseudo_fields, ends } => {
                    source.consume(consumed);
                    if !self.request_http2(key, place, scratch, stream, (&head, pseudo_fields, ends)) {
                        return Turn::Closed;
                    }
                    continue;
                }
                Event::Data { stream, bytes, .. } => {
                    source.consume(consumed);
                    let part = &source.rest()[..bytes];
                    if let Err(over) = self.retried(key, |_| core.take_data(http2, stream, part)) {
                        http2.hunger.note_over(Want::Body, &over);
                        http2.hunger.stream = Some(stream);
                        return Turn::Over;
                    }
                    if http2.hunger.stream == Some(stream) {
                        http2.hunger.stream = None;
                    }
                    source.consume(bytes);
                    continue;
                }
                Event::NeedStreams if self.retried(key, |_| http2.slots.grow(&core.pool)).is_err() => {
                    http2.codec.refuse_next();
                    is_refused = true;
                }
                Event::End { stream } | Event::Trailers { stream, .. } => {
                    if let Event::Trailers { fields, .. } = event {
                        core.keep_trailers(http2, stream, scratch, fields);
                    }
                    if let Some(exchange) = http2.slots.exchange(stream) {
                        exchange.request = Incoming::Done;
                        exchange.wake_reader();
                    }
                    core.with_parts(http2, |parts| core.end_if_done(parts, stream));
                }
                Event::Reset { stream, .. } => {
                    let handler = core.with_parts(http2, |parts| core.cut(parts, stream, ErrorCode::Cancel));
                    abort(handler);
                }
                Event::Writable => core.pump(http2),
                _ => {}
            }
            source.consume(consumed);
        }
    }

    /// Looks whether the request that comes next, if one does, may be begun. Asked each time: a head may come in parts, and there may be room when
    /// it is whole.
    fn admit(&mut self, key: Key, http2: &mut Http2, rest: &[u8]) -> NextStream {
        let core = &self.core;
        let is_pressed = core.holds_back() || core.is_starving() || core.heavy.get().is_some();
        http2.codec.admit_next();
        if !is_pressed || !http2.codec.is_request_next(rest) {
            return NextStream::Begins;
        }
        let next = self.next_stream(key, http2);
        if matches!(next, NextStream::IsRefused) {
            http2.codec.refuse_next();
        }
        next
    }

    /// Starts the handler of a request. `false` when the connection was closed meanwhile.
    fn request_http2(
        &mut self,
        key: Key,
        place: &mut Option<PoolBox<Http2>>,
        scratch: &Decoding,
        stream: StreamKey,
        (head, pseudo_fields, ends): (&RequestHead, u16, bool),
    ) -> bool {
        let core = Rc::clone(&self.core);
        let Some(mut http2) = place.take() else { return false };
        core.counters().request_http2();
        http2.requests = http2.requests.wrapping_add(1);
        let (view, slots) = request_view(&scratch.bytes, &scratch.slots[..], head, pseudo_fields);
        let exchange = match core.h2_spare.take() {
            Some(mut spare) => {
                spare.renew(stream, head, ends, core.config.body_timeout);
                Ok(spare)
            }
            None => core
                .pool
                .try_boxed(Exchange::new(stream, head, ends, core.config.body_timeout), Kind::Codec)
                .map_err(|(over, _)| over),
        };
        let is_last = core.config.requests_max.is_some_and(|max| http2.requests >= max);
        if is_last || core.age_left(http2.born).is_zero() {
            core.say_farewell(&mut http2);
        }
        let Ok(mut exchange) = exchange else {
            core.counters().shed(Shed::Head);
            core.with_parts(&mut http2, |parts| core.break_off(parts, stream, ErrorCode::RefusedStream));
            *place = Some(http2);
            return true;
        };
        if core.log.is_some() {
            let line = format!("{} {} HTTP/2.0", head.method, view.target());
            exchange.line = core.pool.try_copy(line.as_bytes(), Kind::Buffers).ok();
            exchange.peer = core.peer_address(key);
        }
        http2.slots.parts().1[usize::from(stream.slot)] = Some(exchange);
        core.put(key, Connection::Http2(http2));
        let ticket = Ticket::of_stream(&core, key, stream);
        let answered = core.as_current(key, || self.service.start(&core, &view, slots, ticket));
        let Some(mut http2) = core.take_http2(key) else { return false };
        match answered {
            Answered::Ready => {}
            Answered::Pending(handler) => {
                if let Some(exchange) = http2.slots.exchange(stream).filter(|exchange| exchange.running) {
                    exchange.handler = Some(handler);
                    let timeout = core.config.handler_timeout;
                    exchange.handler_until = timeout.map(|timeout| plimsoll_runtime::now() + timeout);
                }
            }
            Answered::NoRoom => {
                core.counters().shed(Shed::Body);
                core.with_parts(&mut http2, |parts| core.refuse_stream(parts, stream));
            }
        }
        *place = Some(http2);
        true
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
            if http2.output.is_empty() {
                http2.codec.output_sent();
            }
            self.go_on_http2(key, http2, None);
        }
    }

    /// The peer has sent all it will send: without its frames nothing goes on. What is on its way to it still leaves.
    pub(crate) fn ended_http2(&mut self, key: Key) {
        let Some(http2) = self.core.take_http2(key) else { return };
        self.finish_http2(http2);
        self.core.put(key, Connection::LINGERING);
        if !self.core.table.borrow().is_sending(key) {
            self.close(key);
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
            abort_all(&mut http2);
            (http2.slots, http2.input) = (Slots::None, None);
        }
        let is_over = http2.codec.live_streams() == 0 && http2.codec.is_going_away();
        let mut table = core.table.borrow_mut();
        let mut flushed = http2.output.flush(&core.pool, &mut table, key);
        if flushed.is_err() && http2.output.flush_now(&mut table, key) {
            // The socket has taken all of it at once: as after a send.
            flushed = Ok(());
            http2.codec.output_sent();
            core.list_http2(key, &mut http2);
        }
        let is_sending = table.is_sending(key);
        http2.since.sending = if is_sending { http2.since.sending.or(Some(now)) } else { None };
        if let Err(over) = flushed {
            if http2.closing {
                drop(table);
                core.put(key, Connection::Http2(http2));
                return self.shed_http2(key, Shed::Output);
            }
            http2.hunger.note_over(Want::Output, &over);
        }
        if (http2.closing || is_over) && !is_sending && http2.output.is_empty() {
            drop(table);
            self.finish_http2(http2);
            core.put(key, Connection::LINGERING);
            return self.linger(key);
        }
        if core.level() >= Level::Yellow && http2.is_restless() {
            http2.rest(&core.pool);
        }
        let is_counted = http2.codec.live_streams() > 0 || !http2.codec.is_settled();
        if is_counted != http2.counted {
            http2.counted = is_counted;
            core.counters().active(if is_counted { 1 } else { -1 });
        }
        // A peer that does not take what it asks for is not read either.
        let has_room = core.has_room(&http2.output) && !http2.codec.needs_output();
        let is_hungry = http2.hunger.wanted > 0;
        http2.since.memory = if is_hungry { http2.since.memory.or(Some(now)) } else { None };
        let reads = !http2.closing && !is_hungry && has_room;
        let armed = match reads {
            true => core.receive_http2(&mut table, key, &mut http2),
            false if is_sending || http2.closing => {
                table.unwatch(key);
                Ok(())
            }
            false => table.watch(key),
        };
        if let Err(over) = armed {
            http2.hunger.note_over(Want::Output, &over);
            http2.since.memory = http2.since.memory.or(Some(now));
        }
        http2.note_waits(now);
        match http2.next_due(&core) {
            Some((until, _)) => table.schedule(key, until.since(now)),
            None => table.unschedule(key),
        }
        drop(table);
        core.starve_http2(key, &mut http2);
        core.put(key, Connection::Http2(http2));
    }

    /// A deadline has come.
    pub(crate) fn due_http2(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let Some(mut http2) = core.take_http2(key) else { return };
        let now = plimsoll_runtime::now();
        let due = http2.next_due(&core).filter(|(until, _)| *until <= now).map(|(_, due)| due);
        match due {
            // Time to ask for memory again is never over: it begins anew each time it is looked at.
            None | Some(Due::Memory) => core.ask_again(key, &mut http2),
            Some(Due::LongMemory) => return self.starved_http2(key, http2),
            Some(Due::Rest) => {
                http2.rest(&core.pool);
                http2.since.rested = Some(now);
                return self.settle_http2(key, http2, now);
            }
            Some(Due::Idle) => {
                core.say_farewell(&mut http2);
                if http2.untold.farewell {
                    return self.end_without_room(key, http2, Shed::Parked);
                }
                let Http2 { codec, output, .. } = &mut *http2;
                http2.closing |= codec.shutdown_finish(&mut Growing(output, &core.pool)).is_err();
            }
            Some(Due::Farewell) => {
                http2.since.farewell = None;
                let Http2 { codec, output, .. } = &mut *http2;
                http2.closing |= codec.shutdown_finish(&mut Growing(output, &core.pool)).is_err();
            }
            Some(Due::Stream) => overdue_streams(&core, &mut http2, now),
            Some(Due::Frame | Due::Settings) => {
                core.counters().shed(Shed::Timeout);
                http2.closing = true;
            }
            Some(Due::Socket) => {
                core.put(key, Connection::Http2(http2));
                return self.shed_http2(key, Shed::Output);
            }
        }
        self.go_on_http2(key, http2, None);
    }

    /// Closes a connection for which there is no room, or no time.
    fn shed_http2(&mut self, key: Key, reason: Shed) {
        self.core.counters().shed(reason);
        self.close(key);
    }

    /// The end of a connection that is not in the table any more.
    pub(crate) fn finish_http2(&self, mut http2: PoolBox<Http2>) {
        if http2.counted {
            self.core.counters().active(-1);
        }
        abort_all(&mut http2);
    }
}

impl Core {
    /// Keeps the trailers of a request for its handler. Without room they are dropped, as anybody on the way may do (RFC 9110 6.5.1).
    fn keep_trailers(&self, http2: &mut Http2, stream: StreamKey, scratch: &mut Decoding, fields: u16) {
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

    /// Takes a part of a body, if there is room for it.
    fn take_data(&self, http2: &mut Http2, stream: StreamKey, bytes: &[u8]) -> Result<(), OverBudget> {
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

/// What a connection has a limited time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Frame,
    Settings,
    Socket,
    Idle,
    /// Time to give back what a connection without streams needs not.
    Rest,
    /// Time to ask for memory again.
    Memory,
    LongMemory,
    Farewell,
    Stream,
}

impl Http2 {
    /// Notes since when something is waited for.
    fn note_waits(&mut self, now: Instant) {
        if self.codec.is_settled() {
            self.since.settings = None;
        }
        let has_part = self.input.is_some() && self.since.memory.is_none();
        self.since.frame = if has_part { self.since.frame.or(Some(now)) } else { None };
        // One whose request waits for memory is not idle: the time for that is another.
        let idle = self.codec.live_streams() == 0 && self.since.memory.is_none();
        self.since.idle = if idle { self.since.idle.or(Some(now)) } else { None };
        if idle {
            return;
        }
        for exchange in self.slots.parts().1.iter_mut().flatten() {
            let blocked = !exchange.rest().is_empty();
            exchange.blocked_since = if blocked { exchange.blocked_since.or(Some(now)) } else { None };
        }
    }

    /// The next deadline, and what it is for.
    pub(super) fn next_due(&mut self, core: &Core) -> Option<(Instant, Due)> {
        let config = &core.config;
        let Since { frame, sending, idle, memory, farewell, settings, rested } = self.since;
        let after = |since: Option<Instant>, wait: Duration, due: Due| since.map(|since| (since + wait, due));
        let now = plimsoll_runtime::now();
        let own = [
            after(frame, config.head_timeout, Due::Frame),
            after(settings, config.head_timeout, Due::Settings),
            after(sending, config.send_timeout, Due::Socket),
            after(idle, core.parked_timeout(self.born), Due::Idle),
            after(idle.max(rested).filter(|_| idle.is_some() && self.is_restless()), REST_AFTER, Due::Rest),
            after(memory.map(|_| now), MEMORY_RETRY, Due::Memory),
            // Windows are told again when memory is not short any more.
            after(Some(now).filter(|_| self.holds && idle.is_none()), MEMORY_RETRY, Due::Memory),
            after(memory, config.memory_timeout, Due::LongMemory),
            after(farewell, config.linger_timeout, Due::Farewell),
        ];
        let streams = self.slots.parts().1.iter().flatten().filter_map(|exchange| stream_due(core, exchange));
        own.into_iter().flatten().chain(streams.map(|until| (until, Due::Stream))).min_by_key(|(until, _)| *until)
    }
}

/// When a stream's time is up.
fn stream_due(core: &Core, exchange: &Exchange) -> Option<Instant> {
    let blocked = exchange.blocked_since.map(|since| since + core.config.send_timeout);
    [blocked, exchange.patience.until(), exchange.handler_until, exchange.drain_until].into_iter().flatten().min()
}

/// Ends what takes too long, stream by stream.
fn overdue_streams(core: &Core, http2: &mut Http2, now: Instant) {
    let mut handlers = Vec::new();
    let holds = http2.holds;
    core.with_parts(http2, |parts| {
        for at in 0..parts.exchanges.len() {
            let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
            if stream_due(core, exchange).is_none_or(|until| until > now) {
                continue;
            }
            let stream = StreamKey { slot: at as u16, id: exchange.id };
            if holds && exchange.patience.until().is_some_and(|until| until <= now) {
                // It may not be the peer's fault: it was not told that it may send.
                exchange.patience = Patience::full(core.config.body_timeout);
                exchange.patience.wait(now);
                continue;
            }
            if exchange.drain_until.is_some() {
                core.free(parts, stream);
                continue;
            }
            core.counters().shed(Shed::Timeout);
            if exchange.handler_until.is_some_and(|until| until <= now) && exchange.must_finish == 0 {
                exchange.handler_until = None;
                handlers.extend(exchange.handler.take());
                core.fail_stream(parts, stream, StatusCode::SERVICE_UNAVAILABLE);
            } else if exchange.blocked_since.is_some_and(|since| since + core.config.send_timeout <= now) {
                handlers.extend(core.cut(parts, stream, ErrorCode::Cancel));
            } else {
                // A body that never ends: the handler answers as it likes.
                exchange.handler_until = None;
                exchange.patience.pause(now);
                exchange.request = Incoming::Gone;
                exchange.wake_reader();
            }
        }
    });
    for handler in handlers {
        handler.abort();
    }
}

fn abort(handler: Option<JoinHandle<()>>) {
    if let Some(handler) = handler {
        handler.abort();
    }
}

/// Drops all handlers but those that must finish. The connection is not in the table meanwhile.
fn abort_all(http2: &mut Http2) {
    for exchange in http2.slots.parts().1.iter_mut().flatten() {
        let handler = exchange.handler.take();
        abort(handler.filter(|_| exchange.must_finish == 0));
        exchange.wake();
    }
}
