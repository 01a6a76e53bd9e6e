//! What memory refuses, and answers that cannot be sent, in the log: at a rate that is no load, however many there are.

use ::core::cell::Cell;
use ::core::time::Duration;

use plimsoll_runtime::Instant;

use crate::base::counters::Shed;
use crate::exchange::response::{Kind, Response};
use crate::worker::state::Core;

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

    fn take(&self, now: Instant) -> Option<u64> {
        self.said_at.set(Some(now));
        Some(self.unsaid.take()).filter(|count| *count > 0)
    }
}

impl Core {
    /// Counts a request, an answer or a connection that found no room, and says so: the first at once, then once in ten
    /// seconds how many there were.
    pub(crate) fn shed_for_room(&self, reason: Shed) {
        self.counters().shed(reason);
        if let Some(refused) = self.refusals.note(plimsoll_runtime::now()) {
            self.tell_of_refusals(refused, reason.name());
        }
    }

    /// Tells of a handler's answer that cannot be sent, as another was begun: of the first at once, then once in ten
    /// seconds of how many there were.
    #[cold]
    pub(crate) fn warn_of_second(&self, response: &Response) {
        if response.kind() != Kind::Whole {
            return;
        }
        if let Some(answers) = self.second_answers.note(plimsoll_runtime::now()) {
            tell_of_second_answers(answers, Some(response.status().as_u16()));
        }
    }

    /// Says what was not said yet, at the end.
    pub(crate) fn tell_of_the_last_refusals(&self) {
        let now = plimsoll_runtime::now();
        if let Some(refused) = self.refusals.take(now) {
            self.tell_of_refusals(refused, "any");
        }
        if let Some(answers) = self.second_answers.take(now) {
            tell_of_second_answers(answers, None);
        }
    }

    #[cold]
    fn tell_of_refusals(&self, refused: u64, reason: &'static str) {
        let budget = self.pool.budget();
        let (charged_bytes, limit_bytes) = (budget.charged(), budget.limit().as_bytes());
        tracing::warn!(refused, reason, charged_bytes, limit_bytes, "no room under the memory line");
    }
}

fn tell_of_second_answers(answers: u64, status: Option<u16>) {
    tracing::warn!(
        answers,
        status,
        "a handler answered after it had begun another answer, which ends with its connection or stream"
    );
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
