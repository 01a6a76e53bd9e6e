//! A wait for memory: what lasts, what is over.
#![forbid(unsafe_code)]

use super::*;

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn a_wait_lasts_while_each_try_fails() {
    let mut starving = Starving::default();
    starving.note(true, false, at(1_000));
    for tick in 1..40 {
        let now = 1_000 + 250 * tick;
        assert!(!starving.is_due(at(now - 1)) && starving.is_due(at(now)));
        assert_eq!(starving.due_in(at(now - 100)), Duration::from_millis(100));
        assert_eq!(starving.has_lasted(at(now)), Duration::from_millis(250 * tick));
        starving.tries(at(now));
        // The task has not had its turn yet; something else came.
        starving.note(false, false, at(now));
        starving.note(true, false, at(now + 1));
        starving.note(true, false, at(now + 100));
    }
}

#[test]
fn a_wait_that_is_over_does_not_count_for_the_next() {
    // Nothing was looked at between the two, or something was: a message came that wants no answer.
    for looks in [false, true] {
        let mut starving = Starving::default();
        starving.note(true, false, at(1_000));
        starving.tries(at(1_250));
        starving.note(false, false, at(1_251));
        if looks {
            starving.note(false, false, at(30_000));
        }
        starving.note(true, false, at(60_000));
        assert_eq!(starving.has_lasted(at(60_250)), Duration::from_millis(250));
        assert!(!starving.is_due(at(60_249)), "it has its tick");
    }
}

#[test]
fn what_has_left_ends_a_wait() {
    let mut starving = Starving::default();
    starving.note(true, false, at(1_000));
    starving.tries(at(1_250));
    starving.note(false, true, at(1_251));
    starving.note(true, false, at(1_252));
    assert_eq!(starving.has_lasted(at(1_352)), Duration::from_millis(100));
    // What leaves beside a message that has no room is not that message.
    starving.note(true, true, at(1_300));
    assert_eq!(starving.has_lasted(at(1_352)), Duration::from_millis(100));
}
