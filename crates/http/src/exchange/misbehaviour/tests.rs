//! How a score rises and falls.

use plimsoll_codec::misbehaviour::{GOAWAY_POINTS, POINTS_MAX, Score, Verdict};

use super::{COMPLETED_POINTS, MIB_BITS, unwanted_points};

const SHORT_BYTES: u32 = 100 * 1_024;

/// Short bodies until a number of points is reached.
fn bodies(points: u32) -> usize {
    points.div_ceil(unwanted_points(SHORT_BYTES)) as usize
}

#[test]
fn unwanted_bodies_alone_warn_and_then_close() {
    let mut score = Score::default();
    let verdicts: Vec<Verdict> = (0..POINTS_MAX).map(|_| score.add(unwanted_points(SHORT_BYTES))).collect();
    let warned = verdicts.iter().position(|&verdict| verdict == Verdict::GoAway);
    let closed = verdicts.iter().position(|&verdict| verdict == Verdict::Close);
    assert_eq!((warned, closed), (Some(bodies(GOAWAY_POINTS) - 1), Some(bodies(POINTS_MAX) - 1)));
    assert_eq!(score.add(unwanted_points(SHORT_BYTES)), Verdict::Close, "it stays so");
}

#[test]
fn a_client_that_completes_exchanges_between_them_is_welcome() {
    let mut score = Score::default();
    for _ in 0..10_000 {
        assert_eq!(score.add(unwanted_points(SHORT_BYTES)), Verdict::Tolerated);
        for _ in 0..unwanted_points(SHORT_BYTES) / COMPLETED_POINTS {
            score.forgive(COMPLETED_POINTS);
        }
    }
}

#[test]
fn what_is_dropped_counts_by_its_size() {
    assert_eq!([1, 2, 3, 74, 1_000].map(|count| unwanted_points(count << MIB_BITS)), [2, 3, 4, 75, 75]);
    // Nothing else on a connection: how much of it is read and dropped until the next answer is the last.
    for (count, gib_max) in [(10, 1), (100, 1), (1_000, 1)] {
        let (mut score, mut dropped_mib) = (Score::default(), 0);
        while score.verdict() == Verdict::Tolerated {
            dropped_mib += count;
            if score.add(unwanted_points(count << MIB_BITS)) == Verdict::Tolerated {
                score.forgive(COMPLETED_POINTS);
            }
        }
        assert!(dropped_mib <= gib_max << 10, "{dropped_mib} MiB in bodies of {count}");
    }
    // One alone does not close, and answers before the ends of twenty uploads are nothing.
    let mut score = Score::default();
    assert_eq!(score.add(unwanted_points(1_000 << MIB_BITS)), Verdict::GoAway);
    let mut score = Score::default();
    assert!((0..20).all(|_| score.add(unwanted_points(SHORT_BYTES)) == Verdict::Tolerated));
}
