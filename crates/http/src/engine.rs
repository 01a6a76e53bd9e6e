//! The server of one worker: takes the table's events and steps each connection's state.
//!
//! Nothing waits in here. A step ends when the connection needs something that is not there: more bytes, room in the socket, or its handler. Each
//! of these comes back as an event of the table, or as an entry in the list that handlers write to.

use ::core::cell::RefMut;
use ::core::future::{Future, poll_fn};
use ::core::task::Poll;
use std::rc::Rc;

use http::StatusCode;
use plimsoll_codec::h1::{
    self, BodyDecoder, BodyEvent, FieldSlot, Framing, HeadSearch, Next, RequestState, RequestView, ResponseState,
};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::{Bytes, Event, Table};
use plimsoll_runtime::{Kind, Lease, OverBudget, SendBytes, signal, sleep_until};
use plimsoll_slab::Key;

use crate::connection::{Active, Connection};
use crate::core::{Core, Ticket};
use crate::counters::Shed;
use crate::server::{Answered, Service};

/// Fields of a head at most, whatever the configuration says.
const FIELDS_MAX: usize = h1::FIELDS_CEILING;
/// The size of a receive buffer of its own, for bodies that come faster than small receives bring them.
const BULK_BYTES: usize = 64 * 1024;
/// A receive that brought so many bytes was full.
const FULL_BYTES: usize = 16 * 1024;

/// Runs the server until the runtime is asked to stop and its connections have ended.
pub(crate) async fn run<S: Service>(core: Rc<Core>, service: S) {
    let mut engine = Engine { core, service };
    while !engine.turn_until(signal::stopped()).await {}
    engine.begin_stop();
    let deadline = plimsoll_runtime::now() + engine.core.config.drain_timeout;
    let mut out_of_time = sleep_until(deadline);
    while !engine.is_drained() {
        if engine.turn_until(&mut out_of_time).await {
            break;
        }
    }
}

struct Engine<S> {
    core: Rc<Core>,
    service: S,
}

/// Bytes that a step works on: what was kept from before with what has just come.
enum Source {
    Empty,
    /// Just come, and nothing was kept; used up to here.
    Fresh(Bytes, usize),
    /// Kept.
    Kept(Lease),
}

impl Source {
    fn join(core: &Core, kept: Option<Lease>, fresh: Option<Bytes>) -> Result<Self, OverBudget> {
        let Some(mut kept) = kept else {
            return Ok(fresh.map_or(Self::Empty, |bytes| Self::Fresh(bytes, 0)));
        };
        let Some(fresh) = fresh else { return Ok(Self::Kept(kept)) };
        if kept.spare_capacity() < fresh.len() {
            let mut larger = core.pool.try_acquire(kept.len() + fresh.len(), Kind::Buffers)?;
            larger.extend(&kept);
            kept = larger;
        }
        let taken = kept.extend(&fresh);
        debug_assert_eq!(taken, fresh.len(), "room was made");
        Ok(Self::Kept(kept))
    }

    /// The bytes that were not used yet.
    fn rest(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Fresh(bytes, used) => &bytes[*used..],
            Self::Kept(lease) => lease,
        }
    }

    fn consume(&mut self, bytes: usize) {
        match self {
            Self::Empty => debug_assert_eq!(bytes, 0),
            Self::Fresh(_, used) => *used += bytes,
            Self::Kept(lease) => lease.consume(bytes),
        }
    }

    /// The rest, to be kept beyond this turn.
    fn keep(self, core: &Core) -> Result<Option<Lease>, OverBudget> {
        match self {
            _ if self.rest().is_empty() => Ok(None),
            Self::Empty => Ok(None),
            Self::Fresh(Bytes::Owned(mut lease), used) => {
                lease.consume(used);
                Ok(Some(lease))
            }
            Self::Fresh(Bytes::Borrowed(_), _) => core.pool.try_copy(self.rest(), Kind::Buffers).map(Some),
            Self::Kept(lease) => Ok(Some(lease)),
        }
    }
}

/// What became of a step, and the connection unless it was closed.
enum Step {
    /// Go on.
    On(PoolBox<Active>),
    /// Something is not there yet.
    Wait(PoolBox<Active>),
    Closed,
}

