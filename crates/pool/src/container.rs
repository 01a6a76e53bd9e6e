//! The kernel's part: what sockets take outside of the line, and the room that a container leaves for it.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::OverBudget;

/// Of a container's limit, at most this part is planned with: the rest is for what nobody counts.
const PLANNED_PERCENT: u64 = 80;
/// What a container is taken to have at least, so that a line is never 0.
const CONTAINER_BYTES_MIN: u64 = 1 << 20;

/// What the kernel holds for one connection, without unread bytes: a socket is 3.85 KB, an armed receive 864 bytes
/// (measured on Linux 6.18).
pub const KERNEL_CONNECTION_BYTES: u64 = 4_700;

const fn planned_bytes(container_bytes: u64) -> u64 {
    let bytes = if container_bytes < CONTAINER_BYTES_MIN { CONTAINER_BYTES_MIN } else { container_bytes };
    // Limits above 2^57 are no limits.
    bytes / 100 * PLANNED_PERCENT + bytes % 100 * PLANNED_PERCENT / 100
}

/// The container's ledger.
#[derive(Debug)]
pub(crate) struct Container {
    /// The container's limit; 0 without one.
    container_bytes: AtomicU64,
    /// For the kernel's part; `u64::MAX` without a container.
    room_bytes: AtomicU64,
    kernel_bytes: AtomicU64,
}

impl Container {
    pub(crate) fn unlimited() -> Self {
        Self {
            container_bytes: AtomicU64::new(0),
            room_bytes: AtomicU64::new(u64::MAX),
            kernel_bytes: AtomicU64::new(0),
        }
    }

    /// The line and the kernel's part are at most 80 % of the container from now on.
    pub(crate) fn limit(&self, container_bytes: u64, line_bytes: u64) {
        let room = planned_bytes(container_bytes).saturating_sub(line_bytes);
        self.container_bytes.store(container_bytes, Ordering::Relaxed);
        self.room_bytes.store(room, Ordering::Relaxed);
    }

    /// The line was moved: the kernel's part is what is left beside it.
    pub(crate) fn line_changed(&self, line_bytes: u64) {
        match self.container_bytes.load(Ordering::Relaxed) {
            0 => {}
            container_bytes => self.limit(container_bytes, line_bytes),
        }
    }

    pub(crate) fn kernel_bytes(&self) -> u64 {
        self.kernel_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn room_bytes(&self) -> u64 {
        self.room_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, bytes: u64) -> Result<(), OverBudget> {
        let room = self.room_bytes();
        let add = |kernel: u64| kernel.checked_add(bytes).filter(|sum| *sum <= room);
        let added = self.kernel_bytes.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
        added.map(|_| ()).map_err(|_| OverBudget::in_container(bytes))
    }

    pub(crate) fn uncharge(&self, bytes: u64) {
        let before = self.kernel_bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "no more ends than began");
    }
}

#[cfg(test)]
mod tests;
