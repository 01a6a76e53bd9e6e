//! What a connection and its streams have a limited time for.

use ::core::time::Duration;
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::peers::PEER_LOOK;
use crate::exchange::failure::Failure;
use crate::exchange::line::Line;
use crate::h2::output::Growing;
use crate::h2::pending::{Goaway, Phase};
use crate::h2::shared::Env;
use crate::h2::step::Step;
use crate::h2::streams::{Exchange, Incoming};
use crate::h2::{Http2, Since};
use crate::memory::desk::Desk;

/// How often a connection that waits for memory asks again.
const MEMORY_RETRY: Duration = Duration::from_millis(250);
/// How long bodies wait for a larger window while a little of it is open: as TCP's sender does.
const LARGER_WINDOW_WAIT: Duration = Duration::from_millis(200);
/// How long a connection without streams keeps what it would need again for the next one.
const REST_AFTER: Duration = Duration::from_secs(1);

/// What a connection has a limited time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::h2) enum Due {
    Frame,
    Settings,
    Socket,
    Idle,
    /// Time to give back what a connection without streams needs not.
    Rest,
    /// Time to ask for memory again.
    Memory,
    LongMemory,
    /// Time to send frames that are small.
    Small,
    /// Time to name the last stream.
    Goaway,
    /// Time to look whether a peer that has ended its half is still there.
    Peer,
    Stream,
}

impl Http2 {
    /// A deadline has come.
    pub(crate) fn due(&mut self, env: Env<'_>, line: &mut impl Line, key: Key) -> Step {
        let now = plimsoll_runtime::now();
        let due = self.next_due(&env).filter(|(until, _)| *until <= now).map(|(_, due)| due);
        match due {
            // Time to ask for memory again is never over: it begins anew each time it is looked at.
            None | Some(Due::Memory) => {
                if !self.ask_again(env, key) && self.need.unread {
                    // Nothing is there to be done before there is a place for that.
                    return Step::Receive;
                }
            }
            Some(Due::Small) => self.codec.send_small(),
            Some(Due::LongMemory) => return self.needs_room(env, line, key, now),
            Some(Due::Rest) => {
                self.rest(&env.pool);
                self.since.rested = Some(now);
                return self.settle(env, line, key, now);
            }
            Some(Due::Idle) => {
                self.send_goaway(env);
                if self.pending.goaway == Goaway::Pending {
                    return self.end_without_room(env, line, key, (Shed::Parked, now));
                }
                self.finish_goaway(env);
            }
            Some(Due::Goaway) => self.finish_goaway(env),
            Some(Due::Peer) => {
                if line.is_gone() {
                    return Step::Close(ExchangeEnd::Peer);
                }
                self.peer.look(now);
                return self.settle(env, line, key, now);
            }
            Some(Due::Stream) => return Step::EndWaits,
            Some(Due::Frame | Due::Settings) => {
                env.counters().shed(Shed::Timeout);
                self.note_all(ExchangeEnd::Timeout);
                // It is told so, as far as its socket takes it.
                self.phase = Phase::Leaving;
            }
            Some(Due::Socket) => {
                env.counters().shed(Shed::Output);
                return Step::Close(ExchangeEnd::Timeout);
            }
        }
        Step::GoOn
    }

    /// Names the last stream: the peer has had its time to hear of the first GOAWAY.
    fn finish_goaway(&mut self, env: Env<'_>) {
        self.pending.goaway = Goaway::Final;
        self.phase.close_on(self.codec.shutdown_finish(&mut Growing(&mut self.output, &env.pool)));
    }

    /// Notes since when something is waited for, while the connection is read or is not.
    pub(super) fn note_waits(&mut self, now: Instant, reads: bool) {
        if self.codec.is_settled() {
            self.since.settings = None;
        }
        if let Some(frame) = self.since.frame {
            if !reads || self.need.since.is_some() {
                self.since.unread = self.since.unread.or(Some(now));
            } else if let Some(unread) = self.since.unread.take() {
                self.since.frame = Some(frame + now.since(unread.max(frame)));
            }
        }
        // One whose request waits for memory is not idle: the time for that is another.
        let idle = self.codec.live_streams() == 0 && self.need.since.is_none();
        self.since.idle = if idle { self.since.idle.or(Some(now)) } else { None };
        self.note_blocked(now);
    }

    /// Notes since when the peer's windows hold bodies up. One that waits for its turn, or for the socket, is not held
    /// up by them: the socket has a time of its own. One whose own window is open waits for the connection's as long as
    /// nothing else moves there either: else a peer could open now this and now that, and a body would go nowhere for
    /// ever.
    fn note_blocked(&mut self, now: Instant) {
        let awaits_larger = self.codec.awaits_larger_window();
        self.since.larger_window = if awaits_larger { self.since.larger_window.or(Some(now)) } else { None };
        if !self.codec.has_waiting() {
            self.since.windows = None;
            return;
        }
        let is_shut = self.codec.is_window_shut();
        let (streams, exchanges) = self.slots.parts();
        let waits = |exchange: &Option<PoolBox<Exchange>>| exchange.as_ref().is_some_and(|one| !one.rest().is_empty());
        let mut bodies = streams.iter().zip(&*exchanges);
        let goes_on = !is_shut && bodies.any(|(stream, exchange)| !stream.is_window_shut() && waits(exchange));
        let stalled = if goes_on { None } else { self.since.windows.or(Some(now)) };
        self.since.windows = stalled;
        for (stream, exchange) in streams.iter().zip(exchanges) {
            let Some(exchange) = exchange else { continue };
            exchange.blocked_since = match exchange.blocked_since {
                _ if exchange.rest().is_empty() => None,
                since if stream.is_window_shut() => since.or(Some(now)),
                since if is_shut => since.or(Some(now)).max(stalled),
                _ => None,
            };
        }
    }

