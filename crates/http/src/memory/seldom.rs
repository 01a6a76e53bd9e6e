//! Lines of the log at a rate that is no load, however much there is to tell.

use ::core::cell::Cell;
use ::core::time::Duration;

use plimsoll_runtime::Instant;

/// The time between two lines of a worker.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Of something that is told seldom: how often it was since the last line, and when that was.
#[derive(Default)]
pub(crate) struct Seldom {
    unsaid: Cell<u64>,
    said_at: Cell<Option<Instant>>,
}

impl Seldom {
    /// Counts one. How many are to be told of now, if it is time.
    pub(crate) fn note(&self, now: Instant) -> Option<u64> {
        self.unsaid.set(self.unsaid.get() + 1);
        let is_time = self.said_at.get().is_none_or(|said| now.since(said) >= LINE_EVERY);
        is_time.then(|| self.take(now)).flatten()
    }

    /// How many are to be told of that were not.
    pub(crate) fn take(&self, now: Instant) -> Option<u64> {
        self.said_at.set(Some(now));
        Some(self.unsaid.take()).filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_are_counted_until_it_is_time() {
        let refusals = Seldom::default();
        let begin = Instant::from_nanos(5_000_000_000);
        assert_eq!(refusals.take(begin), None, "nothing to say");
        assert_eq!(Seldom::default().note(begin), Some(1));
        let refusals = Seldom::default();
        assert_eq!(refusals.note(begin), Some(1));
        for at in 1..=1_000 {
            assert_eq!(refusals.note(begin + Duration::from_millis(9 * at)), None);
        }
        assert_eq!(refusals.note(begin + LINE_EVERY), Some(1_001));
        assert_eq!(refusals.note(begin + LINE_EVERY), None);
        assert_eq!(refusals.take(begin + LINE_EVERY), Some(1), "at the end");
    }
}
