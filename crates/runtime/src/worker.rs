//! One worker: a thread, its driver, its tasks and its turn.
//!
//! A turn is five verbs: run ready tasks, fire timers, submit, wait, reap. Submitting and waiting are one call of the
//! driver. Everything here belongs to one thread; what other threads may touch is in its [`Inbox`].
#![forbid(unsafe_code)]

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_pool::{Admission, AdmissionConfig, Error as PoolError, OverBudget, Pool, Transition, catch_panic};
use plimsoll_reactor::{Blocking, Completion, Driver, DriverKind, Fd, Instant, Op, Payload, PoolPage, Wait};
use plimsoll_slab::{Key, Slab};

use crate::gauges::Gauges;
use crate::inbox::{Inbox, JobEntry};
use crate::net::socket::Entry;
use crate::net::table::Events;
use crate::shared::Shared;
use crate::soon::Soon;
use crate::stall::{StallDetector, UNKNOWN};
use crate::sys::SignalPlace;
use crate::task::Tasks;
use crate::time::Timers;
use crate::token::{TABLES_MAX, Target};
use crate::tokio_runtime::{TokioGuard, TokioRuntime};
use crate::waiters::{Taken, Waiter, Waiters};
use crate::{Error, Misuse, sys};

mod release;

use release::{Release, sooner};

/// Task polls of one turn at most.
const POLLS_MAX: usize = 128;
/// Timers fired in one turn at most.
const TIMERS_MAX: usize = 256;
/// How soon a sleep asks again for room for its timer.
const REFUSED_TIMER_RETRY: Duration = Duration::from_millis(1);
/// How soon bytes that nobody has taken, and for which there was no room, are copied or given up.
const BORROWING_RETRY: Duration = Duration::from_millis(5);
/// Stream sockets of plain tasks at most, in pages of the pool.
const SOCKET_CHUNKS_MAX: u32 = 1 << 15;
/// Waits for the stop at most, in pages of the pool.
const STOP_CHUNKS_MAX: u32 = 1 << 15;

const NO_WORKER: &str = "there is no Plimsoll runtime on this thread: call this inside `Runtime::block_on` or a task";

thread_local! {
    static CURRENT: RefCell<Option<Rc<Worker>>> = const { RefCell::new(None) };
}

/// A worker. Reached by [`Worker::current`] from everything that runs on it.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Pool,
    pub(crate) admission: Admission,
    pub(crate) driver: RefCell<Driver>,
    /// Told also after the driver's shutdown, by what is dropped late.
    kind: DriverKind,
    /// The driver's time, which stays put within a turn and is asked for many times in it.
    now: Cell<Instant>,
    pub(crate) tasks: Tasks,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) waiters: RefCell<Waiters>,
    /// Waiters whose answers came with bytes in the driver's buffers.
    borrowing: RefCell<Vec<u32>>,
    pub(crate) sockets: RefCell<Slab<Entry, PoolPage>>,
    /// Whether completions for tables came since the last turn that left none.
    has_events: Cell<bool>,
    /// Up to the highest one in use: a turn asks all of them several times.
    tables: RefCell<Vec<Option<Rc<Events>>>>,
    /// The relays of this worker, while their task lives: the room above knows their type.
    pub(crate) relays: RefCell<Weak<dyn Any>>,
    /// What [`OnWorker`](crate::OnWorker) owns here, while its task lives; in the same way.
    pub(crate) values: RefCell<Weak<dyn Any>>,
    stop_wakers: RefCell<Slab<Waker, PoolPage>>,
    stop_seen: Cell<bool>,
    /// Where this worker is told of signals, if it is to act upon them.
    pub(crate) signal_place: Cell<Option<&'static SignalPlace>>,
    fds_opened: Cell<u64>,
    /// Accepting that paused for want of descriptors goes on when this moves.
    fds_closed: Cell<u64>,
    refused_timer: Cell<RefusedTimer>,
    pub(crate) release: Release,
    pub(crate) soon: Soon,
    inbox: Arc<Inbox>,
    stall: StallDetector,
}

/// Whether a sleep had no room for its timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedTimer {
    None,
    /// In this turn.
    Refused,
    /// In the last one, whose wait ends when it asks again.
    Retried,
}

