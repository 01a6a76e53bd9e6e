//! Connections that find no room in memory: what waits for it, what is told later, and what the peer is asked for
//! meanwhile.
//!
//! Room is made in the output *before* anything is encoded, as the tables of HPACK and the windows cannot be put back.
//! So without room nothing has happened yet, and
//!
//! * an answer, its trailers or an informational response stay with their handler, which is woken when there is room;
//! * a new stream [waits](super::waiting) to be begun, while others of its connection go on; without a place it is
//!   refused (503 with Retry-After), but for the only stream of a connection, which waits undecoded;
//! * the end of a stream, and windows, are told later; nothing of that stream is kept but its slot;
//! * no further frame is looked at, as it may want an answer; and while memory is short nothing is received for which
//!   there is no place: [`receive`](super::receive) says how.
//!
//! The connection then waits as one of HTTP/1.1 does ([`relief`](crate::worker::pressure)). After
//! [`memory_timeout`](crate::Config::memory_timeout) the requests that wait are answered 503 or reset, and the task of
//! a tunnel is told whose bytes found no place; when even that finds no room, the connection ends with a GOAWAY. The
//! task of a tunnel that waits for memory itself, as with a WebSocket, has a place of its own beside the connection's.
//!
//! At the levels orange and red the peer is asked, by SETTINGS, to have fewer streams with smaller windows, and when
//! memory is plenty again to have as many as before. It may acknowledge that as late as it reads them; its windows are
//! held meanwhile.

use std::rc::Rc;

use plimsoll_codec::h2::{Connection as Codec, FRAME_HEADER_BYTES, Limits, STEP_OUTPUT_BYTES_MAX, StreamKey};
use plimsoll_pool::Priority;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, Lease, OverBudget};
use plimsoll_slab::Key;

use super::output::Growing;
use super::streams::{Ending, Exchange, Incoming, Outgoing, find};
use super::window::shrink_window;
use super::{Http2, Hunger, Parts, Wanted};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::failure::Failure;
use crate::exchange::output::Output;
use crate::exchange::source::Source;
use crate::exchange::user_code::UserBody;
use crate::memory::waits::{Grant, Waits};
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::pressure::STALLED_AFTER;
use crate::worker::service::Service;
use crate::worker::state::Core;

/// A reset, and two windows.
pub(super) const END_BYTES_MAX: usize = 3 * UPDATE_BYTES_MAX;
/// Two windows, of a stream and of the connection.
pub(super) const UPDATE_BYTES_MAX: usize = 2 * (FRAME_HEADER_BYTES + 4);
/// A GOAWAY and a ping.
const FAREWELL_BYTES_MAX: usize = 64;
/// What a step of the codec writes, and what may follow from it.
pub(super) const STEP_BYTES_MAX: usize = STEP_OUTPUT_BYTES_MAX + END_BYTES_MAX + FAREWELL_BYTES_MAX;
/// SETTINGS with two entries.
const OFFER_BYTES: usize = FRAME_HEADER_BYTES + 2 * 6;
/// Room for so much is wanted where something small found none.
const SMALL_BYTES: usize = 1_024;

/// What becomes of a stream that is about to begin while memory is short. One whose route is
/// [marked](crate::memory::reserved_routes) begins all the same, if its head is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStream {
    Begins,
    /// For whom it is, is known when its head was decoded: then it is begun, or waits.
    IsJudged,
    /// It [waits](super::waiting) when its head was decoded.
    Waits,
    /// It is not looked at, and its connection waits for room with it: that has no other stream.
    StaysUnread,
    /// It is refused as soon as its head is whole; where routes are marked, when that was decoded.
    IsRefused(Shed),
}

/// How the next request of a connection waits for a [turn](crate::worker::request_queue).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TurnWait {
    /// It does not.
    #[default]
    Own,
    /// What came is kept until then.
    Awaited,
    /// It is refused, as those before it take too long.
    Refused,
}

/// A connection whose first SETTINGS fit the level.
pub(super) fn offering(limits: &Limits, level: Level) -> Codec {
    let (streams, window) = offer(limits, level);
    Codec::new(limits).offering(streams, window)
}

