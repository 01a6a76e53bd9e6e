//! What is known of the half of a connection that its peer ends.

use plimsoll_runtime::Instant;

/// What is known of the peer's half, and since it has ended, when it was last looked at whether the peer is still
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerHalf {
    Open,
    /// Ended. What came before may not all be received.
    Ending(Instant),
    /// All was received.
    Ended(Instant),
}

impl PeerHalf {
    /// When it was last looked at.
    pub(super) fn looked(self) -> Option<Instant> {
        match self {
            Self::Open => None,
            Self::Ending(looked) | Self::Ended(looked) => Some(looked),
        }
    }

    pub(super) fn look(&mut self, now: Instant) {
        if let Self::Ending(looked) | Self::Ended(looked) = self {
            *looked = now;
        }
    }

    pub(super) fn is_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }
}
