//! What memory refuses, and answers that cannot be sent, in the log: at a rate that is no load, however many there are.

use crate::base::counters::Shed;
use crate::memory::desk::Desk;

impl Desk {
    /// Counts a request, an answer or a connection that found no room, and says so: the first at once, then once in ten
    /// seconds how many there were.
    pub(crate) fn shed_for_room(&self, reason: Shed) {
        self.counters().shed(reason);
        if let Some(refused) = self.refusals.note(plimsoll_runtime::now()) {
            self.tell_of_refusals(refused, reason.name());
        }
    }

    /// Counts a request that was refused as there is too much to do, and says so: the first at once, then once in ten
    /// seconds how many there were.
    pub(crate) fn shed_for_cpu(&self) {
        self.counters().shed(Shed::Cpu);
        if let Some(refused) = self.cpu_refusals.note(plimsoll_runtime::now()) {
            tracing::warn!(refused, "requests were not begun in time, or too many handlers run: they were told 503");
        }
    }

    /// Tells of a handler's answer that cannot be sent, as another was begun: of the first at once, then once in ten
    /// seconds of how many there were.
    #[cold]
    pub(crate) fn warn_of_second(&self, status: u16) {
        if let Some(answers) = self.second_answers.note(plimsoll_runtime::now()) {
            tell_of_second_answers(answers, Some(status));
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
