//! Properties: discarded pages read as zeros and no others do, with one call for many ranges and with one for each; a
//! reservation is aligned.

use super::*;

const PAGE: usize = 64 << 10;

#[test]
fn reservations_are_aligned_to_their_size() {
    for bytes in [PAGE, 1 << 21, 1 << 36] {
        let base = reserve(bytes).unwrap();
        assert_eq!(base.addr().get() % bytes, 0);
        // SAFETY: I-RANGE: this test's own.
        unsafe { unmap(base, bytes) }.unwrap();
    }
}

#[test]
fn exactly_the_ranges_are_discarded() {
    const PAGES: usize = 64;
    let base = reserve(PAGES * PAGE).unwrap();
    // SAFETY: I-RANGE: this test's own reservation, opened before it is touched.
    unsafe {
        open(base, PAGES * PAGE).unwrap();
        (0..PAGES).for_each(|page| base.add(page * PAGE).write(1));
        let mut ranges = Ranges::<32>::new();
        (0..PAGES).step_by(4).for_each(|page| ranges.push(base.add(page * PAGE), 2 * PAGE));
        let mut gone = Vec::new();
        ranges.discard(|range| gone.push(range));
        assert_eq!(gone, (0..PAGES / 4).collect::<Vec<_>>());
        for page in 0..PAGES {
            assert_eq!(base.add(page * PAGE).read(), u8::from(page % 4 >= 2), "page {page}");
        }
        unmap(base, PAGES * PAGE).unwrap();
    }
}

#[test]
fn a_range_that_fails_does_not_stop_the_others() {
    let base = reserve(8 * PAGE).unwrap();
    // SAFETY: I-RANGE: this test's own reservation; the part without a mapping is only named, not touched.
    unsafe {
        open(base, 8 * PAGE).unwrap();
        (0..8).for_each(|page| base.add(page * PAGE).write(1));
        unmap(base.add(4 * PAGE), PAGE).unwrap();
        let mut ranges = Ranges::<4>::new();
        [0, 2, 4, 6].into_iter().for_each(|page| ranges.push(base.add(page * PAGE), PAGE));
        let mut gone = Vec::new();
        ranges.discard(|range| gone.push(range));
        assert_eq!(gone, [0, 1, 3], "the one without pages is not reported");
        assert_eq!([0, 1, 2, 6, 7].map(|page| base.add(page * PAGE).read()), [0, 1, 0, 0, 1]);
        unmap(base, 8 * PAGE).unwrap();
    }
}

#[test]
fn without_batches_nothing_is_claimed() {
    // SAFETY: I-RANGE: no vectors, nothing to lose.
    assert_eq!(unsafe { Batching::None.discard(&[]) }, 0);
    let other_process = Batching::Descriptor { fd: -1, process: 0 };
    // SAFETY: I-RANGE: no vectors, nothing to lose.
    assert_eq!(unsafe { other_process.discard(&[]) }, 0);
}
