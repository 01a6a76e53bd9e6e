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
//! The connection then waits as one of HTTP/1.1 does ([`memory`](crate::memory::queue)). After
//! [`memory_timeout`](crate::Config::memory_timeout) the requests that wait are answered 503 or reset, and the task of
//! a tunnel is told whose bytes found no place; when even that finds no room, the connection ends with a GOAWAY. The
//! task of a tunnel that waits for memory itself, as with a WebSocket, has a place of its own beside the connection's.
//!
//! At the levels orange and red the peer is asked, by SETTINGS, to have fewer streams with smaller windows, and when
//! memory is plenty again to have as many as before. It may acknowledge that as late as it reads them; its windows are
//! held meanwhile.

use plimsoll_codec::h2::{FRAME_HEADER_BYTES, STEP_OUTPUT_BYTES_MAX, StreamKey};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Instant, Lease};
use plimsoll_slab::Key;

use super::Http2;
use super::no_room::{NextStream, make};
use super::offer::{offer, offered};
use super::output::Growing;
use super::pending::{Goaway, Phase, Windows};
use super::receive::move_sparse;
use super::shared::Env;
use super::step::{Step, Worker};
use super::streams::{Exchange, Incoming};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::failure::Failure;
use crate::exchange::line::Line;
use crate::exchange::output::STALLED_AFTER;
use crate::exchange::source::Source;
use crate::memory::desk::Desk;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::memory::waits::Waits;

/// A reset, and two windows.
pub(super) const END_BYTES_MAX: usize = 3 * UPDATE_BYTES_MAX;
/// Two windows, of a stream and of the connection.
pub(super) const UPDATE_BYTES_MAX: usize = 2 * (FRAME_HEADER_BYTES + 4);
/// A GOAWAY and a ping.
const GOAWAY_BYTES_MAX: usize = 64;
/// What a step of the codec writes, and what may follow from it.
pub(super) const STEP_BYTES_MAX: usize = STEP_OUTPUT_BYTES_MAX + END_BYTES_MAX + GOAWAY_BYTES_MAX;
/// SETTINGS with two entries.
const OFFER_BYTES: usize = FRAME_HEADER_BYTES + 2 * 6;
/// Room for so much is wanted where something small found none.
const SMALL_BYTES: usize = 1_024;

impl Exchange {
    /// There was no room for what came on a tunnel, for too long: that is dropped, and what still comes. Whether it was
    /// not given up before; it is counted once.
    pub(super) fn give_up_rest(&mut self, desk: &Desk) -> bool {
        let is_first = ::core::mem::replace(&mut self.request, Incoming::NoRoom) != Incoming::NoRoom;
        if is_first {
            desk.shed_for_room(Shed::Body);
        }
        self.wake_reader();
        is_first
    }
}

impl Http2 {
    /// Whether it waits, beside its streams.
    pub(crate) fn is_queued(&self) -> bool {
        self.need.memory.is_queued()
    }

    /// Wakes the handlers that wait for room; whether there are any. They do until they have their turns.
    pub(super) fn wake_for_room(&mut self) -> bool {
        let mut are_any = false;
        for exchange in self.slots.parts().1.iter_mut().flatten().filter(|exchange| exchange.needs_room) {
            exchange.wake();
            are_any = true;
        }
        are_any
    }

    /// Whether a handler waits for room.
    pub(super) fn has_waiting_writers(&mut self) -> bool {
        self.slots.parts().1.iter().flatten().any(|exchange| exchange.needs_room)
    }
}

