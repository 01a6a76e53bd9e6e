//! What all workers of a runtime share.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use plimsoll_pool::{Budget, DecayConfig};
use plimsoll_reactor::{Blocking, Instant};

use crate::gauges::{Gauges, Metrics};
use crate::inbox::Inbox;
use crate::tokio_runtime::TokioRuntime;

pub(crate) struct Shared {
    pub(crate) budget: Arc<Budget>,
    pub(crate) blocking: Arc<Blocking>,
    /// For crates that need it, where the builder was asked for it.
    pub(crate) tokio: Option<TokioRuntime>,
    pub(crate) inboxes: Box<[Arc<Inbox>]>,
    pub(crate) gauges: Box<[Gauges]>,
    /// Somebody asked for an orderly stop.
    pub(crate) stopping: AtomicBool,
    /// Once set, worker threads end their loop.
    pub(crate) quits_by: OnceLock<Instant>,
    pub(crate) stall_limit: Option<Duration>,
    /// When free memory goes back.
    pub(crate) decay: DecayConfig,
    /// The whole runtime runs on one thread, inside a simulated world.
    pub(crate) simulated: bool,
}

impl Shared {
    /// Asks every worker to stop in an orderly way.
    pub(crate) fn begin_stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            tracing::info!("stopping: no new connections, what runs may finish");
        }
        self.ring_all();
    }

    /// Has every worker thread end its loop. Its operations are waited for until the deadline. The first call counts.
    pub(crate) fn quit(&self, deadline: Instant) {
        let set = self.quits_by.set(deadline);
        debug_assert!(set.is_ok(), "a runtime ends once");
        self.ring_all();
    }

    /// Until when operations are waited for, if the runtime ends.
    pub(crate) fn quits_by(&self) -> Option<Instant> {
        self.quits_by.get().copied()
    }

    pub(crate) fn ring_all(&self) {
        for inbox in &self.inboxes {
            inbox.ring();
        }
    }

    /// What all workers have done and hold.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut sum = Metrics {
            level: self.budget.level(),
            waiters: self.budget.waiting(),
            kernel_bytes_estimate: self.budget.kernel_bytes_estimate(),
            heap_bytes: plimsoll_pool::alloc::heap_bytes(),
            tokio_tasks: self.tokio.as_ref().map_or(0, TokioRuntime::tasks),
            ..Metrics::default()
        };
        for gauges in &self.gauges {
            gauges.add_to(&mut sum);
        }
        sum
    }
}
