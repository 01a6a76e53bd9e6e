//! How a score rises and falls.

use super::{MIB_BITS, Offence, POINTS_MAX, REDEEMED_POINTS, Score, Verdict, WARN_POINTS};

const SHORT: Offence = Offence::UnwantedBody { bytes: 100 * 1_024 };

const fn mib(count: u32) -> Offence {
    Offence::UnwantedBody { bytes: count << MIB_BITS }
}

/// Offences until a number of points is reached.
fn offences(points: u8) -> usize {
    usize::from(points.div_ceil(SHORT.points()))
}

#[test]
fn offences_alone_warn_and_then_cut() {
    let mut score = Score::default();
    let verdicts: Vec<Verdict> = (0..POINTS_MAX).map(|_| score.offend(SHORT)).collect();
    let warned = verdicts.iter().position(|&verdict| verdict == Verdict::Warn);
    let cut = verdicts.iter().position(|&verdict| verdict == Verdict::Cut);
    assert_eq!((warned, cut), (Some(offences(WARN_POINTS) - 1), Some(offences(POINTS_MAX) - 1)));
    assert_eq!(score.offend(SHORT), Verdict::Cut, "it stays so");
}

#[test]
fn a_client_that_completes_exchanges_between_its_offences_is_welcome() {
    let mut score = Score::default();
    for _ in 0..10_000 {
        assert_eq!(score.offend(SHORT), Verdict::Fine);
        for _ in 0..SHORT.points() / REDEEMED_POINTS {
            score.redeem();
        }
    }
}

#[test]
fn what_is_dropped_counts_by_its_size() {
    assert_eq!([1, 2, 3, 74, 1_000].map(|count| mib(count).points()), [2, 3, 4, 75, 75]);
    // Nothing else on a connection: how much of it is read and dropped until the next answer is the last.
    for (count, gib_max) in [(10, 1), (100, 1), (1_000, 1)] {
        let (mut score, mut dropped_mib) = (Score::default(), 0);
        while score.verdict() == Verdict::Fine {
            dropped_mib += count;
            score.offend(mib(count));
            if score.verdict() == Verdict::Fine {
                score.redeem();
            }
        }
        assert!(dropped_mib <= gib_max << 10, "{dropped_mib} MiB in bodies of {count}");
    }
    // One alone does not close, and answers before the ends of twenty uploads are nothing.
    let mut score = Score::default();
    assert_eq!(score.offend(mib(1_000)), Verdict::Warn);
    let mut score = Score::default();
    assert!((0..20).all(|_| score.offend(SHORT) == Verdict::Fine));
}
