//! What the engine of a worker and the handlers it started share: the connection table and everything written to it.

use ::core::cell::{Cell, OnceCell, RefCell};
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use http::{Method, StatusCode, Version};
use plimsoll_codec::date::{self, DATE_BYTES};
use plimsoll_codec::h1::{
    self, BodyEncoder, BodyLength, BodyOut, Fields, Persistence, RequestState, ResponseHead, ResponseState,
};
use plimsoll_pool::{PoolBox, Queue};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Instant, OverBudget, Pool};
use plimsoll_slab::Key;

use crate::base::config::{Config, HalfClose};
use crate::base::counters::{Counters, Shed, WorkerCounters};
use crate::base::error::Error;
use crate::base::peers::{Addresses, Peers};
use crate::exchange::exchange_end::ExchangeEnd;
use crate::exchange::failure::Failure;
use crate::exchange::handle::Ticket;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::face::server::{AccessRecord, LogHook};
use crate::h1::body_receive;
use crate::h2::{self, Scratch};
use crate::hub::Members;
use crate::memory::answer_reserve::AnswerReserve;
use crate::memory::by_address::Crowd;
use crate::memory::lasting::Lasting;
use crate::memory::pressure::{Grant, PLACES, Waits};
use crate::memory::refusal_log::Seldom;
use crate::memory::reserved_routes::Slots;
use crate::websocket::KnownSettings;
use crate::worker::connection::{Active, Connection};
use crate::worker::request_queue::Turns;

/// The most that a head takes beside the program's own fields: status line, Date, Content-Length or Transfer-Encoding,
/// Connection.
const HEAD_BYTES_MAX: usize = 224;

/// The unit of [`Core::age_now`].
const AGE_UNIT_MS: u64 = 250;

/// So many connections that are worked on share no output.
const FEW_ACTIVE: u64 = 64;
/// More of them together gather no more than this part of a worker's share of the line, or this much each.
const OUTPUT_PART: u64 = 4;
const OUTPUT_SHARE_MIN: usize = 4 * 1024;

/// Requests that were read ahead, and are not answered with those that came with them, are begun in a turn at most.
const FOLLOW_UPS_MAX: u32 = 64;

/// What an answer of the server's own says besides, and a 503.
const TEXT: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";
/// Not the same to all, so that they do not come again together.
const TEXT_AND_RETRY: [&[u8]; 3] = [
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 2\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 3\r\n",
];

