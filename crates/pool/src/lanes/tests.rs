//! Who waits in lanes is tested where they are waited in: `waiters/tests.rs`.
#![forbid(unsafe_code)]

use super::*;

#[test]
fn weights_are_halves_from_the_first_to_the_last() {
    assert_eq!(Priority::ALL.map(Priority::weight), [4, 2, 1]);
    assert!(Priority::ALL.is_sorted());
}
