//! How a score rises and falls.

use super::{Offence, POINTS_MAX, Score, Verdict, WARN_POINTS};

#[test]
fn offences_alone_warn_and_then_cut() {
    let mut score = Score::default();
    let verdicts: Vec<Verdict> = (0..POINTS_MAX).map(|_| score.offend(Offence::EmptyLines)).collect();
    let warned = verdicts.iter().position(|&verdict| verdict == Verdict::Warn);
    let cut = verdicts.iter().position(|&verdict| verdict == Verdict::Cut);
    assert_eq!((warned, cut), (Some(usize::from(WARN_POINTS) - 1), Some(usize::from(POINTS_MAX) - 1)));
    assert_eq!(score.offend(Offence::UnwantedBody), Verdict::Cut, "it stays so");
}

#[test]
fn a_client_that_ends_each_body_with_a_line_is_welcome() {
    let mut score = Score::default();
    for _ in 0..10_000 {
        assert_eq!(score.offend(Offence::EmptyLines), Verdict::Fine);
        score.redeem();
    }
}
