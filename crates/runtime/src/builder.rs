//! How a runtime is made.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use plimsoll_pool::{
    AdmissionConfig, Budget, Charge, DecayConfig, Error as PoolError, Kind, MemoryLimit, OutOfRange, OverBudget, Pool,
    PoolConfig, page_bytes,
};
use plimsoll_reactor::{
    Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, DriverKind, Error as ReactorError, Selected, select,
};

use crate::container::ContainerLimit;
use crate::gauges::Gauges;
use crate::inbox::Inbox;
use crate::runtime::{Runtime, Simulation};
use crate::shared::Shared;
use crate::tokio_runtime::TokioRuntime;
use crate::workers::{WorkerCount, WorkerNeed};
use crate::{ConfigError, Error, Result, sys};

/// Workers of a runtime at most.
pub(crate) const WORKERS_MAX: usize = 1_024;

/// A line that nobody gave has so much for each worker,
const LINE_EACH: MemoryLimit = MemoryLimit::mib(32);
/// and at least this.
const LINE_MIN: MemoryLimit = MemoryLimit::mib(64);

/// What a worker keeps for newcomers at most,
const RESERVE_BYTES: u64 = 4 << 20;
/// and all workers together this part of the line.
const RESERVE_PART: u64 = 16;

/// The settings of a [`Runtime`]; get one from [`Runtime::builder`].
///
/// | setting | default |
/// |---|---|
/// | workers | the processors this process may use, or as many as half of the line carries |
/// | memory | 32 MiB for each worker, at least 64 MiB, at most 60 % of a container's limit |
/// | driver | io_uring where it works, else mio |
/// | signals | SIGINT and SIGTERM are left alone |
/// | stall limit | 10 ms |
/// | free memory goes back | after 2 s; 250 ms when 75 % of the line are in use |
/// | longest wait for memory | 10 s |
///
/// ```
/// use plimsoll_runtime::{DriverChoice, MemoryLimit, Runtime};
///
/// let runtime = Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).driver(DriverChoice::Auto).build()?;
/// assert_eq!(runtime.block_on(async { 6 * 7 }), 42);
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is started before `build`"]
pub struct Builder {
    pub(crate) workers: Option<usize>,
    /// `None` for one that grows with the workers.
    memory: Option<MemoryLimit>,
    pub(crate) driver: DriverChoice,
    pub(crate) driver_config: DriverConfig,
    pub(crate) blocking: BlockingConfig,
    pub(crate) signals: bool,
    pub(crate) pin: bool,
    pub(crate) stall_limit: Option<Duration>,
    pub(crate) worker_stack_bytes: usize,
    pub(crate) drain_timeout: Duration,
    pub(crate) decay: DecayConfig,
    pub(crate) container: Container,
    pub(crate) reserve_bytes: Option<u64>,
    pub(crate) wait_timeout: Duration,
    /// The processors, when the line does not carry a worker for each.
    pub(crate) lowered_from: Option<usize>,
    pub(crate) tokio: Tokio,
}

/// Whether a runtime of tokio runs beside this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokio {
    None,
    Beside,
}

/// Whose memory limit lowers the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Container {
    /// That of this process's cgroup, which is looked up when a runtime is built: a simulated one is under none.
    OfProcess,
    /// What was given.
    Given(Option<ContainerLimit>),
}

impl Container {
    pub(crate) fn limit(self) -> Option<ContainerLimit> {
        match self {
            Self::OfProcess => ContainerLimit::of_process(),
            Self::Given(limit) => limit,
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            workers: None,
            memory: None,
            driver: DriverChoice::Auto,
            driver_config: DriverConfig::default(),
            blocking: BlockingConfig::default(),
            signals: false,
            pin: false,
            stall_limit: Some(Duration::from_millis(10)),
            worker_stack_bytes: 1024 * 1024,
            drain_timeout: Duration::from_secs(10),
            decay: DecayConfig::default(),
            container: Container::OfProcess,
            reserve_bytes: None,
            wait_timeout: Duration::from_secs(10),
            lowered_from: None,
            tokio: Tokio::None,
        }
    }
}

