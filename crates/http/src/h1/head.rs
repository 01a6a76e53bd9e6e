//! Steps of a connection through its requests: heads, handlers, bodies that nobody reads.

use ::core::ops::Range;

use http::Method;
use plimsoll_codec::h1::{
    self, BodyDecoder, BodyEvent, Exchange, FieldSlot, HeadSearch, Next, RequestState, RequestView,
};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::config::Http2;
use crate::base::counters::Shed;
use crate::base::exchange_end::{Course, ExchangeEnd};
use crate::base::preface::{Preface, preface};
use crate::base::proxy_header;
use crate::exchange::failure::{Failure, method_of};
use crate::exchange::handle::Ticket;
use crate::exchange::line::TableLine;
use crate::exchange::min_rate::Patience;
use crate::exchange::misbehaviour::{COMPLETED_POINTS, UNWANTED_BYTES_FREE, Verdict, unwanted_points};
use crate::exchange::source::Source;
use crate::h1::active::{Active, Deadline, EXCHANGE_BYTES};
use crate::h1::write_out::is_batch_full;
use crate::memory::lasting::ExchangeId;
use crate::memory::received::FEW_BYTES;
use crate::memory::wait::MemoryWait;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{Answered, NoRoom, Service};

/// Bytes of a request line that the access log gets at most; valid ones are never longer with the default limits.
const LOGGED_LINE_BYTES_MAX: usize = 8_192;
/// Fields of a head at most, whatever the configuration says.
const FIELDS_MAX: usize = h1::FIELDS_CEILING;
/// Fields of nearly every head. The table for them is made for each request; that for the most would be 2 KiB of zeros.
const FIELDS_USUAL: usize = 32;

/// What became of a step that may end the connection; the connection, unless it did.
enum Step {
    /// Go on.
    On(PoolBox<Active>),
    /// Something is not there yet.
    Wait(PoolBox<Active>),
    /// It speaks HTTP/2.
    Http2(PoolBox<Active>),
    Closed,
}

impl<S: Service> Engine<S> {
    /// Something changed on a connection: a handler answered, wrote, or wants to read.
    pub(crate) fn look_after(&mut self, key: Key) {
        match self.core.take(key) {
            Some(mut active) => {
                (active.listed, active.fed) = (false, false);
                self.drive(key, active, None);
            }
            None if self.core.is_websocket(key) => self.look_after_websocket(key),
            // One that was listed before it was parked may have a place already.
            None if self.core.is_unread(key) && self.core.is_in_queue(key) => {}
            None if self.core.is_unread(key) => self.readable_parked(key),
            None => self.look_after_http2(key),
        }
    }

    /// Goes on with a connection as far as it can.
    pub(crate) fn drive(&mut self, key: Key, mut active: PoolBox<Active>, fresh: Option<Bytes>) {
        let has_more = fresh.is_some();
        let kept = active.input.take();
        let Ok(mut source) = Source::join(&self.core, kept, fresh, || active.handler.is_some()) else {
            self.core.put(key, Connection::Active(active));
            return self.shed(key, Shed::Head);
        };
        // A handler that has answered may still read the body, or do something else.
        while active.handler.is_none() {
            if active.exchange.reset().is_ok() {
                self.next_exchange(key, &mut active);
            }
            let step = match active.exchange.next() {
                _ if active.awaits_proxy => self.proxy_header(key, active, &mut source),
                Next::ReadHead if !source.rest().is_empty() && self.may_begin(key, &active) => {
                    // It was read ahead, but has waited for this.
                    let has_turn = self.core.turns.is_serving(key) || active.memory == MemoryWait::Refused;
                    if !self.core.turns.is_free() && self.waits_for_turn(key, &active, source.rest()) {
                        active.listed = true;
                        break;
                    }
                    if !has_more && !has_turn && !self.core.may_follow_up(key) {
                        active.listed = true;
                        self.core.list_later(key);
                        break;
                    }
                    self.head(key, active, &mut source)
                }
                Next::Drain => match self.drain(&mut active, &mut source) {
                    true => Step::On(active),
                    false => break,
                },
                // The answer is on its way, to a peer that may take nothing of it before it has sent everything.
                Next::Close { linger: true } if active.exchange.request() == RequestState::Body && !active.closing => {
                    match self.drain(&mut active, &mut source) {
                        true => Step::On(active),
                        false => break,
                    }
                }
                _ => break,
            };
            match step {
                Step::On(back) => active = back,
                Step::Wait(back) => {
                    active = back;
                    break;
                }
                Step::Http2(back) => return self.become_http2(key, back, source),
                Step::Closed => return,
            }
        }
        if active.closing {
            source = Source::Empty;
            (active.parts, active.decoded_bytes) = (None, 0);
        }
        let kept = source.keep(&self.core).or_else(|source| {
            let spare = self.core.spare(key, &active, source.rest());
            spare.map_or(Err(source), |spare| Ok(Some(spare)))
        });
        match kept {
            Ok(kept) => active.input = kept,
            Err(_) => {
                self.core.put(key, Connection::Active(active));
                return self.shed(key, Shed::Head);
            }
        }
        // A handler that waits for the body looks again when more of it is there. What it has looked at in vain, such
        // as a part of a trailer section, may still be kept: that alone is no reason.
        if has_more
            && active.input.is_some()
            && let Some(reader) = active.reader.take()
        {
            reader.wake();
            active.fed = true;
            self.core.list_later(key);
        }
        self.settle(key, active);
    }

