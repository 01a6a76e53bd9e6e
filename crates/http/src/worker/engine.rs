//! The server of one worker: takes the table's events and steps each connection's state.
//!
//! Nothing waits in here. A step ends when the connection needs something that is not there: more bytes, room in the
//! socket, or its handler. Each of these comes back as an event of the table, or as an entry in the list that handlers
//! write to.

use ::core::future::{Future, poll_fn};
use ::core::task::Poll;
use ::core::time::Duration;
use std::rc::{Rc, Weak};

use http::StatusCode;
use plimsoll_codec::h1::{Next, RequestState};
use plimsoll_runtime::net::transport::Handshake;
use plimsoll_runtime::net::{Bytes, Event, SocketOption, Table};
use plimsoll_runtime::{Errno, Instant, Result, SendBytes, signal, sleep, sleep_until, spawn};
use plimsoll_slab::Key;

use crate::base::config::{ProxyProtocol, TcpOptions};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::peers::by_ip;
use crate::base::stop::ServerHandle;
use crate::exchange::line::TableLine;
use crate::exchange::misbehaviour::Score;
use crate::exchange::output::compacted;
use crate::memory::wait::MemoryWait;
use crate::websocket::Port;
use crate::worker::connection::{Connection, Rest};
use crate::worker::handshakes::Handshakes;
use crate::worker::pressure::Overload;
use crate::worker::recall;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;
use crate::worker::stay_bytes::waiting_handler_bytes;

/// Runs the server until the runtime, or this server, is asked to stop and its connections have ended.
pub(crate) async fn run<S: Service>(worker: Rc<WorkerState>, service: S, handle: ServerHandle) -> Result<()> {
    let _recalling = recall::begin(&worker);
    // In a task of its own: what is asked in each turn is a flag.
    let _stop_watch = spawn(watch_stop(Rc::downgrade(&worker), handle))?.abort_on_drop();
    let mut engine = Engine::new(worker, service);
    engine.look_for_marked();
    let worker = Rc::clone(&engine.worker);
    let mut end = poll_fn(|_| if worker.is_stopping() { Poll::Ready(()) } else { Poll::Pending });
    while !engine.turn_until(&mut end).await {}
    let deadline = plimsoll_runtime::now() + engine.worker.config.drain_timeout;
    let mut out_of_time = sleep_until(deadline);
    engine.begin_stop();
    let mut at_least = sleep(HANDSHAKES_MIN);
    while !engine.turn_until(&mut at_least).await {}
    let mut at_most = sleep(HANDSHAKES_MAX);
    while engine.has_connections() && !engine.turn_until(&mut at_most).await {}
    engine.worker.table.borrow_mut().stop_accepting();
    while !engine.is_drained() {
        if engine.turn_until(&mut out_of_time).await {
            break;
        }
    }
    engine.worker.tell_of_the_last_refusals();
    Ok(())
}

/// Waits until the runtime or this server is asked to stop, and has the engine look.
async fn watch_stop(worker: Weak<WorkerState>, handle: ServerHandle) {
    let (mut stopped, mut asked) = (::core::pin::pin!(signal::stopped()), ::core::pin::pin!(handle.asked()));
    poll_fn(|cx| match stopped.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => asked.as_mut().poll(cx),
    })
    .await;
    if let Some(worker) = worker.upgrade() {
        worker.stops();
        worker.wake_engine();
    }
}

/// So long after the stop connections are still taken in whose handshake had begun: their clients may have sent a
/// request already, which the close of the listener would lose. At least: as long as it takes on this machine. At most:
/// while there are others, which are waited for anyway.
const HANDSHAKES_MIN: Duration = Duration::from_millis(2);
const HANDSHAKES_MAX: Duration = Duration::from_millis(100);

/// Bytes that are dropped of who sends on though nothing more is asked for.
const UNASKED_BYTES_MAX: u32 = 64 * 1_024;
/// So long the events of others may wait for the handlers of bodies that come fast.
const GIVES_WAY_FOR: Duration = Duration::from_millis(5);

