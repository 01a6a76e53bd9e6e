//! The runtime: worker 0 on the caller's thread, the others on their own, and an orderly end.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use plimsoll_pool::{Budget, Kind, PageChoice, Pool, SimPages};
use plimsoll_reactor::sim::{Step, World};
use plimsoll_reactor::{Driver, Errno, Instant, Selected, ShutdownReport, Wait};

use crate::builder::Builder;
use crate::gauges::Metrics;
use crate::main_waker::MainWaker;
use crate::plan::Plan;
use crate::shared::Shared;
use crate::sys::Signals;
use crate::worker::Worker;
use crate::{Error, Misuse, Result, sys};

#[cfg(test)]
mod tests;

/// How long a worker that has waited for its operations until the deadline may take to let go of what it holds.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// What was left when a runtime ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes still charged after every task was dropped and everything free was given back.
    pub charged_bytes: u64,
    /// Bytes of the fixed parts among them: rings, receive buffers, tables of the pool.
    pub fixed_bytes: u64,
    /// The most bytes that were charged at any time.
    pub peak_bytes: u64,
    /// Bytes that had to be leaked because operations did not end in time. Bytes that sends share are counted once for
    /// each worker. When workers or blocking calls did not end in time, at least what is charged beside the fixed
    /// parts.
    pub leaked_bytes: u64,
    /// Operations that did not end in time.
    pub in_flight: u64,
    /// Workers that did not end in time, because a poll or a destructor blocks them. Each keeps its thread, its memory,
    /// its sockets and what is in flight; when what blocks it returns, it gives them back as it would have.
    pub blocked_workers: Vec<usize>,
    /// Calls of [`spawn_blocking`](crate::spawn_blocking), and file operations on epoll, that did not return in time.
    /// Each keeps its thread until it does.
    pub blocked_calls: u32,
}

impl Report {
    /// Whether nothing is left but fixed parts.
    pub fn is_clean(&self) -> bool {
        let all_ended = self.blocked_workers.is_empty() && self.blocked_calls == 0;
        all_ended && self.charged_bytes <= self.fixed_bytes && self.leaked_bytes == 0
    }
}

impl Report {
    /// A worker has ended.
    fn add(&mut self, worker: ShutdownReport) {
        self.leaked_bytes += worker.leaked_bytes;
        self.in_flight += worker.in_flight as u64;
    }

    /// What is charged, when all have ended that will.
    fn measure(&mut self, budget: &Budget) {
        self.peak_bytes = budget.peak();
        self.fixed_bytes = budget.charged_by(Kind::Fixed) + budget.charged_by(Kind::Rings);
        self.charged_bytes = budget.charged();
        if !self.blocked_workers.is_empty() || self.blocked_calls > 0 {
            self.leaked_bytes = self.leaked_bytes.max(self.charged_bytes.saturating_sub(self.fixed_bytes));
        }
    }
}

impl fmt::Display for Report {
    /// `memory charged=N fixed=N peak=N leaked=N in_flight=N`, bytes and operations. A line before it says who did not
    /// end in time, if anybody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.blocked_workers.is_empty() || self.blocked_calls > 0 {
            writeln!(f, "did not end: workers={:?} blocking_calls={}", self.blocked_workers, self.blocked_calls)?;
        }
        write!(
            f,
            "memory charged={} fixed={} peak={} leaked={} in_flight={}",
            self.charged_bytes, self.fixed_bytes, self.peak_bytes, self.leaked_bytes, self.in_flight
        )
    }
}

/// A runtime on threads. Dropping it ends it like [`shutdown`](Self::shutdown).
pub struct Runtime {
    builder: Builder,
    selected: Selected,
    shared: Arc<Shared>,
    /// This runtime's share of the signals. Given back when everything has ended: until then a second one ends the
    /// process.
    signals: Option<Signals>,
    /// Worker 0. `None` once shut down.
    worker: Option<Rc<Worker>>,
    threads: Vec<WorkerThread>,
}

struct WorkerThread {
    index: usize,
    thread: JoinHandle<()>,
    ended: mpsc::Receiver<ShutdownReport>,
}

impl WorkerThread {
    /// Waits until the worker has ended; `None` if it has not in time. Its thread goes on alone then.
    fn end(self, limit: &sys::TimeLimit) -> Option<ShutdownReport> {
        match self.ended.recv_timeout(limit.left()) {
            Ok(report) => {
                // It has only its last instructions left.
                drop(self.thread.join());
                Some(report)
            }
            // It panicked where it should not have.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                drop(self.thread.join());
                Some(ShutdownReport::default())
            }
            Err(mpsc::RecvTimeoutError::Timeout) => None,
        }
    }
}