    /// All of an exchange is answered, and the next begins.
    fn next_exchange(&self, key: Key, active: &mut Active) {
        self.core.wait_no_longer(key, active);
        self.core.forget_client(key);
        active.answered.add(&mut active.course, self.core.counters());
        active.search = HeadSearch::default();
        active.dropped_bytes = 0;
        active.reader = None;
        active.writer = None;
        active.half_closed = false;
        active.method = Method::GET;
        (active.begun_at, active.collected, active.slot) = (None, None, None);
        if active.output.is_empty() {
            active.seat = None;
        }
        active.successor = None;
        (active.parts, active.trailers) = (None, None);
        active.score.forgive(COMPLETED_POINTS);
    }

    /// Whether the request that came waits for its turn. One that is refused does not, nor one for a marked route.
    #[cold]
    fn waits_for_turn(&self, key: Key, active: &Active, came: &[u8]) -> bool {
        active.memory != MemoryWait::Refused
            && !(self.core.has_marked() && self.begins_marked(came))
            && self.core.waits_for_turn(key)
    }

    /// Whether another request may be begun: there is room for its answer.
    fn may_begin(&self, key: Key, active: &Active) -> bool {
        let output = &active.output;
        let room = !output.has_tail() && output.gathered_bytes() < self.core.gather_bytes_max();
        let is_held_back = is_batch_full(&self.core, active) || self.core.holds_back();
        let waits = is_held_back && (!output.is_empty() || self.core.table.borrow().is_sending(key));
        room && !waits && !active.closing && !active.is_queued()
    }

    /// Looks for the header that says on whose behalf the proxy connects. A connection without one is closed without an
    /// answer.
    fn proxy_header(&mut self, key: Key, mut active: PoolBox<Active>, source: &mut Source) -> Step {
        let (origin, used) = match proxy_header::parse(source.rest()) {
            Ok(Some(found)) => found,
            Ok(None) => return Step::Wait(active),
            Err(proxy_header::Malformed) => {
                self.core.counters().shed(Shed::Misbehaviour);
                self.core.put(key, Connection::Active(active));
                self.close(key);
                return Step::Closed;
            }
        };
        source.consume(used);
        let mut table = self.core.table.borrow_mut();
        let found = self.core.peers.borrow_mut().found(key, origin, || table.peer_address(key).ok()?.ip());
        drop(table);
        (active.awaits_proxy, active.deadline) = (false, Deadline::None);
        if found.is_ok() {
            return Step::On(active);
        }
        self.core.put(key, Connection::LINGERING);
        self.finish_active(active, ExchangeEnd::Peer);
        self.refuse(key);
        Step::Closed
    }

