//! Properties:
//!
//! * What is said to be needed is enough, and a byte less is not.
//! * So many workers as a line is said to carry are accepted, and one more is not.
//! * What nobody asked for is never an error while one worker fits, and takes at most half of the line unless it is
//!   one.

use super::{WorkerCount, WorkerNeed};
use crate::Error;

const MIB: u64 = 1 << 20;

#[test]
fn what_is_asked_for_fits_or_is_an_error_that_says_what_would() {
    for (fixed, stack) in [(100_000, 131_072), (420_360, MIB), (5 * MIB, 8 * MIB)] {
        let need = WorkerNeed::new(fixed, stack);
        for workers in [1, 2, 3, 40, 1_024] {
            let enough = need.total_bytes(workers);
            assert_eq!(need.carried_by(enough), workers);
            assert_eq!(need.carried_by(enough - 1), workers - 1);
            assert_eq!(need.choose(Some(workers), 2, enough).ok(), Some(WorkerCount::AsAsked(workers)));
            let low = need.choose(Some(workers), 2, enough - 1);
            let Err(Error::LineTooLow { needed_bytes, workers: asked, workers_max, worker_bytes, line_bytes }) = low
            else {
                panic!("{low:?}")
            };
            assert_eq!((needed_bytes, line_bytes, asked), (enough, enough - 1, workers));
            assert_eq!(workers_max, workers - 1);
            assert!(worker_bytes >= fixed && worker_bytes * workers as u64 >= enough);
        }
    }
}

#[test]
fn the_default_is_lowered_to_what_half_of_the_line_carries() {
    let need = WorkerNeed::new(420_360, MIB);
    for line in (MIB..200 * MIB).step_by(MIB as usize / 3) {
        let (chosen, processors) = (need.choose(None, 40, line).expect("one worker fits"), 40);
        match chosen {
            WorkerCount::AsAsked(workers) => assert_eq!(workers, processors),
            WorkerCount::Lowered(workers) => {
                assert!((1..processors).contains(&workers));
                assert!(need.total_bytes(workers + 1) > line / 2, "no fewer than need be");
            }
        }
        let (WorkerCount::AsAsked(workers) | WorkerCount::Lowered(workers)) = chosen;
        assert!(workers == 1 || need.total_bytes(workers) <= line / 2, "{workers} under {line}");
    }
    assert_eq!(need.choose(None, 40, 64 * MIB).ok(), Some(WorkerCount::Lowered(16)));
    assert_eq!(need.choose(None, 40, 256 * MIB).ok(), Some(WorkerCount::AsAsked(40)));
    assert!(matches!(
        need.choose(None, 40, 600_000),
        Err(Error::LineTooLow { workers: 1, workers_max: 0, needed_bytes: 682_504, .. })
    ));
}