impl Http2 {
    /// Tells the peer what the memory level asks for, and what could not be told before.
    pub(super) fn adapt(&mut self, env: Env<'_>) {
        let (holds, level) = (env.is_short(), offered(env.level()));
        let is_settled = self.codec.is_settled();
        if self.pending.windows == Windows::AfterSettings && is_settled && self.codec.live_streams() == 0 {
            // Without streams nobody waits for what windows have become.
            self.pending.windows = Windows::Sent;
        }
        let are_windows_sent = match self.pending.windows {
            Windows::Sent => true,
            Windows::AfterSettings => !is_settled,
            Windows::Pending => false,
        };
        let is_told = are_windows_sent && self.pending.goaway != Goaway::Pending;
        // Nothing else can be offered before the last offer is acknowledged.
        let is_offered = level == self.offered || !is_settled;
        if holds == self.pending.holds_windows && is_offered && is_told || !self.phase.is_open() {
            return;
        }
        let windows = (usize::from(self.codec.live_streams()) + 1) * UPDATE_BYTES_MAX;
        if let Err(over) = self.output.reserve(&env.pool, windows + OFFER_BYTES + GOAWAY_BYTES_MAX) {
            if !is_told {
                self.need.note_over(Priority::Output, &over);
            }
            return;
        }
        if self.pending.goaway == Goaway::Pending {
            self.send_goaway(env);
        }
        self.pending.holds_windows = holds;
        let is_offered = self.with_parts(env, |parts| {
            let mut out = Growing(parts.output, &env.pool);
            // After an acknowledgement, too: streams may wait for what their windows have become.
            let held = parts.codec.hold_windows(holds, &mut parts.storage, &mut out);
            let (streams, window) = offer(&env.config.http2_limits, level);
            let offered = parts.codec.offer(streams, window, &mut out);
            parts.phase.close_on(held);
            let is_offered = *offered.as_ref().unwrap_or(&false);
            parts.phase.close_on(offered);
            is_offered
        });
        self.pending.windows = if self.codec.is_settled() { Windows::Sent } else { Windows::AfterSettings };
        if is_offered {
            self.offered = level;
        }
    }

    /// Tells the peer to open no more streams; without room, later.
    pub(crate) fn send_goaway(&mut self, env: Env<'_>) {
        if matches!(self.pending.goaway, Goaway::Announced(_) | Goaway::Final) {
            return;
        }
        if make(&mut self.output, &mut self.need, env, GOAWAY_BYTES_MAX).is_err() {
            self.pending.goaway = Goaway::Pending;
            return;
        }
        self.phase.close_on(self.codec.shutdown(&mut Growing(&mut self.output, &env.pool)));
        self.pending.goaway = Goaway::Announced(plimsoll_runtime::now());
    }

    /// Has a connection that found no room wait for it, or wait no longer.
    pub(super) fn enqueue(&mut self, env: Env<'_>, key: Key) {
        let Some(wanted) = self.need.wanted else {
            if ::core::mem::take(&mut self.need).memory.is_queued() {
                env.leave_queue(key);
            }
            return;
        };
        let bytes = (wanted.bytes as usize).max(SMALL_BYTES);
        // One of too many asks again after a while.
        let _one_of_too_many = env.enqueue_once(Waits::new(key, None), &mut self.need.memory, wanted.what, bytes);
    }

    /// Has the handlers of a connection that has waited for a while try again, though it was granted nothing: it may be
    /// one of too many, and then nobody else wakes them. Its place in line and its time stay as they are. Whether some
    /// handlers wait.
    pub(super) fn ask_again(&mut self, env: Env<'_>, key: Key) -> bool {
        if self.need.since.is_none() {
            return false;
        }
        if self.need.memory.is_queued() && !env.is_in_queue(key) {
            // Displaced by one of another address: it is one of too many now.
            self.need.memory.lose_place();
        }
        self.wake_for_room()
    }

    /// It got room; whether a handler takes it.
    pub(crate) fn grant(&mut self, desk: &Desk, key: Key) -> bool {
        (self.need.wanted, self.need.since) = (None, None);
        self.need.memory.grant();
        let are_any = self.wake_for_room();
        self.list(desk, key);
        are_any
    }

    /// Keeps what came in the spare memory for those who wait, and has the connection wait with it: the places of an
    /// address in line bound what it has of that.
    pub(super) fn keep_in_line(&mut self, env: Env<'_>, key: Key, frames: &[u8]) -> Option<Lease> {
        if self.need.wanted.is_none() {
            // A part of a frame. The rest of it finds no room either.
            self.need.note(Priority::Head, frames.len());
        }
        let mut kept = env.spare_lease(key, frames.len())?;
        kept.extend(frames);
        self.enqueue(env, key);
        self.need.memory.is_queued().then_some(kept)
    }

    /// What becomes of the next stream. Asked when the input begins with one.
    pub(super) fn next_stream(&mut self, env: Env<'_>, worker: &mut impl Worker, key: Key) -> NextStream {
        let is_judged = !env.config.forwarded_from.is_empty();
        if worker.has_room(key) {
            return if is_judged { NextStream::IsJudged } else { NextStream::Begins };
        }
        if env.may_stream_wait(key) {
            return if is_judged { NextStream::IsJudged } else { NextStream::Waits };
        }
        let until = self.need.since.map(|since| since + env.config.admission_timeout);
        let has_waited = until.is_some_and(|until| until <= plimsoll_runtime::now());
        if self.codec.live_streams() == 0 && !has_waited {
            self.need.note(Priority::Head, REQUEST_ROOM_BYTES);
            return NextStream::StaysUnread;
        }
        NextStream::IsRefused(env.why_not_begun())
    }

