//! What a connection holds, and what is shed when others need that.

use ::core::cmp::Reverse;
use ::core::time::Duration;

use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_pool::{Class, PoolBox};
use plimsoll_runtime::Instant;

use super::pending::Phase;
use super::shared::Env;
use super::streams::{Exchange, Group, Incoming, Outgoing, Slots, find};
use super::{HTTP2_PARKED_BYTES, Http2, STREAM_BYTES, TABLES_BYTES, Tables};
use crate::base::config::Config;
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::failure::Failure;
use crate::exchange::output::STALLED_AFTER;
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;

impl Http2 {
    /// Bytes of the pool that can be had back from it. One that was shed, and ends when its send has left, has no
    /// more to give while that goes on.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.phase == Phase::Leaving && !self.is_stalled(plimsoll_runtime::now(), STALLED_AFTER) {
            return 0;
        }
        let exchanges = || self.slots.exchanges().iter().flatten();
        let of_streams = exchanges().map(|exchange| exchange.held_bytes()).sum::<usize>();
        if exchanges().any(|exchange| exchange.must_finish > 0) {
            return of_streams;
        }
        let tables = match &self.tables {
            Tables::Open(_) => TABLES_BYTES,
            Tables::Packed(packed) => packed.as_ref().map_or(0, |lease| lease.class().bytes()),
        };
        let slots = self.slots.class().map_or(0, Class::bytes);
        let input = self.input.as_ref().map_or(0, |lease| lease.class().bytes());
        HTTP2_PARKED_BYTES + tables + slots + input + self.output.held_bytes() + of_streams
    }

    /// Of these, what may be had back while others wait: of streams, what is not protected any more; of a connection
    /// without streams, all.
    pub(crate) fn sheddable_bytes(&self, now: Instant, config: &Config) -> usize {
        if !self.has_exchanges() {
            return self.held_bytes();
        }
        let exchanges = self.slots.exchanges().iter().flatten();
        exchanges.filter(|exchange| exchange.may_go(now, config)).map(|exchange| exchange.held_bytes()).sum()
    }

    /// Where it is counted what running handlers hold, and for whom, if that is not the peer.
    pub(crate) fn running_shares(&mut self) -> impl Iterator<Item = (Option<u64>, &mut Option<PeerShare>)> {
        let exchanges = self.slots.parts().1.iter_mut().flatten();
        exchanges.filter(|exchange| exchange.stage.is_running()).map(|exchange| (exchange.client, &mut exchange.share))
    }

    /// Whether it has streams that are worked on.
    pub(crate) fn has_exchanges(&self) -> bool {
        self.slots.exchanges().iter().any(Option::is_some)
    }

    /// No exchange of it can go on.
    pub(super) fn note_all(&mut self, why: ExchangeEnd) {
        self.slots.parts().1.iter_mut().flatten().for_each(|exchange| exchange.course.note(why));
    }

    /// The socket took a part of what it was given: how long until something is due now.
    pub(crate) fn sent_a_part(&mut self, desk: &Desk) -> Option<Duration> {
        let now = plimsoll_runtime::now();
        self.since.sending = Some(now);
        self.next_due(desk).map(|(until, _)| until.since(now))
    }

    /// Whether its peer has had so much time to take something of the output, and took nothing.
    pub(crate) fn is_stalled(&self, now: Instant, after: Duration) -> bool {
        self.since.sending.is_some_and(|since| now.since(since) >= after)
    }
}

impl Exchange {
    /// Whether it may be shed while others wait: its handler runs for longer than what was begun is protected, its
    /// peer's windows have let nothing of its answer go for a while, or it is a tunnel.
    fn may_go(&self, now: Instant, config: &Config) -> bool {
        let is_past = |since: Option<Instant>, after| since.is_some_and(|since| now.since(since) > after);
        self.stage.is_tunnel() || self.is_overstay(now, config) || is_past(self.blocked_since, STALLED_AFTER)
    }

    fn is_overstay(&self, now: Instant, config: &Config) -> bool {
        let begun_at = self.begun_at.filter(|_| self.stage.is_running() && self.slot.is_none());
        begun_at.is_some_and(|begun_at| now.since(begun_at) > config.begun_protection)
    }

    /// Bytes of the pool that it holds; 0 while its handler must finish.
    fn held_bytes(&self) -> usize {
        if self.must_finish > 0 {
            return 0;
        }
        let leases = [&self.received, &self.trailers, &self.line].into_iter().flatten();
        let buffers = leases.map(|lease| lease.class().bytes()).sum::<usize>() + self.body.held_bytes();
        let answer = self.answer.as_ref().map_or(0, |answer| answer.held_bytes());
        let window = self.window.as_ref().map_or(0, |grown| grown.bytes() as usize);
        let waiting = self.stage.waiting().map_or(0, |waiting| waiting.own_bytes());
        STREAM_BYTES + buffers + answer + window + waiting
    }
}

impl Slots {
    fn class(&self) -> Option<Class> {
        match self {
            Self::None => None,
            Self::Few(_) => Some(PoolBox::<Group<8>>::CLASS),
            Self::Some(_) => Some(PoolBox::<Group<32>>::CLASS),
            Self::Many(_) => Some(PoolBox::<Group<128>>::CLASS),
            Self::Most(_) => Some(PoolBox::<Group<1_024>>::CLASS),
        }
    }
}

impl Http2 {
    /// Sheds the newest streams that may go until so many bytes are free; how many are. A request that has
    /// come whole and is not answered yet is told 503, other streams are reset (ENHANCE_YOUR_CALM, RFC 9113 7). One
    /// that `ends_soon` frees its bytes itself.
    pub(crate) fn give_up_streams(&mut self, env: Env<'_>, wanted: u64, ends_soon: impl Fn(StreamKey) -> bool) -> u64 {
        let now = plimsoll_runtime::now();
        let weighed = |(slot, exchange): (usize, &Option<PoolBox<Exchange>>)| {
            let exchange = exchange.as_ref().filter(|exchange| exchange.may_go(now, &env.config))?;
            let stream = StreamKey { slot: slot as u16, id: exchange.id };
            Some((stream, exchange.held_bytes() as u64)).filter(|(_, bytes)| *bytes > 0)
        };
        let mut streams: Vec<_> = self.slots.exchanges().iter().enumerate().filter_map(weighed).collect();
        streams.sort_unstable_by_key(|(stream, _)| Reverse(stream.id));
        let (mut freed, mut handlers) = (0, Vec::new());
        self.with_parts(env, |parts| {
            for (stream, bytes) in streams {
                if freed >= wanted {
                    break;
                }
                let Some(exchange) = find(parts.exchanges, stream) else { continue };
                if exchange.blocked_since.is_none() && ends_soon(stream) {
                    freed += bytes;
                    continue;
                }
                let is_overstay = exchange.is_overstay(now, &env.config);
                let why = if is_overstay { ExchangeEnd::Overstay } else { ExchangeEnd::Timeout };
                exchange.course.note(why);
                let is_told = exchange.request == Incoming::Done && exchange.response == Outgoing::Head;
                if is_told {
                    *parts.answers -= exchange.drop_answer();
                    exchange.needs_room = false;
                    exchange.wake();
                    handlers.extend(exchange.handler.take());
                    parts.fail_stream(stream, Failure::NO_ROOM);
                } else {
                    handlers.extend(parts.cut(stream, (ErrorCode::EnhanceYourCalm, why)));
                }
                env.shed_for_room(if is_overstay { Shed::Overstay } else { Shed::Output });
                freed += bytes;
            }
        });
        for handler in handlers {
            handler.abort();
        }
        freed
    }
}