impl<S: Service> Engine<S> {
    /// One turn; `true` when `end` came.
    async fn turn_until(&mut self, end: impl Future<Output = ()>) -> bool {
        let mut end = ::core::pin::pin!(end);
        let core = Rc::clone(&self.core);
        let ended = poll_fn(|cx| {
            if end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            let listed = core.poll_listed(cx).is_ready();
            let ready = core.table.borrow_mut().poll_ready(cx).is_ready();
            if listed || ready { Poll::Ready(false) } else { Poll::Pending }
        })
        .await;
        core.tick();
        loop {
            let event = core.table.borrow_mut().next();
            let Some(event) = event else { break };
            self.step(event);
        }
        while let Some(key) = core.next_listed() {
            self.look_after(key);
        }
        ended
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Accepted(key) => self.accepted(key),
            Event::Received(key, bytes) => self.received(key, bytes),
            Event::Sent(key, rest) => self.sent(key, rest),
            Event::Ended(key) => self.ended(key),
            Event::PeerClosed(key) | Event::Failed(key, _) => self.close(key),
            Event::Due(key) => self.due(key),
        }
    }

    fn accepted(&mut self, key: Key) {
        self.core.counters().accepted();
        let mut table = self.core.table.borrow_mut();
        table.schedule(key, self.core.config.keep_alive_timeout);
        if table.receive(key).is_err() {
            drop(table);
            self.shed(key, Shed::Accept);
        }
    }

    fn received(&mut self, key: Key, bytes: Bytes) {
        let taken = {
            let mut table = self.core.table.borrow_mut();
            table.get_mut(key).map(|connection| ::core::mem::replace(connection, Connection::Taken))
        };
        match taken {
            Some(Connection::Parked { requests }) => {
                let active = Active::new(requests, &self.core.config.limits);
                match self.core.pool.try_boxed(active, Kind::Codec) {
                    Ok(active) => {
                        self.core.counters().active(1);
                        self.drive(key, active, Some(bytes));
                    }
                    Err(_) => self.shed(key, Shed::Head),
                }
            }
            Some(Connection::Active(mut active)) => {
                active.bulk = bytes.len() >= FULL_BYTES;
                self.drive(key, active, Some(bytes));
            }
            Some(Connection::Lingering { dropped_bytes }) => self.linger_on(key, dropped_bytes, bytes),
            Some(Connection::Taken) | None => debug_assert!(false, "a connection is put back before its next event"),
        }
    }

    fn linger_on(&mut self, key: Key, dropped_bytes: u32, bytes: Bytes) {
        let dropped_bytes = dropped_bytes.saturating_add(bytes.len() as u32);
        drop(bytes);
        self.core.put(key, Connection::Lingering { dropped_bytes });
        let too_many = dropped_bytes > self.core.config.drain_bytes_max;
        if too_many || self.core.table.borrow_mut().receive(key).is_err() {
            self.close(key);
        }
    }

    /// Something changed on a connection: a handler answered, wrote, or wants to read.
    fn look_after(&mut self, key: Key) {
        if let Some(mut active) = self.core.take(key) {
            active.listed = false;
            self.drive(key, active, None);
        }
    }

    /// Goes on with a connection as far as it can.
    fn drive(&mut self, key: Key, mut active: PoolBox<Active>, fresh: Option<Bytes>) {
        let Ok(mut source) = Source::join(&self.core, active.input.take(), fresh) else {
            self.core.put(key, Connection::Active(active));
            return self.shed(key, Shed::Head);
        };
        loop {
            let step = match active.exchange.next() {
                Next::Reset => self.next_exchange(active),
                Next::ReadHead if self.may_begin(&active) => self.head(key, active, &mut source),
                Next::Drain => self.drain(active, &mut source),
                _ => Step::Wait(active),
            };
            match step {
                Step::On(back) => active = back,
                Step::Wait(back) => {
                    active = back;
                    break;
                }
                Step::Closed => return,
            }
        }
        if active.closing {
            source = Source::Empty;
        }
        match source.keep(&self.core) {
            Ok(kept) => active.input = kept,
            Err(_) => {
                self.core.put(key, Connection::Active(active));
                return self.shed(key, Shed::Head);
            }
        }
        // A handler that waits for the body looks again when more of it is there.
        if active.input.is_some()
            && let Some(reader) = active.reader.take()
        {
            reader.wake();
        }
        self.settle(key, active);
    }

    fn next_exchange(&self, mut active: PoolBox<Active>) -> Step {
        let reset = active.exchange.reset();
        debug_assert!(reset.is_ok(), "the exchange asked for it");
        active.search = HeadSearch::default();
        active.dropped_bytes = 0;
        active.reader = None;
        active.writer = None;
        Step::On(active)
    }

    /// Whether another request may be begun: there is room for its answer, and the one before has left its handler.
    fn may_begin(&self, active: &Active) -> bool {
        let room = !active.output.has_tail() && active.output.gathered_bytes() < self.core.config.output_bytes_max;
        room && !active.closing && active.handler.is_none()
    }

    /// Looks for a head and starts its handler.
    fn head(&mut self, key: Key, mut active: PoolBox<Active>, source: &mut Source) -> Step {
        let limits = &self.core.config.limits;
        let bytes = source.rest();
        if bytes.is_empty() {
            return Step::Wait(active);
        }
        let found = match active.search.search(bytes, limits) {
            Ok(Some(range)) => range,
            Ok(None) => {
                let skipped = active.search.discard_skipped();
                source.consume(skipped);
                if active.search.started() && active.exchange.request() == RequestState::Idle {
                    let started = active.exchange.head_started();
                    debug_assert!(started.is_ok(), "the request side was idle");
                    self.core.table.borrow_mut().schedule(key, self.core.config.head_timeout);
                }
                return Step::Wait(active);
            }
            Err(error) => return Step::Wait(self.misbehaved(active, error)),
        };
        let mut slots = [FieldSlot::EMPTY; FIELDS_MAX];
        let head = &bytes[found.clone()];
        let parsed = match h1::parse_head(head, &mut slots[..limits.fields()], limits) {
            Ok(parsed) => parsed,
            Err(error) => return Step::Wait(self.misbehaved(active, error)),
        };
        let slots = &slots[..usize::from(parsed.fields)];
        let view = RequestView::new(head, slots, &parsed);
        let body = match parsed.framing {
            Framing::None | Framing::Length(0) => None,
            _ => Some(&bytes[found.end..]),
        };
        if self.begin(key, &mut active, &view, body).is_err() {
            return Step::Wait(self.no_room(active));
        }
        let ticket = Ticket::new(&self.core, key, active.requests);
        self.core.put(key, Connection::Active(active));
        let core = Rc::clone(&self.core);
        let answered = core.as_current(key, || self.service.start(&core, &view, slots, ticket));
        let Some(mut active) = core.take(key) else { return Step::Closed };
        let has_body = body.is_some();
        match answered {
            Answered::Ready => {}
            Answered::Pending(handler) => active.handler = Some(handler),
            Answered::NoRoom => return Step::Wait(self.no_room(active)),
        }
        if has_body {
            // The handler read from what was kept; what it left is there.
            *source = active.input.take().map_or(Source::Empty, Source::Kept);
        } else {
            source.consume(found.end);
        }
        Step::On(active)
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
        active.requests = active.requests.wrapping_add(1);
        if signal::is_stopping() || config.requests_max.is_some_and(|max| active.requests >= max) {
            active.exchange.close_after();
        }
        active.method = parsed.method.clone();
        active.version = parsed.version;
        active.sent_bytes = 0;
        active.decoder = BodyDecoder::new(parsed.framing, &config.limits);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            active.input = Some(self.core.pool.try_copy(body, Kind::Buffers)?);
        }
        if self.core.log.is_some() {
            let line = view.head().split(|&byte| byte == b'\r').next().unwrap_or_default();
            active.line = self.core.pool.try_copy(line, Kind::Buffers).ok();
            if active.peer.is_none() {
                active.peer = self.core.table.borrow_mut().peer_address(key).ok();
            }
        }
        Ok(())
    }

    fn misbehaved(&self, mut active: PoolBox<Active>, error: plimsoll_codec::Error) -> PoolBox<Active> {
        self.core.counters().shed(Shed::Misbehaviour);
        let _failed_before = active.exchange.request_failed();
        self.core.fail(&mut active, error.status());
        active
    }

    fn no_room(&self, mut active: PoolBox<Active>) -> PoolBox<Active> {
        self.core.counters().shed(Shed::Body);
        self.core.fail(&mut active, StatusCode::SERVICE_UNAVAILABLE);
        active
    }

    /// Drops a body that nobody reads any more.
    fn drain(&self, mut active: PoolBox<Active>, source: &mut Source) -> Step {
        loop {
            let decoded = match active.decoder.decode(source.rest()) {
                Ok(decoded) => decoded,
                Err(_) => {
                    active.closing = true;
                    return Step::Wait(active);
                }
            };
            source.consume(decoded.consumed);
            match decoded.event {
                BodyEvent::Data(range) => {
                    active.dropped_bytes = active.dropped_bytes.saturating_add(range.len() as u32);
                    if active.dropped_bytes > self.core.config.drain_bytes_max {
                        active.closing = true;
                        return Step::Wait(active);
                    }
                }
                BodyEvent::Trailers(_) => {}
                BodyEvent::NeedMore => return Step::Wait(active),
                BodyEvent::End => {
                    let received = active.exchange.body_received();
                    debug_assert!(received.is_ok(), "a body was due");
                    return Step::On(active);
                }
            }
        }
    }

    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    fn settle(&mut self, key: Key, mut active: PoolBox<Active>) {
        let core = Rc::clone(&self.core);
        let mut borrowed = core.table.borrow_mut();
        let table = &mut *borrowed;
        let flushed = active.output.flush(&core.pool, table, key);
        let sending = table.is_sending(key);
        let next = active.exchange.next();
        let ends = active.closing || matches!(next, Next::Close { .. } | Next::Upgraded);
        if !active.output.has_tail()
            && active.output.gathered_bytes() <= core.config.output_bytes_max / 2
            && let Some(writer) = active.writer.take()
        {
            writer.wake();
        }
        if next == Next::ReadHead && active.is_parkable() && !ends && flushed.is_ok() {
            return self.park(key, active, borrowed);
        }
        let after = if ends && !sending && active.output.is_empty() {
            After::Close
        } else {
            match flushed.and_then(|()| arm(&core, table, key, &active, next)) {
                Ok(()) => After::Stay,
                Err(_) => After::Shed,
            }
        };
        schedule(&core, table, key, &active, sending || ends);
        *table.get_mut(key).expect("a live connection") = Connection::Active(active);
        drop(borrowed);
        match after {
            After::Stay => {}
            After::Close => self.close_gently(key),
            After::Shed => self.shed(key, Shed::Output),
        }
    }

    /// Nothing is left to do but to wait for the next request.
    fn park(&mut self, key: Key, active: PoolBox<Active>, mut table: RefMut<'_, Table<Connection>>) {
        let config = &self.core.config;
        let sending = table.is_sending(key);
        table.schedule(key, if sending { config.send_timeout } else { config.keep_alive_timeout });
        *table.get_mut(key).expect("a live connection") = Connection::Parked { requests: active.requests };
        let receiving = table.receive(key);
        drop(table);
        drop(active);
        self.core.counters().active(-1);
        if receiving.is_err() {
            self.core.counters().shed(Shed::Parked);
            self.close(key);
        } else if signal::is_stopping() && !sending {
            self.close(key);
        }
    }

    fn sent(&mut self, key: Key, rest: SendBytes) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        if !rest.is_empty() {
            table.schedule(key, core.config.send_timeout);
            let sent = table.send(key, rest);
            drop(table);
            if sent.is_err() {
                core.counters().shed(Shed::Output);
                self.close(key);
            }
            return;
        }
        let receiving = table.is_receiving(key);
        match table.get_mut(key) {
            Some(Connection::Parked { .. }) if !signal::is_stopping() => {
                table.schedule(key, core.config.keep_alive_timeout)
            }
            Some(Connection::Active(_)) => {
                drop(table);
                self.look_after(key);
            }
            Some(Connection::Lingering { .. }) if receiving => {}
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// The peer has sent all it will send.
    fn ended(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let sending = table.is_sending(key);
        match table.get_mut(key) {
            Some(connection @ Connection::Parked { .. }) if sending => {
                *connection = Connection::Lingering { dropped_bytes: 0 };
            }
            Some(Connection::Active(active)) => {
                active.exchange.peer_closed();
                if let Some(reader) = active.reader.take() {
                    reader.wake();
                }
                if active.handler.is_none() && active.exchange.request() == RequestState::Error {
                    active.closing = true;
                }
                drop(table);
                self.look_after(key);
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// A deadline has come.
    fn due(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let sending = table.is_sending(key);
        let reason = match table.get_mut(key) {
            _ if sending => Shed::Output,
            Some(Connection::Active(active)) if !active.closing && active.handler.is_none() => {
                // A head that never ends.
                let _failed_before = active.exchange.request_failed();
                core.fail(active, StatusCode::REQUEST_TIMEOUT);
                core.counters().shed(Shed::Timeout);
                drop(table);
                return self.look_after(key);
            }
            Some(Connection::Active(active)) if active.reader.is_some() => {
                // A body that never ends: the handler answers as it likes, then the connection is closed.
                let _failed_before = active.exchange.request_failed();
                if let Some(reader) = active.reader.take() {
                    reader.wake();
                }
                core.counters().shed(Shed::Timeout);
                return;
            }
            _ => {
                drop(table);
                return self.close(key);
            }
        };
        drop(table);
        core.counters().shed(reason);
        self.close(key);
    }

    /// Closes a connection whose answer has been sent, so that the peer sees the answer: our half first, the rest when the peer has closed
    /// its own, or after a while.
    fn close_gently(&mut self, key: Key) {
        let Some(mut active) = self.core.take(key) else { return self.close(key) };
        self.core.log_streamed(&mut active);
        let handler = active.handler.take();
        drop(active);
        self.core.counters().active(-1);
        let mut table = self.core.table.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, self.core.config.linger_timeout);
        *table.get_mut(key).expect("a live connection") = Connection::Lingering { dropped_bytes: 0 };
        let receiving = table.receive(key);
        drop(table);
        if let Some(handler) = handler {
            handler.abort();
        }
        if receiving.is_err() {
            self.close(key);
        }
    }

    /// Lets go of a connection for which there is no room, with a 503 from static bytes if nothing of an answer was sent.
    fn shed(&mut self, key: Key, reason: Shed) {
        self.core.counters().shed(reason);
        let mut table = self.core.table.borrow_mut();
        let connection = table
            .get_mut(key)
            .map(|connection| ::core::mem::replace(connection, Connection::Lingering { dropped_bytes: 0 }));
        let silent = table.is_sending(key);
        drop(table);
        let begun = match connection {
            Some(Connection::Active(active)) => {
                let begun = !matches!(active.exchange.response(), ResponseState::Idle | ResponseState::Head);
                self.finish_active(active);
                begun
            }
            _ => false,
        };
        let mut table = self.core.table.borrow_mut();
        let told = !silent && !begun && table.send(key, SendBytes::Static(OVERLOADED)).is_ok();
        table.schedule(key, self.core.config.linger_timeout);
        drop(table);
        if told {
            self.core.counters().response(StatusCode::SERVICE_UNAVAILABLE.as_u16());
        } else {
            self.close(key);
        }
    }

    fn finish_active(&self, mut active: PoolBox<Active>) {
        self.core.counters().active(-1);
        self.core.log_streamed(&mut active);
        let handler = active.handler.take();
        drop(active);
        if let Some(handler) = handler {
            handler.abort();
        }
    }

    /// Closes a connection at once. A handler that still runs is dropped.
    fn close(&mut self, key: Key) {
        let mut table = self.core.table.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let connection = table.close(key);
        drop(table);
        self.core.counters().closed();
        if let Connection::Active(active) = connection {
            self.finish_active(active);
        }
    }

    /// No new connections, and no new requests on those that are parked.
    fn begin_stop(&mut self) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        table.stop_accepting();
        let keys: Vec<Key> = table.keys().collect();
        let mut parked = Vec::new();
        for key in keys {
            let sending = table.is_sending(key);
            match table.get_mut(key) {
                Some(Connection::Active(active)) => active.exchange.close_after(),
                Some(Connection::Parked { .. }) if !sending => parked.push(key),
                _ => {}
            }
        }
        drop(table);
        for key in parked {
            self.close(key);
        }
    }

    fn is_drained(&self) -> bool {
        let table = self.core.table.borrow();
        table.is_empty() && !table.is_accepting()
    }
}

enum After {
    Stay,
    Close,
    Shed,
}

/// Arms what the exchange waits for.
fn arm(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active, next: Next) -> Result<(), OverBudget> {
    match next {
        // Output that the peer does not take stops further reads from it.
        Next::ReadHead if !active.output.is_empty() || active.closing => Ok(()),
        Next::ReadHead | Next::Drain => table.receive(key),
        Next::ReadBody if active.reader.is_some() && active.bulk && !table.is_receiving(key) => {
            match core.pool.try_acquire(BULK_BYTES, Kind::Buffers) {
                Ok(lease) => table.receive_into(key, lease),
                Err(_) => table.receive(key),
            }
        }
        Next::ReadBody if active.reader.is_some() => table.receive(key),
        Next::ReadBody | Next::Answer => table.watch(key),
        Next::AnswerError | Next::Reset | Next::Close { .. } | Next::Upgraded => Ok(()),
    }
}

/// Sets the deadline that fits what the connection waits for.
fn schedule(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active, sends: bool) {
    if sends {
        table.schedule(key, core.config.send_timeout);
    } else if active.reader.is_some() {
        table.schedule(key, core.config.body_timeout);
    } else if active.handler.is_some() {
        table.unschedule(key);
    } else if active.exchange.request() != RequestState::Head {
        table.schedule(key, core.config.body_timeout);
    }
}

/// What a connection is told that there is no room for.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
