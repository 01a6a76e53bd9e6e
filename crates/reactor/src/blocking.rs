//! A bounded pool of threads for calls that block.
//!
//! ```text
//!  run -> queue -> a thread that is idle, or a new one while the limit and the line allow it
//!                    |-- nothing to do for the idle timeout --> the thread ends, its stack is uncharged
//!                    \-- the pool is shut down ---------------> the thread ends after its job
//! ```
//!
//! A thread's stack is charged before the thread is started, and uncharged by the last thing the thread does.
#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use plimsoll_pool::{Budget, Charge, Kind, OutOfRange, catch_panic, page_bytes};

use crate::sync::{Condvar, JoinHandle, Mutex, MutexGuard, wait_timeout};
use crate::{Doorbell, Instant, sys};

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

/// Sizes of the blocking pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockingConfig {
    /// Threads at most, at least one. Each is charged its stack while it lives. Default 16.
    pub threads_max: u32,
    /// Stack of a thread in bytes, at least 16 KiB. Default 128 KiB.
    pub stack_bytes: u32,
    /// Jobs that wait for a thread at most, at least one. Default 1,024.
    pub queue_max: u32,
    /// A thread that had nothing to do for this long ends. Default 5,000.
    pub idle_timeout_ms: u32,
}

impl BlockingConfig {
    /// Whether a pool can be made of these sizes.
    ///
    /// # Errors
    ///
    /// Which of them is too small, and what is the least.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if self.threads_max == 0 {
            return Err(OutOfRange::new("BlockingConfig::threads_max", "at least 1 thread"));
        }
        if self.queue_max == 0 {
            return Err(OutOfRange::new("BlockingConfig::queue_max", "at least 1 job"));
        }
        if self.stack_bytes < STACK_BYTES_MIN {
            return Err(OutOfRange::new("BlockingConfig::stack_bytes", "at least 16,384 bytes"));
        }
        Ok(())
    }
}

impl Default for BlockingConfig {
    fn default() -> Self {
        Self { threads_max: 16, stack_bytes: 128 * 1024, queue_max: 1_024, idle_timeout_ms: 5_000 }
    }
}

/// A call that may block.
type Job = Box<dyn FnOnce() + Send>;

/// A bounded pool of threads for calls that block: file operations on mio, name resolution, and what users hand in.
///
/// Dropping it lets its threads end after the jobs they run; jobs that wait are dropped. To wait for the threads,
/// [`shutdown`](Self::shutdown).
///
/// ```
/// use plimsoll_pool::{Budget, MemoryLimit};
/// use plimsoll_reactor::{Blocking, BlockingConfig};
/// use std::sync::mpsc;
///
/// let budget = Budget::new(MemoryLimit::mib(4));
/// let blocking = Blocking::new(BlockingConfig::default(), &budget);
/// assert_eq!((blocking.threads(), budget.charged()), (0, 0), "threads start on demand");
///
/// let (answer, answers) = mpsc::channel();
/// blocking.run(Box::new(move || answer.send(6 * 7).expect("somebody listens"))).map_err(|_| "refused")?;
/// assert_eq!(answers.recv()?, 42);
/// assert!(budget.charged() >= 128 * 1024, "the stack of its one thread");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Blocking {
    shared: Arc<Shared>,
}

