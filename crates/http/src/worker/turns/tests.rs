//! What the delay says, and how many are kept, with a clock of the test's own.

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig, Priority};

use super::*;

const fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_delay_that_stays_long_is_too_long_and_one_short_one_ends_that() {
    let mut delay = Delay::Short;
    let mut says = |waited: u64, at: u64| {
        delay = delay.after(ms(waited), at_ms(at));
        delay
    };
    assert_eq!(says(100, 1_000), Delay::Short, "the limit itself is allowed");
    assert_eq!(says(101, 1_010), Delay::Long(at_ms(1_010)));
    assert_eq!(says(250, 1_109), Delay::Long(at_ms(1_010)), "not for long enough");
    assert_eq!(says(20, 1_109), Delay::Short);
    assert_eq!(says(101, 1_200), Delay::Long(at_ms(1_200)), "it begins anew");
    assert_eq!(says(101, 1_300), Delay::TooLong);
    assert_eq!(says(101, 9_300), Delay::TooLong, "until the delay is short");
    assert_eq!(says(0, 9_301), Delay::Short);
}

#[test]
fn as_many_are_kept_as_are_begun_in_the_time_that_one_may_wait() {
    let mut rate = Rate::default();
    assert_eq!(rate.of_interval(at_ms(0)), 2, "two at least");
    for at in 0..50 {
        rate.count(at_ms(1_000 + 10 * at));
        assert!((2..=10).contains(&rate.of_interval(at_ms(1_000 + 10 * at))));
    }
    assert_eq!(rate.of_interval(at_ms(1_500)), 10);
    // Nothing was begun for a second.
    assert_eq!(rate.of_interval(at_ms(2_500)), 2);
}

#[test]
fn of_those_who_wait_as_long_the_address_that_used_most_is_the_last() {
    let budget = Budget::new(MemoryLimit::mib(2));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("room for a pool");
    let mut places = Queue::new(&pool, 8, 8);
    let mut costs = Costs::new(COLUMNS);
    costs.add(7, ms(10), at_ms(0));
    costs.add(8, ms(4), at_ms(500));
    for host in [7, 8, 9] {
        places.add(host, Priority::Head, 1, ()).expect("a place");
    }
    assert_eq!(places.last(|host| costs.of(host)).map(|place| place.name()), Some(7));
    // What was long ago counts for less.
    costs.add(9, ms(6), at_ms(1_100));
    assert_eq!(places.last(|host| costs.of(host)).map(|place| place.name()), Some(9));
    // Two of one address are more than one, whatever it used.
    let second = places.add(8, Priority::Head, 1, ()).expect("a place");
    assert_eq!(places.last(|host| costs.of(host)).map(|place| place.key()), Some(second));
}

#[test]
fn a_cost_is_a_mean_to_which_each_handler_adds_a_fourth() {
    let mut costs = Costs::new(COLUMNS);
    assert_eq!((costs.of(7), costs.amount_of(7)), (0, 1), "of nothing known, a place counts for itself");
    for (took_ms, mean_micros, amount) in [(10, 2_500, 11), (1, 2_125, 9), (0, 1_594, 7), (4, 2_195, 9)] {
        costs.add(7, ms(took_ms), at_ms(0));
        assert_eq!((costs.of(7), costs.amount_of(7)), (mean_micros, amount), "after {took_ms} ms");
    }
    assert_eq!(costs.of(8), 0);
    costs.add(8, ms(0), at_ms(1_000));
    assert_eq!(costs.of(7), 1_097, "after a second it counts for half");
}

#[test]
fn while_requests_are_quick_the_clock_is_read_before_every_eighth() {
    let looks = Looks::default();
    let reads = |requests: u32, is_over: bool| -> Vec<u32> {
        let is_read = |_: &u32| {
            let is_due = looks.are_due();
            if is_due {
                looks.seen(is_over);
            }
            looks.begun();
            is_due
        };
        (0..requests).filter(is_read).collect()
    };
    assert_eq!(reads(32, false), [0, 2, 6, 14, 22, 30]);
    let after = reads(14, true);
    assert_eq!(after, [6, 7, 8, 9, 10, 11, 12, 13], "each, from the first that is late");
    assert_eq!(reads(7, false), [0, 2, 6], "and less often as they are quick again");
}
