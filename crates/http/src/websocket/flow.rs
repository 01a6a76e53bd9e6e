//! Whether a WebSocket goes on, as far as memory goes.
//!
//! ```text
//!        what is received, or sent, finds no room             it looks again
//!  Free ------------------------------------------> *Blocked ---------------> Retrying
//!   ^                                                ^   |                     |    |
//!   |                what was received finds room    |   |   none all the same |    |
//!   +----------------------------------------------- | --+---------------------+    |
//!   |                                                +------------------------------+
//!   |        got on, or nothing has failed for a while                              |
//!   +-------------------------------------------------------------------------------+
//! ```
//!
//! How it waits meanwhile is its [`MemoryWait`](crate::memory::wait::MemoryWait).
#![forbid(unsafe_code)]

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    #[default]
    Free,
    /// What was received, or is there to be received, found no room.
    ReceiveBlocked,
    /// What is to be sent found none.
    SendBlocked,
    /// Neither found any.
    BothBlocked,
    /// There may be room now, and nothing has failed or got on since.
    Retrying,
}

impl Flow {
    #[inline]
    pub(super) fn is_blocked(self) -> bool {
        matches!(self, Self::ReceiveBlocked | Self::SendBlocked | Self::BothBlocked)
    }

    #[inline]
    pub(super) fn is_send_blocked(self) -> bool {
        matches!(self, Self::SendBlocked | Self::BothBlocked)
    }

    #[inline]
    pub(super) fn is_receive_blocked(self) -> bool {
        matches!(self, Self::ReceiveBlocked | Self::BothBlocked)
    }

    /// What is to be sent found no room.
    pub(super) fn block_send(&mut self) {
        *self = if self.is_receive_blocked() { Self::BothBlocked } else { Self::SendBlocked };
    }

    /// What was received, or is there, found no room.
    pub(super) fn block_receive(&mut self) {
        *self = if self.is_send_blocked() { Self::BothBlocked } else { Self::ReceiveBlocked };
    }

    /// There is room for what was received; whether it was blocked.
    pub(super) fn resume_receive(&mut self) -> bool {
        let was_blocked = self.is_receive_blocked();
        if was_blocked {
            *self = if self.is_send_blocked() { Self::SendBlocked } else { Self::Free };
        }
        was_blocked
    }

    /// There may be room now.
    pub(super) fn retry(&mut self) {
        *self = Self::Retrying;
    }

    /// Something found room.
    #[inline]
    pub(super) fn get_on(&mut self) {
        if *self == Self::Retrying {
            *self = Self::Free;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Flow::{self, BothBlocked, Free, ReceiveBlocked, Retrying, SendBlocked};

    const ALL: [Flow; 5] = [Free, ReceiveBlocked, SendBlocked, BothBlocked, Retrying];

    fn after(mut flow: Flow, act: impl FnOnce(&mut Flow)) -> Flow {
        act(&mut flow);
        flow
    }

    #[test]
    fn each_side_is_blocked_by_itself() {
        assert_eq!(ALL.map(Flow::is_blocked), [false, true, true, true, false]);
        assert_eq!(ALL.map(Flow::is_send_blocked), [false, false, true, true, false]);
        assert_eq!(ALL.map(Flow::is_receive_blocked), [false, true, false, true, false]);
        let blocked = ALL.map(|flow| after(flow, Flow::block_send));
        assert_eq!(blocked, [SendBlocked, BothBlocked, SendBlocked, BothBlocked, SendBlocked]);
        let blocked = ALL.map(|flow| after(flow, Flow::block_receive));
        assert_eq!(blocked, [ReceiveBlocked, ReceiveBlocked, BothBlocked, BothBlocked, ReceiveBlocked]);
    }

    #[test]
    fn who_retries_is_free_when_it_gets_on_and_blocked_when_it_does_not() {
        assert_eq!(ALL.map(|flow| after(flow, Flow::retry)), [Retrying; 5]);
        let got_on = ALL.map(|flow| after(flow, Flow::get_on));
        assert_eq!(got_on, [Free, ReceiveBlocked, SendBlocked, BothBlocked, Free]);
        let mut flows = ALL;
        let was_blocked = flows.each_mut().map(Flow::resume_receive);
        assert_eq!(was_blocked, [false, true, false, true, false]);
        assert_eq!(flows, [Free, Free, SendBlocked, SendBlocked, Retrying]);
    }
}
