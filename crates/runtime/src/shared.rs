//! What all workers of a runtime share.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_pool::{Budget, DecayConfig};
use plimsoll_reactor::Blocking;

use crate::gauges::{Gauges, Metrics};
use crate::inbox::Inbox;

pub(crate) struct Shared {
    pub(crate) budget: Arc<Budget>,
    pub(crate) blocking: Arc<Blocking>,
    pub(crate) inboxes: Box<[Arc<Inbox>]>,
    pub(crate) gauges: Box<[Gauges]>,
    /// Somebody asked for an orderly stop.
    pub(crate) stopping: AtomicBool,
    /// Worker threads end their loop.
    pub(crate) quitting: AtomicBool,
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
            ..Metrics::default()
        };
        for gauges in &self.gauges {
            gauges.add_to(&mut sum);
        }
        sum
    }
}