/// The line of a runtime that is given none.
fn default_line(workers: usize) -> MemoryLimit {
    MemoryLimit::bytes((LINE_EACH.as_bytes() * workers as u64).max(LINE_MIN.as_bytes()))
}

impl Builder {
    /// How many workers, 1 to 1,024. The first runs on the thread that calls [`Runtime::block_on`], the others on
    /// threads of their own. A number that the line does not carry is an error; without one there are fewer than
    /// processors then, see [`Runtime::lowered_from`].
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The memory line. A container's limit may lower it: see [`container`](Self::container).
    ///
    /// Without it the line grows with the workers that were asked for, or one for each processor: 32 MiB for each, at
    /// least 64 MiB. A line that is given is divided among them instead, and carries fewer if it is low.
    pub fn memory(mut self, limit: MemoryLimit) -> Self {
        self.memory = Some(limit);
        self
    }

    /// Starts a runtime of tokio beside this one, and makes it the context of every worker: for crates that call
    /// `tokio::time`, `tokio::net`, `tokio::fs` or `tokio::spawn` by name and panic without one ("there is no reactor
    /// running").
    ///
    /// It has one thread for its timers, sockets and tasks, and up to two for calls that block; their stacks, each of
    /// [`worker_stack_bytes`](Self::worker_stack_bytes), are charged at once. What is given to `tokio::spawn` runs over
    /// there, and sockets of tokio are driven over there; what else it allocates is the program's heap.
    /// [`Metrics::tokio_tasks`](crate::Metrics::tokio_tasks) tells how much it is used. It ends with the runtime.
    ///
    /// ```
    /// use core::time::Duration;
    /// use plimsoll_runtime::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).tokio_context().build()?;
    /// let sum = runtime.block_on(async {
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     tokio::spawn(async { 6 * 7 }).await
    /// });
    /// assert_eq!(sum.expect("no panic"), 42);
    /// # Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// A simulation has none: [`simulate`](Self::simulate) answers [`Error::Config`].
    #[cfg(feature = "tokio-context")]
    pub fn tokio_context(mut self) -> Self {
        self.tokio = Tokio::Beside;
        self
    }

    /// Which driver.
    pub fn driver(mut self, choice: DriverChoice) -> Self {
        self.driver = choice;
        self
    }

    /// Sizes of the drivers' rings.
    pub fn driver_config(mut self, config: DriverConfig) -> Self {
        self.driver_config = config;
        self
    }

    /// Sizes of the pool of threads for calls that block.
    pub fn blocking(mut self, config: BlockingConfig) -> Self {
        self.blocking = config;
        self
    }

    /// Whether SIGINT and SIGTERM stop the runtime in an orderly way; a second one ends the process with code 130.
    /// Default no.
    ///
    /// Up to 16 runtimes of a process can have the signals at a time, and a signal stops all of them. It is a second
    /// one when none of them is stopped by it, because each got one before. When the last of them has ended, the
    /// handlers that were there before are back, unless somebody has installed others meanwhile. A runtime that is
    /// leaked keeps its place, and the handlers.
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Whether each worker stays on a processor of its own.
    pub fn pin_workers(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// From when on a poll that blocks its worker is named in a warning; `None` turns that off.
    pub fn stall_limit(mut self, limit: Option<Duration>) -> Self {
        self.stall_limit = limit;
        self
    }

    /// Stack of each worker thread, at least 128 KiB, rounded up to pages; charged in full. Default 1 MiB. The first
    /// worker uses its caller's stack.
    pub fn worker_stack_bytes(mut self, bytes: usize) -> Self {
        self.worker_stack_bytes = bytes;
        self
    }

    /// How long the shutdown waits for operations and blocking calls, after all tasks were dropped. Default 10 s. A
    /// server has a time of its own before that, for the exchanges that run when the stop is asked for. A worker or a
    /// blocking call that does not end by then is left behind, see [`Runtime::shutdown`].
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// The container's memory limit, which lowers the line to 60 % of it. Default: what this process's cgroup says.
    /// `None` for a line as it is given, whatever the container allows. A simulated runtime's line is always as it is
    /// given.
    pub fn container(mut self, limit: Option<ContainerLimit>) -> Self {
        self.container = Container::Given(limit);
        self
    }

    /// When memory that nobody has used for a while goes back to the system. Default: after 2 s, after 250 ms when the
    /// line is near.
    pub fn decay(mut self, config: DecayConfig) -> Self {
        self.decay = config;
        self
    }

    /// How long a wait for memory may take that names no deadline of its own. Default 10 s.
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = timeout;
        self
    }