impl Runtime {
    /// The settings of a new runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(builder: Builder, selected: Selected, shared: Arc<Shared>) -> Result<Self> {
        let worker = make_worker(0, &builder, &selected, &shared)?;
        let signals = if builder.signals { Some(take_signals(&worker)?) } else { None };
        let mut runtime = Self { builder, selected, shared, signals, worker: Some(worker), threads: Vec::new() };
        for index in 1..runtime.workers() {
            let thread = runtime.start_thread(index)?;
            runtime.threads.push(thread);
        }
        if runtime.builder.pin {
            sys::pin_to(0);
        }
        Ok(runtime)
    }

    fn start_thread(&self, index: usize) -> Result<WorkerThread> {
        let stack = self.builder.charge_stack(&self.shared.budget)?;
        let (ready, is_ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (builder, selected, shared) = (self.builder.clone(), self.selected, Arc::clone(&self.shared));
        let body = move || {
            if builder.pin {
                sys::pin_to(index);
            }
            let worker = match make_worker(index, &builder, &selected, &shared) {
                Ok(worker) => worker,
                Err(error) => {
                    let _nobody_waits = ready.send(Err(error));
                    return;
                }
            };
            let _nobody_waits = ready.send(Ok(()));
            let report = run_worker(&worker, builder.drain_timeout);
            // Whoever hears of it finds what this thread held uncharged.
            drop((worker, stack));
            let _nobody_waits = end.send(report);
        };
        let name = format!("plimsoll-{index}");
        let thread = sys::spawn_thread(name, self.builder.worker_stack_bytes, body)
            .map_err(|error| Error::System(error.into()))?;
        is_ready.recv().map_err(|_| Error::Panicked)??;
        Ok(WorkerThread { index, thread, ended })
    }

    fn worker(&self) -> &Rc<Worker> {
        self.worker.as_ref().expect("a runtime is not used after its shutdown")
    }

    /// Runs a future, and everything else of worker 0, on this thread until the future is done.
    ///
    /// # Panics
    ///
    /// When the future panics, or when called inside a runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(Worker::try_current().is_none(), "block_on inside of a runtime: use spawn or await instead");
        let worker = self.worker();
        let _entered = worker.enter();
        let doorbell = worker.driver.borrow().doorbell().clone();
        let main = MainWaker::new(doorbell);
        let waker = Waker::from(Arc::clone(&main));
        let mut future = pin!(future);
        loop {
            if main.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return output;
            }
            worker.run_ready();
            let wait = if main.prepare_sleep() || worker.is_timer_refused() { worker.wait() } else { Wait::No };
            // What the reaping wakes is on this thread: it needs no bell.
            let exchanged = worker.exchange(wait, || main.woke());
            if let Err(error) = exchanged {
                panic!("the driver of worker 0 failed: {error}");
            }
        }
    }

    /// The driver that was chosen, how it receives, and why it is not io_uring.
    pub fn driver(&self) -> &Selected {
        &self.selected
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.inboxes.len()
    }

    /// The processors, if the line does not carry a worker for each of them and nobody asked for a number of workers:
    /// there are fewer then. Programs had better say so.
    ///
    /// ```
    /// use plimsoll_runtime::{MemoryLimit, Runtime};
    ///
    /// let runtime = Runtime::builder().memory(MemoryLimit::mib(2)).build()?;
    /// if let Some(processors) = runtime.lowered_from() {
    ///     assert!(runtime.workers() < processors);
    /// }
    /// # Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub fn lowered_from(&self) -> Option<usize> {
        self.builder.lowered_from
    }

    /// The process's budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.shared.budget
    }

    /// What the memory of this runtime goes to, as far as it knows: the fixed parts as they are charged now, and what
    /// every connection in a [`Table`](crate::net::Table) needs beside its entry.
    ///
    /// Ask for it before anything is served: what is charged later counts as fixed, too.
    pub fn plan(&self) -> Plan {
        Plan::of_runtime(self.budget(), self.builder.container.limit(), self.driver().kind)
    }

    /// What the workers have done and hold.
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// Asks for an orderly stop, as SIGTERM does: listeners stop accepting, servers finish what runs.
    pub fn stop(&self) {
        self.shared.begin_stop();
    }

    /// Ends the runtime: drops every task, cancels every operation and waits for the kernel to be done with them, up to
    /// the drain timeout. What is not done by then is leaked and reported.
    ///
    /// A poll or a destructor that blocks its worker is waited for until the drain timeout and a second more; then the
    /// report names the worker, which goes on alone. Nothing that it may still use is taken from it: its memory stays
    /// charged and its sockets stay open until it returns, or the process ends. So it is for calls of
    /// [`spawn_blocking`](crate::spawn_blocking). Destructors of tasks of worker 0 run here, and have no time limit.
    pub fn shutdown(mut self) -> Report {
        self.end()
    }

    fn end(&mut self) -> Report {
        let Some(worker) = self.worker.take() else { return Report::default() };
        let drain = self.builder.drain_timeout;
        let (deadline, own_deadline, limit) = {
            let _entered = worker.enter();
            // The last turn may be long ago, and with it the time that the worker knows.
            let _settling_says_so = worker.exchange(Wait::No, || {});
            let deadline = worker.now() + drain;
            let limit = sys::TimeLimit::after(drain.saturating_add(ENDING_MAX));
            self.shared.quit(deadline);
            settle(&worker);
            let _settling_says_so = worker.exchange(Wait::No, || {});
            let now = worker.now();
            // As every worker that comes after the deadline.
            (deadline, if deadline > now { deadline } else { now + drain }, limit)
        };
        let mut report = Report::default();
        report.add(shut_down_driver(&worker, own_deadline));
        for thread in self.threads.drain(..) {
            let index = thread.index;
            match thread.end(&limit) {
                Some(sum) => report.add(sum),
                None => {
                    tracing::error!(worker = index, "a poll blocks this worker: the runtime ends without it");
                    report.blocked_workers.push(index);
                }
            }
        }
        report.blocked_calls = self.shared.blocking.shutdown(deadline);
        if report.blocked_calls > 0 {
            tracing::error!(calls = report.blocked_calls, "calls on the blocking pool did not end in time");
        }
        if let Some(tokio) = &self.shared.tokio {
            tokio.end(&limit);
        }
        worker.release();
        report.measure(&self.shared.budget);
        worker.signal_place.set(None);
        self.signals = None;
        report
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("driver", &self.selected).field("workers", &self.workers()).finish()
    }
}