    /// A connection has waited for memory for too long: what waits on it is answered 503 or reset. When that was not
    /// possible, it ends.
    pub(super) fn needs_room(&mut self, env: Env<'_>, line: &mut impl Line, key: Key, now: Instant) -> Step {
        let stream = self.need.stream.take();
        let mut handlers = Vec::new();
        let mut has_given_up = false;
        self.with_parts(env, |parts| {
            for at in 0..parts.exchanges.len() {
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                let of_body = stream.is_some_and(|stream| stream.id == exchange.id);
                if of_body && exchange.stage.is_tunnel() {
                    // Its task says so in the words of its protocol.
                    has_given_up |= exchange.give_up_rest(&env);
                    continue;
                }
                let of_body = of_body && exchange.stage.is_running();
                if exchange.answer.is_none() && !exchange.needs_room && !of_body {
                    continue;
                }
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                *parts.answers -= exchange.drop_answer();
                exchange.needs_room = false;
                exchange.course.note(ExchangeEnd::Timeout);
                exchange.wake();
                let handler = exchange.handler.take();
                handlers.extend(handler.filter(|_| exchange.must_finish == 0));
                has_given_up = true;
                env.shed_for_room(if of_body { Shed::Body } else { Shed::Output });
                parts.fail_stream(stream, Failure::NO_ROOM);
            }
        });
        for handler in handlers {
            handler.abort();
        }
        if !has_given_up {
            self.note_all(ExchangeEnd::Timeout);
            return self.end_without_room(env, line, key, (Shed::Output, now));
        }
        (self.need.since, self.need.wanted) = (None, None);
        Step::GoOn
    }

    /// Puts a connection away that can do nothing before there is room.
    pub(crate) fn stay(
        &mut self,
        env: Env<'_>,
        line: &mut impl Line,
        key: Key,
        (source, now): (Source, Instant),
    ) -> Step {
        let kept = source.keep(&env).or_else(|source| {
            let spare = self.keep_in_line(env, key, source.rest());
            let spare = spare.or_else(|| env.keep_landed(source.rest(), self.has_exchanges()));
            spare.map_or(Err(source), |frames| Ok(Some(frames)))
        });
        match kept {
            Ok(kept) => {
                self.input = kept;
                if let Some(input) = &mut self.input {
                    move_sparse(&env.pool, input);
                }
                self.settle(env, line, key, now)
            }
            // What came cannot be kept: it is lost, and with it the connection. Nothing was begun there.
            Err(_) => self.end_without_room(env, line, key, (Shed::Head, now)),
        }
    }

    /// Ends a connection with a GOAWAY, as far as the socket takes that at once: it needs no memory. What is on its way
    /// to the peer leaves before, unless the peer does not take it.
    pub(crate) fn end_without_room(
        &mut self,
        env: Env<'_>,
        line: &mut impl Line,
        key: Key,
        (reason, now): (Shed, Instant),
    ) -> Step {
        if self.phase != Phase::Leaving {
            env.shed_for_room(reason);
            self.note_all(ExchangeEnd::Overstay);
        }
        if !line.is_sending() || self.is_stalled(now, STALLED_AFTER) {
            return self.leave(env, line);
        }
        self.phase = Phase::Leaving;
        self.settle(env, line, key, now)
    }

    /// Sends the last GOAWAY, if the socket takes it and all that comes before it.
    pub(super) fn leave(&mut self, env: Env<'_>, line: &mut impl Line) -> Step {
        let mut goaway = [0; GOAWAY_BYTES_MAX];
        let mut rest = &mut goaway[..];
        let is_known = self.codec.shutdown_finish(&mut rest).is_ok();
        let unused = rest.len();
        if is_known && !line.is_sending() && line.flush_now(&mut self.output) {
            self.answered.settle(false, true, env.counters());
            let _gone_or_full = line.send_now(&goaway[..GOAWAY_BYTES_MAX - unused]);
        }
        Step::Leave
    }
}

/// What a connection is answered that has not begun, for want of room: SETTINGS without an entry, and a GOAWAY: no
/// stream was served, ENHANCE_YOUR_CALM.
pub(crate) const REFUSAL: &[u8] = &[
    0, 0, 0, 4, 0, 0, 0, 0, 0, //
    0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11,
];
