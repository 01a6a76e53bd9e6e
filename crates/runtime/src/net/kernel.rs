//! What the kernel holds for connections, charged to the container's ledger: beside the line, and limited where a
//! cgroup limits the process.
//!
//! A connection is charged when it is accepted or made, by an estimate without unread bytes, until it is closed.
//! Streams and entries of tables hand the charge on with the descriptor.
#![forbid(unsafe_code)]

use plimsoll_pool::OverBudget;

use crate::plan::kernel_per_connection;
use crate::worker::Worker;

/// Charges one connection.
pub(super) fn charge(worker: &Worker) -> Result<(), OverBudget> {
    worker.pool.budget().charge_kernel(kernel_per_connection(worker.driver_kind()))
}

/// Ends what [`charge`] began.
pub(super) fn uncharge(worker: &Worker) {
    worker.pool.budget().uncharge_kernel(kernel_per_connection(worker.driver_kind()));
}

#[cfg(test)]
mod tests;