pub(crate) struct Engine<S: Service> {
    pub(crate) worker: Rc<WorkerState>,
    pub(crate) service: S,
    /// How those who have a WebSocket of the table reach it.
    pub(crate) sockets: Rc<Port>,
    pub(crate) overload: Overload,
    /// Where connections are carried by TLS.
    pub(crate) handshakes: Option<Box<Handshakes>>,
    /// A handler has just been given much of a body: it has its turn before there is more for another, which is then
    /// received into the same memory, still in the processor's caches.
    pub(crate) gives_way: bool,
    /// It has had a turn in this poll of its task. Another one waits for the next: what is there to do may need what
    /// the driver has to tell.
    has_turned: bool,
    /// When all events had been dealt with last. Only then are new connections and deadlines looked at: that is not put
    /// off for long.
    drained_at: Instant,
}

/// A handler that still runs keeps the table alive, so connections are not closed by dropping that: nobody would take
/// its events any more.
impl<S: Service> Drop for Engine<S> {
    fn drop(&mut self) {
        self.worker.release_kept();
        self.close_all();
        let counters = self.worker.counters();
        counters.engine(-1);
        debug_assert!(::std::thread::panicking() || counters.has_ended(), "what was begun has ended");
    }
}

impl<S: Service> Engine<S> {
    pub(crate) fn new(worker: Rc<WorkerState>, service: S) -> Self {
        worker.lasting.know_handlers(waiting_handler_bytes(service.handler_bytes()));
        let overload = Overload::new(&worker);
        let sockets = Port::new(worker.clone());
        let shakes_hands = worker.table.borrow().shakes_hands();
        let handshakes = shakes_hands.then(|| Handshakes::new(&worker.pool, &worker.config, worker.line_share()));
        worker.counters().engine(1);
        Self {
            worker,
            service,
            sockets,
            overload,
            handshakes,
            gives_way: false,
            has_turned: false,
            drained_at: plimsoll_runtime::now(),
        }
    }

    /// One turn; `true` when `end` came.
    async fn turn_until(&mut self, end: impl Future<Output = ()>) -> bool {
        let mut end = ::core::pin::pin!(end);
        let worker = Rc::clone(&self.worker);
        let ended = poll_fn(|cx| {
            let has_turned = ::core::mem::take(&mut self.has_turned);
            if ::core::mem::take(&mut self.gives_way) {
                worker.end_turn(cx);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            let listed = worker.poll_listed(cx).is_ready();
            let ready = worker.table.borrow_mut().poll_ready(cx).is_ready();
            let is_short = worker.has_waiting() || self.overload.is_awaited();
            let is_ready = listed
                || ready
                || worker.turns.are_awaited()
                || self.handshakes.as_mut().is_some_and(|handshakes| handshakes.poll(cx).is_ready())
                || (is_short && self.overload.poll(&worker, cx).is_ready());
            if is_ready && !has_turned {
                return Poll::Ready(false);
            }
            if is_ready {
                worker.look_again();
                cx.waker().wake_by_ref();
            }
            worker.end_turn(cx);
            Poll::Pending
        })
        .await;
        worker.begin_turn();
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.begin_turn();
        }
        loop {
            let event = worker.table.borrow_mut().next();
            let Some(event) = event else {
                self.drained_at = plimsoll_runtime::now();
                break;
            };
            self.step(event);
            self.gives_way = self.gives_way && plimsoll_runtime::now().since(self.drained_at) < GIVES_WAY_FOR;
            if self.gives_way || self.has_enough() {
                break;
            }
        }
        while let Some(key) = worker.next_listed() {
            if let Some(handshakes) = &mut self.handshakes {
                handshakes.note_others();
            }
            self.look_after(key);
            if !self.overload.pace.is_idle() {
                self.look_at_pace(key, false);
            }
        }
        self.relieve();
        self.take_turns();
        self.shake_hands();
        self.has_turned = true;
        ended
    }

