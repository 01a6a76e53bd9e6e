//! What other threads send to a worker: closures, and the ring that ends its wait.
#![forbid(unsafe_code)]

use core::{fmt, mem};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use plimsoll_pool::catch_panic;
use plimsoll_reactor::Doorbell;

use crate::Error;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// Closures from other threads that a worker has not taken yet, at most: it takes all of them once a turn.
pub(crate) const INBOX_JOBS_MAX: usize = 4_096;

/// A closure for a worker.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The part of a worker that other threads reach.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` once the worker has ended.
    jobs: Mutex<Option<VecDeque<JobEntry>>>,
    pending: AtomicBool,
    pub(crate) doorbell: OnceLock<Doorbell>,
}

pub(crate) struct JobEntry(pub(crate) Job);

impl fmt::Debug for JobEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Inbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            jobs: Mutex::new(Some(VecDeque::new())),
            pending: AtomicBool::new(false),
            doorbell: OnceLock::new(),
        })
    }

    /// Queues a closure for the worker and wakes it. Once the worker has ended, the closure is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::InboxFull`] when [`INBOX_JOBS_MAX`] are queued; the closure is dropped.
    pub(crate) fn send(&self, job: Job) -> Result<(), Error> {
        let mut jobs = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The closure goes when nothing is locked any more.
        let refused = match &mut *jobs {
            None => Ok(()),
            Some(queue) if queue.len() >= INBOX_JOBS_MAX => Err(Error::InboxFull),
            Some(queue) => {
                queue.push_back(JobEntry(job));
                drop(jobs);
                self.pending.store(true, Ordering::Release);
                self.ring();
                return Ok(());
            }
        };
        drop(jobs);
        drop(job);
        refused
    }

    /// Drops what is queued, and from now on whatever comes: who waits for it is told so, instead of waiting for ever.
    pub(crate) fn close(&self) {
        let queued = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        for JobEntry(job) in queued.into_iter().flatten() {
            catch_panic(|| drop(job));
        }
    }

    /// Ends the worker's wait.
    pub(crate) fn ring(&self) {
        if let Some(doorbell) = self.doorbell.get() {
            doorbell.ring();
        }
    }

    /// Whether something may be queued.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// All that is queued.
    pub(crate) fn take(&self) -> VecDeque<JobEntry> {
        // Before the lock: whoever queues a closure after it was taken sets this again.
        self.pending.store(false, Ordering::Relaxed);
        let mut jobs = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        jobs.as_mut().map(mem::take).unwrap_or_default()
    }
}

#[cfg(all(test, loom))]
mod models;
