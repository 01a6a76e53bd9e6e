//! Records that have begun to come and are not whole: how long they may take. The owner knows what is waited for, and
//! so for how long; the table keeps that time beside the owner's own.
//!
//! ```text
//!   whole --a part has come--> Event::Partial --bound_partial--> timed --the time is over--> Event::Stalled
//!     ^                                                            |
//!     +------------------------- the rest has come ----------------+
//! ```
//!
//! Each record that becomes whole and has plaintext begins the time anew. Others, of which a peer can send as many as
//! it likes, do not.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_reactor::Instant;
use plimsoll_slab::Key;

use super::slot::{PartialRecord, Slot};
use super::timers::tick;
use super::{Event, Table};

impl<C: Default> Table<C> {
    /// Whether a record has begun to come on a connection, and is not whole.
    #[doc(hidden)]
    pub fn has_partial(&self, key: Key) -> bool {
        match self.entries.get(key).map(|entry| &entry.state) {
            Some(Slot::Carried(carried)) => {
                carried.seen_whole().is_some_and(|whole| whole.carrier.transport.has_partial())
            }
            Some(Slot::Plain(_)) | None => false,
        }
    }

    /// Bounds the time for which a record of a connection may be not whole. Nothing happens where all are.
    #[doc(hidden)]
    pub fn bound_partial(&mut self, key: Key, within: Duration) {
        if !self.has_transport(key) {
            return;
        }
        let owners = self.deadline(key);
        let Some(partial) = self.carried(key).partial() else { return };
        if partial.within.is_none() {
            partial.owners = owners;
        }
        partial.within = Some(within);
        self.schedule_first(key);
    }

    /// Something was opened, with plaintext or without.
    pub(super) fn note_partial(&mut self, key: Key, has_plaintext: bool) {
        let now = self.worker.now();
        // At rest all are whole, and nothing is known of any.
        let Some(whole) = self.carried(key).whole_now() else { return };
        let is_partial = whole.carrier.transport.has_partial();
        match &mut whole.partial {
            None if is_partial => {
                whole.partial = Some(PartialRecord { since: Some(now), within: None, owners: None });
                self.partials.push_back(key);
            }
            // A time that begins anew is seen when the earlier one is over. What is waited for, and so for how long,
            // may be something else behind a record that was whole.
            Some(partial) if is_partial && (has_plaintext || partial.since.is_none()) => {
                if partial.since.replace(now).is_none() {
                    self.partials.push_back(key);
                }
            }
            Some(partial) if !is_partial && partial.within.is_none() => whole.partial = None,
            Some(partial) if !is_partial => partial.since = None,
            Some(_) | None => {}
        }
    }

    /// A record that began to come, and was not told yet.
    pub(super) fn next_partial(&mut self) -> Option<Event> {
        loop {
            let key = self.partials.pop_front()?;
            // It may be whole by now, or its connection closed.
            if self.has_partial(key) {
                return Some(Event::Partial(key));
            }
        }
    }

    /// The owner's deadline, beside that of a record.
    #[cold]
    pub(super) fn schedule_carried(&mut self, key: Key, deadline: Option<Instant>) -> bool {
        if !self.has_transport(key) {
            return false;
        }
        let Some(partial) = self.carried(key).partial() else { return false };
        if partial.within.is_none() {
            return false;
        }
        partial.owners = deadline;
        self.schedule_first(key);
        true
    }

    /// All records are whole, and what is known of them is forgotten: the timer is the owner's alone again.
    pub(super) fn settle_partial(&mut self, key: Key) {
        let Some(partial) = self.carried(key).partial().copied() else { return };
        debug_assert!(partial.since.is_none(), "at rest none is begun");
        self.carried(key).forget_partial();
        if partial.within.is_some() {
            match partial.owners {
                Some(owners) => self.timers.schedule(&mut self.entries, key.index(), tick(owners) + 1),
                None => _ = self.timers.cancel(&mut self.entries, key.index()),
            }
        }
    }

    /// Has the timer come for what is due first.
    fn schedule_first(&mut self, key: Key) {
        let Some(partial) = self.carried(key).partial().copied() else { return };
        match [partial.until(), partial.owners].into_iter().flatten().min() {
            Some(first) => self.timers.schedule(&mut self.entries, key.index(), tick(first) + 1),
            None => _ = self.timers.cancel(&mut self.entries, key.index()),
        }
    }

    /// The timer of a connection has come: what that means, if something is due.
    pub(super) fn due_carried(&mut self, key: Key) -> Option<Event> {
        if !self.has_transport(key) {
            return Some(Event::Due(key));
        }
        let now = self.worker.now();
        let Some(partial) = self.carried(key).partial().copied() else { return Some(Event::Due(key)) };
        if partial.within.is_none() {
            return Some(Event::Due(key));
        }
        if partial.until().is_some_and(|until| until <= now) {
            self.carried(key).forget_partial();
            return Some(Event::Stalled(key));
        }
        let is_owners = partial.owners.is_some_and(|owners| owners <= now);
        if partial.since.is_none() {
            self.carried(key).forget_partial();
        } else if is_owners && let Some(partial) = self.carried(key).partial() {
            partial.owners = None;
        }
        if is_owners && partial.since.is_none() {
            return Some(Event::Due(key));
        }
        if partial.since.is_none() {
            if let Some(owners) = partial.owners {
                self.timers.schedule(&mut self.entries, key.index(), tick(owners) + 1);
            }
        } else {
            self.schedule_first(key);
        }
        is_owners.then_some(Event::Due(key))
    }
}