struct Shared {
    config: BlockingConfig,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// A job was queued, or the pool is shut down.
    work: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

struct State {
    phase: Phase,
    queue: VecDeque<Job>,
    /// What the queue's memory is charged with, from the first job on.
    queue_charge: Option<Charge>,
    /// A place per thread that was started and has not ended or been joined; at most `threads_max`.
    places: Vec<Place>,
    /// Threads that have not ended.
    threads: u32,
    /// Of those, the ones that wait for work.
    idle: u32,
    /// Of those, the ones that run a job.
    running: u32,
    /// Bells of drivers that found the queue full, each once.
    bells: Vec<Doorbell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
}

enum Place {
    Free,
    Running(JoinHandle<()>),
    Ended(JoinHandle<()>),
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue is full; there will be room.
    Full,
    /// The line leaves no room for the queue or the first thread, or the system has no thread for us.
    NoThread,
    /// The pool was shut down.
    Closed,
}

impl Blocking {
    /// A pool; it starts no thread and charges nothing yet.
    ///
    /// # Panics
    ///
    /// When a size is below what [`BlockingConfig`] states.
    pub fn new(config: BlockingConfig, budget: &Arc<Budget>) -> Arc<Self> {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        let state = State {
            phase: Phase::Open,
            queue: VecDeque::new(),
            queue_charge: None,
            places: Vec::new(),
            threads: 0,
            idle: 0,
            running: 0,
            bells: Vec::new(),
        };
        let shared = Shared {
            config,
            budget: Arc::clone(budget),
            state: Mutex::new(state),
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    /// Queues a job, and starts a thread for it if none is idle and the limits allow one more. A panic in the job ends
    /// the job only.
    ///
    /// # Errors
    ///
    /// Gives the job back when the queue is full, when no thread runs and the line (or the system) refuses the first
    /// one, and after [`shutdown`](Self::shutdown).
    pub fn run(self: &Arc<Self>, job: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
        let mut job = Some(job);
        let taken = self.try_run(|| job.take().expect("asked for once"));
        taken.map_err(|_| job.expect("not asked for"))
    }

    /// Like [`run`](Self::run), but has the job made only when there is a place for it, and says why not.
    pub(crate) fn try_run(&self, make: impl FnOnce() -> Job) -> Result<(), Refused> {
        let mut state = self.shared.lock();
        self.shared.make_way(&mut state)?;
        state.queue.push_back(make());
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Rings `bell` once, when the queue has room again; at once if it has now.
    pub(crate) fn ring_at_room(&self, bell: &Doorbell) {
        let mut state = self.shared.lock();
        if state.queue.len() < self.shared.config.queue_max as usize {
            drop(state);
            bell.ring();
        } else if !state.bells.iter().any(|known| known.is(bell)) {
            state.bells.push(bell.clone());
        }
    }

    /// Threads that live now.
    pub fn threads(&self) -> u32 {
        self.shared.lock().threads
    }

    /// Jobs that wait for a thread now.
    pub fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Drops the jobs that wait, waits until `deadline` (of [`Driver::now`](crate::Driver::now) on a real driver) for
    /// those that run, and joins the threads that have ended. Returns how many threads still run a job; they end with
    /// it, and stay charged until then. A thread without a job is always waited for: nothing keeps it.
    pub fn shutdown(&self, deadline: Instant) -> u32 {
        self.shared.close();
        let mut state = self.shared.lock();
        while state.threads > 0 {
            let mut left = deadline.since(sys::now());
            if left.is_zero() {
                if state.running == state.threads {
                    break;
                }
                left = Duration::MAX;
            }
            (state, _) = wait_timeout(&self.shared.ended, &self.shared.state, state, left);
        }
        let running = state.running;
        let places = core::mem::take(&mut state.places);
        drop(state);
        for place in places {
            if let Place::Ended(handle) = place {
                // It has only its last instructions left, and caught every panic of its jobs.
                let _joined = handle.join();
            }
        }
        running
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Blocking")
            .field("threads", &state.threads)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held; were it to, the state would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that one more job has a place in the queue and a thread that will take it.
    fn make_way(self: &Arc<Self>, state: &mut State) -> Result<(), Refused> {
        if state.phase == Phase::Closed {
            return Err(Refused::Closed);
        }
        if state.queue_charge.is_none() {
            // Beside those that wait, a job for each thread that was started or woken for it and has not taken it yet.
            let jobs_max = u64::from(self.config.queue_max) + u64::from(self.config.threads_max);
            let bytes = jobs_max * size_of::<Job>() as u64;
            state.queue_charge = Some(self.budget.charge(Kind::Fixed, bytes).map_err(|_| Refused::NoThread)?);
            state.queue.reserve_exact(jobs_max as usize);
        }
        debug_assert!(state.idle <= state.threads && state.threads <= self.config.threads_max);
        let has_idle = (state.idle as usize) > state.queue.len();
        if has_idle || (state.threads < self.config.threads_max && self.start_thread(state)) {
            return Ok(());
        }
        if state.threads == 0 {
            return Err(Refused::NoThread);
        }
        if state.queue.len() >= self.config.queue_max as usize { Err(Refused::Full) } else { Ok(()) }
    }

    /// Starts a thread, its stack charged before; whether the line and the system allowed it.
    fn start_thread(self: &Arc<Self>, state: &mut State) -> bool {
        let stack_bytes = self.config.stack_bytes.next_multiple_of(page_bytes() as u32);
        let Ok(charge) = self.budget.charge(Kind::Stacks, u64::from(stack_bytes)) else { return false };
        let free = state.places.iter().position(|place| matches!(place, Place::Free));
        let place = free.unwrap_or_else(|| {
            state.places.push(Place::Free);
            state.places.len() - 1
        });
        let shared = Arc::clone(self);
        let run = move || {
            shared.work_off(place);
            drop(shared);
            drop(charge);
        };
        match sys::spawn_thread("plimsoll-block", stack_bytes as usize, run) {
            Ok(handle) => {
                state.places[place] = Place::Running(handle);
                state.threads += 1;
                debug_assert!(state.threads <= self.config.threads_max);
                true
            }
            Err(errno) => {
                tracing::warn!(%errno, "no thread for blocking calls");
                false
            }
        }
    }

    /// The life of a thread.
    fn work_off(&self, place: usize) {
        let idle_timeout = Duration::from_millis(u64::from(self.config.idle_timeout_ms));
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.running += 1;
                let bells = core::mem::take(&mut state.bells);
                drop(state);
                for bell in bells {
                    bell.ring();
                }
                run_job(job);
                state = self.lock();
                state.running -= 1;
                continue;
            }
            if state.phase == Phase::Closed {
                break;
            }
            state.idle += 1;
            let (woken, timed_out) = wait_timeout(&self.work, &self.state, state, idle_timeout);
            state = woken;
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        // While the pool is open nobody will join this thread: its handle goes, and the place is free.
        let phase = state.phase;
        if let Some(own) = state.places.get_mut(place) {
            *own = match (core::mem::replace(own, Place::Free), phase) {
                (Place::Running(handle), Phase::Closed) => Place::Ended(handle),
                _ => Place::Free,
            };
        }
        drop(state);
        self.ended.notify_all();
    }

    /// Takes no more jobs and drops those that wait.
    fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        let dropped = core::mem::take(&mut state.queue);
        state.queue_charge = None;
        let bells = core::mem::take(&mut state.bells);
        drop(state);
        self.work.notify_all();
        for bell in bells {
            bell.ring();
        }
        for job in dropped {
            run_job(move || drop(job));
        }
    }
}

/// Runs a job, or drops it; a panic ends here.
fn run_job(job: impl FnOnce()) {
    if catch_panic(job).is_none() {
        tracing::error!("a blocking call panicked");
    }
}

/// What Linux asks of every thread (`PTHREAD_STACK_MIN`).
const STACK_BYTES_MIN: u32 = 16 * 1024;
