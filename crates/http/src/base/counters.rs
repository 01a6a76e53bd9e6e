//! What a server has done: counted by each worker for itself, read by anyone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::exchange_end::ExchangeEnd;
use crate::base::handshakes::{HandshakeCounters, HandshakeTotals};

/// The first status code that is counted, and how many there are.
const CODE_FIRST: u16 = 100;
const CODES: usize = 500;

/// Why something was shed or closed early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Shed {
    /// A parked connection.
    Parked,
    /// An incomplete head.
    Head,
    /// Output that the peer does not take.
    Output,
    /// A body, or a request, for which there was no room.
    Body,
    /// A connection right after it was accepted.
    Accept,
    /// The peer broke the protocol.
    Misbehaviour,
    /// The peer took too long, or a handler did.
    Timeout,
    /// A request that was not begun: too many waited, or it has waited for too long.
    Queue,
    /// A request that was not begun in time, or while as many handlers ran as may.
    Cpu,
    /// An exchange after [`begun_protection`](crate::Config::begun_protection), as others waited for memory.
    Overstay,
    /// A peer that took or sent too little, as others waited for memory: less than
    /// [`slow_bytes_per_second`](crate::Config::slow_bytes_per_second).
    Slow,
    /// A WebSocket, a member of a hub, a stream of events or a connection that left HTTP, which was told to end as
    /// others waited for memory.
    Lasting,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::Parked,
        Self::Head,
        Self::Output,
        Self::Body,
        Self::Accept,
        Self::Misbehaviour,
        Self::Timeout,
        Self::Queue,
        Self::Cpu,
        Self::Overstay,
        Self::Slow,
        Self::Lasting,
    ];

    /// The reason's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Head => "head",
            Self::Output => "output",
            Self::Body => "body",
            Self::Accept => "accept",
            Self::Misbehaviour => "misbehaviour",
            Self::Timeout => "timeout",
            Self::Queue => "queue",
            Self::Cpu => "cpu",
            Self::Overstay => "overstay",
            Self::Slow => "slow",
            Self::Lasting => "lasting",
        }
    }
}

/// One worker's counters; only that worker writes them.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    connections: AtomicU64,
    active: AtomicU64,
    /// Only where there is a limit on them.
    handlers: AtomicU64,
    accepted: AtomicU64,
    requests: AtomicU64,
    http2_requests: AtomicU64,
    websockets: AtomicU64,
    window_reserved_bytes: AtomicU64,
    exchanges_begun: AtomicU64,
    exchanges_ended: [AtomicU64; ExchangeEnd::ALL.len()],
    shed: [AtomicU64; Shed::ALL.len()],
    pub(crate) handshakes: HandshakeCounters,
    codes: Box<[AtomicU64]>,
    /// Engines that count here: one for each address, and those of servers that count together.
    engines: AtomicU64,
}

impl Default for WorkerCounters {
    fn default() -> Self {
        Self {
            connections: AtomicU64::new(0),
            active: AtomicU64::new(0),
            handlers: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            http2_requests: AtomicU64::new(0),
            websockets: AtomicU64::new(0),
            window_reserved_bytes: AtomicU64::new(0),
            exchanges_begun: AtomicU64::new(0),
            exchanges_ended: Default::default(),
            shed: Default::default(),
            handshakes: HandshakeCounters::default(),
            codes: (0..CODES).map(|_| AtomicU64::new(0)).collect(),
            engines: AtomicU64::new(0),
        }
    }
}

/// Adds to a counter that has one writer: a load and a store, no locked instruction.
pub(super) fn add(counter: &AtomicU64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}