impl Worker {
    /// A worker on this thread with a driver made for it.
    pub(crate) fn new(
        index: usize,
        shared: &Arc<Shared>,
        pool: Pool,
        driver: Driver,
        config: AdmissionConfig,
    ) -> Result<Rc<Self>, PoolError> {
        let inbox = Arc::clone(&shared.inboxes[index]);
        let doorbell = driver.doorbell().clone();
        let ring = doorbell.clone();
        let admission = Admission::with_doorbell(&pool, config, Arc::new(move || ring.ring()))?;
        // Deadlines count from the last tick.
        admission.tick(driver.now().as_nanos());
        let ring = doorbell.clone();
        pool.set_doorbell(Box::new(move || ring.ring()));
        let set = inbox.doorbell.set(doorbell.clone());
        debug_assert!(set.is_ok(), "a worker is made once");
        let tasks = Tasks::new(&pool, Arc::new(move || doorbell.ring()));
        Ok(Rc::new(Self {
            index,
            stall: StallDetector::new(shared.stall_limit),
            shared: Arc::clone(shared),
            pool,
            admission,
            timers: RefCell::new(Timers::new(driver.now())),
            kind: driver.kind(),
            now: Cell::new(driver.now()),
            driver: RefCell::new(driver),
            tasks,
            waiters: RefCell::new(Waiters::new()),
            borrowing: RefCell::default(),
            sockets: RefCell::new(Slab::new(SOCKET_CHUNKS_MAX)),
            has_events: Cell::new(false),
            tables: RefCell::default(),
            relays: RefCell::new(Weak::<()>::new()),
            values: RefCell::new(Weak::<()>::new()),
            stop_wakers: RefCell::new(Slab::new(STOP_CHUNKS_MAX)),
            stop_seen: Cell::new(false),
            signal_place: Cell::new(None),
            fds_opened: Cell::new(0),
            fds_closed: Cell::new(0),
            refused_timer: Cell::new(RefusedTimer::None),
            soon: Soon::default(),
            release: Release::new(shared.decay),
            inbox,
        }))
    }