/// The shared part of one worker's server.
pub(crate) struct Core {
    pub(crate) table: RefCell<Table<Connection>>,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    counters: Counters,
    /// Those of this worker.
    counted: Arc<WorkerCounters>,
    /// The worker's share of the line, in bytes.
    pub(crate) line_share: u64,
    /// Connections that a handler has changed and the engine must look after.
    listed: RefCell<VecDeque<Key>>,
    /// Those to be looked after once the handlers that were woken have had their turn.
    later: RefCell<VecDeque<Key>>,
    /// Requests read ahead that may still be begun in this turn.
    follow_ups: Cell<u32>,
    engine: RefCell<Option<Waker>>,
    /// The connection whose handler the engine is polling right now: it looks after it itself.
    current: Cell<Option<Key>>,
    date: Cell<(u64, [u8; DATE_BYTES])>,
    /// The runtime has been asked to stop; as of this turn.
    stopping: Cell<bool>,
    /// When a request came last after that.
    asked_at: Cell<Option<Instant>>,
    /// Pieces of work that handlers said must be finished.
    must_finish: Cell<u32>,
    /// Connections that are being refused.
    refused: Cell<u32>,
    /// Whether the last of these has ended.
    recheck: Cell<bool>,
    /// How full the process is; as of this turn.
    level: Cell<Level>,
    /// Nobody was found in this turn who could be let go of.
    pub(crate) has_looked: Cell<bool>,
    /// The place of the table that was looked at last for somebody to let go of.
    pub(crate) looked_at: Cell<u32>,
    /// Who waits for room, and whether anybody does.
    pub(crate) hungry: RefCell<Queue<Waits>>,
    pub(crate) starving: Cell<bool>,
    /// Those that are gone were taken out of the full queue in this turn.
    pub(crate) swept: Cell<bool>,
    pub(crate) turns: Turns,
    /// Where a route is marked.
    pub(crate) marked: OnceCell<Slots>,
    pub(crate) refusals: Seldom,
    pub(crate) second_answers: Seldom,
    pub(crate) reserve: AnswerReserve,
    pub(crate) crowd: Crowd,
    pub(crate) lasting: Lasting,
    /// Whether it is counted what addresses hold, as of this turn; and at its beginning the free bytes of this worker's
    /// share, and what its pool had given out.
    pub(crate) weighed: Cell<bool>,
    pub(crate) free_bytes: Cell<u64>,
    pub(crate) used_at: Cell<u64>,
    /// The connection that waited and was granted room, while it is looked after.
    pub(crate) fed: Cell<Option<Key>>,
    /// Memory for the next turn of the handler of this connection.
    pub(crate) kept_for: Cell<Option<Key>>,
    pub(crate) kept: RefCell<Option<Grant>>,
    /// How much may be gathered for a connection as of this turn.
    gather_bytes_max: Cell<usize>,
    /// What is known of peers beside their sockets.
    pub(crate) peers: RefCell<Peers>,
    pub(crate) log: Option<LogHook>,
    /// Members of hubs, while there are some.
    pub(crate) members: RefCell<Weak<Members>>,
    pub(crate) h2_scratch: RefCell<Scratch>,
    pub(crate) websockets: RefCell<KnownSettings>,
    #[cfg(feature = "deflate")]
    pub(crate) websocket_streams: RefCell<crate::websocket::SharedStreams>,
    pub(crate) h2_spare: h2::Spare,
    pub(crate) h2_waiting: h2::HeldByWaiting,
    /// The paths of the routes, for handlers that ask for a parameter.
    #[cfg(feature = "router")]
    pub(crate) routes: OnceCell<Rc<crate::face::router::Table>>,
}

/// Drops a connection in whose place another was put: nearly always there is none.
#[cold]
fn drop_before(connection: Connection) {
    drop(connection);
}

impl Core {
    pub(crate) fn new(
        table: Table<Connection>,
        config: Config,
        counters: Counters,
        addresses: Addresses,
        log: Option<LogHook>,
    ) -> Rc<Self> {
        let pool = plimsoll_runtime::pool();
        let line_share = pool.budget().limit().as_bytes() / counters.0.len() as u64;
        let config = Config { body_receive_leases_max: body_receive::leases_max(&config, line_share), ..config };
        Rc::new(Self {
            table: RefCell::new(table),
            peers: RefCell::new(Peers::new(&config, addresses)),
            hungry: RefCell::new(Queue::new(&pool, PLACES, PLACES)),
            starving: Cell::new(false),
            swept: Cell::new(false),
            turns: Turns::new(&pool),
            marked: OnceCell::new(),
            refusals: Seldom::default(),
            second_answers: Seldom::default(),
            reserve: AnswerReserve::new(&pool, line_share, config.progress_reserve_bytes),
            crowd: Crowd::new(&pool, line_share),
            lasting: Lasting::default(),
            weighed: Cell::new(false),
            free_bytes: Cell::new(line_share / 4),
            used_at: Cell::new(0),
            fed: Cell::new(None),
            kept_for: Cell::new(None),
            kept: RefCell::default(),
            gather_bytes_max: Cell::new(config.output_bytes_max),
            config,
            pool,
            counted: Arc::clone(&counters.0[plimsoll_runtime::worker_index()]),
            counters,
            listed: RefCell::default(),
            later: RefCell::default(),
            follow_ups: Cell::new(0),
            engine: RefCell::default(),
            current: Cell::new(None),
            date: Cell::new((0, date::format(0))),
            stopping: Cell::new(false),
            asked_at: Cell::new(None),
            must_finish: Cell::new(0),
            refused: Cell::new(0),
            recheck: Cell::new(false),
            level: Cell::default(),
            has_looked: Cell::new(false),
            looked_at: Cell::new(0),
            log,
            line_share,
            members: RefCell::default(),
            h2_scratch: RefCell::default(),
            websockets: RefCell::default(),
            #[cfg(feature = "deflate")]
            websocket_streams: RefCell::default(),
            h2_spare: Cell::new(None),
            h2_waiting: h2::HeldByWaiting::default(),
            #[cfg(feature = "router")]
            routes: OnceCell::new(),
        })
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counted
    }

