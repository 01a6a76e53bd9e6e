//! Names the task that kept its worker's loop from turning.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::time::Duration;

/// Looks at a coarse clock after each poll. A poll that took longer than the limit is named in a warning.
///
/// The clock has the resolution of the kernel's tick (1 to 4 ms), so the figure is that coarse too.
#[derive(Debug)]
pub(crate) struct StallDetector {
    /// 0: off.
    limit_ms: u64,
    last_ms: Cell<u64>,
    stalls: Cell<u64>,
}

impl StallDetector {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let limit_ms = limit.map_or(0, |limit| (limit.as_millis() as u64).max(1));
        Self { limit_ms, last_ms: Cell::new(0), stalls: Cell::new(0) }
    }

    /// A batch of polls begins.
    pub(crate) fn begin(&self, now_ms: impl FnOnce() -> u64) {
        if self.limit_ms > 0 {
            self.last_ms.set(now_ms());
        }
    }

    /// A poll of the task called `name` has ended; whether it stalled the loop.
    pub(crate) fn polled(&self, name: &'static str, now_ms: impl FnOnce() -> u64) -> bool {
        if self.limit_ms == 0 {
            return false;
        }
        let now_ms = now_ms();
        let took_ms = now_ms.saturating_sub(self.last_ms.replace(now_ms));
        let stalled = took_ms > self.limit_ms;
        if stalled {
            self.stalls.set(self.stalls.get() + 1);
            tracing::warn!(task = name, took_ms, "a poll blocked its worker's loop: move long work to spawn_blocking");
        }
        stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_what_took_longer_than_the_limit() {
        let detector = StallDetector::new(Some(Duration::from_millis(10)));
        detector.begin(|| 100);
        assert!(!detector.polled("quick", || 110), "the limit itself is allowed");
        assert!(detector.polled("slow", || 121));
        assert!(!detector.polled("next", || 121), "the clock starts anew after each poll");
        assert_eq!(detector.stalls.get(), 1);
    }

    #[test]
    fn off_means_that_the_clock_is_not_read() {
        let detector = StallDetector::new(None);
        detector.begin(|| unreachable!("off"));
        assert!(!detector.polled("any", || unreachable!("off")));
    }
}