    /// Looks for a head in what came and starts its handler.
    fn head(&mut self, key: Key, mut active: PoolBox<Active>, source: &mut Source) -> Step {
        let limits = &self.core.config.limits;
        let bytes = source.rest();
        if active.requests == 0 && self.core.config.http2 != Http2::Off {
            match (preface(bytes), self.core.config.http2) {
                (Preface::Whole, _) => return Step::Http2(active),
                (Preface::Part, _) => {
                    begin_head(&mut active);
                    return Step::Wait(active);
                }
                (Preface::Other, Http2::Only) => return self.refuse_http1(key, active, bytes),
                (Preface::Other, _) => {}
            }
        }
        let (mut usual, mut all, mut searched) = ([FieldSlot::EMPTY; FIELDS_USUAL], None, None);
        let mut slots = &mut usual[..limits.fields().min(FIELDS_USUAL)];
        // A head that has come in pieces was searched before, and is searched on.
        let whole = if active.search.started() { None } else { h1::parse_whole_head(bytes, slots, limits) };
        let (found, parsed) = match &whole {
            Some((len, parsed)) => (0..*len, parsed),
            None => {
                let Some(found) = self.search_head(key, &mut active, source) else { return Step::Wait(active) };
                let head = &source.rest()[found.clone()];
                let mut parsed = h1::parse_head(head, slots, limits);
                if parsed.is_err() && limits.fields() > FIELDS_USUAL {
                    // Perhaps it only has more fields than most.
                    slots = &mut all.insert([FieldSlot::EMPTY; FIELDS_MAX])[..limits.fields()];
                    parsed = h1::parse_head(head, slots, limits);
                }
                match parsed {
                    Ok(parsed) => (found, &*searched.insert(parsed)),
                    Err(error) => {
                        self.misbehaved(key, &mut active, source.rest(), error);
                        return Step::Wait(active);
                    }
                }
            }
        };
        let bytes = source.rest();
        let slots = &slots[..usize::from(parsed.fields)];
        let view = RequestView::new(&bytes[found.clone()], slots, parsed);
        let body = if parsed.framing.has_body() { Some(&bytes[found.end..]) } else { None };
        let has_body = body.is_some();
        if !has_body && bytes.len() - found.end > FEW_BYTES && source.is_borrowed() {
            // What came behind it is not lost when its handler takes the rest of the memory. The head is searched anew.
            return if source.place(&self.core).is_ok() { Step::On(active) } else { Step::Wait(active) };
        }
        if self.is_kept_out(key, &mut active, &view) {
            active.method = parsed.method.clone();
            if self.may_wait_to_begin(key, &mut active, has_body) {
                return Step::Wait(active);
            }
            self.refuse_request(key, &mut active, &view, has_body);
            source.consume(found.end);
            return Step::On(active);
        }
        let before = active.exchange;
        if self.begin(key, &mut active, &view, body).is_err() {
            self.put_off(key, &mut active, before, has_body);
            return Step::Wait(active);
        }
        let memory = ::core::mem::take(&mut active.memory);
        let (number, is_marked) = (active.requests, active.slot.is_some());
        self.core.put(key, Connection::Active(active));
        let used_before = self.core.used_before();
        let draws = is_marked && self.core.draw_for_marked();
        let answered = self
            .retried(key, |engine| engine.start(&view, slots, engine.core.ticket(ExchangeId::new(key, number, None))));
        self.core.end_draw(draws);
        let Some(mut active) = self.core.take(key) else { return Step::Closed };
        match answered {
            Ok(Answered::Ready) => {}
            Ok(Answered::Pending(handler)) => {
                active.handler = Some(handler);
                active.begun_at = Some(plimsoll_runtime::now());
            }
            Err(NoRoom) => {
                // It goes on waiting, for more than it was granted.
                active.memory = memory;
                self.put_off(key, &mut active, before, has_body);
                return Step::Wait(active);
            }
        }
        // What it was answered is its address's until it has left.
        if (used_before > 0 || active.seat.is_some()) && (active.handler.is_some() || !active.output.is_empty()) {
            active.seat = self.core.take_seat(key, EXCHANGE_BYTES, used_before);
        }
        if has_body {
            // The handler read from what was kept; what it left is there.
            *source = active.input.take().map_or(Source::Empty, Source::Kept);
        } else {
            source.consume(found.end);
        }
        Step::On(active)
    }

    /// Looks for a head that is not known to be there as a whole: where it is. What is found is forgotten until the
    /// request begins: one that waits for room is searched once more.
    fn search_head(&self, key: Key, active: &mut Active, source: &mut Source) -> Option<Range<usize>> {
        let (bytes, mut search) = (source.rest(), active.search);
        match search.search(bytes, &self.core.config.limits) {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {
                active.goes_on_with(search);
                active.method = method_of(bytes);
                source.consume(active.search.discard_skipped());
                if active.search.started() {
                    begin_head(active);
                }
            }
            Err(error) => self.misbehaved(key, active, bytes, error),
        }
        None
    }