/// The streams and the window of each that a peer is to have.
fn offer(limits: &Limits, level: Level) -> (u16, u32) {
    match level {
        Level::Calm | Level::Yellow => (limits.streams(), limits.window()),
        Level::Orange => (limits.streams() / 8, limits.window() / 4),
        Level::Red => (limits.streams() / 32, limits.window() / 8),
    }
}

/// Levels at which the same is offered.
pub(super) fn offered(level: Level) -> Level {
    level.max(Level::Yellow)
}

/// Makes room in the output, of the answer reserve if the pool has none, or has the connection wait for it.
#[inline(always)]
pub(super) fn make(output: &mut Output, hunger: &mut Hunger, core: &Core, bytes: usize) -> Result<(), OverBudget> {
    // Nearly always: several times for each request.
    if output.spare_bytes() >= bytes {
        return Ok(());
    }
    output.reserve(&core.pool, bytes).or_else(|over| lend(output, hunger, core, bytes, over))
}

/// There is no room in the pool.
#[cold]
fn lend(
    output: &mut Output,
    hunger: &mut Hunger,
    core: &Core,
    bytes: usize,
    over: OverBudget,
) -> Result<(), OverBudget> {
    if output.is_empty()
        && let Some(lease) = core.reserve.take_for(bytes)
    {
        output.lend(lease);
        return Ok(());
    }
    hunger.note_over(Priority::Output, &over);
    Err(over)
}

impl Hunger {
    /// Something found no room for so many bytes. Output matters most: it is what was begun.
    pub(super) fn note(&mut self, what: Priority, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let before = self.wanted.unwrap_or(Wanted { what, bytes });
        let what = if what == Priority::Output { what } else { before.what };
        self.wanted = Some(Wanted { what, bytes: before.bytes.max(bytes) });
    }

    pub(super) fn note_over(&mut self, what: Priority, over: &OverBudget) {
        self.note(what, usize::try_from(over.wanted_bytes()).unwrap_or(usize::MAX));
    }
}

impl Exchange {
    /// There was no room for what came on a tunnel, for too long: that is dropped, and what still comes. Whether it was
    /// not given up before; it is counted once.
    pub(super) fn give_up_rest(&mut self, core: &Core) -> bool {
        let is_first = ::core::mem::replace(&mut self.request, Incoming::NoRoom) != Incoming::NoRoom;
        if is_first {
            core.shed_for_room(Shed::Body);
        }
        self.wake_reader();
        is_first
    }
}

impl Http2 {
    /// Wakes the handlers that wait for room; whether there are any. They do until they have their turns.
    pub(super) fn wake_starved(&mut self) -> bool {
        let mut are_any = false;
        for exchange in self.slots.parts().1.iter_mut().flatten().filter(|exchange| exchange.starved) {
            exchange.wake();
            are_any = true;
        }
        are_any
    }

    /// Whether a handler waits for room.
    pub(super) fn has_starved(&mut self) -> bool {
        self.slots.parts().1.iter().flatten().any(|exchange| exchange.starved)
    }
}

impl Core {
    /// Tells the peer what the memory level asks for, and what could not be told before.
    pub(super) fn adapt(&self, http2: &mut Http2) {
        let (holds, level) = (self.is_short(), offered(self.level()));
        let is_settled = http2.codec.is_settled();
        // Without streams nobody waits for what windows have become.
        http2.untold.acknowledged &= !is_settled || http2.codec.live_streams() > 0;
        let is_acknowledged = http2.untold.acknowledged && is_settled;
        let is_told = !http2.untold.windows && !http2.untold.farewell && !is_acknowledged;
        // Nothing else can be offered before the last offer is acknowledged.
        let is_offered = level == http2.offered || !is_settled;
        if holds == http2.holds && is_offered && is_told || http2.closing {
            return;
        }
        let windows = (usize::from(http2.codec.live_streams()) + 1) * UPDATE_BYTES_MAX;
        if let Err(over) = http2.output.reserve(&self.pool, windows + OFFER_BYTES + FAREWELL_BYTES_MAX) {
            if !is_told {
                http2.hunger.note_over(Priority::Output, &over);
            }
            return;
        }
        if http2.untold.farewell {
            self.say_farewell(http2);
        }
        (http2.holds, http2.untold.windows) = (holds, false);
        let is_offered = self.with_parts(http2, |parts| {
            let mut out = Growing(parts.output, &self.pool);
            // After an acknowledgement, too: streams may wait for what their windows have become.
            let held = parts.codec.hold_windows(holds, &mut parts.storage, &mut out);
            let (streams, window) = offer(&self.config.http2_limits, level);
            let offered = parts.codec.offer(streams, window, &mut out);
            *parts.closing |= held.is_err() || offered.is_err();
            offered.unwrap_or(false)
        });
        http2.untold.acknowledged = !http2.codec.is_settled();
        if is_offered {
            http2.offered = level;
        }
    }