impl WorkerCounters {
    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
        add(&self.connections, 1);
    }

    /// One that was accepted will be refused: it is no connection any more.
    pub(crate) fn refused(&self) {
        add(&self.connections, -1);
    }

    pub(crate) fn closed(&self) {
        add(&self.connections, -1);
    }

    pub(crate) fn active(&self, by: i64) {
        add(&self.active, by);
    }

    pub(crate) fn handlers(&self, by: i64) {
        add(&self.handlers, by);
    }

    /// Of this worker.
    pub(crate) fn active_now(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    /// One that was counted has not been begun after all.
    pub(crate) fn request_put_off(&self) {
        add(&self.requests, -1);
    }

    /// Counts a request of HTTP/2 that is begun, or was not after all.
    pub(crate) fn request_http2(&self, by: i64) {
        add(&self.http2_requests, by);
    }

    pub(crate) fn websocket(&self) {
        add(&self.websockets, 1);
    }

    pub(crate) fn window_reserved(&self, by: i64) {
        add(&self.window_reserved_bytes, by);
    }

    pub(crate) fn response(&self, code: u16) {
        if let Some(counter) = self.codes.get(usize::from(code.wrapping_sub(CODE_FIRST))) {
            add(counter, 1);
        }
    }

    /// The handler of an exchange was made.
    pub(crate) fn exchange_begun(&self) {
        add(&self.exchanges_begun, 1);
    }

    pub(crate) fn exchanges_ended(&self, how: ExchangeEnd, count: u32) {
        add(&self.exchanges_ended[how as usize], count.into());
    }

    /// An engine begins to count here, or has ended.
    pub(crate) fn engine(&self, by: i64) {
        add(&self.engines, by);
    }

    /// Whether all that was begun here has ended, where no other engine goes on.
    pub(crate) fn has_ended(&self) -> bool {
        self.engines.load(Ordering::Relaxed) > 0 || self.exchanges_now() == 0
    }

    /// Exchanges of this worker that were begun and have not ended.
    pub(crate) fn exchanges_now(&self) -> u64 {
        let ended: u64 = self.exchanges_ended.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        self.exchanges_begun.load(Ordering::Relaxed).wrapping_sub(ended)
    }

    pub(crate) fn shed(&self, reason: Shed) {
        add(&self.shed[reason as usize], 1);
    }
}

/// The counters of a server: clone it before [`Server::serve`](crate::Server::serve) and read it from anywhere.
#[derive(Clone, Debug)]
pub struct Counters(pub(crate) Arc<[Arc<WorkerCounters>]>);

/// Sums over all workers of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Connections that are parked between requests.
    pub parked: u64,
    /// Connections that are worked on.
    pub active: u64,
    /// Connections accepted.
    pub accepted_total: u64,
    /// HTTP/1.1 requests begun.
    pub requests_total: u64,
    /// HTTP/2 requests begun.
    pub http2_requests_total: u64,
    /// WebSockets opened.
    pub websockets_total: u64,
    /// Bytes that are reserved for HTTP/2 windows that were grown.
    pub window_reserved_bytes: u64,
    /// Exchanges begun: their handlers were made. What is not among
    /// [`exchanges_ended_total`](Self::exchanges_ended_total) still runs, or its answer is on its way.
    pub exchanges_begun_total: u64,
    /// How they ended, in the order of [`ExchangeEnd::ALL`]: each once.
    pub exchanges_ended_total: [u64; ExchangeEnd::ALL.len()],
    /// Responses by status code, in ascending order, without those that never happened.
    pub responses_total: Vec<(u16, u64)>,
    /// What was shed or closed early, in the order of [`Shed::ALL`].
    pub shed_total: [u64; Shed::ALL.len()],
    /// Handshakes of TLS.
    pub handshakes: HandshakeTotals,
}

impl Counters {
    /// Connections of all workers, without those that are refused.
    pub(crate) fn connections(&self) -> u64 {
        self.0.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }

    /// Handlers that run, of all workers, where there is a limit on them.
    pub(crate) fn handlers(&self) -> u64 {
        self.0.iter().map(|worker| worker.handlers.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Arc::default()).collect())
    }

    /// Sums over all workers, as they are now.
    pub fn totals(&self) -> Totals {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &AtomicU64| -> u64 {
            self.0.iter().map(|worker| of(worker).load(Ordering::Relaxed)).sum()
        };
        let active = sum(&|worker| &worker.active);
        let mut handshakes = HandshakeTotals::default();
        self.0.iter().for_each(|worker| worker.handshakes.add_to(&mut handshakes));
        let code = |at: usize| (CODE_FIRST + at as u16, sum(&|worker| &worker.codes[at]));
        Totals {
            parked: sum(&|worker| &worker.connections).saturating_sub(active),
            active,
            accepted_total: sum(&|worker| &worker.accepted),
            requests_total: sum(&|worker| &worker.requests),
            http2_requests_total: sum(&|worker| &worker.http2_requests),
            window_reserved_bytes: sum(&|worker| &worker.window_reserved_bytes),
            websockets_total: sum(&|worker| &worker.websockets),
            exchanges_begun_total: sum(&|worker| &worker.exchanges_begun),
            exchanges_ended_total: ExchangeEnd::ALL.map(|how| sum(&|worker| &worker.exchanges_ended[how as usize])),
            responses_total: (0..CODES).map(code).filter(|(_, count)| *count > 0).collect(),
            shed_total: Shed::ALL.map(|reason| sum(&|worker| &worker.shed[reason as usize])),
            handshakes,
        }
    }
}
