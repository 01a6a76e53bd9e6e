//! The timers of a table: one coarse list through its entries, and one timer of the worker for the first of them.
#![forbid(unsafe_code)]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use plimsoll_reactor::{Instant, PoolPage};
use plimsoll_slab::{Key, Slab};

use super::accept::Accepting;
use super::{Entry, Event, Table};
use crate::sleep_until;
use crate::time::{Link, Links, Sleep, TICK_MS};
use crate::worker::Worker;

/// How much later than asked [`Event::Due`] may come.
pub const TIMER_STEP: Duration = Duration::from_millis(TICK_MS as u64);

/// When the table's timer fires if nothing else sets it: never, in practice.
const RESERVED: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The worker's timer for a new table. It has room from the start: at the line, a wait that finds none asks to be
/// polled each turn.
pub(super) fn reserved(worker: &Worker) -> Sleep {
    let mut sleep = sleep_until(worker.now() + RESERVED);
    let _is_far = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
    sleep
}

/// The coarse tick that an instant falls in.
pub(super) fn tick(instant: Instant) -> u32 {
    // The last tick but one stands for all that come later, so that there is one after it.
    u32::try_from(instant.as_millis() / u64::from(TICK_MS)).map_or(u32::MAX - 1, |tick| tick.min(u32::MAX - 1))
}

impl<C> Links for Slab<Entry<C>, PoolPage> {
    fn link(&self, index: u32) -> Link {
        self.get_at(index).expect("only live entries are linked").link
    }

    fn set_link(&mut self, index: u32, link: Link) {
        self.get_at_mut(index).expect("only live entries are linked").link = link;
    }
}

impl<C: Default> Table<C> {
    /// Asks for [`Event::Due`] after a duration, to 64 ms ([`TIMER_STEP`]), never early; what is later than the 8th
    /// year of the worker's clock, never at all. It replaces what was asked before; a deadline that is put off costs
    /// one store.
    pub fn schedule(&mut self, key: Key, after: Duration) {
        debug_assert!(self.entries.contains(key), "a live connection");
        let deadline = self.worker.now() + after;
        if self.carries && self.schedule_carried(key, Some(deadline)) {
            return;
        }
        let deadline = tick(deadline) + 1;
        self.timers.schedule(&mut self.entries, key.index(), deadline);
    }

    /// Takes [`schedule`](Self::schedule) back.
    pub fn unschedule(&mut self, key: Key) {
        debug_assert!(self.entries.contains(key), "a live connection");
        if self.carries && self.schedule_carried(key, None) {
            return;
        }
        self.timers.cancel(&mut self.entries, key.index());
    }

    /// The time until what [`schedule`](Self::schedule) asked for, to 64 ms; `None` if nothing is asked
    /// for, or the connection was closed.
    pub fn scheduled_in(&self, key: Key) -> Option<Duration> {
        let due = self.entries.get(key)?.link.deadline_tick()?;
        let ticks = due.saturating_sub(tick(self.worker.now()));
        Some(Duration::from_millis(u64::from(ticks) * u64::from(TICK_MS)))
    }

    // In each turn: without a frame of its own.
    #[inline(always)]
    pub(super) fn next_due(&mut self) -> Option<Event> {
        let index = self.timers.pop_due(&mut self.entries, tick(self.worker.now()))?;
        self.entries.key_at(index).map(Event::Due)
    }

    /// The same where transports have times of their own.
    pub(super) fn next_due_carried(&mut self) -> Option<Event> {
        loop {
            let Event::Due(key) = self.next_due()? else { continue };
            if let Some(event) = self.due_carried(key) {
                return Some(event);
            }
        }
    }

    /// When what [`schedule`](Self::schedule) asked for is due, to a tick.
    pub(super) fn deadline(&self, key: Key) -> Option<Instant> {
        let due = self.entries.get(key)?.link.deadline_tick()?;
        Some(Instant::from_millis(u64::from(due.saturating_sub(1)) * u64::from(TICK_MS)))
    }

    /// Ready when a timer is due; else the waker is woken when one may be.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let paused = match self.accepting {
            Accepting::Paused { until, .. } => Some(until),
            _ => None,
        };
        let due = self.timers.next_tick().map(|tick| Instant::from_millis(u64::from(tick) * u64::from(TICK_MS)));
        let Some(next) = [paused, due].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| sleep_until(next));
        if sleep.deadline() != next {
            sleep.reset(next);
        }
        Pin::new(sleep).poll(cx)
    }
}
