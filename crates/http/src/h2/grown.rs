//! The reserve for a window that was grown.

use std::sync::Arc;

use plimsoll_pool::Charge;

use crate::base::counters::WorkerCounters;

/// The reserve for a window that was grown. Dropped, it is given back.
pub(super) struct Grown {
    pub(super) charge: Charge,
    pub(super) counters: Arc<WorkerCounters>,
}

impl Grown {
    pub(super) fn bytes(&self) -> u32 {
        self.charge.bytes() as u32
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        self.counters.window_reserved(-i64::from(self.bytes()));
    }
}
