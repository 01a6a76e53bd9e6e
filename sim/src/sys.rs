//! The real clock and the processors of the machine.

use std::time::{Duration, Instant};

/// Since a sweep began.
#[derive(Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// So many in the time so far, for each second.
    pub(crate) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
