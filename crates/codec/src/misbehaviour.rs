//! One score of misbehaviour, whichever protocol a connection speaks: points for what is legal each time, and an attack
//! when it is all that a peer does. A [`Score`] is made better by what its owner sees of good; a [`Misbehaviour`] by
//! time.

/// The points of a peer, 0 to [`POINTS_MAX`].
///
/// ```
/// use plimsoll_codec::misbehaviour::{Score, Verdict};
///
/// let mut peer = Score::default();
/// assert_eq!(peer.add(80), Verdict::GoAway);
/// peer.forgive(6);
/// assert_eq!(peer.verdict(), Verdict::Tolerated);
/// assert_eq!(peer.add(1_000), Verdict::Close);
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Score(u8);

impl Score {
    /// Of a peer that has done nothing yet.
    pub const NONE: Score = Score(0);

    /// Adds points.
    pub fn add(&mut self, points: u32) -> Verdict {
        self.0 = u32::from(self.0).saturating_add(points).min(POINTS_MAX) as u8;
        self.verdict()
    }

    /// Takes points away.
    pub fn forgive(&mut self, points: u32) {
        self.0 = u32::from(self.0).saturating_sub(points) as u8;
    }

    /// What the peer deserves at present.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self.0 as u32 {
            POINTS_MAX.. => Verdict::Close,
            GOAWAY_POINTS.. => Verdict::GoAway,
            _ => Verdict::Tolerated,
        }
    }
}

/// A score from which time takes a point each second.
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
    score: Score,
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
        Misbehaviour { score: Score::NONE, at_ms: 0 }
    }

    /// Adds points at a time in milliseconds of any clock that does not go back.
    pub fn add(&mut self, points: u32, now_ms: u64) -> Verdict {
        let seconds = now_ms.saturating_sub(self.at_ms) / 1_000;
        self.at_ms += seconds * 1_000;
        self.score.forgive(u32::try_from(seconds).unwrap_or(u32::MAX));
        self.score.add(points)
    }

    /// For a connection that keeps it in few bytes.
    pub(crate) const fn into_parts(self) -> (Score, u64) {
        (self.score, self.at_ms)
    }

    pub(crate) const fn from_parts(score: Score, at_ms: u64) -> Misbehaviour {
        Misbehaviour { score, at_ms }
    }

    /// What the peer deserves at present.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.score.verdict()
    }
}

/// At so many points a connection is closed.
pub const POINTS_MAX: u32 = 100;
/// From so many on it takes nothing new.
pub const GOAWAY_POINTS: u32 = 75;
