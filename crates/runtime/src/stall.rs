//! Names the task that kept its worker's loop from turning.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::time::Duration;

/// The polls of a turn end after so long: those that are left have the next one, and between them are timers and what
/// the driver has to tell.
const POLLS_MS_MAX: u64 = 5;

/// Is told the time by a coarse clock after each poll. A poll that took longer than the limit is named in a warning.
///
/// The clock has the resolution of the kernel's tick (1 to 4 ms), so the figure is that coarse too. Where nobody is to
/// be named, it is read after every eighth poll while they are quick.
#[derive(Debug)]
pub(crate) struct StallDetector {
    /// 0: off.
    limit_ms: u64,
    begun_ms: Cell<u64>,
    last_ms: Cell<u64>,
    /// What was seen of turns, until somebody [takes](Self::take_seen) it.
    seen: Cell<Option<Turns>>,
    /// Where nobody is to be named, so many polls end without a look at the clock from now on,
    unseen: Cell<u8>,
    /// and so many did last: the more, the more of them were quick.
    stride: Cell<u8>,
}

/// Turns that took long, as far as the coarse clock has seen them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Polls that took longer than the limit.
    pub(crate) stalls: u64,
    /// Turns whose polls took longer than each of [`TURN_MS`].
    pub(crate) over: [u64; TURN_MS.len()],
    /// The longest, in milliseconds.
    pub(crate) longest_ms: u64,
}

impl Turns {
    /// Counts one that took so long.
    fn add(&mut self, took_ms: u64) {
        for (over, ms) in self.over.iter_mut().zip(TURN_MS) {
            *over += u64::from(took_ms > ms);
        }
        self.longest_ms = self.longest_ms.max(took_ms);
    }
}

/// Lengths of turns that are told apart, in milliseconds.
pub(crate) const TURN_MS: [u64; 4] = [4, 10, 50, 250];

/// When a batch began at whose begin the clock was not read: it is taken to have begun when it is read first.
pub(crate) const UNKNOWN: u64 = 0;
/// Polls without a look at the clock at most.
const STRIDE_MAX: u8 = 7;

