//! How a score rises and falls.

use super::{Offence, POINTS_MAX, REDEEMED_POINTS, Score, Verdict, WARN_POINTS};

/// Offences until a number of points is reached.
fn offences(points: u8) -> usize {
    usize::from(points.div_ceil(Offence::UnwantedBody.points()))
}

#[test]
fn offences_alone_warn_and_then_cut() {
    let mut score = Score::default();
    let verdicts: Vec<Verdict> = (0..POINTS_MAX).map(|_| score.offend(Offence::UnwantedBody)).collect();
    let warned = verdicts.iter().position(|&verdict| verdict == Verdict::Warn);
    let cut = verdicts.iter().position(|&verdict| verdict == Verdict::Cut);
    assert_eq!((warned, cut), (Some(offences(WARN_POINTS) - 1), Some(offences(POINTS_MAX) - 1)));
    assert_eq!(score.offend(Offence::UnwantedBody), Verdict::Cut, "it stays so");
}

#[test]
fn a_client_that_completes_exchanges_between_its_offences_is_welcome() {
    let mut score = Score::default();
    for _ in 0..10_000 {
        assert_eq!(score.offend(Offence::UnwantedBody), Verdict::Fine);
        for _ in 0..Offence::UnwantedBody.points() / REDEEMED_POINTS {
            score.redeem();
        }
    }
}