    /// The next deadline, and what it is for.
    pub(in crate::h2) fn next_due(&mut self, desk: &Desk) -> Option<(Instant, Due)> {
        let config = &desk.config;
        let Since { frame, sending, idle, settings, rested, unread, larger_window, windows: _ } = self.since;
        let memory = self.need.since;
        let after = |since: Option<Instant>, wait: Duration, due: Due| since.map(|since| (since + wait, due));
        if !self.phase.is_open() {
            return after(sending, config.send_timeout, Due::Socket);
        }
        let now = plimsoll_runtime::now();
        let idles = self.codec.live_streams() == 0;
        let own = [
            after(frame.filter(|_| unread.is_none()), config.head_timeout, Due::Frame),
            after(settings, config.head_timeout, Due::Settings),
            after(sending, config.send_timeout, Due::Socket),
            after(idle, desk.parked_timeout(self.born), Due::Idle),
            after(idle.max(rested).filter(|_| idle.is_some() && self.is_restless()), REST_AFTER, Due::Rest),
            after(memory.map(|_| now), MEMORY_RETRY, Due::Memory),
            // Windows are told again when memory is not short any more.
            after(Some(now).filter(|_| self.pending.holds_windows && idle.is_none()), MEMORY_RETRY, Due::Memory),
            // A request that is to be begun waits for as long as one of HTTP/1.1.
            after(memory.filter(|_| idles), config.admission_timeout, Due::Memory).filter(|(until, _)| *until > now),
            after(memory, config.memory_timeout, Due::LongMemory),
            after(larger_window, LARGER_WINDOW_WAIT, Due::Small),
            after(self.peer.looked().filter(|_| sending.is_none()), PEER_LOOK, Due::Peer),
            after(
                self.pending.goaway.announced(),
                if desk.is_stopping() { desk.stop_idle() } else { config.linger_timeout },
                Due::Goaway,
            ),
        ];
        let streams = self.slots.parts().1.iter().flatten().filter_map(|exchange| stream_due(desk, exchange));
        own.into_iter().flatten().chain(streams.map(|until| (until, Due::Stream))).min_by_key(|(until, _)| *until)
    }
}

/// When a stream's time is up.
fn stream_due(desk: &Desk, exchange: &Exchange) -> Option<Instant> {
    let blocked = exchange.blocked_since.map(|since| since + desk.config.send_timeout);
    let begun = exchange.stage.waiting().map(|waiting| waiting.until);
    [begun, blocked, body_until(exchange), handler_until(desk, exchange), exchange.drain_until]
        .into_iter()
        .flatten()
        .min()
}

/// Until when a handler waits for more of a body.
fn body_until(exchange: &Exchange) -> Option<Instant> {
    let until = exchange.min_rate.until()?;
    Some(exchange.held_until.map_or(until, |held_until| held_until.max(until)))
}

/// When a handler's time is up. One that has answered is not timed any more, though its body or its tunnel goes on.
fn handler_until(desk: &Desk, exchange: &Exchange) -> Option<Instant> {
    let begun_at = exchange.begun_at.filter(|_| exchange.stage.is_running())?;
    Some(begun_at + desk.config.handler_timeout?)
}

impl Http2 {
    /// Ends what takes too long, stream by stream.
    pub(crate) fn end_overdue(&mut self, env: Env<'_>, now: Instant) {
        let mut handlers = Vec::new();
        let holds = self.pending.holds_windows;
        self.with_parts(env, |parts| {
            for at in 0..parts.exchanges.len() {
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                if stream_due(&env, exchange).is_none_or(|until| until > now) {
                    continue;
                }
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                if holds && exchange.held_until.is_none() && body_until(exchange).is_some_and(|until| until <= now) {
                    // It may not be the peer's fault: it was not told that it may send. That waits for memory.
                    exchange.held_until = Some(now + env.config.memory_timeout);
                    continue;
                }
                if exchange.drain_until.is_some_and(|until| until <= now) {
                    parts.free(stream);
                    continue;
                }
                if handler_until(&env, exchange).is_some_and(|until| until <= now) {
                    exchange.begun_at = None;
                    if exchange.must_finish == 0 {
                        exchange.course.note(ExchangeEnd::Timeout);
                        env.counters().shed(Shed::Timeout);
                        handlers.extend(exchange.handler.take());
                        parts.fail_stream(stream, Failure::OVERDUE);
                        continue;
                    }
                }
                if exchange.blocked_since.is_some_and(|since| since + env.config.send_timeout <= now) {
                    env.counters().shed(Shed::Timeout);
                    handlers.extend(parts.cut(stream, (ErrorCode::Cancel, ExchangeEnd::Timeout)));
                } else if body_until(exchange).is_some_and(|until| until <= now) {
                    // A body that never ends: the handler answers as it likes.
                    env.counters().shed(Shed::Timeout);
                    exchange.min_rate.pause(now);
                    exchange.request = Incoming::Gone;
                    exchange.course.note(ExchangeEnd::Timeout);
                    exchange.wake_reader();
                }
            }
        });
        for handler in handlers {
            handler.abort();
        }
    }
}