impl StallDetector {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let limit_ms = limit.map_or(0, |limit| (limit.as_millis() as u64).max(1));
        let [begun_ms, last_ms] = [0; 2].map(Cell::new);
        Self { limit_ms, begun_ms, last_ms, seen: Cell::new(None), unseen: Cell::new(0), stride: Cell::new(0) }
    }

    /// Whether it has to be known when a batch begins: where somebody is to be named, and after a poll that was slow.
    pub(crate) fn is_wary(&self) -> bool {
        self.limit_ms > 0 || self.stride.get() == 0
    }

    /// A batch of polls begins, at a time or at an [`UNKNOWN`] one.
    pub(crate) fn begin(&self, now_ms: u64) {
        if now_ms != UNKNOWN {
            let took_ms = self.last_ms.get().saturating_sub(self.begun_ms.get());
            if took_ms > TURN_MS[0] {
                self.see(|turns| turns.add(took_ms));
            }
        }
        self.begun_ms.set(now_ms);
        self.last_ms.set(now_ms);
    }

    /// A poll of the task called `name` has ended; whether it stalled the loop, or the batch has taken its time.
    pub(crate) fn polled(&self, name: &'static str, now_ms: impl FnOnce() -> u64) -> bool {
        let unseen = self.unseen.get();
        if unseen > 0 {
            self.unseen.set(unseen - 1);
            return false;
        }
        let now_ms = now_ms();
        if self.begun_ms.get() == UNKNOWN {
            self.begin(now_ms);
            self.unseen.set(self.stride.get());
            return false;
        }
        let took_ms = now_ms.saturating_sub(self.last_ms.replace(now_ms));
        if self.limit_ms == 0 {
            self.stride.set(if took_ms > 0 { 0 } else { (2 * self.stride.get() + 1).min(STRIDE_MAX) });
            self.unseen.set(self.stride.get());
        }
        let stalled = self.limit_ms > 0 && took_ms > self.limit_ms;
        if stalled {
            self.see(|turns| turns.stalls += 1);
            tracing::warn!(task = name, took_ms, "a poll blocked its worker's loop: move long work to spawn_blocking");
        }
        stalled || now_ms.saturating_sub(self.begun_ms.get()) >= POLLS_MS_MAX
    }

    #[cold]
    fn see(&self, what: impl FnOnce(&mut Turns)) {
        let mut turns = self.seen.get().unwrap_or_default();
        what(&mut turns);
        self.seen.set(Some(turns));
    }

    /// What was seen since this was asked last.
    pub(crate) fn take_seen(&self) -> Option<Turns> {
        self.seen.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_what_took_longer_than_the_limit() {
        let detector = StallDetector::new(Some(Duration::from_millis(4)));
        detector.begin(100);
        assert!(!detector.polled("quick", || 104), "the limit itself is allowed");
        detector.begin(104);
        assert!(detector.polled("slow", || 109));
        detector.begin(109);
        assert!(!detector.polled("next", || 109), "the clock starts anew after each poll");
        assert_eq!(detector.take_seen().map(|turns| turns.stalls), Some(1));
        assert_eq!(detector.take_seen(), None);
    }

    #[test]
    fn many_quick_polls_leave_the_rest_to_the_next_turn() {
        for limit in [None, Some(Duration::from_millis(10))] {
            let detector = StallDetector::new(limit);
            detector.begin(100);
            let ended_at = (101..).find(|now_ms| detector.polled("quick", || *now_ms));
            assert_eq!(ended_at, Some(105));
            assert_eq!(detector.take_seen(), None, "none of them took long");
            detector.begin(105);
            assert!(!detector.polled("quick", || 106), "another turn");
        }
    }

    #[test]
    fn turns_that_took_long_are_counted() {
        let detector = StallDetector::new(Some(Duration::from_secs(1)));
        for (turn, took_ms) in [2, 4, 5, 60, 11].into_iter().enumerate() {
            let begun_ms = 1_000 * (turn as u64 + 1);
            detector.begin(begun_ms);
            detector.polled("first", || begun_ms + took_ms / 2);
            detector.polled("second", || begun_ms + took_ms);
        }
        detector.begin(10_000);
        let turns = Turns { stalls: 0, over: [3, 2, 1, 0], longest_ms: 60 };
        assert_eq!(detector.take_seen(), Some(turns));
    }

    #[test]
    fn off_means_that_nobody_is_named() {
        let detector = StallDetector::new(None);
        detector.begin(1);
        assert!(detector.polled("any", || 1_000), "its time is over all the same");
        assert_eq!(detector.take_seen(), None);
    }

    #[test]
    fn while_polls_are_quick_the_clock_is_read_after_every_eighth() {
        let detector = StallDetector::new(None);
        detector.begin(7);
        let looks = Cell::new(0);
        let look = |now_ms| {
            looks.set(looks.get() + 1);
            now_ms
        };
        for _ in 0..80 {
            assert!(!detector.polled("quick", || look(7)));
        }
        assert!(looks.replace(0) <= 12);
        // One that was slow is seen at the eighth at the latest, and from then on all are looked at.
        let slow = (8..).step_by(2).map(|now_ms| detector.polled("slow", || look(now_ms))).take(20).collect::<Vec<_>>();
        assert!(
            slow.iter().position(|is_over| *is_over).is_some_and(|at| at <= 8)
                && slow[8..].iter().all(|is_over| *is_over)
        );
        assert!(detector.is_wary());
        detector.begin(1_000);
        assert!(!detector.polled("quick", || look(1_000)) && !detector.is_wary());
        detector.begin(UNKNOWN);
        let polls = (2_000..).step_by(10).position(|now_ms| detector.polled("slow", || look(now_ms)));
        assert!(polls.is_some_and(|at| at < 16) && detector.is_wary());
    }
}