/// From now on signals wake the worker, which stops the runtime.
fn take_signals(worker: &Worker) -> Result<Signals> {
    let taken = Signals::take(worker.driver.borrow().doorbell()).map_err(|error| Error::System(error.into()))?;
    let signals = taken.ok_or(Misuse::TooManySignalTakers)?;
    worker.signal_place.set(Some(signals.place()));
    Ok(signals)
}

fn make_worker(index: usize, builder: &Builder, selected: &Selected, shared: &Arc<Shared>) -> Result<Rc<Worker>> {
    let pool = Pool::new(&shared.budget, builder.pool_config(shared.inboxes.len()))?;
    let driver = Driver::new(selected, &builder.driver_config, &pool, &shared.blocking)
        .map_err(|error| builder.too_low(error))?;
    let config = builder.admission_config(shared);
    Worker::new(index, shared, pool, driver, config).map_err(|error| builder.too_low_for_pool(error))
}

/// The loop of a worker with a thread of its own.
fn run_worker(worker: &Rc<Worker>, drain: Duration) -> ShutdownReport {
    let _entered = worker.enter();
    while worker.shared.quits_by().is_none() {
        // A panic that gets here must not end the thread with its connections open and nobody told.
        match catch_unwind(AssertUnwindSafe(|| worker.turn())) {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => tracing::error!(worker = worker.index, %error, "the driver failed: the worker ends"),
            Err(_payload) => tracing::error!(worker = worker.index, "the worker panicked, and ends"),
        }
        worker.shared.begin_stop();
        break;
    }
    settle(worker);
    let now = worker.now();
    // Nobody waits for a worker that comes after the deadline: it has all the time again.
    let deadline = worker.shared.quits_by().filter(|deadline| *deadline > now).unwrap_or(now + drain);
    let report = shut_down_driver(worker, deadline);
    worker.release();
    report
}

/// Drops all tasks and lets their closes and cancels reach the kernel.
fn settle(worker: &Rc<Worker>) {
    worker.close_down();
    if let Err(error) = worker.exchange(Wait::No, || {}) {
        tracing::error!(%error, "the driver failed while it was closed down");
    }
    worker.close_down();
    worker.close_inbox();
}

fn shut_down_driver(worker: &Rc<Worker>, deadline: Instant) -> ShutdownReport {
    let report = worker.driver.borrow_mut().shutdown(deadline);
    worker.release();
    report
}

/// A runtime inside a simulated world, on one thread.
///
/// ```
/// use plimsoll_runtime::{Runtime, sleep, now};
/// use plimsoll_reactor::sim::{SimConfig, World};
/// use core::time::Duration;
///
/// let world = World::new(SimConfig::new(1));
/// let simulation = Runtime::builder().simulate(&world)?;
/// let slept = simulation.block_on(async {
///     let start = now();
///     sleep(Duration::from_secs(3_600)).await;
///     now() - start
/// });
/// assert_eq!(slept, Duration::from_secs(3_600), "an hour of the world's time, at once");
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub struct Simulation {
    world: World,
    pages: SimPages,
    workers: Vec<Rc<Worker>>,
    shared: Arc<Shared>,
    ended: Cell<bool>,
}

