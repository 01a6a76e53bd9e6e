//! A peer that ends its half of the connection: the answers that were begun are sent to their ends, as far as the
//! windows that it gave allow. It gives no more, so a body that they hold up is cut. The connection ends when nothing
//! is left that goes on.

use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_slab::Key;

use crate::base::config::HalfClose;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::Line;
use crate::h2::Http2;
use crate::h2::peer_half::PeerHalf;
use crate::h2::shared::Env;
use crate::h2::step::Step;
use crate::h2::streams::{Exchange, Incoming, Outgoing};

impl Http2 {
    /// The peer has sent all it will send.
    pub(crate) fn ended(&mut self, line: &impl Line) -> Step {
        if self.is_parkable() && !line.is_sending() {
            return Step::Close(ExchangeEnd::Peer);
        }
        self.peer = PeerHalf::Ended(plimsoll_runtime::now());
        // Neither comes any more.
        (self.since.settings, self.need.unread) = (None, false);
        Step::GoOn
    }

    /// The peer has ended its half while nothing is received from it, or has gone away. What it sent before is received
    /// when there is room.
    pub(crate) fn peer_closed(&mut self, env: Env<'_>, line: &mut impl Line, key: Key) -> Step {
        let half_close = env.config.half_close;
        let goes_on = self.slots.exchanges().iter().flatten().any(|exchange| goes_on(exchange, half_close));
        if !goes_on || line.is_gone() {
            return Step::Close(ExchangeEnd::Peer);
        }
        let now = plimsoll_runtime::now();
        self.peer = PeerHalf::Ending(now);
        self.settle(env, line, key, now)
    }

    /// Nothing more comes, and all that came was looked at: ends what cannot go on, and the connection when nothing
    /// can.
    pub(super) fn end_what_is_stuck(&mut self, env: Env<'_>) {
        self.since.frame = None;
        let half_close = env.config.half_close;
        let mut handlers = Vec::new();
        self.with_parts(env, |parts| {
            for at in 0..parts.exchanges.len() {
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                if !exchange.request.is_body() || !is_told(exchange, half_close) {
                    continue;
                }
                exchange.request = Incoming::Gone;
                exchange.course.note(ExchangeEnd::Peer);
                exchange.min_rate.pause(plimsoll_runtime::now());
                exchange.shrink_window(parts.codec);
                exchange.wake_reader();
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                parts.end_if_done(stream);
            }
            let is_shut = parts.codec.is_window_shut();
            let streams = &*parts.storage.streams;
            let stays = |at: usize, exchange: &Exchange| {
                let is_held_up = !exchange.rest().is_empty() && (is_shut || streams[at].is_window_shut());
                goes_on(exchange, half_close) && !is_held_up
            };
            let mut exchanges = parts.exchanges.iter().enumerate();
            if !exchanges.any(|(at, exchange)| exchange.as_ref().is_some_and(|exchange| stays(at, exchange))) {
                parts.phase.close();
                return;
            }
            let all = parts.exchanges.iter().enumerate().filter_map(|(at, exchange)| Some((at, exchange.as_deref()?)));
            let are_stuck = all.filter(|(at, exchange)| !stays(*at, exchange) && !is_over(exchange));
            let keys: Vec<_> = are_stuck.map(|(at, exchange)| StreamKey { slot: at as u16, id: exchange.id }).collect();
            for stream in keys {
                handlers.extend(parts.cut(stream, (ErrorCode::Cancel, ExchangeEnd::Peer)));
            }
        });
        for handler in handlers {
            handler.abort();
        }
    }
}

/// Whether nothing more is to be sent on a stream, though its slot is not free yet.
fn is_over(exchange: &Exchange) -> bool {
    match exchange.response {
        Outgoing::Reset => true,
        Outgoing::Complete => !exchange.stage.is_running(),
        Outgoing::Head | Outgoing::Body => false,
    }
}

/// Whether something of the answer was given.
fn has_begun(exchange: &Exchange) -> bool {
    exchange.response != Outgoing::Head || exchange.answer.is_some()
}

/// Whether the handler of a request whose body has not come in full lives to see that: it does while it waits for more
/// of it.
fn is_told(exchange: &Exchange, half_close: HalfClose) -> bool {
    exchange.reader.is_some() || has_begun(exchange) || half_close == HalfClose::Answered
}

/// Whether a peer that has ended its half gets what is to come of an answer. A tunnel is told that it is gone: its
/// bytes answer bytes of the peer.
fn goes_on(exchange: &Exchange, half_close: HalfClose) -> bool {
    let is_wanted = has_begun(exchange) || exchange.request == Incoming::Gone || half_close == HalfClose::Answered;
    is_wanted && !exchange.stage.is_tunnel() && !is_over(exchange)
}
