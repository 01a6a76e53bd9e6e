//! A connection of HTTP/1 while it is worked on.

use ::core::any::Any;
use ::core::net::SocketAddr;
use ::core::time::Duration;

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::{
    BodyDecoder, BodyEncoder, BodyOut, Exchange, Framing, HeadSearch, RequestState, ResponseState,
};
use plimsoll_runtime::{Instant, JoinHandle, Lease, PoolBox};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::counters::WorkerCounters;
use crate::base::exchange_end::{Answered, Course, ExchangeEnd};
use crate::exchange::collect::Collected;
use crate::exchange::min_rate::MinRateTimer;
use crate::exchange::misbehaviour::Score;
use crate::exchange::output::Output;
use crate::exchange::user_code::UserWaker;
use crate::h1::body_receive::{Parts, Receive};
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;
use crate::memory::reserved_routes::Slot;
use crate::memory::wait::MemoryWait;

/// Bytes of a connection while it is worked on, beside its head and its output.
pub const EXCHANGE_BYTES: usize = size_of::<Active>();

const _: () = assert!(EXCHANGE_BYTES <= 512, "an exchange fits its class");

/// What a connection that is worked on has a limited time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// Nothing: its handler takes as long as it may.
    None,
    /// A head, from its first byte.
    Head,
    /// The next part of a body.
    Body,
    /// A PROXY header, from the accept on.
    Proxy,
    /// The peer, to take something of the output.
    Send,
    /// Memory, for what the connection waits for.
    Room,
    /// Nothing, but it must be looked at whether the peer is still there: nothing else tells.
    Peer,
}

/// How far a connection is, as far as both halves of it are concerned.
///
/// ```text
///                header                the peer ends its half
///  AwaitsProxy ---------> Open -------------------------------> HalfClosed
///       |                  | ^       the next exchange              |
///       |                  | +--------------------------------------+
///       |                  | something cannot go on                 |
///       +------------------+----------> Closing <-------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A PROXY header is still to come.
    AwaitsProxy,
    Open,
    /// The peer has ended its half, and gets the answer that is worked on all the same. Only a reset tells that it has
    /// gone away.
    HalfClosed,
    /// Closed as soon as the output has left, whatever else is pending.
    Closing,
}

/// When a connection is looked after next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// With the next event.
    Event,
    /// Bytes have come for the reader, which was woken and has not had its turn yet: it is not known what is waited for
    /// next. After its turn.
    Fed,
    /// It is in the list of connections to be looked after, or waits for its turn among those that have read ahead.
    Listed,
}

/// A connection while it is worked on.
pub(crate) struct Active {
    pub(crate) exchange: Exchange,
    pub(crate) search: HeadSearch,
    pub(crate) decoder: BodyDecoder,
    /// Received, not used yet: a part of a head, a part of a body, requests read ahead.
    pub(crate) input: Option<Lease>,
    /// Bytes at the beginning of `input` that are a body's data already, as they were decoded.
    pub(crate) decoded_bytes: u32,
    /// Parts of a body that were received together, behind `input`.
    pub(crate) parts: Option<PoolBox<Parts>>,
    pub(crate) output: Output,
    /// How the answer's body is delimited, and what is left of it.
    pub(crate) body: BodyEncoder,
    /// That of the request that is answered; of a head that has not come in full only whether it is HEAD.
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// The handler, while it is pending.
    pub(crate) handler: Option<JoinHandle<()>>,
    /// The handler waits for a part of the body.
    pub(crate) reader: Option<UserWaker>,
    /// The handler waits for room in the output.
    pub(crate) writer: Option<UserWaker>,
    /// Requests that were begun on this connection; the number of the one that is worked on.
    pub(crate) requests: u32,
    /// Bytes of a body nobody wants that were read and dropped.
    pub(crate) dropped_bytes: u32,
    /// How the next part of a body is received.
    pub(crate) receive: Receive,
    pub(crate) phase: Phase,
    /// The deadline that is set.
    pub(crate) deadline: Deadline,
    pub(crate) look: Look,
    /// The request line, while there is an access log.
    pub(crate) line: Option<Lease>,
    /// The peer, while there is an access log.
    pub(crate) peer: Option<SocketAddr>,
    /// The status of a streamed answer whose line in the access log is still to be written.
    pub(crate) status: Option<StatusCode>,
    /// That of one which is still to be counted: it may yet be taken back.
    pub(crate) uncounted: Option<StatusCode>,
    /// Body bytes of the answer.
    pub(crate) sent_bytes: u64,
    /// When the connection was accepted, see [`Desk::age_now`](crate::memory::desk::Desk::age_now).
    pub(crate) born: u32,
    pub(crate) score: Score,
    /// Requests that were begun since the socket had taken all output.
    pub(crate) batch: u32,
    /// Pieces of work that the handler said must be finished.
    pub(crate) must_finish: u32,
    pub(crate) min_rate: MinRateTimer,
    /// Whether the exchange that is worked on was begun, and those before it whose answers have not left.
    pub(crate) course: Course,
    pub(crate) answered: Answered,
    /// When the handler was begun that is pending.
    pub(crate) begun_at: Option<Instant>,
    /// What its address is blamed for, while memory is short.
    pub(crate) share: Option<PeerShare>,
    /// Room for the body that its handler collects.
    pub(crate) collected: Option<PoolBox<Collected>>,
    /// Its route is marked.
    pub(crate) slot: Option<Slot>,
    /// How it waits for room that it did not find.
    pub(crate) memory: MemoryWait,
    /// Gets the connection after a 101: the worker knows what that is.
    pub(crate) successor: Option<Box<dyn Any>>,
    /// The fields that came after the body, until the handler asks for them.
    pub(crate) trailers: Option<Lease>,
}

