//! Sizes of a driver.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_pool::OutOfRange;

/// Sizes of a driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Entries of the submission queue, 1 to 16,384, a power of two; the completion queue has four times as many.
    /// Default 1,024.
    pub entries: u32,
    /// Receive buffers of 64 KiB in the small group, 1 to 64, a power of two. Default 4. mio and sim use one.
    pub receive_buffers: u16,
    /// How long dropping a driver waits for operations in flight before it leaks what they hold. Default 1 s.
    pub drop_deadline: Duration,
}

impl DriverConfig {
    /// Whether a driver can be made of these sizes.
    ///
    /// # Errors
    ///
    /// Which of them is out of range, and what it may be.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if !self.entries.is_power_of_two() || self.entries > ENTRIES_MAX {
            return Err(OutOfRange::new("DriverConfig::entries", "a power of two between 1 and 16,384"));
        }
        if !self.receive_buffers.is_power_of_two() || self.receive_buffers > RECEIVE_BUFFERS_MAX {
            return Err(OutOfRange::new("DriverConfig::receive_buffers", "a power of two between 1 and 64"));
        }
        Ok(())
    }
}

/// The kernel allows 65,536 completions (`IORING_MAX_CQ_ENTRIES`), and a ring has four for each entry.
pub(crate) const ENTRIES_MAX: u32 = 16_384;
const RECEIVE_BUFFERS_MAX: u16 = 64;

impl Default for DriverConfig {
    fn default() -> Self {
        Self { entries: 1_024, receive_buffers: 4, drop_deadline: Duration::from_secs(1) }
    }
}