    /// Tells the peer to open no more streams; without room, later.
    pub(super) fn say_farewell(&self, http2: &mut Http2) {
        if make(&mut http2.output, &mut http2.hunger, self, FAREWELL_BYTES_MAX).is_err() {
            http2.untold.farewell = true;
            return;
        }
        let Http2 { codec, output, .. } = http2;
        http2.closing |= codec.shutdown(&mut Growing(output, &self.pool)).is_err();
        http2.untold.farewell = false;
        http2.since.farewell = http2.since.farewell.or(Some(plimsoll_runtime::now()));
    }

    /// There was no room to do this to a stream: it is done when there is. Nothing of it is kept until then.
    pub(super) fn end_later(&self, parts: &mut Parts<'_>, stream: StreamKey, ending: Ending) {
        let Some(exchange) = find(parts.exchanges, stream) else {
            // A slot of the codec alone: room is made before there is one.
            *parts.closing = true;
            return;
        };
        *parts.answers += u16::from(exchange.ending.is_none());
        let is_reset = matches!(exchange.ending, Some(Ending::Reset(_)));
        exchange.ending = if is_reset { exchange.ending } else { Some(ending) };
        if ending == Ending::Finish {
            return;
        }
        *parts.answers -= exchange.drop_answer();
        (exchange.running, exchange.held, exchange.is_reset) = (false, false, true);
        (exchange.body, exchange.body_sent, exchange.received) = (UserBody::default(), 0, None);
        (exchange.blocked_since, exchange.drain_until, exchange.begun_at) = (None, None, None);
        exchange.patience.pause(plimsoll_runtime::now());
        exchange.starved = false;
        exchange.wake();
        shrink_window(parts.codec, exchange);
        parts.codec.set_waiting(stream, false, &mut parts.storage);
    }

    /// Does what is due on a stream; whether there was room for it.
    pub(super) fn end_now(&self, parts: &mut Parts<'_>, stream: StreamKey) -> bool {
        let ending = find(parts.exchanges, stream).and_then(|exchange| exchange.ending);
        match ending {
            None => {}
            Some(Ending::Finish) => self.put_end(parts, stream),
            Some(Ending::Free) => self.free(parts, stream),
            Some(Ending::Reset(code)) => self.break_off(parts, stream, code),
        }
        find(parts.exchanges, stream).is_none_or(|exchange| exchange.ending.is_none())
    }

    /// Ends an answer whose body has left.
    pub(super) fn put_end(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        if make(parts.output, parts.hunger, self, FRAME_HEADER_BYTES).is_err() {
            return self.end_later(parts, stream, Ending::Finish);
        }
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        *parts.answers -= u16::from(exchange.ending.take().is_some());
        let mut out = Growing(parts.output, &self.pool);
        match parts.codec.put_data_header(stream, 0, true, &mut parts.storage, &mut out) {
            Ok(()) => exchange.response = Outgoing::Complete,
            Err(error) => {
                debug_assert!(false, "the stream may end, and room was made: {error}");
                *parts.closing = true;
            }
        }
        self.end_if_done(parts, stream);
    }

    /// Has a connection that found no room wait for it, or wait no longer.
    pub(super) fn starve_http2(&self, key: Key, http2: &mut Http2) {
        let hunger = &mut http2.hunger;
        let Some(wanted) = hunger.wanted else {
            if ::core::mem::take(hunger).memory.is_queued() {
                self.sate(key);
            }
            return;
        };
        let bytes = (wanted.bytes as usize).max(SMALL_BYTES);
        // One of too many asks again after a while.
        let _one_of_too_many = self.starve_as(Waits::new(key, None), &mut hunger.memory, wanted.what, bytes);
    }