    /// Workers of the server.
    pub(crate) fn workers(&self) -> u64 {
        self.counters.0.len() as u64
    }

    /// Whether the runtime has been asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Begins a turn of the engine.
    pub(crate) fn begin_turn(&self) {
        self.has_looked.set(false);
        self.swept.set(false);
        self.turns.begin();
        self.follow_ups.set(FOLLOW_UPS_MAX);
        self.tick();
        self.weigh();
    }

    /// Whether a request that was read ahead may be begun in this turn: when many connections have more of them, those
    /// wait in turns for each other, and not everybody else for them.
    pub(crate) fn may_follow_up(&self, key: Key) -> bool {
        let left = self.follow_ups.get();
        self.follow_ups.set(left.saturating_sub(1));
        left > 0 || self.fed.get() == Some(key)
    }

    /// Brings the Date field up to date; once a turn.
    pub(crate) fn tick(&self) {
        self.stopping.set(plimsoll_runtime::signal::is_stopping());
        self.level.set(self.pool.budget().level());
        self.gather_bytes_max.set(self.share_of_output());
        let seconds = plimsoll_runtime::unix_seconds();
        if self.date.get().0 != seconds {
            self.date.set((seconds, date::format(seconds)));
        }
    }

    /// The same, for a handler that answers in a turn of its own.
    pub(crate) fn tick_for(&self, key: Key) {
        if self.current.get() != Some(key) {
            self.tick();
        }
    }

    /// Ready when a connection was listed.
    pub(crate) fn poll_listed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.recheck.replace(false) || !self.listed.borrow().is_empty() {
            return Poll::Ready(());
        }
        let mut engine = self.engine.borrow_mut();
        if !engine.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *engine = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Has the engine look after a connection in its next turn: behind handlers that were woken in this one.
    pub(crate) fn list_later(&self, key: Key) {
        self.later.borrow_mut().push_back(key);
    }

    /// The engine's turn is over: what was put off is for the next one, which comes at once.
    pub(crate) fn end_turn(&self, cx: &mut Context<'_>) {
        let mut later = self.later.borrow_mut();
        if !later.is_empty() {
            self.listed.borrow_mut().append(&mut later);
            cx.waker().wake_by_ref();
        }
    }

    pub(crate) fn next_listed(&self) -> Option<Key> {
        self.listed.borrow_mut().pop_front()
    }

    /// Has the engine look after a connection, unless it does so anyway.
    pub(crate) fn list(&self, key: Key, active: &mut Active) {
        active.listed = active.listed || self.enlist(key);
    }

    /// Has the engine look after a connection. `false` when it does so anyway.
    #[inline]
    pub(crate) fn enlist(&self, key: Key) -> bool {
        let is_current = self.current.get() == Some(key);
        if !is_current {
            self.enlist_other(key);
        }
        !is_current
    }

