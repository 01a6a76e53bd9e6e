//! The end of a driver: everything is cancelled and waited for; what does not end in time is leaked.
#![forbid(unsafe_code)]

use super::Driver;
use crate::op::Op;
use crate::slots::{SlotState, Slots};
use crate::{Instant, Wait};

/// How a driver ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Operations that were still in flight at the deadline.
    pub in_flight: usize,
    /// Bytes leaked, because the kernel may still read or write them: leases, slots and rings. Bytes that several of
    /// the operations share are counted once; other drivers that leak sends of the same count them, too.
    pub leaked_bytes: u64,
}

impl Driver {
    /// Cancels everything in flight and waits until it has ended, until `deadline` at most. What is still in flight
    /// then is leaked, with the rings, because the kernel may still write to it. The driver is of no use afterwards.
    pub fn shutdown(&mut self, deadline: Instant) -> ShutdownReport {
        let Some(backend) = &mut self.backend else { return ShutdownReport::default() };
        for key in self.slots.keys() {
            if let Some(slot) = self.slots.get_mut(key) {
                let before = core::mem::replace(&mut slot.state, SlotState::Orphaned);
                if !before.is_cancelled() && !matches!(slot.op, Op::Close { .. }) {
                    backend.cancel(key, &mut self.slots);
                }
            }
        }
        while self.slots.len() > 0 && self.now() < deadline {
            if self.enter(Wait::Until(deadline)).is_err() {
                break;
            }
            let orphan = self.reap();
            debug_assert!(orphan.is_none(), "everything was orphaned");
        }
        let mut backend = self.backend.take().expect("checked above");
        if self.slots.len() == 0 {
            drop(backend);
            return ShutdownReport::default();
        }
        let report = ShutdownReport {
            in_flight: self.slots.len(),
            leaked_bytes: self.slots.held_bytes() + self.slots.table_bytes() + backend.fixed_bytes(),
        };
        tracing::error!(
            in_flight = report.in_flight,
            leaked_bytes = report.leaked_bytes,
            "operations outlived the driver: leaking what they hold"
        );
        backend.abandon(&mut self.slots);
        core::mem::forget(backend);
        core::mem::forget(core::mem::replace(&mut self.slots, Slots::new()));
        report
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.backend.is_some() {
            let deadline = self.now() + self.drop_deadline;
            self.shutdown(deadline);
        }
    }
}
