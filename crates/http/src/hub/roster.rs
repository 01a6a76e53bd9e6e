//! What publishers and consumers of all workers change together, under one lock: the number of the last message, who
//! takes which encoding, and where messages arrive. So whoever comes is before a message or behind it, and never misses
//! one for which it came in time or gets it in an encoding that it does not take.

use std::sync::Arc;

use super::port::{Port, Wants};
use super::post::Formats;
use super::queue::Weigh;

/// The encodings that a consumer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Frames,
    Events,
}

/// Where a message was published first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Here,
    /// In another process, which has it from its own hub.
    Elsewhere,
}

/// A member, as it was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Its number among all members.
    pub(super) id: u64,
    /// Messages from this number on are for it.
    pub(super) since: u64,
}

/// The part under the lock.
pub(super) struct Roster<T> {
    /// Of the last message.
    number: u64,
    /// Consumers at places that stay theirs; `None` is free.
    ports: Vec<Option<Arc<Port<T>>>>,
    /// Those that take frames: WebSockets and subscriptions.
    frames: u32,
    /// Those that take events.
    events: u32,
    members: u32,
    last_member: u64,
}

impl<T: Weigh + Clone> Roster<T> {
    pub(super) const fn new() -> Self {
        Self { number: 0, ports: Vec::new(), frames: 0, events: 0, members: 0, last_member: 0 }
    }

    pub(super) fn formats(&self) -> Formats {
        Formats { frame: self.frames > 0, events: self.events > 0 }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn members(&self) -> u32 {
        self.members
    }

    /// Numbers a message, which covers all [`formats`](Self::formats), and pushes it to every port that wants it; its
    /// number.
    pub(super) fn post(
        &mut self,
        origin: Origin,
        finish: impl FnOnce(u64) -> T,
        mut push: impl FnMut(&Port<T>, T),
    ) -> u64 {
        self.number += 1;
        let item = finish(self.number);
        let is_wanted = |port: &&Arc<Port<T>>| origin == Origin::Here || port.wants() == Wants::All;
        for port in self.ports.iter().flatten().filter(is_wanted) {
            push(port, item.clone());
        }
        self.number
    }

    /// The port at a place, to be woken when the lock is free.
    pub(super) fn port(&self, at: usize) -> Option<Arc<Port<T>>> {
        self.ports.get(at).cloned().flatten()
    }

    pub(super) fn places(&self) -> usize {
        self.ports.len()
    }

    /// A place for messages to arrive; with the encoding that its reader takes, unless that has members who do.
    pub(super) fn open(&mut self, takes: Option<Takes>, wants: Wants) -> (usize, Arc<Port<T>>) {
        let port = Arc::new(Port::new(wants));
        let at = self.ports.iter().position(Option::is_none).unwrap_or(self.ports.len());
        if at == self.ports.len() {
            self.ports.push(None);
        }
        self.ports[at] = Some(Arc::clone(&port));
        self.count(takes, true);
        (at, port)
    }

    /// Takes the place away; its port is to be closed when the lock is free.
    pub(super) fn close(&mut self, at: usize, takes: Option<Takes>) -> Option<Arc<Port<T>>> {
        self.count(takes, false);
        self.ports[at].take()
    }

    /// Takes a member in, whose worker has a port already. `None` when there are so many.
    pub(super) fn join(&mut self, takes: Takes, members_max: u32) -> Option<Joined> {
        if self.members >= members_max {
            return None;
        }
        self.members += 1;
        self.last_member += 1;
        self.count(Some(takes), true);
        Some(Joined { id: self.last_member, since: self.number + 1 })
    }

    /// A member is gone.
    pub(super) fn leave(&mut self, takes: Takes) {
        self.members -= 1;
        self.count(Some(takes), false);
    }

    fn count(&mut self, takes: Option<Takes>, more: bool) {
        let count = match takes {
            Some(Takes::Frames) => &mut self.frames,
            Some(Takes::Events) => &mut self.events,
            None => return,
        };
        *count = if more { *count + 1 } else { *count - 1 };
    }
}

#[cfg(test)]
mod tests;