    fn enlist_other(&self, key: Key) {
        self.listed.borrow_mut().push_back(key);
        if let Some(waker) = self.engine.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The Date field's value.
    pub(crate) fn date(&self) -> [u8; DATE_BYTES] {
        self.date.get().1
    }

    /// Counts pieces of work that must be finished; the engine looks again after the last.
    pub(crate) fn must_finish(&self, by: i32) {
        let count = self.must_finish.get().checked_add_signed(by).expect("what ends has begun");
        self.must_finish.set(count);
        if count == 0 {
            self.recheck.set(true);
            if let Some(waker) = self.engine.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    /// Counts connections that are being refused; how many there are.
    pub(crate) fn refused(&self, by: i32) -> u32 {
        let count = self.refused.get().checked_add_signed(by).expect("what ends has begun");
        self.refused.set(count);
        count
    }

    /// Whether as many handlers run as may.
    pub(crate) fn has_all_handlers(&self) -> bool {
        self.config.handlers_in_progress_max.is_some_and(|max| self.counters.handlers() >= u64::from(max))
    }

    /// Counts a handler that begins or has answered, where there is a limit on them. When it was the last that might,
    /// somebody may wait for that.
    pub(crate) fn count_handler(&self, by: i64) {
        if self.config.handlers_in_progress_max.is_none() {
            return;
        }
        self.counters().handlers(by);
        if by < 0 && self.is_starving() {
            self.recheck.set(true);
            if let Some(waker) = self.engine.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    /// Whether the server has more connections than it may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.counters.connections() > u64::from(self.config.connections_max)
    }

    /// Whether nothing runs that must be finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.must_finish.get() == 0
    }

    /// The peer's address: what a PROXY header said, or else the socket's.
    pub(crate) fn peer_address(&self, key: Key) -> Option<SocketAddr> {
        let mut table = self.table.borrow_mut();
        table.get(key)?;
        self.peers.borrow().proxied(key).or_else(|| table.peer_address(key).ok())
    }

    /// Now, in the unit in which ages are kept: quarters of a second.
    pub(crate) fn age_now(&self) -> u32 {
        if self.config.connection_age_max.is_none() {
            return 0;
        }
        (plimsoll_runtime::now().as_millis() / AGE_UNIT_MS) as u32
    }

    /// What is left of the longest life of a connection that was accepted at `born`.
    pub(crate) fn age_left(&self, born: u32) -> Duration {
        let Some(age_max) = self.config.connection_age_max else { return Duration::MAX };
        let age = u64::from(self.age_now().wrapping_sub(born)) * AGE_UNIT_MS;
        age_max.saturating_sub(Duration::from_millis(age))
    }

    /// Whether a connection that was accepted at `born` has lived for as long as one may.
    #[inline]
    pub(crate) fn is_too_old(&self, born: u32) -> bool {
        self.config.connection_age_max.is_some() && self.age_left(born).is_zero()
    }

    /// How long a connection may be parked.
    pub(crate) fn parked_timeout(&self, born: u32) -> Duration {
        let part = if self.level() >= Level::Yellow { 4 } else { 1 };
        (self.config.keep_alive_timeout / part).min(self.age_left(born))
    }

    /// Whether a peer that has ended its half gets the answer that is worked on: one that was begun it always gets.
    pub(crate) fn outlasts_half_close(&self, active: &Active) -> bool {
        self.config.half_close == HalfClose::Answered || active.has_begun_answer()
    }

    /// How long a connection of HTTP/1 may be parked: after the stop only for what is on its way.
    pub(crate) fn idle_timeout(&self, born: u32) -> Duration {
        if self.is_stopping() { self.stop_idle() } else { self.parked_timeout(born) }
    }

    /// How long what is on its way at the stop is waited for.
    pub(crate) fn stop_idle(&self) -> Duration {
        Duration::from_millis(self.config.stop_idle_ms.into())
    }

    /// What is left of that since a connection asked for something after the stop: while some do, the turn of others
    /// may come, too.
    pub(crate) fn stop_idle_left(&self) -> Duration {
        let until = self.asked_at.get().map(|asked| asked + self.stop_idle());
        until.map_or(Duration::ZERO, |until| until.since(plimsoll_runtime::now()))
    }

    /// A request came after the stop.
    pub(crate) fn asked_after_stop(&self) {
        self.asked_at.set(Some(plimsoll_runtime::now()));
    }

    /// How full the process is.
    pub(crate) fn level(&self) -> Level {
        self.level.get()
    }

    /// How much may be gathered for a connection before the socket must take some: less when there are many, so that
    /// the answers to requests read ahead neither fill the line nor keep a worker from other connections for long.
    pub(crate) fn gather_bytes_max(&self) -> usize {
        self.gather_bytes_max.get()
    }

    fn share_of_output(&self) -> usize {
        let output_bytes_max = self.config.output_bytes_max;
        let active = self.counters().active_now();
        if active <= FEW_ACTIVE {
            return output_bytes_max;
        }
        let share = usize::try_from(self.line_share / OUTPUT_PART / active).unwrap_or(usize::MAX);
        share.max(OUTPUT_SHARE_MIN).min(output_bytes_max)
    }

    /// Whether memory is so short that a connection which has output waiting begins no further request.
    pub(crate) fn holds_back(&self) -> bool {
        self.is_weighed()
    }

    /// Whether memory is so short that room is made.
    pub(crate) fn is_short(&self) -> bool {
        self.level() >= Level::Orange
    }

    /// Has the engine take another turn at once.
    pub(crate) fn look_again(&self) {
        self.recheck.set(true);
    }

    /// The place of the table to look at next, of so many: from the highest to the lowest, again and again.
    pub(crate) fn next_look(&self, places: u32) -> u32 {
        let at = self.looked_at.get().min(places);
        let next = if at == 0 { places.saturating_sub(1) } else { at - 1 };
        self.looked_at.set(next);
        next
    }

    /// Runs `poll` as the handler of a connection that the engine looks after itself.
    pub(crate) fn as_current<R>(&self, key: Key, poll: impl FnOnce() -> R) -> R {
        self.current.set(Some(key));
        let result = poll();
        self.current.set(None);
        result
    }

    /// Whether nothing was received of the next request of a connection of HTTP/1.
    pub(crate) fn is_between_requests(&self, key: Key) -> bool {
        self.is_parked(key) || self.is_unread(key)
    }

    /// Whether a connection of HTTP/1 is between requests.
    pub(crate) fn is_parked(&self, key: Key) -> bool {
        matches!(self.table.borrow().get(key), Some(Connection::Parked { .. }))
    }

    /// Takes an active connection out of the table.
    pub(crate) fn take(&self, key: Key) -> Option<PoolBox<Active>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Active(active) => Some(active),
            other => {
                *connection = other;
                None
            }
        }
    }

    /// Puts a connection back.
    pub(crate) fn put(&self, key: Key, connection: Connection) {
        let mut table = self.table.borrow_mut();
        let Some(place) = table.get_mut(key) else { return };
        let before = ::core::mem::replace(place, connection);
        if !matches!(before, Connection::Taken) {
            drop_before(before);
        }
    }

    /// Runs `act` on the exchange that a ticket is for, if it is still the one that is worked on.
    pub(crate) fn with<R>(&self, ticket: &Ticket, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        let mut table = self.table.borrow_mut();
        match table.get_mut(ticket.key)? {
            Connection::Active(active) if active.requests == ticket.number => Some(act(active)),
            _ => None,
        }
    }

    /// Answers 503 to a request that was not begun, from the answer reserve if there is no other room.
    pub(crate) fn refuse(&self, key: Key, active: &mut Active) -> Result<(), Error> {
        let (_, date) = self.date.get();
        let Failure { status, line } = Failure::NO_ROOM;
        let text_and_retry = TEXT_AND_RETRY[key.index() as usize % TEXT_AND_RETRY.len()];
        let head = ResponseHead::new(&active.method, active.version, status, BodyLength::Known(line.len() as u64))?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(Fields::assume_checked(text_and_retry));
        let is_lent = match active.output.reserve(&self.pool, HEAD_BYTES_MAX + text_and_retry.len() + line.len()) {
            Ok(()) => false,
            Err(over) => {
                let lease = self.reserve_for(key, active).ok_or(over)?;
                active.output.lend(lease);
                true
            }
        };
        active.exchange.head_sent(&head)?;
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        self.counters().response(status.as_u16());
        let body = if head.body() == BodyOut::None { &[] } else { line.as_bytes() };
        self.log(active, status, body.len() as u64);
        if !body.is_empty() {
            active.output.push(body);
            active.exchange.body_sent()?;
        }
        if is_lent && let Some(lease) = active.output.send_now(&mut self.table.borrow_mut(), key) {
            self.reserve.put_back(lease);
        }
        Ok(())
    }

    /// Writes a response, whole or only its head. One that finds no room is left as it is.
    pub(crate) fn write(&self, active: &mut Active, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let (_, date) = self.date.get();
        if active.exchange.request() == RequestState::Body && !self.will_drain(active, response.length() == length) {
            active.exchange.close_after();
        }
        let head = ResponseHead::new(&active.method, active.version, response.status(), length)?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(response.fields());
        let body_bytes = if head.body() == BodyOut::None { 0 } else { response.body_bytes() };
        let copied = if body_bytes <= COPY_BYTES_MAX { body_bytes } else { 0 };
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + response.fields().as_bytes().len() + copied)?;
        active.exchange.head_sent(&head)?;
        active.output.begin_answer();
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        if body_bytes == 0 && active.exchange.response() == ResponseState::Body {
            // Streamed: how long it is is known at its end.
            (active.status, active.uncounted) = (Some(response.status()), Some(response.status()));
            return Ok(());
        }
        self.counters().response(response.status().as_u16());
        self.log(active, response.status(), body_bytes as u64);
        if body_bytes == 0 {
            return Ok(());
        }
        active.sent_bytes = body_bytes as u64;
        match copied {
            0 => active.output.follow(::core::mem::take(response.body_mut())),
            _ => active.output.push(response.body_mut().as_slice()),
        }
        active.exchange.body_sent()?;
        Ok(())
    }