    /// The worker whose turn it is on this thread.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub(crate) fn current() -> Rc<Self> {
        Self::try_current().expect(NO_WORKER)
    }

    /// Looks at the current worker, without a count of who refers to it.
    pub(crate) fn with_current<R>(look: impl FnOnce(&Self) -> R) -> R {
        CURRENT.with(|current| look(current.borrow().as_deref().expect(NO_WORKER)))
    }

    pub(crate) fn try_current() -> Option<Rc<Self>> {
        CURRENT.with(|current| current.try_borrow().ok()?.clone())
    }

    /// Makes this the current worker of the thread until the guard is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered<'_> {
        let before = CURRENT.with(|current| current.replace(Some(Rc::clone(self))));
        self.look_at_time();
        Entered { before, _tokio: self.shared.tokio.as_ref().map(TokioRuntime::enter) }
    }

    /// Which driver it has.
    pub(crate) fn driver_kind(&self) -> DriverKind {
        self.kind
    }

    /// The time at the start of the turn.
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Takes over the driver's time: after each call that may have moved it, here or, in a simulation, by others.
    pub(crate) fn look_at_time(&self) {
        self.now.set(self.driver.borrow().now());
    }

    /// The time that moves within a turn, as fine as the kernel's tick; in a simulation, which has no such, that of the
    /// turn.
    pub(crate) fn coarse_now(&self) -> Instant {
        if self.shared.simulated { self.now() } else { Instant::from_nanos(sys::coarse_now_nanos()) }
    }

    /// The time as it is, read from the system; in a simulation that of the turn.
    pub(crate) fn clock(&self) -> Instant {
        if self.shared.simulated { self.now() } else { Instant::from_nanos(sys::clock_nanos()) }
    }

    /// The turn of a worker with a thread of its own.
    pub(crate) fn turn(&self) -> Result<(), Error> {
        self.run_ready();
        let wait = self.wait();
        self.exchange(wait, || {})
    }

    /// Runs ready tasks and fires timers.
    ///
    /// A worker that has announced its sleep counts as asleep until here: in a simulation others may have their turns
    /// in between.
    pub(crate) fn run_ready(&self) {
        self.tasks.woke();
        self.take_jobs();
        self.take_stop();
        tell_of_level(self.admission.settle(|| self.now().as_nanos()));
        if self.stall.is_wary() {
            self.stall.begin(self.coarse_now().as_millis());
            if let Some(turns) = self.stall.take_seen() {
                self.shared.gauges[self.index].add_turns(turns);
            }
        } else {
            self.stall.begin(UNKNOWN);
        }
        self.tasks.run_observed(POLLS_MAX, |name| self.stall.polled(name, || self.coarse_now().as_millis()));
        self.soon.run();
        self.fire_timers();
        // What came free in this turn is granted.
        tell_of_level(self.admission.tick(self.now().as_nanos()));
    }

    fn fire_timers(&self) {
        self.timers.borrow_mut().advance(self.now());
        for _ in 0..TIMERS_MAX {
            let Some(waker) = self.timers.borrow_mut().pop() else { break };
            catch_panic(|| waker.wake());
        }
    }

    /// When something has to be done though nothing happens.
    fn next_deadline(&self) -> Option<Instant> {
        let timers = self.timers.borrow().next_deadline();
        match (timers, self.admission.next_deadline().map(Instant::from_nanos)) {
            (Some(timers), Some(admission)) => Some(timers.min(admission)),
            (timers, admission) => timers.or(admission),
        }
    }

    /// A sleep had no room for its timer: it asks again after at most a millisecond.
    pub(crate) fn timer_refused(&self) {
        self.refused_timer.set(RefusedTimer::Refused);
    }

    pub(crate) fn is_timer_refused(&self) -> bool {
        self.refused_timer.get() == RefusedTimer::Refused
    }

    /// Whether it has ready tasks that do not wait for the time at which they ask for a timer again.
    pub(crate) fn has_tasks_to_run(&self) -> bool {
        self.tasks.has_ready() && self.refused_timer.get() != RefusedTimer::Retried
    }

    /// How long this turn may wait.
    pub(crate) fn wait(&self) -> Wait {
        if self.is_timer_refused() {
            self.refused_timer.set(RefusedTimer::Retried);
            let retry = self.now() + REFUSED_TIMER_RETRY;
            let deadline = self.next_deadline();
            return Wait::Until(deadline.map_or(retry, |deadline| deadline.min(retry)));
        }
        self.refused_timer.set(RefusedTimer::None);
        let busy = self.tasks.has_ready() || self.inbox.is_pending() || self.soon.is_any();
        if busy || !self.tasks.prepare_sleep() {
            return Wait::No;
        }
        // Leases that others drop meanwhile are what somebody here waits for.
        if self.admission.waiting() > 0 && self.pool.arm_doorbell(true) > 0 {
            return Wait::No;
        }
        match self.next_deadline() {
            Some(deadline) => Wait::Until(deadline),
            None => Wait::Forever,
        }
    }

    /// Gives back what is free for long, submits, waits and reaps. Calls `awake` after the wait, before what came of it
    /// wakes anybody.
    pub(crate) fn exchange(&self, wait: Wait, awake: impl FnOnce()) -> Result<(), Error> {
        let wait = self.give_buffers_back(wait);
        let wait = self.release.turn(self, wait);
        let entered = self.driver.borrow_mut().enter(wait);
        self.look_at_time();
        awake();
        entered?;
        self.reap();
        self.pool.drain_remote();
        self.publish();
        Ok(())
    }

    /// Received bytes are borrowed for a turn. Whoever armed a receive and does not look any more, as after a select,
    /// must not keep one of the few buffers from everybody else: what is left at the end of the turn is copied. Bytes
    /// for which the line leaves no room stay where they are until there is some, or until a receive waits for their
    /// buffer: then they are lost, the first first, and their stream is told. The same holds for what a table's owner
    /// has left for some turns.
    ///
    /// How long the turn may wait then.
    fn give_buffers_back(&self, wait: Wait) -> Wait {
        if self.has_events.get() || !self.borrowing.borrow().is_empty() { self.copy_left(wait) } else { wait }
    }

    /// [`give_buffers_back`](Self::give_buffers_back), in a turn in which something came.
    #[inline(never)]
    fn copy_left(&self, wait: Wait) -> Wait {
        let mut left = false;
        if self.has_events.get() {
            self.for_each_table(|events| left |= events.end_turn());
            self.has_events.set(left);
        }
        let mut borrowing = self.borrowing.borrow_mut();
        if !left && borrowing.is_empty() {
            return wait;
        }
        let (mut waiters, driver) = (self.waiters.borrow_mut(), self.driver.borrow());
        if left {
            left = false;
            self.for_each_table(|events| left |= events.give_buffers_back(&self.pool, &driver));
        }
        borrowing.retain(|index| {
            if waiters.copy_out(*index, &self.pool) {
                return false;
            }
            let is_needed = driver.is_short_of_buffers();
            if is_needed {
                waiters.lose_bytes(*index);
            }
            !is_needed
        });
        // Nobody tells when there is room, or when a receive waits for a buffer.
        if !left && borrowing.is_empty() { wait } else { sooner(wait, self.now() + BORROWING_RETRY) }
    }

    fn reap(&self) {
        // Without events all queues are empty.
        let mut has_room =
            !self.has_events.get() || self.tables.borrow().iter().flatten().all(|events| events.has_room());
        while has_room {
            let Some(completion) = self.driver.borrow_mut().reap() else { break };
            has_room = self.dispatch(completion);
        }
    }

    /// Hands a completion to whoever it is for, and says whether there is room for another one there.
    fn dispatch(&self, completion: Completion) -> bool {
        match Target::of(completion.token) {
            Target::Waiter { index } => {
                if let Payload::Received(_) = completion.payload {
                    self.borrowing.borrow_mut().push(index);
                }
                let completed = self.waiters.borrow_mut().complete(index, completion);
                match completed {
                    Ok(Some(waker)) => {
                        catch_panic(|| waker.wake());
                    }
                    Ok(None) => {}
                    Err(unwanted) => self.dispose(unwanted),
                }
            }
            Target::Table { table, purpose, index } => match self.table(table.into()) {
                Some(events) => {
                    self.has_events.set(true);
                    events.push(&self.pool, purpose, index, completion);
                    return events.has_room();
                }
                None => self.dispose(completion),
            },
            Target::Unknown => self.dispose(completion),
        }
        true
    }

    /// Lets go of an answer that nobody wants: a descriptor is closed, everything else is dropped.
    pub(crate) fn dispose(&self, completion: Completion) {
        if let Payload::Fd(fd) = completion.payload {
            self.close(fd);
        }
    }

    /// Closes a descriptor; whoever waits for one to become free may go on.
    pub(crate) fn close(&self, fd: Fd) {
        self.driver.borrow_mut().close(fd);
        self.fds_closed.set(self.fds_closed.get() + 1);
    }

    /// Counts a descriptor that was opened.
    pub(crate) fn opened(&self) {
        self.fds_opened.set(self.fds_opened.get() + 1);
    }

    pub(crate) fn fds_closed(&self) -> u64 {
        self.fds_closed.get()
    }

    /// Starts an operation for a waiter; gives the waiter's key and the operation's.
    pub(crate) fn start<'fd>(&self, op: Op<'fd>) -> Result<(Key, Key), (OverBudget, Op<'fd>)> {
        let waiter = match self.waiters.borrow_mut().insert(&self.pool) {
            Ok(waiter) => waiter,
            Err(over) => return Err((over, op)),
        };
        let token = Target::Waiter { index: waiter.index() }.token();
        match self.driver.borrow_mut().submit(op, token) {
            Ok(key) => Ok((waiter, key)),
            Err(refused) => {
                self.waiters.borrow_mut().remove(waiter);
                Err(refused)
            }
        }
    }

    /// The answer to an operation; else the waker is woken when it comes.
    pub(crate) fn poll_answer(&self, waiter: Key, cx: &mut Context<'_>) -> Poll<Completion> {
        let taken = self.waiters.borrow_mut().take(waiter, cx.waker());
        match taken {
            Taken::Answer(completion) => Poll::Ready(completion),
            Taken::Pending => Poll::Pending,
            Taken::Unknown => {
                let waker = cx.waker().clone();
                let before = self.waiters.borrow_mut().remember(waiter, waker);
                drop(before);
                Poll::Pending
            }
        }
    }

    /// Gives an operation up, whether it has been answered or not.
    pub(crate) fn give_up(&self, waiter: Key, op: Key) {
        let removed = self.waiters.borrow_mut().remove(waiter);
        match removed {
            Some(Waiter::Done(unwanted)) => self.dispose(unwanted),
            Some(Waiter::Waiting(_)) | None => self.driver.borrow_mut().orphan(op),
        }
    }

    /// The events of a table.
    pub(crate) fn table(&self, table: usize) -> Option<Rc<Events>> {
        self.tables.borrow().get(table).cloned().flatten()
    }

    /// The events of every table.
    pub(crate) fn for_each_table(&self, mut each: impl FnMut(&Events)) {
        self.tables.borrow().iter().flatten().for_each(|events| each(events));
    }

    /// A place for a connection table's events.
    pub(crate) fn add_table(&self, events: &Rc<Events>) -> Result<u8, Error> {
        let mut tables = self.tables.borrow_mut();
        let free = tables.iter().position(Option::is_none).unwrap_or(tables.len());
        if free == TABLES_MAX {
            return Err(Misuse::TooManyTables.into());
        }
        if free == tables.len() {
            tables.push(None);
        }
        tables[free] = Some(Rc::clone(events));
        Ok(free as u8)
    }

    pub(crate) fn remove_table(&self, table: u8) {
        let mut tables = self.tables.borrow_mut();
        tables[usize::from(table)] = None;
        while let Some(None) = tables.last() {
            tables.pop();
        }
    }

    /// Remembers who is to be woken when the runtime is asked to stop, until [`forget_stop`](Self::forget_stop).
    pub(crate) fn wait_for_stop(&self, waker: Waker) -> Result<Key, OverBudget> {
        let inserted = PoolPage::insert(&mut self.stop_wakers.borrow_mut(), &self.pool, waker);
        // A waker that found no room is dropped by its owner's code: when nothing is borrowed.
        inserted.map_err(|(over, _waker)| over)
    }

    /// Whether the waker that is remembered wakes the same task as this one.
    pub(crate) fn wakes_at_stop(&self, key: Key, waker: &Waker) -> bool {
        self.stop_wakers.borrow().get(key).is_some_and(|known| known.will_wake(waker))
    }

    /// Takes [`wait_for_stop`](Self::wait_for_stop) back; the waker, unless it was woken.
    pub(crate) fn forget_stop(&self, key: Key) -> Option<Waker> {
        self.stop_wakers.borrow_mut().remove(key)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_seen.get()
    }

    fn take_stop(&self) {
        if self.stop_seen.get() {
            return;
        }
        if self.signal_place.get().is_some_and(SignalPlace::is_signalled) {
            self.shared.begin_stop();
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            self.stop_seen.set(true);
            loop {
                let first = self.stop_wakers.borrow().iter().next().map(|(key, _)| key);
                let Some(waker) = first.and_then(|key| self.forget_stop(key)) else { break };
                catch_panic(|| waker.wake());
            }
        }
    }

    fn take_jobs(&self) {
        if !self.inbox.is_pending() {
            return;
        }
        for JobEntry(job) in self.inbox.take() {
            if catch_panic(job).is_none() {
                tracing::error!(worker = self.index, "a closure sent to this worker panicked");
            }
        }
    }

    /// Lets other threads read this worker's figures.
    fn publish(&self) {
        let driver = self.driver.borrow();
        if driver.is_shut_down() {
            return;
        }
        let gauges: &Gauges = &self.shared.gauges[self.index];
        let fds = self.fds_opened.get().saturating_sub(self.fds_closed.get());
        gauges.publish(&driver, &self.tasks, fds, &self.pool);
    }

    pub(crate) fn blocking(&self) -> &Arc<Blocking> {
        &self.shared.blocking
    }

    /// Drops every task and everything cached. What is charged afterwards besides fixed parts is a leak.
    pub(crate) fn close_down(&self) {
        self.take_jobs();
        self.tasks.close();
        while self.soon.is_any() {
            self.soon.run();
        }
        self.release();
    }

    /// The worker has ended: it takes no more closures.
    pub(crate) fn close_inbox(&self) {
        self.inbox.close();
    }

    /// Gives back everything that is free.
    pub(crate) fn release(&self) {
        self.pool.drain_remote();
        self.driver.borrow_mut().release_pages();
        self.waiters.borrow_mut().release_pages();
        self.timers.borrow_mut().release_pages();
        while self.stop_wakers.borrow_mut().release_empty().is_some() {}
        while self.sockets.borrow_mut().release_empty().is_some() {}
        self.pool.release_free(u64::MAX);
        self.publish();
    }
}

/// Says when the memory level changed.
fn tell_of_level(change: Option<Transition>) {
    if let Some(change) = change {
        tracing::info!(
            from = change.from.name(),
            to = change.to.name(),
            in_use_bytes = change.in_use_bytes,
            waiting = change.waiting,
            "the memory level changed"
        );
    }
}

/// Makes a worker current; see [`Worker::enter`].
pub(crate) struct Entered<'w> {
    before: Option<Rc<Worker>>,
    _tokio: Option<TokioGuard<'w>>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with(|current| current.replace(before));
    }
}
