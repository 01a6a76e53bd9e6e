//! Steps of a connection through its requests: heads are searched, judged, and begun or refused; a body that nobody
//! reads is dropped. A step works on its own connection alone, and says what the worker decides or does next.

use http::Method;
use plimsoll_codec::h1::{
    self, BodyDecoder, BodyEvent, Exchange, FieldSlot, HeadSearch, Next, RequestHead, RequestState, RequestView,
};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::config::Http2;
use crate::base::counters::Shed;
use crate::base::exchange_end::Course;
use crate::base::preface::{Preface, preface};
use crate::base::proxy_header;
use crate::exchange::failure::{Failure, method_of};
use crate::exchange::line::Line;
use crate::exchange::min_rate::MinRateTimer;
use crate::exchange::misbehaviour::{COMPLETED_POINTS, UNWANTED_BYTES_FREE, Verdict, unwanted_points};
use crate::exchange::source::Source;
use crate::h1::active::{Active, Deadline, Phase};
use crate::h1::step::Progress;
use crate::memory::desk::Desk;
use crate::memory::received::FEW_BYTES;
use crate::memory::wait::MemoryWait;
use crate::memory::wait::REQUEST_ROOM_BYTES;

/// How a record of a handshake begins, in every version of TLS.
const TLS_HANDSHAKE: u8 = 22;

/// Bytes of a request line that the access log gets at most; valid ones are never longer with the default limits.
const LOGGED_LINE_BYTES_MAX: usize = 8_192;
/// Fields of a head at most, whatever the configuration says.
const FIELDS_MAX: usize = h1::FIELDS_CEILING;
/// Fields of nearly every head. The table for them is made for each request; that for the most would be 2 KiB of zeros.
const FIELDS_USUAL: usize = h1::WHOLE_HEAD_FIELDS_MAX;

/// Where the fields of a head are: on the stack, for one head after another.
pub(crate) struct Slots {
    usual: [FieldSlot; FIELDS_USUAL],
    all: Option<[FieldSlot; FIELDS_MAX]>,
}

impl Slots {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { usual: [FieldSlot::EMPTY; FIELDS_USUAL], all: None }
    }

    /// Those of the head that was found last.
    #[inline(always)]
    pub(crate) fn of(&self, parsed: &RequestHead) -> &[FieldSlot] {
        let slots = self.all.as_ref().map_or(&self.usual[..], |all| &all[..]);
        &slots[..usize::from(parsed.fields)]
    }
}

/// A head that is there as a whole, at the beginning of what came: so many bytes, and what they say.
pub(crate) type Found = (usize, RequestHead);

impl Active {
    /// Goes on with what came, until the worker has something to decide.
    pub(crate) fn go_on(&mut self, desk: &Desk, line: &impl Line, key: Key, source: &mut Source) -> Progress {
        // A handler that has answered may still read the body, or do something else.
        while self.handler.is_none() {
            if self.exchange.reset().is_ok() {
                self.next_exchange(desk, key);
            }
            match self.exchange.next() {
                _ if self.phase == Phase::AwaitsProxy => {
                    if let Some(progress) = self.read_proxy_header(desk, key, source) {
                        return progress;
                    }
                }
                Next::ReadHead if !source.rest().is_empty() && self.may_begin(desk, line) => return Progress::Ahead,
                Next::Drain if self.drain(desk, source) => {}
                // The answer is on its way, to a peer that may take nothing of it before it has sent everything.
                Next::Close { linger: true }
                    if self.exchange.request() == RequestState::Body
                        && !self.is_closing()
                        && self.drain(desk, source) => {}
                _ => break,
            }
        }
        Progress::Done
    }

    /// All of an exchange is answered, and the next begins.
    fn next_exchange(&mut self, desk: &Desk, key: Key) {
        self.wait_no_longer(desk, key);
        desk.forget_client(key);
        self.answered.add(&mut self.course, desk.counters());
        self.search = HeadSearch::default();
        self.dropped_bytes = 0;
        self.reader = None;
        self.writer = None;
        if self.is_half_closed() {
            self.phase = Phase::Open;
        }
        self.method = Method::GET;
        (self.begun_at, self.collected, self.slot) = (None, None, None);
        if self.output.is_empty() {
            self.share = None;
        }
        self.successor = None;
        (self.parts, self.trailers) = (None, None);
        self.score.forgive(COMPLETED_POINTS);
    }

