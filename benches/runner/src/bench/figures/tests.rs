//! Medians and ratios of values that are easy to see.

use super::{Spread, median_ratio};

#[test]
fn the_median_is_in_the_middle_whatever_the_order() {
    assert_eq!(Spread::of([]), None);
    assert_eq!(Spread::of([4.0]), Some(Spread { median: 4.0, min: 4.0, max: 4.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 2.0, 4.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
}

#[test]
fn a_ratio_is_taken_in_each_round() {
    // The ratio of the medians would be 1.
    assert_eq!(median_ratio([1.0, 2.0, 30.0], [2.0, 4.0, 1.0]), Some(0.5));
    assert_eq!(median_ratio([3.0], [2.0, 100.0]), Some(1.5));
}

#[test]
fn rounds_without_a_base_do_not_count() {
    assert_eq!(median_ratio([3.0, 8.0], [0.0, 2.0]), Some(4.0));
    assert_eq!(median_ratio([3.0], []), None);
    assert_eq!(median_ratio([3.0], [0.0]), None);
}
