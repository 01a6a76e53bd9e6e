//! Names the task that kept its worker's loop from turning.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::time::Duration;

/// The polls of a turn end after so long: those that are left have the next one, and between them are timers and what the driver has to tell.
const POLLS_MS_MAX: u64 = 5;

/// Is told the time by a coarse clock after each poll. A poll that took longer than the limit is named in a warning.
///
/// The clock has the resolution of the kernel's tick (1 to 4 ms), so the figure is that coarse too.
#[derive(Debug)]
pub(crate) struct StallDetector {
    /// 0: off.
    limit_ms: u64,
    begun_ms: Cell<u64>,
    last_ms: Cell<u64>,
    stalls: Cell<u64>,
}

impl StallDetector {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let limit_ms = limit.map_or(0, |limit| (limit.as_millis() as u64).max(1));
        Self { limit_ms, begun_ms: Cell::new(0), last_ms: Cell::new(0), stalls: Cell::new(0) }
    }

    /// A batch of polls begins.
    pub(crate) fn begin(&self, now_ms: u64) {
        self.begun_ms.set(now_ms);
        self.last_ms.set(now_ms);
    }

    /// A poll of the task called `name` has ended; whether it stalled the loop, or the batch has taken its time.
    pub(crate) fn polled(&self, name: &'static str, now_ms: u64) -> bool {
        let took_ms = now_ms.saturating_sub(self.last_ms.replace(now_ms));
        let stalled = self.limit_ms > 0 && took_ms > self.limit_ms;
        if stalled {
            self.stalls.set(self.stalls.get() + 1);
            tracing::warn!(task = name, took_ms, "a poll blocked its worker's loop: move long work to spawn_blocking");
        }
        stalled || now_ms.saturating_sub(self.begun_ms.get()) >= POLLS_MS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_what_took_longer_than_the_limit() {
        let detector = StallDetector::new(Some(Duration::from_millis(4)));
        detector.begin(100);
        assert!(!detector.polled("quick", 104), "the limit itself is allowed");
        detector.begin(104);
        assert!(detector.polled("slow", 109));
        detector.begin(109);
        assert!(!detector.polled("next", 109), "the clock starts anew after each poll");
        assert_eq!(detector.stalls.get(), 1);
    }

    #[test]
    fn many_quick_polls_leave_the_rest_to_the_next_turn() {
        for limit in [None, Some(Duration::from_millis(10))] {
            let detector = StallDetector::new(limit);
            detector.begin(100);
            let ended_at = (101..).find(|now_ms| detector.polled("quick", *now_ms));
            assert_eq!(ended_at, Some(105));
            assert_eq!(detector.stalls.get(), 0, "none of them took long");
            detector.begin(105);
            assert!(!detector.polled("quick", 106), "another turn");
        }
    }

    #[test]
    fn off_means_that_nobody_is_named() {
        let detector = StallDetector::new(None);
        detector.begin(0);
        assert!(detector.polled("any", 1_000), "its time is over all the same");
        assert_eq!(detector.stalls.get(), 0);
    }
}