    /// Whether another request may be begun: there is room for its answer.
    fn may_begin(&self, desk: &Desk, line: &impl Line) -> bool {
        let output = &self.output;
        let room = !output.has_tail() && output.gathered_bytes() < desk.gather_bytes_max();
        let is_held_back = self.is_batch_full(desk) || desk.holds_back();
        let waits = is_held_back && (!output.is_empty() || line.is_sending());
        room && !waits && !self.is_closing() && !self.is_queued()
    }

    /// Whether no further request may be begun before the socket has taken what was answered.
    pub(super) fn is_batch_full(&self, desk: &Desk) -> bool {
        self.batch >= desk.config.read_ahead_requests_max
    }

    /// Looks for the header that says on whose behalf the proxy connects; `None` when it was there. A connection
    /// without one is closed without an answer.
    fn read_proxy_header(&mut self, desk: &Desk, key: Key, source: &mut Source) -> Option<Progress> {
        let (origin, used) = match proxy_header::parse(source.rest()) {
            Ok(Some(found)) => found,
            Ok(None) => return Some(Progress::Done),
            Err(proxy_header::Malformed) => {
                desk.counters().shed(Shed::Misbehaviour);
                return Some(Progress::Close);
            }
        };
        source.consume(used);
        let address = || desk.connections()?.socket_address(key);
        let found = desk.peers.borrow_mut().found(key, origin, address);
        (self.phase, self.deadline) = (Phase::Open, Deadline::None);
        found.is_err().then_some(Progress::Refuse)
    }

    /// Whether what came is looked at as HTTP/1.1: the first bytes of a connection may be HTTP/2.
    #[inline]
    pub(crate) fn choose_protocol(&mut self, desk: &Desk, source: &Source) -> Progress {
        if self.requests > 0 || desk.config.http2 == Http2::Off {
            return Progress::Ahead;
        }
        let bytes = source.rest();
        match (preface(bytes), desk.config.http2) {
            (Preface::Whole, _) => Progress::Http2,
            (Preface::Part, _) => {
                self.begin_head();
                Progress::Done
            }
            (Preface::Other, Http2::Only) => self.refuse_http1(desk, bytes),
            (Preface::Other, _) => Progress::Ahead,
        }
    }

    /// Looks for a head in what came.
    // In each request: what it found is not moved.
    #[inline(always)]
    pub(crate) fn read_head(&mut self, desk: &Desk, key: Key, source: &mut Source, slots: &mut Slots) -> Option<Found> {
        slots.all = None;
        let limits = &desk.config.limits;
        let usual = &mut slots.usual[..limits.fields().min(FIELDS_USUAL)];
        // A head that has come in pieces was searched before, and is searched on.
        let whole = if self.search.started() { None } else { h1::parse_whole_head(source.rest(), usual, limits) };
        if whole.is_none() {
            return self.search_head(desk, key, source, slots);
        }
        whole
    }