    /// Has the handlers of a connection that has waited for a while try again, though it was granted nothing: it may be
    /// one of too many, and then nobody else wakes them. Its place in line and its time stay as they are. Whether some
    /// handlers wait.
    pub(super) fn ask_again(&self, key: Key, http2: &mut Http2) -> bool {
        if http2.hunger.since.is_none() {
            return false;
        }
        if http2.hunger.memory.is_queued() && !self.is_in_queue(key) {
            // Displaced by one of another address: it is one of too many now.
            http2.hunger.memory.lose_place();
        }
        http2.wake_starved()
    }

    /// Keeps what came in what is spared for those who wait, and has the connection wait with it: the places of an
    /// address in line bound what it has of that.
    pub(super) fn keep_in_line(&self, key: Key, http2: &mut Http2, frames: &[u8]) -> Option<Lease> {
        if http2.hunger.wanted.is_none() {
            // A part of a frame. The rest of it finds no room either.
            http2.hunger.note(Priority::Head, frames.len());
        }
        let mut kept = self.spare_lease(key, frames.len())?;
        kept.extend(frames);
        self.starve_http2(key, http2);
        http2.hunger.memory.is_queued().then_some(kept)
    }

    /// A connection that is not of HTTP/1 got room; whether a handler or a task of it takes it.
    pub(crate) fn wake_fed(&self, key: Key) -> bool {
        let mut table = self.table.borrow_mut();
        match table.get_mut(key) {
            Some(Connection::Http2(http2)) => {
                (http2.hunger.wanted, http2.hunger.since) = (None, None);
                http2.hunger.memory.grant();
                let are_any = http2.wake_starved();
                self.list_http2(key, http2);
                are_any
            }
            Some(Connection::WebSocket(socket)) => {
                let has_waited = socket.feed();
                if has_waited && socket.enlist() {
                    self.enlist(key);
                }
                has_waited
            }
            _ => false,
        }
    }
}

impl<S: Service> Engine<S> {
    /// What becomes of the next stream. Asked when the input begins with one.
    pub(super) fn next_stream(&mut self, key: Key, http2: &mut Http2) -> NextStream {
        let is_judged = !self.core.config.forwarded_from.is_empty();
        if self.has_room(key) {
            return if is_judged { NextStream::IsJudged } else { NextStream::Begins };
        }
        if self.core.may_stream_wait(key) {
            return if is_judged { NextStream::IsJudged } else { NextStream::Waits };
        }
        let until = http2.hunger.since.map(|since| since + self.core.config.admission_timeout);
        let has_waited = until.is_some_and(|until| until <= plimsoll_runtime::now());
        if http2.codec.live_streams() == 0 && !has_waited {
            http2.hunger.note(Priority::Head, crate::memory::wait::REQUEST_ROOM_BYTES);
            return NextStream::StaysUnread;
        }
        NextStream::IsRefused(self.core.why_not_begun())
    }

    /// A connection has waited for memory for too long: what waits on it is answered 503 or reset. When that was not
    /// possible, it ends.
    pub(super) fn starved_http2(&mut self, key: Key, mut http2: ::plimsoll_pool::PoolBox<Http2>) {
        let core = Rc::clone(&self.core);
        let stream = http2.hunger.stream.take();
        let mut handlers = Vec::new();
        let mut has_given_up = false;
        core.with_parts(&mut http2, |parts| {
            for at in 0..parts.exchanges.len() {
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                let of_body = stream.is_some_and(|stream| stream.id == exchange.id);
                if of_body && exchange.held {
                    // Its task says so in the words of its protocol.
                    has_given_up |= exchange.give_up_rest(&core);
                    continue;
                }
                let of_body = of_body && exchange.running;
                if exchange.answer.is_none() && !exchange.starved && !of_body {
                    continue;
                }
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                *parts.answers -= exchange.drop_answer();
                exchange.starved = false;
                exchange.course.note(ExchangeEnd::Timeout);
                exchange.wake();
                let handler = exchange.handler.take();
                handlers.extend(handler.filter(|_| exchange.must_finish == 0));
                has_given_up = true;
                core.shed_for_room(if of_body { Shed::Body } else { Shed::Output });
                core.fail_stream(parts, stream, Failure::NO_ROOM);
            }
        });
        for handler in handlers {
            handler.abort();
        }
        if !has_given_up {
            http2.note_all(ExchangeEnd::Timeout);
            return self.end_without_room(key, http2, Shed::Output);
        }
        (http2.hunger.since, http2.hunger.wanted) = (None, None);
        self.go_on_http2(key, http2, None);
    }

