//! What will happen by itself, in order of virtual time; events of one instant happen in the order they were scheduled.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::fd::Number;

/// Something that happens at a given time. Events whose subject is gone by then do nothing.
#[derive(Debug)]
pub(crate) enum Event {
    /// Operations that wait on a descriptor are tried again.
    Progress(Number),
    /// An ended operation becomes visible to its driver.
    Deliver(u64),
    /// A late cancellation takes effect.
    Cancel(u64),
    /// A kernel worker has finished a file operation.
    FileDone(u64),
    /// A connection attempt reaches the other side.
    Syn(u64),
    /// Its acceptance comes back.
    SynAck(u64),
    /// Its refusal comes back.
    Refused(u64),
    /// Nothing came back at all.
    DialTimeout(u64),
    /// Bytes sent by `side` arrive at the other end.
    Segment { conn: u64, side: usize, len: usize },
    /// The end of what `side` sends arrives at the other end.
    Finish { conn: u64, side: usize },
    /// A reset arrives at `side`.
    Reset { conn: u64, side: usize },
    /// A black hole closes.
    LinkUp(u64),
    /// `side` has waited for an acknowledgement for too long.
    Timeout { conn: u64, side: usize },
}

/// Time in nanoseconds, then order of scheduling.
pub(crate) type EventKey = (u64, u64);

/// The schedule.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: BTreeMap<EventKey, Event>,
    sequence: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: u64, event: Event) -> EventKey {
        self.sequence += 1;
        let key = (at, self.sequence);
        let before = self.queue.insert(key, event);
        debug_assert!(before.is_none(), "sequence numbers are unique");
        key
    }

    pub(crate) fn remove(&mut self, key: EventKey) {
        self.queue.remove(&key);
    }

    /// When the next one is due.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.keys().next().map(|&(at, _)| at)
    }

    /// The next one that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Event> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
