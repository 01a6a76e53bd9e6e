//! A peer that ends its half of the connection: the answers that were begun are sent to their ends, as far as the
//! windows that it gave allow. It gives no more, so a body that they hold up is cut. The connection ends when nothing
//! is left that goes on.

use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use crate::base::config::HalfClose;
use crate::base::exchange_end::ExchangeEnd;
use crate::h2::Http2;
use crate::h2::streams::{Exchange, Incoming, Outgoing};
use crate::h2::window::shrink_window;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

/// What is known of the peer's half, and since it has ended, when it was last looked at whether the peer is still
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::h2) enum PeerHalf {
    Open,
    /// Ended. What came before may not all be received.
    Ending(Instant),
    /// All was received.
    Ended(Instant),
}

impl PeerHalf {
    /// When it was last looked at.
    pub(super) fn looked(self) -> Option<Instant> {
        match self {
            Self::Open => None,
            Self::Ending(looked) | Self::Ended(looked) => Some(looked),
        }
    }

    pub(super) fn look(&mut self, now: Instant) {
        if let Self::Ending(looked) | Self::Ended(looked) = self {
            *looked = now;
        }
    }

    pub(in crate::h2) fn is_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

impl<S: Service> Engine<S> {
    /// The peer has sent all it will send.
    pub(crate) fn ended_http2(&mut self, key: Key) {
        let Some(mut http2) = self.core.take_http2(key) else { return };
        if http2.is_parkable() && !self.core.table.borrow().is_sending(key) {
            self.core.put(key, Connection::Http2(http2));
            return self.close(key);
        }
        http2.peer = PeerHalf::Ended(plimsoll_runtime::now());
        // Neither comes any more.
        (http2.since.settings, http2.hunger.unread) = (None, false);
        self.go_on_http2(key, http2, None);
    }

    /// The peer has ended its half while nothing is received from it, or has gone away. What it sent before is received
    /// when there is room.
    pub(crate) fn peer_closed_http2(&mut self, key: Key) {
        let Some(mut http2) = self.core.take_http2(key) else { return };
        let half_close = self.core.config.half_close;
        let goes_on = http2.slots.exchanges().iter().flatten().any(|exchange| goes_on(exchange, half_close));
        if !goes_on || self.core.table.borrow().is_gone(key) {
            self.core.put(key, Connection::Http2(http2));
            return self.close(key);
        }
        let now = plimsoll_runtime::now();
        http2.peer = PeerHalf::Ending(now);
        self.settle_http2(key, http2, now);
    }
}

impl Core {
    /// Nothing more comes, and all that came was looked at: ends what cannot go on, and the connection when nothing
    /// can.
    pub(super) fn end_what_is_stuck(&self, http2: &mut Http2) {
        http2.since.frame = None;
        let half_close = self.config.half_close;
        let mut handlers = Vec::new();
        self.with_parts(http2, |parts| {
            for at in 0..parts.exchanges.len() {
                let Some(exchange) = parts.exchanges[at].as_deref_mut() else { continue };
                if exchange.request != Incoming::Body || !is_told(exchange, half_close) {
                    continue;
                }
                exchange.request = Incoming::Gone;
                exchange.course.note(ExchangeEnd::Peer);
                exchange.patience.pause(plimsoll_runtime::now());
                shrink_window(parts.codec, exchange);
                exchange.wake_reader();
                let stream = StreamKey { slot: at as u16, id: exchange.id };
                self.end_if_done(parts, stream);
            }
            let is_shut = parts.codec.is_window_shut();
            let streams = &*parts.storage.streams;
            let stays = |at: usize, exchange: &Exchange| {
                let is_held_up = !exchange.rest().is_empty() && (is_shut || streams[at].is_window_shut());
                goes_on(exchange, half_close) && !is_held_up
            };
            let mut exchanges = parts.exchanges.iter().enumerate();
            if !exchanges.any(|(at, exchange)| exchange.as_ref().is_some_and(|exchange| stays(at, exchange))) {
                *parts.closing = true;
                return;
            }
            let all = parts.exchanges.iter().enumerate().filter_map(|(at, exchange)| Some((at, exchange.as_deref()?)));
            let are_stuck = all.filter(|(at, exchange)| !stays(*at, exchange) && !is_over(exchange));
            let keys: Vec<_> = are_stuck.map(|(at, exchange)| StreamKey { slot: at as u16, id: exchange.id }).collect();
            for stream in keys {
                handlers.extend(self.cut(parts, stream, (ErrorCode::Cancel, ExchangeEnd::Peer)));
            }
        });
        for handler in handlers {
            handler.abort();
        }
    }
}

/// Whether nothing more is to be sent on a stream, though its slot is not free yet.
fn is_over(exchange: &Exchange) -> bool {
    exchange.is_reset || exchange.response == Outgoing::Complete && !exchange.running
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
    is_wanted && !exchange.held && !is_over(exchange)
}