    fn step(&mut self, event: Event) {
        let Some(event) = self.take_handshake_event(event) else { return };
        let paced = if self.overload.pace.is_idle() { None } else { self.overload.pace.note(&event) };
        let is_readable = matches!(event, Event::Readable(_));
        match event {
            Event::Accepted(key) => self.as_newcomer(key, |engine| engine.accepted(key)),
            Event::TurnedAway => {
                self.worker.counters().accepted();
                self.worker.counters().closed();
                self.worker.counters().response(StatusCode::SERVICE_UNAVAILABLE.as_u16());
                self.worker.shed_for_room(Shed::Accept);
            }
            Event::Received(key, bytes) if self.worker.is_calm() => self.received(key, bytes),
            Event::Received(key, bytes) => {
                let draws = self.is_for_marked(key, Some(&bytes)) && self.worker.draw_for_marked();
                self.as_newcomer(key, |engine| engine.received(key, bytes));
                self.worker.end_draw(draws);
            }
            Event::Sent(key, rest) => self.sent(key, rest),
            Event::Ended(key) => self.ended(key),
            Event::Readable(key) if self.worker.is_websocket(key) => self.readable_websocket(key),
            Event::Readable(key) if self.is_for_marked(key, None) => self.as_marked(|engine| engine.readable(key)),
            Event::Readable(key) => self.as_newcomer(key, |engine| engine.readable(key)),
            Event::PeerClosed(key) if self.worker.is_websocket(key) => self.peer_closed_websocket(key),
            Event::Failed(key, _) if self.worker.is_websocket(key) => self.lost_websocket(key),
            Event::PeerClosed(key) => self.peer_closed(key),
            Event::Failed(key, Errno::CANCELED) if self.worker.is_parked(key) => self.recalled(key),
            Event::Failed(key, errno) => self.failed(key, errno),
            Event::Due(key) => self.due(key),
            Event::Partial(key) => self.bound_partial(key),
            Event::Stalled(key) => self.stalled(key),
        }
        if let Some(key) = paced {
            self.look_at_pace(key, is_readable);
        }
    }

    /// Looks after a connection, with what is kept for newcomers if its address is one.
    pub(crate) fn as_newcomer(&mut self, key: Key, act: impl FnOnce(&mut Self)) {
        if !self.worker.is_newcomer(key) {
            return act(self);
        }
        let pool = self.worker.pool.clone();
        pool.for_newcomer(|| act(self));
    }

    /// Something changed on a connection: a handler answered, wrote, or wants to read.
    pub(crate) fn look_after(&mut self, key: Key) {
        match self.worker.take(key) {
            Some(active) => self.go_on_http1(key, active),
            None if self.worker.is_websocket(key) => self.look_after_websocket(key),
            // One that was listed before it was parked may have a place already.
            None if self.worker.is_unread(key) && self.worker.is_in_queue(key) => {}
            None if self.worker.is_unread(key) => self.readable_parked(key),
            None => self.look_after_http2(key),
        }
    }

    fn accepted(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        worker.counters().accepted();
        if worker.is_weighed() {
            self.keep_places();
        }
        let mut table = worker.table.borrow_mut();
        let admitted = worker.peers.borrow_mut().accepted(key, || table.peer_address(key).ok().map(by_ip));
        if admitted.is_err() || worker.is_crowded() {
            drop(table);
            return self.refuse(key);
        }
        set_options(&mut table, key, &worker.config.tcp);
        let born = worker.age_now();
        if let Some(place) = table.get_mut(key) {
            *place = Connection::Parked { requests: 0, born, score: Score::default(), empty_lines: 0, answered: 0 };
        }
        let timeout = match worker.config.proxy_protocol {
            ProxyProtocol::Required => worker.config.proxy_header_timeout,
            // Its handshake has the time of a head.
            ProxyProtocol::Off if table.is_carried(key) => worker.parked_timeout(born).min(worker.config.head_timeout),
            ProxyProtocol::Off => worker.parked_timeout(born),
        };
        table.schedule(key, if worker.is_stopping() { worker.stop_idle() } else { timeout });
        let armed = match table.handshake(key) {
            Handshake::Over => worker.await_request(&mut table, key),
            Handshake::Awaited | Handshake::Begun => table.await_readable(key),
        };
        if armed.is_err() {
            drop(table);
            self.shed(key, Shed::Accept);
        }
    }

    fn received(&mut self, key: Key, bytes: Bytes) {
        let taken = {
            let mut table = self.worker.table.borrow_mut();
            table.get_mut(key).map(|connection| ::core::mem::replace(connection, Connection::Taken))
        };
        match taken {
            Some(parked @ (Connection::Parked { .. } | Connection::Unread { .. })) => {
                self.begin_head(key, parked, bytes, MemoryWait::None);
            }
            Some(Connection::Active(mut active)) => {
                if active.exchange.request() == RequestState::Body {
                    let left = active.decoder.remaining().map(|left| left.saturating_sub(bytes.len() as u64));
                    active.receive.received(&bytes, left, plimsoll_runtime::now());
                }
                active.came(bytes.len(), &self.worker.config);
                self.drive(key, active, Some(bytes));
            }
            Some(Connection::Http2(http2)) => self.go_on_http2(key, http2, Some(bytes)),
            Some(Connection::WebSocket(socket)) => self.go_on_websocket(key, socket, Some(bytes)),
            Some(Connection::Lingering { dropped_bytes, dropped_before, rest, answered }) => {
                let dropped_bytes = dropped_bytes.saturating_add(bytes.len() as u32);
                drop(bytes);
                self.worker.put(key, Connection::Lingering { dropped_bytes, dropped_before, rest, answered });
                self.linger_on(key, dropped_bytes, rest);
            }
            Some(Connection::Taken) | None => debug_assert!(false, "a connection is put back before its next event"),
        }
    }

