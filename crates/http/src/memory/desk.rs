//! What every step of a connection may use, whatever it speaks: the pool, the queue for memory, the configuration, the
//! clock of a turn, the lists of connections to be looked after.
//!
//! Of the connections only their keys are known here. What has to be asked of them is asked of [`Connections`].

use ::core::cell::{Cell, OnceCell, RefCell};
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use plimsoll_codec::date::{self, DATE_BYTES};
use plimsoll_pool::Queue;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, Pool};
use plimsoll_slab::Key;

use crate::base::access_record::LogHook;
use crate::base::config::Config;
use crate::base::counters::{Counters, WorkerCounters};
use crate::base::peers::{Addresses, Peers};
use crate::memory::answer_reserve::AnswerReserve;
use crate::memory::by_address::Crowd;
use crate::memory::lasting::{Lasting, StayBytes};
use crate::memory::queue::InVain;
use crate::memory::reserved_routes::Slots;
use crate::memory::seldom::Seldom;
use crate::memory::waits::{Grant, PLACES, Waits};

/// The unit of [`Desk::age_now`].
const AGE_UNIT_MS: u64 = 250;
/// So many connections that are worked on share no output.
const FEW_ACTIVE: u64 = 64;
/// More of them together gather no more than this part of a worker's share of the line, or this much each.
const OUTPUT_PART: u64 = 4;
const OUTPUT_SHARE_MIN: usize = 4 * 1024;
/// Requests that were read ahead, and are not answered with those that came with them, are begun in a turn at most.
const FOLLOW_UPS_MAX: u32 = 64;

/// What is asked of the connections of a worker.
pub(crate) trait Connections {
    /// The address of a connection's socket; `None` of one that is gone or was reset.
    fn socket_address(&self, key: Key) -> Option<SocketAddr>;

    /// Whether who has a place still waits.
    fn waits(&self, who: &Waits) -> bool;

    /// Somebody's place went to another: its time is over.
    fn displaced(&self, who: &Waits);
}

/// See the module.
pub(crate) struct Desk {
    /// Set once, by whoever has them and this.
    connections: OnceCell<Weak<dyn Connections>>,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    /// Who is told of each answer.
    pub(crate) log: Option<LogHook>,
    counters: Counters,
    /// Those of this worker.
    counted: Arc<WorkerCounters>,
    /// The worker's share of the line, in bytes.
    line_share: Cell<u64>,
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
    /// The runtime, or this server, has been asked to stop; as of this turn.
    stopping: Cell<bool>,
    /// When a request came last after that.
    asked_at: Cell<Option<Instant>>,
    /// Pieces of work that handlers said must be finished.
    must_finish: Cell<u32>,
    /// Handlers that wait for the room of a body: they do in the queue of the pool.
    bodies: Cell<u32>,
    /// Connections that are being refused.
    refused: Cell<u32>,
    /// Whether the last of these has ended.
    recheck: Cell<bool>,
    /// How full the process is; as of this turn.
    level: Cell<Level>,
    /// Nobody was found in this turn who could be shed.
    pub(crate) has_looked: Cell<bool>,
    /// The place of the table that was looked at last for somebody to shed.
    pub(crate) looked_at: Cell<u32>,
    /// Who waits for room, and whether anybody does.
    pub(crate) waiting: RefCell<Queue<Waits>>,
    pub(crate) has_any: Cell<bool>,
    /// Whether it was looked in vain whose turn it is.
    pub(crate) in_vain: Cell<Option<InVain>>,
    /// When those that are gone were last taken out of it, as it was full.
    pub(crate) swept_at: Cell<Option<Instant>>,
    /// Where a route is marked.
    pub(crate) marked: OnceCell<Slots>,
    pub(crate) refusals: Seldom,
    pub(crate) cpu_refusals: Seldom,
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
}

impl Desk {
    pub(crate) fn new(
        (config, log): (Config, Option<LogHook>),
        line_share: u64,
        pool: Pool,
        (counters, addresses): (Counters, Addresses),
        stay_bytes: StayBytes,
    ) -> Self {
        Self {
            connections: OnceCell::new(),
            peers: RefCell::new(Peers::new(&config, addresses)),
            waiting: RefCell::new(Queue::new(&pool, PLACES, PLACES)),
            has_any: Cell::new(false),
            in_vain: Cell::new(None),
            swept_at: Cell::new(None),
            marked: OnceCell::new(),
            refusals: Seldom::default(),
            cpu_refusals: Seldom::default(),
            second_answers: Seldom::default(),
            reserve: AnswerReserve::new(&pool, line_share, config.progress_reserve_bytes),
            crowd: Crowd::new(&pool, line_share),
            lasting: Lasting::new(stay_bytes),
            weighed: Cell::new(false),
            free_bytes: Cell::new(line_share / 4),
            used_at: Cell::new(0),
            fed: Cell::new(None),
            kept_for: Cell::new(None),
            kept: RefCell::default(),
            gather_bytes_max: Cell::new(config.output_bytes_max),
            config,
            log,
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
            bodies: Cell::new(0),
            refused: Cell::new(0),
            recheck: Cell::new(false),
            level: Cell::default(),
            has_looked: Cell::new(false),
            looked_at: Cell::new(0),
            line_share: Cell::new(line_share),
        }
    }

