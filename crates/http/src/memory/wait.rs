//! How a connection waits for memory: one of HTTP/1.1 with its exchange, one of HTTP/2 with all its streams, a
//! WebSocket.
//!
//! ```text
//!        no room              its turn: there was room            none all the same
//!  None ---------> Queued ------------------------------> Granted ----------------> Queued, for twice as
//!   ^                | |                                     |                       much each time
//!   |  done without  | | its time is over                    | got on
//!   +----------------+ v                                     v
//!   ^               TimedOut: begun at once, or refused     None
//!   +--------------------+
//! ```
//!
//! Who is [`Queued`](MemoryWait::Queued) has a place in the [queue](crate::worker::pressure), and holds nothing of what
//! it waits for. A request of HTTP/1.1 that was not begun may also be [`Admitted`](MemoryWait::Admitted), when there
//! was room before it was received, and [`Refused`](MemoryWait::Refused), which is not for want of memory.

/// What there must be room for when a request is begun while memory may become short: its head and a small answer.
pub(crate) const REQUEST_ROOM_BYTES: usize = 8 * 1024;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemoryWait {
    #[default]
    None,
    /// It has a place among those that wait, and was granted room so often before.
    Queued { grants: u8 },
    /// So has its request, which brings a body, and has as long as a part of that.
    QueuedUpload { grants: u8 },
    /// It was granted room so often, and did not get on yet.
    Granted { grants: u8 },
    /// Its request has waited for as long as it may: it is begun at once, or refused.
    TimedOut,
    /// Its request is refused, as those before it take too long.
    Refused,
    /// It was found that there is room for its request, before that was received.
    Admitted,
}

impl MemoryWait {
    /// Whether it has a place among those that wait.
    pub(crate) fn is_queued(self) -> bool {
        matches!(self, Self::Queued { .. } | Self::QueuedUpload { .. })
    }

    /// How often it was granted room, and found none all the same.
    pub(crate) fn grants(self) -> u8 {
        match self {
            Self::Queued { grants } | Self::QueuedUpload { grants } | Self::Granted { grants } => grants,
            Self::None | Self::TimedOut | Self::Refused | Self::Admitted => 0,
        }
    }

    /// It gets a place.
    pub(crate) fn enqueue(&mut self) {
        *self = Self::Queued { grants: self.grants() };
    }

    /// What waits with it brings a body.
    pub(crate) fn expect_body(&mut self) {
        *self = Self::QueuedUpload { grants: self.grants() };
    }

    /// It is its turn.
    pub(crate) fn grant(&mut self) {
        *self = Self::Granted { grants: self.grants().saturating_add(1) };
    }

    /// Another has taken its place.
    pub(crate) fn lose_place(&mut self) {
        *self = Self::Granted { grants: self.grants() };
    }

    /// It found room and got on: the next wait begins anew.
    pub(crate) fn get_on(&mut self) {
        *self = match *self {
            Self::Granted { .. } => Self::None,
            Self::Queued { .. } => Self::Queued { grants: 0 },
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryWait::{Granted, None, Queued, QueuedUpload, Refused, TimedOut};

    #[test]
    fn grants_are_counted_until_it_gets_on() {
        let mut wait = None;
        for grants in 0..3 {
            wait.enqueue();
            assert_eq!((wait, wait.is_queued()), (Queued { grants }, true));
            wait.grant();
            assert_eq!((wait, wait.is_queued(), wait.grants()), (Granted { grants: grants + 1 }, false, grants + 1));
        }
        wait.enqueue();
        wait.expect_body();
        assert_eq!((wait, wait.is_queued()), (QueuedUpload { grants: 3 }, true));
        wait.lose_place();
        assert_eq!((wait, wait.is_queued()), (Granted { grants: 3 }, false));
        wait.get_on();
        assert_eq!(wait, None);
    }

    #[test]
    fn who_gets_on_while_it_waits_keeps_its_place() {
        let mut wait = Queued { grants: 2 };
        wait.get_on();
        assert_eq!(wait, Queued { grants: 0 });
        for end in [TimedOut, Refused] {
            wait = end;
            wait.get_on();
            assert_eq!((wait, wait.is_queued(), wait.grants()), (end, false, 0));
        }
        wait = Granted { grants: u8::MAX };
        wait.grant();
        assert_eq!(wait.grants(), u8::MAX);
    }
}