    /// What each worker keeps for newcomers, in bytes: while memory is short, only [`Pool::for_newcomer`] draws on it.
    /// Servers begin requests of addresses with it that have nothing else that runs. Default a sixteenth of the line
    /// for all workers, and 4 MiB for each at most. It is not charged.
    pub fn newcomer_reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = Some(bytes);
        self
    }

    /// The waiting side of a worker's pool.
    pub(crate) fn admission_config(&self, shared: &Shared) -> AdmissionConfig {
        let workers = shared.inboxes.len() as u64;
        let reserve =
            self.reserve_bytes.unwrap_or(RESERVE_BYTES.min(self.line().as_bytes() / (RESERVE_PART * workers)));
        AdmissionConfig::default().reserve_bytes(reserve).wait_timeout(self.wait_timeout)
    }

    /// The line that was given, or that so many workers have.
    pub(crate) fn line(&self) -> MemoryLimit {
        self.memory.unwrap_or_else(|| default_line(self.workers.unwrap_or(1)))
    }

    fn check(&self, workers: usize) -> Result<()> {
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(OutOfRange::new("workers", "between 1 and 1,024").into());
        }
        if self.worker_stack_bytes < 128 * 1024 {
            return Err(OutOfRange::new("worker_stack_bytes", "at least 131,072 bytes").into());
        }
        Ok(self.driver_config.check().and(self.blocking.check()).and(self.decay.check())?)
    }

    /// Makes the runtime: chooses the driver, charges the fixed parts, starts the worker threads.
    ///
    /// # Errors
    ///
    /// [`Error::LineTooLow`], [`Error::Driver`] for a forced driver that is not available, [`Error::Config`] for values
    /// out of range.
    pub fn build(self) -> Result<Runtime> {
        let processors = sys::available_workers();
        self.build_on(processors)
    }

    /// The same on so many processors.
    pub(crate) fn build_on(mut self, processors: usize) -> Result<Runtime> {
        self.container = Container::Given(self.container.limit());
        let processors = processors.min(WORKERS_MAX);
        self.check(self.workers.unwrap_or(processors))?;
        let selected = select(self.driver)?;
        self.memory.get_or_insert(default_line(self.workers.unwrap_or(processors)));
        self.lower_line();
        match self.clone().start(selected, processors) {
            // One ring worked, but not as many as there are workers: locked memory is short.
            Err(Error::Driver(ReactorError::System { step, errno })) if self.may_fall_back(&selected) => {
                let mio = select(DriverChoice::Mio)?;
                self.start(Selected { reason: Some((step, errno)), ..mio }, processors)
            }
            started => started,
        }
    }

    /// A line above what the container leaves would be one that the kernel kills for.
    fn lower_line(&mut self) {
        let Some(container) = self.container.limit() else { return };
        let line_bytes_max = container.line_bytes_max().max(1);
        if self.line().as_bytes() > line_bytes_max {
            tracing::warn!(
                line_bytes = line_bytes_max,
                asked_bytes = self.line().as_bytes(),
                container_bytes = container.bytes,
                "the memory line is lowered: the container has no room for more"
            );
            self.memory = Some(MemoryLimit::bytes(line_bytes_max));
        }
    }

    fn may_fall_back(&self, selected: &Selected) -> bool {
        self.driver == DriverChoice::Auto && selected.kind == DriverKind::Uring
    }

    fn start(mut self, selected: Selected, processors: usize) -> Result<Runtime> {
        // As the system does: what is charged is what is mapped.
        self.worker_stack_bytes = self.worker_stack_bytes.checked_next_multiple_of(page_bytes()).unwrap_or(usize::MAX);
        let beside = match self.tokio {
            Tokio::None => 0,
            Tokio::Beside => TokioRuntime::bytes(self.worker_stack_bytes),
        };
        let need = WorkerNeed::new(self.fixed_bytes(&selected)?, self.worker_stack_bytes as u64).beside(beside);
        let workers = match need.choose(self.workers, processors, self.line().as_bytes())? {
            WorkerCount::AsAsked(workers) => workers,
            WorkerCount::Lowered(workers) => {
                tracing::warn!(
                    workers,
                    processors,
                    line_bytes = self.line().as_bytes(),
                    "fewer workers than processors: more would take over half of the memory line"
                );
                self.lowered_from = Some(processors);
                workers
            }
        };
        if let Some((step, errno)) = selected.reason {
            tracing::info!(step, %errno, "epoll instead of io_uring, which does not work here");
        }
        self.workers = Some(workers);
        let shared = self.shared(workers, false)?;
        if let Some(container) = self.container.limit() {
            shared.budget.set_container_bytes(container.bytes);
        }
        Runtime::start(self, selected, shared)
    }

    /// Makes a runtime inside a simulated world: all its workers run on the thread that calls [`Simulation::block_on`],
    /// in an order that the world's seed decides, in the world's time. One worker, unless [`workers`](Self::workers)
    /// said otherwise.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn simulate(self, world: &plimsoll_reactor::sim::World) -> Result<Simulation> {
        let workers = self.workers.unwrap_or(1);
        self.check(workers)?;
        if self.tokio == Tokio::Beside {
            return Err(ConfigError::TokioInSimulation.into());
        }
        let shared = self.shared(workers, true)?;
        Simulation::start(self, world, shared)
    }

    pub(crate) fn pool_config(&self, workers: usize) -> PoolConfig {
        PoolConfig::default().workers(workers as u32)
    }

    /// What the fixed parts of a worker take without its stack, found by making one under a generous line.
    fn fixed_bytes(&self, selected: &Selected) -> Result<u64> {
        let budget = Budget::new(MemoryLimit::gib(4));
        let pool = Pool::new(&budget, self.pool_config(1))?;
        let blocking = Blocking::new(self.blocking, &budget);
        let driver = Driver::new(selected, &self.driver_config, &pool, &blocking)?;
        let bytes = budget.charged();
        drop(driver);
        Ok(bytes)
    }

    fn shared(&self, workers: usize, simulated: bool) -> Result<Arc<Shared>> {
        let budget = Budget::new(self.line());
        budget.set_working_bytes(WorkerNeed::working_bytes(workers));
        let tokio = match self.tokio {
            Tokio::None => None,
            Tokio::Beside => Some(TokioRuntime::start(self.worker_stack_bytes, &budget)?),
        };
        Ok(Arc::new(Shared {
            tokio,
            blocking: Blocking::new(self.blocking, &budget),
            budget,
            inboxes: (0..workers).map(|_| Inbox::new()).collect(),
            gauges: (0..workers).map(|_| Gauges::default()).collect(),
            stopping: AtomicBool::new(false),
            quits_by: OnceLock::new(),
            stall_limit: if simulated { None } else { self.stall_limit },
            decay: self.decay,
            simulated,
        }))
    }

    /// The charge for a worker thread's stack.
    pub(crate) fn charge_stack(&self, budget: &Arc<Budget>) -> Result<Charge, OverBudget> {
        Budget::charge(budget, Kind::Stacks, self.worker_stack_bytes as u64)
    }

    /// The same for what a pool says.
    pub(crate) fn too_low_for_pool(&self, error: PoolError) -> Error {
        match error {
            PoolError::OverBudget(over) => self.too_low(ReactorError::OverBudget(over)),
            other => Error::Pool(other),
        }
    }

    /// Errors of the start that mean that the line is too low say so.
    pub(crate) fn too_low(&self, error: ReactorError) -> Error {
        match error {
            ReactorError::OverBudget(over) => {
                let (line_bytes, workers) = (self.line().as_bytes(), self.workers.unwrap_or(1));
                let needed_bytes = line_bytes + over.wanted_bytes();
                let worker_bytes = needed_bytes.div_ceil(workers as u64);
                let workers_max = (line_bytes / worker_bytes) as usize;
                Error::LineTooLow { needed_bytes, line_bytes, workers, worker_bytes, workers_max }
            }
            other => Error::Driver(other),
        }
    }
}