    fn log(&self, active: &mut Active, status: StatusCode, body_bytes: u64) {
        if let (Some(log), Some(line)) = (&self.log, active.line.take()) {
            write_line(log, &line, status, body_bytes, active.peer);
        }
    }

    /// Writes a line of the access log.
    pub(crate) fn log_line(&self, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
        if let Some(log) = &self.log {
            write_line(log, line, status, body_bytes, peer);
        }
    }

    /// Writes the line of a streamed answer that is over, complete or not.
    pub(crate) fn log_streamed(&self, active: &mut Active) {
        self.count_begun(active);
        if let Some(status) = active.status.take() {
            self.log(active, status, active.sent_bytes);
        }
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when there is no room for it: nothing has been done, and it may be given once more.
    pub(crate) fn answer(&self, active: &mut Active, response: &mut Response) -> Result<(), OverBudget> {
        let is_due = matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
        if !active.closing && response.kind() == ResponseKind::Whole && is_due {
            if let Some(error) = active.malformed_for(response.status()) {
                active.handler = None;
                self.fail(active, error.status());
                return Ok(());
            }
            let length = response.length();
            match self.write(active, response, length) {
                Ok(()) => {}
                Err(Error::OverBudget(over)) => return Err(over),
                Err(error) => {
                    tracing::error!(%error, "a response could not be written");
                    self.fail(active, error.into_response().status());
                }
            }
            active.handler = None;
            return Ok(());
        }
        active.handler = None;
        let is_whole = response.kind() == ResponseKind::Whole;
        // What another goes on with is not cut short.
        let is_cut_short = active.exchange.response() == ResponseState::Body && active.upgrade.is_none();
        if !active.closing
            && is_cut_short
            && let Some(error) = active.decoder.failure()
        {
            self.fail(active, error.status());
        }
        self.log_streamed(active);
        if !active.closing && (is_whole || is_cut_short) {
            // A second answer, or one that is cut short: the peer can only be told by closing.
            self.warn_of_second(response);
            self.abandon(active);
        }
        Ok(())
    }

    /// The answer of a handler found no room, and cannot wait for it.
    pub(crate) fn answer_no_room(&self, active: &mut Active, over: OverBudget) {
        active.handler = None;
        active.course.note(ExchangeEnd::Overstay);
        self.shed_for_room(Shed::Output);
        tracing::debug!(%over, "a response found no room");
        self.fail(active, Failure::NO_ROOM);
    }

    /// Answers with an error in static bytes, if nothing of an answer has left, and closes afterwards.
    pub(crate) fn fail(&self, active: &mut Active, failure: impl Into<Failure>) {
        let has_left = match active.exchange.response() {
            ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue => false,
            ResponseState::Body => active.closing || !self.take_back(active),
            ResponseState::Done | ResponseState::Upgraded => true,
        };
        if has_left || active.closing || active.output.has_tail() {
            return self.abandon(active);
        }
        let failure = failure.into();
        self.counters().response(failure.status.as_u16());
        let sent_bytes = match self.write_failure(active, failure) {
            Ok(bytes) => bytes,
            Err(_) => {
                active.output.follow(Body::Static(h1::error_response(&active.method, failure.status)));
                if active.method == Method::HEAD { 0 } else { h1::error_line(failure.status).len() as u64 }
            }
        };
        self.log(active, failure.status, sent_bytes);
        active.closing = true;
    }

    /// Takes a streamed answer back that was begun, and of which nothing has left; whether it could be.
    fn take_back(&self, active: &mut Active) -> bool {
        let is_back = active.output.take_back();
        if is_back {
            (active.status, active.uncounted) = (None, None);
        }
        is_back
    }

    /// Counts a streamed answer that was begun, as it is not taken back any more: a counter never falls.
    pub(crate) fn count_begun(&self, active: &mut Active) {
        if let Some(status) = active.uncounted.take() {
            self.counters().response(status.as_u16());
        }
    }

    /// An answer that closes the connection, and how many bytes its body has.
    fn write_failure(&self, active: &mut Active, Failure { status, line }: Failure) -> Result<u64, Error> {
        let (_, date) = self.date.get();
        let length = BodyLength::Known(line.len() as u64);
        let head = ResponseHead::new(&active.method, Version::HTTP_11, status, length)?;
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + TEXT_AND_RETRY[0].len() + line.len())?;
        let fields = if status == StatusCode::SERVICE_UNAVAILABLE { TEXT_AND_RETRY[0] } else { TEXT };
        let fields = Fields::assume_checked(fields);
        head.persistence(Persistence::Close).date(&date).fields(fields).encode(&mut active.output)?;
        if head.body() == BodyOut::None {
            return Ok(0);
        }
        active.output.push(line.as_bytes());
        Ok(line.len() as u64)
    }

    /// The answer cannot be completed: what was gathered may still leave, then the connection is closed.
    pub(crate) fn abandon(&self, active: &mut Active) {
        active.closing = true;
    }
}

fn write_line(log: &LogHook, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
    let unix_seconds = plimsoll_runtime::unix_seconds();
    log.write(&AccessRecord { request_line: line, status, body_bytes, unix_seconds, peer });
}

impl Core {
    /// Appends a piece of an answer's body, and takes it: all of it or nothing.
    pub(crate) fn put_piece(&self, active: &mut Active, body: &mut Body) -> Result<(), Error> {
        let bytes = body.as_slice().len() as u64;
        let mut encoder = active.body;
        let frame = encoder.piece(bytes).map_err(|error| match error {
            plimsoll_codec::Error::BodyTooLong => Error::Misuse("more bytes than were announced"),
            _ => Error::Misuse("this answer has no body"),
        })?;
        active.output.append_piece(&self.pool, frame.before(), body, frame.after())?;
        // A piece that found no room was not sent.
        active.body = encoder;
        active.sent_bytes += bytes;
        Ok(())
    }
}
