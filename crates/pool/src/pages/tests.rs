//! Properties: faults are those of the seed and as frequent as was said; what is asked for is counted; the second book
//! finds what a first one must not do.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// The first numbers of splitmix64 from the seed 0, as its reference implementation gives them.
const SPLITMIX: [u64; 5] =
    [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F, 0xF88B_B8A8_724C_81EC, 0x1B39_896A_51A8_749B];

#[test]
fn faults_follow_from_the_seed() {
    for offset in [0, 1] {
        let pages = SimPages::new(0);
        for number in SPLITMIX {
            let per_mille = (number % 1_000) as u32;
            assert_eq!(pages.faults().strikes(per_mille + offset), offset == 1, "{number:x}");
        }
    }
    let (never, always) = (SimPages::new(9), SimPages::new(9));
    assert!((0..1_000).all(|_| !never.faults().strikes(0) && always.faults().strikes(1_000)));
}

fn span(page: u32, pages: u32) -> Span {
    Span { class: Class::K4, offset: page * PAGE_BYTES_MIN as u32, bytes: pages * PAGE_BYTES_MIN as u32 }
}

#[test]
fn what_is_asked_is_counted() {
    let source = SimPages::new(3);
    let shadow = Shadow::new(source.clone());
    source.refuse_commits(1_000);
    assert_eq!((shadow.commit(span(0, 4)), shadow.commit(span(0, 4))), (Err(ENOMEM), Err(ENOMEM)));
    source.refuse_commits(0);
    assert_eq!((shadow.commit(span(0, 4)), shadow.commit(span(4, 4))), (Ok(()), Ok(())));
    (0..8).for_each(|page| shadow.occupied(span(page, 1)));
    (0..8).for_each(|page| shadow.vacated(span(page, 1)));
    assert_eq!(shadow.resident_bytes(), 8 * PAGE_BYTES_MIN as u64);
    source.refuse_releases(1_000);
    shadow.release(&[span(0, 1), span(1, 1), span(2, 1)], &mut |span| panic!("{span:?} was refused"));
    source.refuse_releases(0);
    let mut gone = Vec::new();
    shadow.release(&[span(0, 2), span(4, 3)], &mut |span| gone.push(span));
    assert_eq!((gone, shadow.resident_bytes()), (vec![span(0, 2), span(4, 3)], 3 * PAGE_BYTES_MIN as u64));
    let counts = SimCounts {
        commits: 2,
        commits_refused: 2,
        releases: 2,
        releases_refused: 3,
        released_bytes: 5 * PAGE_BYTES_MIN as u64,
    };
    assert_eq!(source.counts(), counts);
}

#[test]
fn mistakes_of_the_bookkeeping_are_found() {
    let shadow = || {
        let shadow = Shadow::new(SimPages::new(3));
        shadow.commit(span(0, 4)).expect("no faults");
        shadow.occupied(span(0, 2));
        shadow
    };
    type Mistake = (&'static str, fn(&Shadow));
    let mistakes: [Mistake; 7] = [
        ("a page in use is released", |shadow| shadow.release(&[span(1, 1)], &mut drop)),
        ("one that is not resident is", |shadow| shadow.release(&[span(2, 1)], &mut drop)),
        ("a step is opened before the one before it", |shadow| _ = shadow.commit(span(5, 4))),
        ("a step is opened twice", |shadow| _ = shadow.commit(span(0, 4))),
        ("a page behind the open ones is used", |shadow| shadow.occupied(span(4, 1))),
        ("a unit is occupied twice", |shadow| shadow.occupied(span(1, 1))),
        ("a unit is vacated twice", |shadow| shadow.vacated(span(2, 1))),
    ];
    for (what, mistake) in mistakes {
        let shadow = shadow();
        assert!(catch_unwind(AssertUnwindSafe(|| mistake(&shadow))).is_err(), "{what}");
    }
    let shadow = shadow();
    shadow.occupied(span(3, 1));
    shadow.vacated(span(0, 2));
    shadow.release(&[span(0, 2)], &mut drop);
    assert_eq!(shadow.resident_bytes(), PAGE_BYTES_MIN as u64);
}
