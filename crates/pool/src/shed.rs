//! Whom to shed: the order, as a pure function.
#![forbid(unsafe_code)]

use crate::accounts::AccountKey;

/// What a server has that could be shed, by sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Connections between two requests.
    pub parked: u64,
    /// Connections with a part of a head.
    pub incomplete_heads: u64,
    /// Connections whose peer took no output for a second.
    pub stalled_outputs: u64,
}

/// What to shed next. Never in silence: HTTP/1.1 says 503 with `Retry-After`, HTTP/2 `REFUSED_STREAM`, WebSocket 1013.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShedStep {
    /// A parked connection, the one idle for longest.
    Parked,
    /// The newest incomplete head.
    IncompleteHead,
    /// The output that has stalled for longest.
    StalledOutput,
    /// What this account has: it is the newest of those in the largest power-of-two bucket of use.
    Account(AccountKey),
}

/// The order of shedding: parked connections, incomplete heads, output without progress, then the newest of the largest.
///
/// ```
/// use plimsoll_pool::{Candidates, ShedStep, next_step};
///
/// let candidates = Candidates { parked: 0, incomplete_heads: 3, stalled_outputs: 1 };
/// assert_eq!(next_step(&candidates, || None), Some(ShedStep::IncompleteHead));
/// assert_eq!(next_step(&Candidates::default(), || None), None);
/// ```
pub fn next_step(
    candidates: &Candidates,
    newest_of_the_largest: impl FnOnce() -> Option<AccountKey>,
) -> Option<ShedStep> {
    match candidates {
        Candidates { parked: 1.., .. } => Some(ShedStep::Parked),
        Candidates { incomplete_heads: 1.., .. } => Some(ShedStep::IncompleteHead),
        Candidates { stalled_outputs: 1.., .. } => Some(ShedStep::StalledOutput),
        _ => newest_of_the_largest().map(ShedStep::Account),
    }
}

#[cfg(test)]
mod tests;
