//! One counter of misbehaviour for each connection, whichever protocol it speaks.

/// Points for what a peer does and no honest peer does often. They fade with time.
///
/// ```
/// use plimsoll_codec::misbehaviour::{Misbehaviour, Verdict};
///
/// let mut peer = Misbehaviour::new();
/// assert_eq!(peer.add(70, 0), Verdict::Tolerated);
/// assert_eq!(peer.add(10, 0), Verdict::GoAway);
/// // A minute later, 60 of the 80 points are forgotten.
/// assert_eq!(peer.add(10, 60_000), Verdict::Tolerated);
/// assert_eq!(peer.add(90, 60_000), Verdict::Close);
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Misbehaviour {
    points: u32,
    /// When points were forgotten last, in milliseconds of the caller's clock.
    at_ms: u64,
}

/// What a peer deserves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Tolerated,
    /// At 75 % of [`POINTS_MAX`]: finish what runs, take nothing new.
    GoAway,
    /// At 100 %: close.
    Close,
}

impl Misbehaviour {
    /// None so far.
    #[must_use]
    pub const fn new() -> Misbehaviour {
        Misbehaviour { points: 0, at_ms: 0 }
    }

    /// Adds points at a time in milliseconds of any clock that does not go back.
    pub fn add(&mut self, points: u32, now_ms: u64) -> Verdict {
        let seconds = now_ms.saturating_sub(self.at_ms) / 1_000;
        self.at_ms += seconds * 1_000;
        let forgotten = u32::try_from(seconds).unwrap_or(u32::MAX);
        self.points = self.points.saturating_sub(forgotten).saturating_add(points);
        self.verdict()
    }

    /// The same as two numbers, for a connection that keeps it in few bytes.
    pub(crate) const fn into_parts(self) -> (u32, u64) {
        (self.points, self.at_ms)
    }

    pub(crate) const fn from_parts((points, at_ms): (u32, u64)) -> Misbehaviour {
        Misbehaviour { points, at_ms }
    }

    /// What the peer deserves at present.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self.points {
            POINTS_MAX.. => Verdict::Close,
            GOAWAY_POINTS.. => Verdict::GoAway,
            _ => Verdict::Tolerated,
        }
    }
}

/// At so many points a connection is closed. One point is forgotten each second.
pub const POINTS_MAX: u32 = 100;
const GOAWAY_POINTS: u32 = 75;
