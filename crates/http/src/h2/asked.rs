//! What is asked of the peer of a connection, while others wait for memory: a part of a body.

use plimsoll_runtime::Instant;

use super::Http2;
use super::no_room::TurnWait;
use super::streams::{Exchange, Incoming};
use crate::base::exchange_end::ExchangeEnd;

impl Http2 {
    /// Whether the peer is to send a part of some body: its handler waits for that, the windows let the peer send, and
    /// what comes is read.
    pub(crate) fn asks_for_body(&self) -> bool {
        let is_read =
            self.need.wanted.is_none() && !self.need.unread && self.turn == TurnWait::Own && self.phase.is_open();
        if !is_read || self.peer.is_ended() || self.codec.is_receive_window_shut() {
            return false;
        }
        let streams = self.slots.streams().iter().zip(self.slots.exchanges());
        streams
            .filter_map(|(stream, exchange)| Some((stream, exchange.as_deref()?)))
            .any(|(stream, exchange)| exchange.is_waited_for() && !stream.is_receive_window_shut())
    }

    /// The bodies that handlers wait for come too slowly: the handlers answer as they like.
    pub(crate) fn give_up_bodies(&mut self, now: Instant) {
        for exchange in self.slots.parts().1.iter_mut().flatten().filter(|exchange| exchange.is_waited_for()) {
            exchange.min_rate.pause(now);
            exchange.request = Incoming::Gone;
            exchange.course.note(ExchangeEnd::Timeout);
            exchange.wake_reader();
        }
    }
}

impl Exchange {
    /// Whether its handler waits for a part of the request's body.
    fn is_waited_for(&self) -> bool {
        self.request.is_body() && self.min_rate.until().is_some()
    }
}