    /// Looks for a head that is not known to be there as a whole. What is found is forgotten until the request begins:
    /// one that waits for room is searched once more.
    #[inline(never)]
    fn search_head(&mut self, desk: &Desk, key: Key, source: &mut Source, slots: &mut Slots) -> Option<Found> {
        let limits = &desk.config.limits;
        let mut search = self.search;
        let head = match search.search(source.rest(), limits) {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.goes_on_with(search);
                self.method = method_of(source.rest());
                source.consume(self.search.discard_skipped());
                if self.search.started() {
                    self.begin_head();
                }
                return None;
            }
            Err(error) => {
                self.misbehaved(desk, key, source.rest(), error);
                return None;
            }
        };
        // Empty lines before it.
        source.consume(head.start);
        let bytes = &source.rest()[..head.len()];
        let usual = &mut slots.usual[..limits.fields().min(FIELDS_USUAL)];
        let mut parsed = h1::parse_head(bytes, usual, limits);
        if parsed.is_err() && limits.fields() > FIELDS_USUAL {
            // Perhaps it only has more fields than most.
            let all = &mut slots.all.insert([FieldSlot::EMPTY; FIELDS_MAX])[..limits.fields()];
            parsed = h1::parse_head(bytes, all, limits);
        }
        match parsed {
            Ok(parsed) => Some((head.len(), parsed)),
            Err(error) => {
                self.misbehaved(desk, key, bytes, error);
                None
            }
        }
    }

    /// Whether what came behind a head has to get a place of its own before the request is begun: it is not lost then
    /// when the handler takes the rest of the memory. The head is searched anew.
    #[inline(always)]
    pub(crate) fn awaits_place(source: &Source, has_body: bool, bytes_behind: usize) -> bool {
        !has_body && bytes_behind > FEW_BYTES && source.is_borrowed()
    }

    /// Prepares the exchange for its handler. `body` is what has come of the body already.
    // In each request: without a frame of its own.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        desk: &Desk,
        key: Key,
        view: &RequestView<'_>,
        body: Option<&[u8]>,
    ) -> Result<(), OverBudget> {
        let config = &desk.config;
        let parsed = view.request();
        let received = self.exchange.head_received(parsed);
        debug_assert!(received.is_ok(), "a head was due");
        desk.counters().request();
        self.requests = self.requests.wrapping_add(1);
        self.must_finish = 0;
        self.batch = self.batch.saturating_add(1);
        self.min_rate = MinRateTimer::full(config.body_timeout);
        let is_last = desk.is_stopping()
            || config.requests_max.is_some_and(|max| self.requests >= max)
            || self.score.verdict() != Verdict::Tolerated
            || desk.is_too_old(self.born);
        if is_last {
            self.exchange.close_after();
        }
        if desk.is_stopping() {
            desk.asked_after_stop();
        }
        self.method = parsed.method.clone();
        self.version = parsed.version;
        self.course = Course::Running;
        self.sent_bytes = 0;
        self.decoder = BodyDecoder::new(parsed.framing, &config.limits);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            self.input = Some(desk.pool.try_copy(body, Kind::Buffers)?);
        }
        self.note_line(desk, key, view.head());
        Ok(())
    }

    /// Keeps the request line for the access log, if there is one.
    #[inline]
    fn note_line(&mut self, desk: &Desk, key: Key, bytes: &[u8]) {
        if desk.log.is_some() {
            self.keep_line(desk, key, bytes);
        }
    }

    /// What was sent up to the end of the line, or so much of it as a log has use for.
    fn keep_line(&mut self, desk: &Desk, key: Key, bytes: &[u8]) {
        let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
        let line = &line[..line.len().min(LOGGED_LINE_BYTES_MAX)];
        self.line = desk.pool.try_copy(line, Kind::Buffers).ok();
        if self.peer.is_none() {
            self.peer = desk.peer_address(key);
        }
    }

    /// The peer broke the protocol in a head that begins with `bytes`.
    fn misbehaved(&mut self, desk: &Desk, key: Key, bytes: &[u8], error: plimsoll_codec::Error) {
        self.note_line(desk, key, bytes);
        desk.counters().shed(Shed::Misbehaviour);
        if self.requests == 0 && bytes.first() == Some(&TLS_HANDSHAKE) {
            desk.counters().handshakes.on_plain_port();
        }
        self.method = method_of(bytes);
        let _failed_before = self.exchange.request_failed();
        self.fail(desk, error);
    }

    /// A listener for HTTP/2 alone was sent something else: only who speaks HTTP/1 understands an answer.
    fn refuse_http1(&mut self, desk: &Desk, bytes: &[u8]) -> Progress {
        desk.counters().shed(Shed::Misbehaviour);
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if !line.trim_ascii_end().windows(8).any(|word| word.starts_with(b" HTTP/1.")) {
            return Progress::Close;
        }
        self.method = method_of(bytes);
        let _failed_before = self.exchange.request_failed();
        self.fail(desk, Failure::HTTP2_ONLY);
        Progress::Done
    }

    /// Has a request wait for room as if it had not been looked at yet; `before` is the exchange as it was then.
    pub(crate) fn put_off(&mut self, desk: &Desk, key: Key, before: Exchange, has_body: bool) {
        desk.counters().request_put_off();
        (self.exchange, self.course) = (before, Course::None);
        self.requests = self.requests.wrapping_sub(1);
        self.batch = self.batch.saturating_sub(1);
        (self.input, self.line) = (None, None);
        if !self.may_wait_to_begin(desk, key, has_body) {
            let _failed_before = self.exchange.request_failed();
            desk.shed_for_room(Shed::Body);
            self.fail(desk, Failure::NO_ROOM);
        }
    }

    /// Whether a request waits for room from now on: for longer if it brings a body. One that has waited does not wait
    /// again.
    pub(crate) fn may_wait_to_begin(&mut self, desk: &Desk, key: Key, has_body: bool) -> bool {
        let may_wait = !matches!(self.memory, MemoryWait::TimedOut | MemoryWait::Refused);
        let waits = may_wait && self.enqueue(desk, key, Priority::Head, REQUEST_ROOM_BYTES).is_ok();
        if waits && has_body {
            self.memory.expect_body();
        }
        waits
    }

    /// Answers a request for which there is no room, without having begun it. Its connection lives, unless it `ends`.
    #[cold]
    pub(crate) fn refuse(&mut self, desk: &Desk, line: &mut impl Line, key: Key, view: &RequestView<'_>, ends: bool) {
        let parsed = view.request();
        let received = self.exchange.head_received(parsed);
        debug_assert!(received.is_ok(), "a head was due");
        if ends {
            self.exchange.close_after();
        }
        self.memory = MemoryWait::None;
        self.requests = self.requests.wrapping_add(1);
        (self.method, self.version, self.sent_bytes) = (parsed.method.clone(), parsed.version, 0);
        self.decoder = BodyDecoder::new(parsed.framing, &desk.config.limits);
        self.note_line(desk, key, view.head());
        if self.answer_refusal(desk, line, key).is_err() {
            self.fail(desk, Failure::NO_ROOM);
        }
    }

    /// Drops a body that nobody reads any more; whether all of it.
    fn drain(&mut self, desk: &Desk, source: &mut Source) -> bool {
        let decoded_bytes = ::core::mem::take(&mut self.decoded_bytes);
        source.consume(decoded_bytes as usize);
        self.dropped_bytes = self.dropped_bytes.saturating_add(decoded_bytes);
        loop {
            let decoded = match self.decoder.decode(source.rest()) {
                Ok(decoded) => decoded,
                Err(_) => {
                    self.phase = Phase::Closing;
                    return false;
                }
            };
            source.consume(decoded.consumed);
            match decoded.event {
                BodyEvent::Data(range) => {
                    self.dropped_bytes = self.dropped_bytes.saturating_add(range.len() as u32);
                    if self.dropped_bytes > desk.config.drain_bytes_max {
                        self.phase = Phase::Closing;
                        return false;
                    }
                }
                BodyEvent::Trailers(_) => {}
                BodyEvent::NeedMore => match self.take_input() {
                    // Received together with what was looked at, and all of it data.
                    Some(part) => *source = Source::Kept(part),
                    None => return false,
                },
                BodyEvent::End => {
                    let received = self.exchange.body_received();
                    debug_assert!(received.is_ok(), "a body was due");
                    let bytes = self.dropped_bytes;
                    if bytes > UNWANTED_BYTES_FREE {
                        self.score.add(unwanted_points(bytes));
                    }
                    return true;
                }
            }
        }
    }

    /// The first bytes of a head are there: it has a limited time from now on.
    fn begin_head(&mut self) {
        if self.exchange.request() == RequestState::Idle {
            let started = self.exchange.head_started();
            debug_assert!(started.is_ok(), "the request side was idle");
        }
    }
}