    /// Puts a connection away that can do nothing before there is room.
    pub(super) fn stay_http2(
        &mut self,
        key: Key,
        mut http2: ::plimsoll_pool::PoolBox<Http2>,
        source: Source,
        now: Instant,
    ) {
        let core = Rc::clone(&self.core);
        let kept = source.keep(&core).or_else(|source| {
            let spare = core.keep_in_line(key, &mut http2, source.rest());
            let spare = spare.or_else(|| core.keep_landed(source.rest(), http2.has_exchanges()));
            spare.map_or(Err(source), |frames| Ok(Some(frames)))
        });
        match kept {
            Ok(kept) => {
                http2.input = kept;
                if let Some(input) = &mut http2.input {
                    core.move_sparse(input);
                }
                self.settle_http2(key, http2, now);
            }
            // What came cannot be kept: it is lost, and with it the connection. Nothing was begun there.
            Err(_) => self.end_without_room(key, http2, Shed::Head),
        }
    }

    /// Ends a connection with a GOAWAY, as far as the socket takes that at once: it needs no memory. What is on its way
    /// to the peer leaves before, unless the peer does not take it.
    pub(crate) fn end_without_room(&mut self, key: Key, mut http2: ::plimsoll_pool::PoolBox<Http2>, reason: Shed) {
        if !http2.untold.end {
            self.core.shed_for_room(reason);
            http2.note_all(ExchangeEnd::Overstay);
        }
        let now = plimsoll_runtime::now();
        let is_sending = self.core.table.borrow().is_sending(key);
        if !is_sending || http2.is_stalled(now, STALLED_AFTER) {
            return self.part_from_http2(key, http2);
        }
        (http2.closing, http2.untold.end) = (true, true);
        self.settle_http2(key, http2, now);
    }

    /// Says the last GOAWAY, if the socket takes it and all that comes before it, and closes.
    pub(super) fn part_from_http2(&mut self, key: Key, mut http2: ::plimsoll_pool::PoolBox<Http2>) {
        let core = Rc::clone(&self.core);
        let mut words = [0; FAREWELL_BYTES_MAX];
        let mut rest = &mut words[..];
        let is_known = http2.codec.shutdown_finish(&mut rest).is_ok();
        let unused = rest.len();
        let mut table = core.table.borrow_mut();
        if is_known && !table.is_sending(key) && http2.output.flush_now(&mut table, key) {
            http2.answered.settle(false, true, core.counters());
            let _gone_or_full = table.send_now(key, &words[..FAREWELL_BYTES_MAX - unused]);
        }
        drop(table);
        core.put(key, Connection::Http2(http2));
        self.linger_no_longer(key);
    }

    /// The same for one that has not begun: its preface is answered with no more than that.
    pub(super) fn refuse_http2(&mut self, key: Key) {
        self.core.shed_for_room(Shed::Accept);
        let _gone_or_full = self.core.table.borrow_mut().send_now(key, REFUSAL);
        self.linger_no_longer(key);
    }

    /// There is room for a connection that is not of HTTP/1.
    pub(crate) fn feed_other(&mut self, key: Key, mut grant: Grant) -> Option<Grant> {
        let core = Rc::clone(&self.core);
        if core.wake_fed(key) {
            return Some(grant);
        }
        grant.release();
        core.fed.set(Some(key));
        self.look_after(key);
        core.fed.set(None);
        None
    }
}

/// SETTINGS without an entry, and a GOAWAY: no stream was served, ENHANCE_YOUR_CALM.
const REFUSAL: &[u8] = &[
    0, 0, 0, 4, 0, 0, 0, 0, 0, //
    0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11,
];