impl Simulation {
    pub(crate) fn start(builder: Builder, world: &World, shared: Arc<Shared>) -> Result<Self> {
        let mut workers = Vec::with_capacity(shared.inboxes.len());
        let pages = SimPages::new(world.seed());
        for index in 0..shared.inboxes.len() {
            let config = builder.pool_config(shared.inboxes.len()).pages(PageChoice::Simulated(pages.clone()));
            let pool = Pool::new(&shared.budget, config)?;
            let driver =
                Driver::simulated(world, &builder.driver_config, &pool).map_err(|error| builder.too_low(error))?;
            let config = builder.admission_config(&shared);
            let worker = Worker::new(index, &shared, pool, driver, config);
            workers.push(worker.map_err(|error| builder.too_low_for_pool(error))?);
        }
        Ok(Self { world: world.clone(), pages, workers, shared, ended: Cell::new(false) })
    }

    /// The world it runs in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Where its workers' pages come from: for counts, and for faults. It checks that no page in use is ever given
    /// back.
    pub fn pages(&self) -> &SimPages {
        &self.pages
    }

    /// The budget of its workers.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.shared.budget
    }

    /// Asks for an orderly stop.
    pub fn stop(&self) {
        self.shared.begin_stop();
    }

    /// Runs a future on worker 0, and all workers in turns, until the future is done.
    ///
    /// # Panics
    ///
    /// When the future panics, when every worker waits for something that will never happen, a deadlock, and when some
    /// task is always ready, so that the clock stands still; with the seed in the message.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(Worker::try_current().is_none(), "block_on inside of a runtime: use spawn or await instead");
        let doorbell = self.workers[0].driver.borrow().doorbell().clone();
        let main = MainWaker::new(doorbell);
        let waker = Waker::from(Arc::clone(&main));
        let mut future = pin!(future);
        let mut current = &self.workers[0];
        let mut entered = current.enter();
        loop {
            let worker = self.next_worker();
            if !Rc::ptr_eq(worker, current) {
                drop(entered);
                current = worker;
                entered = worker.enter();
            }
            if worker.index == 0 {
                main.woke();
            }
            if worker.index == 0
                && main.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return output;
            }
            worker.run_ready();
            let may_wait = worker.index > 0 || main.prepare_sleep() || worker.is_timer_refused();
            let wait = if may_wait { worker.wait() } else { Wait::No };
            let exchanged = worker.exchange(wait, || {});
            if let Err(error) = exchanged {
                self.stuck(&error);
            }
        }
    }

    /// The worker whose turn it is; the world's seed chooses among those that have something to do.
    fn next_worker(&self) -> &Rc<Worker> {
        if let [only] = self.workers.as_slice() {
            return only;
        }
        // All workers are one thread here, so a wake from another worker looks like one of its own and rings no bell.
        for worker in self.workers.iter().filter(|worker| worker.has_tasks_to_run()) {
            self.shared.inboxes[worker.index].ring();
        }
        loop {
            match self.world.step() {
                Step::Run(node) => {
                    let named = self.workers.iter().find(|worker| worker.driver.borrow().node() == Some(node));
                    let named = named.expect("the world's other drivers are not stepped while a runtime runs");
                    named.look_at_time();
                    return named;
                }
                Step::Advanced(_) => {}
                Step::Stuck => self.deadlocked(&"every worker waits without a deadline"),
            }
        }
    }

    fn stuck(&self, error: &Error) -> ! {
        let seed = self.world.seed();
        if let Error::System(errno) = error
            && *errno == Errno(libc::ELOOP)
        {
            panic!(
                "seed {seed}: after a million turns at one instant some task is still ready: it wakes itself for ever"
            )
        }
        self.deadlocked(error)
    }

    fn deadlocked(&self, why: &dyn fmt::Display) -> ! {
        let seed = self.world.seed();
        panic!("seed {seed}: nothing can happen any more, but the future is not done: {why}")
    }

    /// Drops every task and operation; what is left.
    pub fn shutdown(self) -> Report {
        self.end()
    }

    fn end(&self) -> Report {
        if self.ended.replace(true) {
            return Report::default();
        }
        let mut report = Report::default();
        for worker in &self.workers {
            let _entered = worker.enter();
            settle(worker);
        }
        for worker in &self.workers {
            let deadline = worker.now() + Duration::from_secs(3_600);
            report.add(shut_down_driver(worker, deadline));
        }
        report.measure(&self.shared.budget);
        report
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("world", &self.world).field("workers", &self.workers.len()).finish()
    }
}