impl Active {
    pub(crate) fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    pub(crate) fn is_half_closed(&self) -> bool {
        self.phase == Phase::HalfClosed
    }

    /// The peer has ended its half, and is answered all the same.
    pub(crate) fn half_close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::HalfClosed;
        }
    }

    /// The handler that is dropped with its exchange. One that must finish is detached instead.
    pub(crate) fn take_handler(&mut self) -> Option<JoinHandle<()>> {
        let handler = self.handler.take();
        if self.must_finish > 0 {
            drop(handler);
            // If it waits for the peer, it is told that there is none.
            for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
                waker.wake();
            }
            return None;
        }
        handler
    }

    pub(crate) fn new(requests: u32, born: u32, score: Score, config: &Config) -> Self {
        Self {
            exchange: Exchange::new(),
            search: HeadSearch::default(),
            decoder: BodyDecoder::new(Framing::None, &config.limits),
            input: None,
            decoded_bytes: 0,
            parts: None,
            output: Output::default(),
            body: BodyEncoder::new(BodyOut::None),
            method: Method::GET,
            version: Version::HTTP_11,
            handler: None,
            reader: None,
            writer: None,
            requests,
            dropped_bytes: 0,
            receive: Receive::new(config.body_receive, config.body_receive_leases_max),
            phase: Phase::Open,
            deadline: Deadline::None,
            look: Look::Event,
            line: None,
            peer: None,
            status: None,
            uncounted: None,
            sent_bytes: 0,
            born,
            score,
            batch: 0,
            must_finish: 0,
            min_rate: MinRateTimer::default(),
            course: Course::None,
            answered: Answered::default(),
            begun_at: None,
            share: None,
            collected: None,
            slot: None,
            memory: MemoryWait::None,
            successor: None,
            trailers: None,
        }
    }

    /// More of a body is there: a handler that waits for it looks again. Whether one does.
    pub(crate) fn wake_reader(&mut self, desk: &Desk, key: Key) -> bool {
        let Some(reader) = self.reader.take() else { return false };
        reader.wake();
        if self.look == Look::Event {
            self.look = Look::Fed;
        }
        desk.list_later(key);
        true
    }

    /// The next of what was received of a body.
    pub(crate) fn take_input(&mut self) -> Option<Lease> {
        self.input.take().or_else(|| self.parts.as_mut()?.iter_mut().find_map(Option::take))
    }

    /// A head is searched on when more of it has come: whether there is room for it is found out then.
    pub(crate) fn goes_on_with(&mut self, search: HeadSearch) {
        self.search = search;
        if self.memory == MemoryWait::Admitted {
            self.memory = MemoryWait::None;
        }
    }

    /// Bytes of the pool that hold what was received.
    pub(crate) fn input_bytes(&self) -> usize {
        let parts = self.parts.iter().flat_map(|parts| parts.iter().flatten());
        parts.chain(&self.input).map(|lease| lease.class().bytes()).sum()
    }

    /// Bytes of what was received and is not used yet.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.parts.iter().flat_map(|parts| parts.iter().flatten()).chain(&self.input).map(|lease| lease.len()).sum()
    }

    /// A body comes too slowly, or never: the handler answers as it likes, then the connection is closed.
    pub(crate) fn give_up_body(&mut self) {
        let _failed_before = self.exchange.request_failed();
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        self.deadline = Deadline::None;
        self.course.note(ExchangeEnd::Timeout);
    }

    /// Bytes have come. Those of a body earn some of the time back that is waited for it.
    pub(crate) fn came(&mut self, bytes: usize, config: &Config) {
        if self.deadline == Deadline::Body {
            self.min_rate.pause(plimsoll_runtime::now());
            self.deadline = Deadline::None;
        }
        if self.exchange.request() == RequestState::Body {
            self.min_rate.earn(bytes, config.body_bytes_per_second_min, config.body_timeout);
        }
    }

    /// What there was a limited time for has got on: if that is the deadline, it is set anew.
    pub(crate) fn progressed(&mut self, with: Deadline) {
        if self.deadline == with {
            self.deadline = Deadline::None;
        }
    }

    /// What is left until `after` has passed, or the handler's time is up.
    pub(crate) fn due_after(&self, after: Duration, now: Instant, config: &Config) -> Duration {
        self.handler_left(now, config).map_or(after, |left| after.min(left))
    }

    /// What is left of a running handler's time.
    pub(crate) fn handler_left(&self, now: Instant, config: &Config) -> Option<Duration> {
        let begun_at = self.begun_at.filter(|_| self.handler.is_some())?;
        Some(config.handler_timeout?.saturating_sub(now.since(begun_at)))
    }

    /// Whether the handler has taken too long.
    pub(crate) fn is_overdue(&self, now: Instant, config: &Config) -> bool {
        self.handler_left(now, config).is_some_and(|left| left.is_zero())
    }

    /// Whether its handler runs for longer than what was begun is protected: it may be shed while others wait for
    /// memory.
    pub(crate) fn is_overstay(&self, now: Instant, config: &Config) -> bool {
        let begun_at = self.begun_at.filter(|_| self.handler.is_some() && self.must_finish == 0 && self.slot.is_none());
        begun_at.is_some_and(|begun_at| now.since(begun_at) > config.begun_protection)
    }

    /// Whether it waits for memory.
    pub(crate) fn is_queued(&self) -> bool {
        self.memory.is_queued()
    }

    /// Whether nothing is there of a body that is still to come.
    pub(crate) fn wants_body(&self) -> bool {
        self.exchange.request() == RequestState::Body && self.input.is_none() && !self.is_closing()
    }

    /// Whether its next request waits to be begun, and nothing else.
    pub(crate) fn waits_to_begin(&self) -> bool {
        self.is_queued() && self.handler.is_none() && self.output.is_empty()
    }

    /// What is wrong with the request's body, if it is malformed and an answer with this status would not say so.
    pub(crate) fn malformed_for(&self, status: StatusCode) -> Option<plimsoll_codec::Error> {
        self.decoder.failure().filter(|_| !status.is_client_error() && !status.is_server_error())
    }

    /// Whether something of the answer to the request that is worked on was given, so that it is sent to its end
    /// whatever the peer does with its half.
    pub(crate) fn has_begun_answer(&self) -> bool {
        matches!(self.exchange.response(), ResponseState::Body | ResponseState::Done)
    }

    /// Whether its handler is over, and nothing of its answer is written any more: that is whole, or cut short by its
    /// handler, or goes on elsewhere.
    fn is_over(&self) -> bool {
        let is_written = matches!(self.exchange.response(), ResponseState::Done | ResponseState::Upgraded);
        self.handler.is_none() && (is_written || self.is_closing() || self.successor.is_some())
    }

    /// Has an exchange that is over wait for the socket only.
    pub(crate) fn count_over(&mut self, counters: &WorkerCounters) {
        if self.is_over() {
            self.answered.add(&mut self.course, counters);
        }
    }

    /// Whether nothing of an exchange is left but, perhaps, a send in flight.
    pub(crate) fn is_parkable(&self) -> bool {
        self.exchange.is_idle() && self.input.is_none() && self.output.is_empty() && self.handler.is_none()
    }
}