    /// Whose connections those are that are known by key.
    pub(crate) fn serve(&self, connections: Weak<dyn Connections>) {
        let before = self.connections.set(connections);
        debug_assert!(before.is_ok(), "it serves one table");
    }

    /// The connections; `None` while those go away.
    pub(crate) fn connections(&self) -> Option<Rc<dyn Connections>> {
        self.connections.get()?.upgrade()
    }

    /// Begins a turn of the engine. Whether memory comes to be short in it.
    pub(crate) fn begin_turn(&self) -> bool {
        self.line_share.set(self.pool.budget().limit().as_bytes() / self.workers());
        self.has_looked.set(false);
        self.follow_ups.set(FOLLOW_UPS_MAX);
        self.tick();
        self.weigh()
    }

    /// This worker's share of the line as it was at the beginning of the turn, in bytes.
    #[inline]
    pub(crate) fn line_share(&self) -> u64 {
        self.line_share.get()
    }

    /// The peer's address: what a PROXY header said, or else the socket's.
    pub(crate) fn peer_address(&self, key: Key) -> Option<SocketAddr> {
        self.peers.borrow_mut().address(key, || self.connections()?.socket_address(key))
    }

    /// Those of all workers.
    pub(crate) fn all_counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counted
    }

    /// The same, to be kept.
    pub(crate) fn counted(&self) -> Arc<WorkerCounters> {
        Arc::clone(&self.counted)
    }

    /// Workers of the server.
    pub(crate) fn workers(&self) -> u64 {
        self.counters.0.len() as u64
    }

    /// Whether the runtime, or this server, has been asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// The server stops, whether or not its runtime does.
    pub(crate) fn stops(&self) {
        self.stopping.set(true);
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
        self.stopping.set(self.stopping.get() || plimsoll_runtime::signal::is_stopping());
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
        self.wake_engine();
    }

    /// Has the engine take a turn.
    pub(crate) fn wake_engine(&self) {
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
            self.wake_engine();
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
        if by < 0 && self.has_waiting() {
            self.recheck.set(true);
            self.wake_engine();
        }
    }

    /// A handler begins to wait for the room of a body, or has waited: others are told to end meanwhile.
    pub(crate) fn count_body_wait(&self, by: i32) {
        let count = self.bodies.get().checked_add_signed(by).expect("what ends has begun");
        self.bodies.set(count);
        if by > 0 {
            self.recheck.set(true);
            self.wake_engine();
        }
    }

    /// Whether a handler waits for the room of a body.
    pub(crate) fn do_bodies_wait(&self) -> bool {
        self.bodies.get() > 0
    }

    /// Whether the server has more connections than it may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.counters.connections() > u64::from(self.config.connections_max)
    }

    /// Whether nothing runs that must be finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.must_finish.get() == 0
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
        let share = usize::try_from(self.line_share() / OUTPUT_PART / active).unwrap_or(usize::MAX);
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

    /// Whether some route is marked.
    pub(crate) fn has_marked(&self) -> bool {
        self.marked.get().is_some()
    }

    /// Frees what is kept, until [`end_draw`](Self::end_draw); `false` where that is done already, or nothing is kept.
    pub(crate) fn draw_for_marked(&self) -> bool {
        let Some(slots) = self.marked.get().filter(|slots| !slots.is_drawn.get()) else { return false };
        slots.is_drawn.set(true);
        slots.portions.borrow_mut().clear();
        true
    }

    /// Takes it back.
    pub(crate) fn end_draw(&self, draws: bool) {
        if draws && let Some(slots) = self.marked.get() {
            slots.is_drawn.set(false);
            slots.restock(&self.pool);
        }
    }

    /// Whether a step is made with what is kept: what it wrote is handed to the socket at once.
    pub(crate) fn is_drawn(&self) -> bool {
        self.marked.get().is_some_and(|slots| slots.is_drawn.get())
    }
}
