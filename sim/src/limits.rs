//! Limits that a seed makes so tight that its clients reach them, and clients that reach them for certain.

use core::time::Duration;
use std::sync::{Arc, LazyLock};

use plimsoll::http::{Config, Server, Shed, Totals};
use plimsoll::sim::{SimConfig, World};
use plimsoll::sleep;
use plimsoll::{MemoryLimit, Runtime, Spawner, budget, spawn};

use crate::oracle::Verdict;
use crate::plan::Rng;
use crate::service;

/// A limit that is reached in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Fewer connections than clients.
    Connections,
    /// Fewer of one address than clients, who are all at one address.
    Address,
    /// A body comes too slowly.
    BodyRate,
    /// A connection gets too old.
    Age,
    /// A connection has had all the requests it may have.
    Requests,
    /// A handler takes too long.
    Handler,
    /// A line of memory that is hardly enough to start.
    Memory,
    /// Fewer handlers at a time than requests, which wait for that, and not for long.
    Handlers,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 8] = [
        Self::Connections,
        Self::Address,
        Self::BodyRate,
        Self::Age,
        Self::Requests,
        Self::Handler,
        Self::Memory,
        Self::Handlers,
    ];

    /// A name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Address => "connections of an address",
            Self::BodyRate => "rate of a body",
            Self::Age => "age of a connection",
            Self::Requests => "requests of a connection",
            Self::Handler => "time of a handler",
            Self::Memory => "memory",
            Self::Handlers => "handlers at a time",
        }
    }

    pub(crate) fn apply(self, rng: &mut Rng, config: &mut Config) {
        match self {
            Self::Connections => config.connections_max = rng.between(1, 3) as u32,
            Self::Address => config.connections_per_address_max = Some(rng.between(1, 3) as u32),
            Self::BodyRate => {
                (config.body_timeout, config.body_bytes_per_second_min) = (Duration::from_secs(1), Some(4_096));
            }
            Self::Age => config.connection_age_max = Some(Duration::from_millis(rng.between(300, 900))),
            Self::Requests => config.requests_max = Some(rng.between(1, 4) as u32),
            Self::Handler => config.handler_timeout = Some(Duration::from_millis(rng.between(50, 300))),
            Self::Memory => {}
            Self::Handlers => {
                config.handlers_in_progress_max = Some(rng.between(1, 2) as u32);
                config.admission_timeout = Duration::from_millis(rng.between(20, 1_000));
            }
        }
    }

    /// How many clients there must be at least for the limit to be reached.
    pub(crate) fn clients_min(self) -> u64 {
        match self {
            Self::Connections | Self::Address | Self::Handlers => 5,
            _ => 1,
        }
    }

    /// Whether clients that do nothing out of the way may be cut off by it.
    pub(crate) fn hits_anybody(self) -> bool {
        self != Self::BodyRate
    }

    /// Whether it was reached, as far as the server's counters and the clients tell.
    pub(crate) fn is_reached(self, totals: &Totals, verdicts: &[Verdict]) -> bool {
        let shed = |reason: Shed| totals.shed_total[reason as usize] > 0;
        match self {
            Self::Connections | Self::Address => shed(Shed::Accept),
            Self::BodyRate | Self::Handler => shed(Shed::Timeout),
            Self::Handlers => shed(Shed::Cpu),
            Self::Age | Self::Requests => verdicts.contains(&Verdict::Cut),
            Self::Memory => {
                let is_told = totals.responses_total.iter().any(|&(status, _)| status == 503);
                is_told || [Shed::Accept, Shed::Parked, Shed::Output, Shed::Body].into_iter().any(shed)
            }
        }
    }
}

/// The line of a world: plenty, or hardly enough for so many workers.
pub(crate) fn memory(limit: Option<Limit>, workers: usize, rng: &mut Rng) -> MemoryLimit {
    match limit {
        Some(Limit::Memory) => MemoryLimit::kib(SMALLEST_KIB[workers - 1] + workers as u64 * rng.pick(&[64, 96, 200])),
        _ => MemoryLimit::mib(32),
    }
}

/// Moves the line up and down while clients come, between what is hardly enough and plenty, and looks that nothing is
/// handed out while more is than the line allows.
pub(crate) async fn move_line(mut rng: Rng) {
    let budget = budget();
    let low = budget.limit().as_bytes();
    for _ in 0..rng.between(2, 12) {
        sleep(Duration::from_micros(rng.between(500, 20_000))).await;
        let line = low + rng.pick(&[0, 0, 64 << 10, 1 << 20, 8 << 20]);
        let before = budget.credited();
        match budget.set_limit(MemoryLimit::bytes(line)) {
            Ok(_) => assert_eq!(budget.limit().as_bytes(), line),
            // A simulated runtime starts below what a real one is allowed to.
            Err(low) => assert!(low.floor_bytes > line, "{low}"),
        }
        let most = before.max(budget.limit().as_bytes());
        sleep(Duration::from_micros(rng.between(100, 5_000))).await;
        assert!(budget.credited() <= most, "{} bytes of credit, {most} at most", budget.credited());
    }
}

/// The smallest lines under which a server of one worker and of two starts.
static SMALLEST_KIB: LazyLock<[u64; 2]> = LazyLock::new(|| [1, 2].map(smallest_kib));

fn smallest_kib(workers: usize) -> u64 {
    (1..32 * 1_024).step_by(32).find(|&kib| starts(workers, MemoryLimit::kib(kib))).unwrap_or(32 * 1_024)
}

fn starts(workers: usize, line: MemoryLimit) -> bool {
    let world = World::new(SimConfig::new(1));
    let Ok(runtime) = Runtime::builder().workers(workers).memory(line).simulate(&world) else { return false };
    let has_started = runtime.block_on(async {
        let server = Server::bind("127.0.0.1:80").expect("the address is free");
        let serving = server.serve(|request| service::answer(request, Arc::default()));
        let Ok(serving) = spawn(serving) else { return false };
        sleep(Duration::from_millis(5)).await;
        Spawner::current().stop();
        matches!(serving.await, Ok(Ok(())))
    });
    has_started && runtime.shutdown().is_clean()
}