    /// Whether a request may not be begun now: it is refused, or there is no room. One for a marked route may.
    fn is_kept_out(&mut self, key: Key, active: &mut Active, view: &RequestView<'_>) -> bool {
        let is_for_client = self.core.note_client(key, view).is_some();
        let is_refused = active.memory == MemoryWait::Refused;
        if !is_refused && !self.core.is_scarce() {
            return false;
        }
        if self.core.has_marked() {
            active.slot = self.marked_slot(view.path());
        }
        // For whom it is was not known before its head was.
        let is_admitted = active.memory == MemoryWait::Admitted && !is_for_client;
        active.slot.is_none() && (is_refused || !is_admitted && !self.has_room(key))
    }

    /// Starts the handler of a request.
    pub(crate) fn start(
        &mut self,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        ticket: Ticket,
    ) -> Result<Answered, NoRoom> {
        let Self { core, service, .. } = self;
        core.as_current(ticket.id.key(), || service.start(core, view, slots, ticket))
    }

    /// Prepares the exchange for its handler. `body` is what has come of the body already.
    fn begin(
        &self,
        key: Key,
        active: &mut Active,
        view: &RequestView<'_>,
        body: Option<&[u8]>,
    ) -> Result<(), OverBudget> {
        let config = &self.core.config;
        let parsed = view.request();
        let received = active.exchange.head_received(parsed);
        debug_assert!(received.is_ok(), "a head was due");
        self.core.counters().request();
        self.core.turns.begun();
        active.requests = active.requests.wrapping_add(1);
        active.must_finish = 0;
        active.batch = active.batch.saturating_add(1);
        active.patience = Patience::full(config.body_timeout);
        let is_last = self.core.is_stopping()
            || config.requests_max.is_some_and(|max| active.requests >= max)
            || active.score.verdict() != Verdict::Tolerated
            || self.core.is_too_old(active.born);
        if is_last {
            active.exchange.close_after();
        }
        if self.core.is_stopping() {
            self.core.asked_after_stop();
        }
        active.method = parsed.method.clone();
        active.version = parsed.version;
        active.course = Course::Running;
        active.sent_bytes = 0;
        active.decoder = BodyDecoder::new(parsed.framing, &config.limits);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            active.input = Some(self.core.pool.try_copy(body, Kind::Buffers)?);
        }
        self.note_line(key, active, view.head());
        Ok(())
    }

    /// Keeps the request line for the access log, if there is one.
    #[inline]
    fn note_line(&self, key: Key, active: &mut Active, bytes: &[u8]) {
        if self.core.log.is_some() {
            self.keep_line(key, active, bytes);
        }
    }

    /// What was sent up to the end of the line, or so much of it as a log has use for.
    fn keep_line(&self, key: Key, active: &mut Active, bytes: &[u8]) {
        let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
        let line = &line[..line.len().min(LOGGED_LINE_BYTES_MAX)];
        active.line = self.core.pool.try_copy(line, Kind::Buffers).ok();
        if active.peer.is_none() {
            active.peer = self.core.peer_address(key);
        }
    }

    /// The peer broke the protocol in a head that begins with `bytes`.
    fn misbehaved(&self, key: Key, active: &mut Active, bytes: &[u8], error: plimsoll_codec::Error) {
        self.note_line(key, active, bytes);
        self.core.counters().shed(Shed::Misbehaviour);
        active.method = method_of(bytes);
        let _failed_before = active.exchange.request_failed();
        self.core.fail(active, error);
    }

    /// A listener for HTTP/2 alone was sent something else: only who speaks HTTP/1 understands an answer.
    fn refuse_http1(&mut self, key: Key, mut active: PoolBox<Active>, bytes: &[u8]) -> Step {
        self.core.counters().shed(Shed::Misbehaviour);
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if !line.trim_ascii_end().windows(8).any(|word| word.starts_with(b" HTTP/1.")) {
            self.core.put(key, Connection::Active(active));
            self.close(key);
            return Step::Closed;
        }
        active.method = method_of(bytes);
        let _failed_before = active.exchange.request_failed();
        self.core.fail(&mut active, Failure::HTTP2_ONLY);
        Step::Wait(active)
    }

    /// Whether a request may be begun as far as memory and other handlers go: nobody else waits for it, and there is
    /// some.
    pub(crate) fn has_room(&mut self, key: Key) -> bool {
        if self.core.has_all_handlers() || self.core.is_drawn() {
            return false;
        }
        // The queue is looked through only for who might be begun: it may be long.
        if !self.core.may_hold_more(key) {
            return false;
        }
        let is_next = self.core.fed.get() == Some(key) || self.core.is_newcomer(key);
        let overtakes = self.core.is_starving() && !is_next && self.core.is_turn_of_others(key);
        !overtakes && self.retried(key, |engine| engine.core.try_room(key)).is_ok()
    }

    /// Whether memory is short and a request may not be begun for that.
    pub(crate) fn lacks_room(&mut self, key: Key) -> bool {
        self.core.is_scarce() && !self.has_room(key)
    }

    /// Has a request wait for room as if it had not been looked at yet.
    fn put_off(&self, key: Key, active: &mut Active, before: Exchange, has_body: bool) {
        self.core.counters().request_put_off();
        (active.exchange, active.course) = (before, Course::None);
        active.requests = active.requests.wrapping_sub(1);
        active.batch = active.batch.saturating_sub(1);
        (active.input, active.line) = (None, None);
        if !self.may_wait_to_begin(key, active, has_body) {
            let _failed_before = active.exchange.request_failed();
            self.core.shed_for_room(Shed::Body);
            self.core.fail(active, Failure::NO_ROOM);
        }
    }

    /// Whether a request waits for room from now on: for longer if it brings a body. One that has waited does not wait
    /// again.
    fn may_wait_to_begin(&self, key: Key, active: &mut Active, has_body: bool) -> bool {
        let may_wait = !matches!(active.memory, MemoryWait::TimedOut | MemoryWait::Refused);
        let waits = may_wait && self.core.starve(key, active, Priority::Head, REQUEST_ROOM_BYTES).is_ok();
        if waits && has_body {
            active.memory.expect_body();
        }
        waits
    }

    /// Answers a request for which there is no room, without having begun it. Its connection lives, unless a body would
    /// have to be read or the place is needed for the next connection.
    fn refuse_request(&self, key: Key, active: &mut Active, view: &RequestView<'_>, has_body: bool) {
        let parsed = view.request();
        let received = active.exchange.head_received(parsed);
        debug_assert!(received.is_ok(), "a head was due");
        if has_body || self.core.lacks_places() {
            active.exchange.close_after();
        }
        if active.memory == MemoryWait::Refused || self.core.has_all_handlers() {
            self.core.shed_for_cpu();
        } else {
            self.core.shed_for_room(Shed::Queue);
        }
        active.memory = MemoryWait::None;
        active.requests = active.requests.wrapping_add(1);
        (active.method, active.version, active.sent_bytes) = (parsed.method.clone(), parsed.version, 0);
        active.decoder = BodyDecoder::new(parsed.framing, &self.core.config.limits);
        self.note_line(key, active, view.head());
        if self.core.refuse(&mut TableLine::new(&self.core.table, key), key, active).is_err() {
            self.core.fail(active, Failure::NO_ROOM);
        }
    }

    /// Drops a body that nobody reads any more; whether all of it.
    fn drain(&self, active: &mut Active, source: &mut Source) -> bool {
        let decoded_bytes = ::core::mem::take(&mut active.decoded_bytes);
        source.consume(decoded_bytes as usize);
        active.dropped_bytes = active.dropped_bytes.saturating_add(decoded_bytes);
        loop {
            let decoded = match active.decoder.decode(source.rest()) {
                Ok(decoded) => decoded,
                Err(_) => {
                    active.closing = true;
                    return false;
                }
            };
            source.consume(decoded.consumed);
            match decoded.event {
                BodyEvent::Data(range) => {
                    active.dropped_bytes = active.dropped_bytes.saturating_add(range.len() as u32);
                    if active.dropped_bytes > self.core.config.drain_bytes_max {
                        active.closing = true;
                        return false;
                    }
                }
                BodyEvent::Trailers(_) => {}
                BodyEvent::NeedMore => match active.take_input() {
                    // Received together with what was looked at, and all of it data.
                    Some(part) => *source = Source::Kept(part),
                    None => return false,
                },
                BodyEvent::End => {
                    let received = active.exchange.body_received();
                    debug_assert!(received.is_ok(), "a body was due");
                    let bytes = active.dropped_bytes;
                    if bytes > UNWANTED_BYTES_FREE {
                        active.score.add(unwanted_points(bytes));
                    }
                    return true;
                }
            }
        }
    }
}

/// The first bytes of a head are there: it has a limited time from now on.
fn begin_head(active: &mut Active) {
    if active.exchange.request() == RequestState::Idle {
        let started = active.exchange.head_started();
        debug_assert!(started.is_ok(), "the request side was idle");
    }
}
