//! Misbehaviour that is legal each time, and an attack when it is all a peer does.
//!
//! One counter for each connection, whatever protocol it speaks. An offence adds points, an exchange that was completed
//! takes some away. At [`WARN_POINTS`] the peer is told to come again on another connection (`Connection: close` with
//! the next answer; GOAWAY in HTTP/2), at [`POINTS_MAX`] the connection is closed.

/// The connection is closed at so many points.
pub(crate) const POINTS_MAX: u8 = 100;
/// The next answer is the last one from so many points on.
pub(crate) const WARN_POINTS: u8 = 75;
/// What an exchange that was completed takes away.
const REDEEMED_POINTS: u8 = 1;
const MIB_BITS: u32 = 20;

/// A body of so many bytes that no handler wanted is nothing to note.
pub(crate) const UNWANTED_BYTES_FREE: u32 = 16 * 1024;

/// What a peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offence {
    /// A long body of so many bytes that was dropped because no handler wanted it.
    UnwantedBody { bytes: u32 },
}

impl Offence {
    /// For each at least more than an exchange redeems, and for each MiB behind the first one more. One alone, however
    /// long, is no reason to close at once.
    const fn points(self) -> u8 {
        match self {
            Self::UnwantedBody { bytes } => {
                let points = 2 + (bytes >> MIB_BITS).saturating_sub(1);
                if points < WARN_POINTS as u32 { points as u8 } else { WARN_POINTS }
            }
        }
    }
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// No request after this one.
    Warn,
    /// Close.
    Cut,
}

/// The points of a connection, 0 to [`POINTS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Score(u8);

impl Score {
    /// Adds an offence.
    pub(crate) fn offend(&mut self, offence: Offence) -> Verdict {
        self.0 = self.0.saturating_add(offence.points()).min(POINTS_MAX);
        self.verdict()
    }

    /// An exchange was completed.
    pub(crate) fn redeem(&mut self) {
        self.0 = self.0.saturating_sub(REDEEMED_POINTS);
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self.0 {
            POINTS_MAX.. => Verdict::Cut,
            WARN_POINTS.. => Verdict::Warn,
            _ => Verdict::Fine,
        }
    }
}

#[cfg(test)]
mod tests;