    /// More of a body is there, as was waited for.
    pub(crate) fn readable(&mut self, key: Key) {
        if self.worker.is_parked(key) {
            return self.readable_parked(key);
        }
        let worker = &self.worker;
        let Some(mut active) = worker.take(key) else { return self.readable_http2(key) };
        if active.handler.is_none() && active.exchange.next() == Next::ReadHead && !active.is_closing() {
            return if active.is_queued() { self.drive(key, active, None) } else { self.readable_head(key, active) };
        }
        let step = active.readable(worker, &mut TableLine::new(&worker.table, key), key);
        self.execute(key, active, step);
    }

    fn linger_on(&mut self, key: Key, dropped_bytes: u32, rest: Rest) {
        let drain_bytes_max = self.worker.config.drain_bytes_max;
        let bytes_max = if rest == Rest::Body { drain_bytes_max } else { drain_bytes_max.min(UNASKED_BYTES_MAX) };
        let too_many = dropped_bytes > bytes_max;
        if too_many || self.worker.table.borrow_mut().receive(key).is_err() {
            self.close(key);
        }
    }

    fn sent(&mut self, key: Key, rest: SendBytes) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        if !rest.is_empty() {
            let timeout = match table.get_mut(key) {
                Some(Connection::Active(active)) => active.sent_a_part(&worker),
                Some(Connection::WebSocket(socket)) => Some(socket.send_timeout()),
                Some(Connection::Http2(http2)) => http2.sent_a_part(&worker),
                _ => Some(worker.config.send_timeout),
            };
            if let Some(timeout) = timeout {
                table.schedule(key, timeout);
            }
            let sent = table.send(key, compacted(&worker.pool, rest));
            drop(table);
            if sent.is_err() {
                worker.shed_for_room(Shed::Output);
                self.close_for(key, ExchangeEnd::Overstay);
            }
            return;
        }
        let answered = table.get_mut(key).map_or(0, Connection::take_answered);
        worker.counters().exchanges_ended(ExchangeEnd::Finished, answered.into());
        match table.get_mut(key) {
            Some(&mut Connection::Parked { born, .. }) => {
                table.schedule(key, worker.idle_timeout(born));
                if !table.is_receiving(key) && worker.await_request(&mut table, key).is_err() {
                    drop(table);
                    worker.shed_for_room(Shed::Parked);
                    self.close(key);
                }
            }
            Some(Connection::Active(_)) => {
                drop(table);
                self.step_http1(key, |active, worker| active.sent(worker, key));
            }
            Some(Connection::Http2(_)) => {
                drop(table);
                self.sent_http2(key);
            }
            Some(Connection::WebSocket(_)) => {
                drop(table);
                self.sent_websocket(key);
            }
            Some(Connection::Lingering { .. }) => {
                drop(table);
                self.linger(key);
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// The peer has ended its half while a handler runs, or has gone away.
    fn peer_closed(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let table = worker.table.borrow();
        match table.get(key) {
            Some(Connection::Http2(_)) => {
                drop(table);
                self.peer_closed_http2(key);
            }
            Some(Connection::Active(_)) => {
                drop(table);
                self.step_http1(key, |active, worker| active.peer_closed(worker, &TableLine::new(&worker.table, key)));
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// The peer has sent all it will send.
    pub(crate) fn ended(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        let sending = table.is_sending(key);
        match table.get_mut(key) {
            Some(connection @ (Connection::Parked { .. } | Connection::Unread { .. })) if sending => {
                *connection = Connection::leaving(connection.take_answered());
            }
            Some(Connection::Lingering { .. }) if sending => {}
            Some(Connection::Parked { .. }) => {
                drop(table);
                self.end_idle(key);
            }
            Some(Connection::Http2(_)) => {
                drop(table);
                self.ended_http2(key);
            }
            Some(Connection::WebSocket(_)) => {
                drop(table);
                self.ended_websocket(key);
            }
            Some(Connection::Active(_)) => {
                drop(table);
                self.step_http1(key, |active, worker| active.ended(worker));
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// An operation failed: the connection is closed, unless it is a receive that was taken back.
    pub(crate) fn failed(&mut self, key: Key, errno: Errno) {
        if errno == Errno::CANCELED {
            if let Some(active) = self.worker.take(key) {
                return self.drive(key, active, None);
            }
            if matches!(self.worker.table.borrow().get(key), Some(Connection::Http2(_))) {
                return self.recalled_http2(key);
            }
        }
        // What came had no place.
        let is_for_room = errno == Errno::NOBUFS;
        self.close_for(key, if is_for_room { ExchangeEnd::Overstay } else { ExchangeEnd::Peer });
    }

    /// A record has begun to come, and is not whole: it has the time of a head between requests, or else of a body.
    fn bound_partial(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        let within = match table.get(key) {
            Some(Connection::Http2(http2)) if http2.has_exchanges() => worker.config.body_timeout,
            Some(Connection::Active(_) | Connection::WebSocket(_)) => worker.config.body_timeout,
            _ => worker.config.head_timeout,
        };
        table.bound_partial(key, within);
    }

    /// That took too long.
    fn stalled(&mut self, key: Key) {
        self.worker.counters().shed(Shed::Timeout);
        if self.worker.is_between_requests(key) {
            self.end_idle(key);
        } else {
            self.close_for(key, ExchangeEnd::Timeout);
        }
    }

    /// Whether a transport carries the connection that has words for the end, and nothing that is in flight is in their
    /// way.
    pub(crate) fn can_say_end(&self, key: Key) -> bool {
        let table = self.worker.table.borrow();
        table.get(key).is_some() && table.has_transport(key) && !table.is_sending(key)
    }

    /// Closes a connection between requests: where a transport carries it, as that says what is whole.
    fn end_idle(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        if !self.can_say_end(key) {
            return self.close_for(key, ExchangeEnd::Timeout);
        }
        if worker.is_unread(key) {
            worker.leave_queue(key);
            worker.leave_turns(key);
        }
        worker.put(key, Connection::LINGERING);
        self.linger(key);
    }

    /// A deadline has come.
    fn due(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        let sending = table.is_sending(key);
        match table.get_mut(key) {
            Some(Connection::Http2(_)) => {
                drop(table);
                self.due_http2(key);
            }
            Some(Connection::WebSocket(_)) => {
                drop(table);
                self.due_websocket(key);
            }
            Some(Connection::Active(_)) => {
                drop(table);
                self.step_http1(key, |active, worker| active.due(worker, &TableLine::new(&worker.table, key), key));
            }
            Some(Connection::Parked { .. }) if !sending && worker.is_stopping() => {
                let left = worker.stop_idle_left();
                if !left.is_zero() {
                    return table.schedule(key, left);
                }
                // What it brings as it ends is answered, see [`unarmed`](Self::unarmed).
                table.schedule(key, worker.config.linger_timeout);
                if table.is_receiving(key) {
                    return table.cancel_receive(key);
                }
                drop(table);
                self.unarmed(key);
            }
            Some(Connection::Unread { .. }) => {
                drop(table);
                self.refuse_unread(key, MemoryWait::TimedOut);
            }
            Some(Connection::Parked { .. }) if !sending => {
                drop(table);
                self.end_idle(key);
            }
            Some(Connection::Lingering { .. }) if !sending => {
                drop(table);
                self.linger_no_longer(key);
            }
            _ => {
                drop(table);
                if sending {
                    worker.counters().shed(Shed::Output);
                }
                self.close_for(key, ExchangeEnd::Timeout);
            }
        }
    }
}

/// Sets what a connection's socket is asked to be. One that is gone already fails this; its first receive tells.
fn set_options(table: &mut Table<Connection>, key: Key, tcp: &TcpOptions) {
    let options = [
        tcp.keep_alive_idle.map(|idle| SocketOption::KeepAlive(Some(idle))),
        tcp.user_timeout.map(SocketOption::UserTimeout),
        tcp.not_sent_bytes_max.map(SocketOption::NotSentLowWater),
    ];
    for option in options.into_iter().flatten() {
        let _told_later = table.set_option(key, option);
    }
}
