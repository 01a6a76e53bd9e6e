//! Properties: the wish stays within its bounds and changes by one step at a time; full receives with more waiting
//! reach the top in as many steps; a low average comes down; one short receive after a growth does not undo it.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn the_wish_stays_within_its_bounds(
        lowest in 0..Class::COUNT,
        more in 0..Class::COUNT,
        receives in prop::collection::vec((0_usize..=131_072, any::<bool>(), any::<bool>()), 0..200),
    ) {
        let (low, high) = (Class::ALL[lowest], Class::ALL[(lowest + more).min(Class::COUNT - 1)]);
        let mut size = AdaptiveSize::new(low, high);
        prop_assert!(size.wish() >= low);
        for (bytes, is_full, more_waits) in receives {
            let before = size.wish();
            let room = before.bytes();
            size.observe(if is_full { room } else { bytes.min(room) }, room, more_waits);
            let steps = step(size.wish()).abs_diff(step(before));
            prop_assert!(steps <= 1);
            prop_assert!(step(size.wish()) >= step(low) && step(size.wish()) <= step(high));
            prop_assert!(size.average_bytes <= 131_072);
            prop_assert!(size.wish_up_to(Class::K4) == Class::K4);
        }
        size.reset();
        prop_assert_eq!(size, AdaptiveSize::new(low, high));
    }
}

#[test]
fn full_receives_with_more_waiting_double_at_once() {
    let mut size = AdaptiveSize::new(Class::K4, Class::K128);
    for class in &LADDER[1..] {
        size.observe(size.wish().bytes(), size.wish().bytes(), true);
        assert_eq!(size.wish(), *class);
    }
}

#[test]
fn two_full_receives_double_when_nothing_is_known_to_wait() {
    let mut size = AdaptiveSize::new(Class::K4, Class::K128);
    let steps: Vec<Class> = (0..4)
        .map(|_| {
            size.observe(size.wish().bytes(), size.wish().bytes(), false);
            size.wish()
        })
        .collect();
    assert_eq!(steps, [Class::K4, Class::K8, Class::K8, Class::K16]);
}

#[test]
fn a_short_receive_after_a_growth_does_not_undo_it() {
    let mut size = AdaptiveSize::new(Class::K4, Class::K128);
    size.observe(4096, 4096, true);
    size.observe(100, 8192, false);
    assert_eq!(size.wish(), Class::K8);
    (0..10).for_each(|_| size.observe(100, 8192, false));
    assert_eq!(size.wish(), Class::K4);
}

#[test]
fn receives_that_were_capped_do_not_grow_it() {
    let mut size = AdaptiveSize::new(Class::K16, Class::K128);
    (0..10).for_each(|_| size.observe(4096, 4096, true));
    assert_eq!(size.wish(), Class::K16);
}

#[test]
fn the_average_is_of_about_eight_receives() {
    let mut size = AdaptiveSize::new(Class::K4, Class::K128);
    assert_eq!((size.highest(), size.is_highest()), (Class::K128, false));
    let mut averages = Vec::new();
    for received in [4000, 800, 0, 4000] {
        size.observe(received, 4096, false);
        averages.push(size.average_bytes);
    }
    assert_eq!(averages, [500, 538, 471, 913]);
    // Half of the new size at least, so that the next receive does not undo the growth.
    size.raise(5_000);
    assert_eq!((size.wish(), size.average_bytes), (Class::K8, 4096));
    size.observe(0, 8192, false);
    assert_eq!((size.wish(), size.average_bytes), (Class::K8, 3584), "not below two fifths");
    size.observe(0, 8192, false);
    assert_eq!((size.wish(), size.average_bytes), (Class::K4, 3136), "3,136 are below 3,276");
    size.observe(0, 0, true);
    assert_eq!(size.wish(), Class::K4, "no room says nothing");
}

#[test]
fn a_raise_ends_at_what_came_or_at_the_top() {
    let mut size = AdaptiveSize::new(Class::K8, Class::K32);
    for (received, wish) in
        [(1, Class::K8), (8192, Class::K8), (8193, Class::K16), (16_384, Class::K16), (131_072, Class::K32)]
    {
        size.raise(received);
        assert_eq!(size.wish(), wish, "{received}");
    }
    assert!(size.is_highest() && size.average_bytes == 16_384);
    assert_eq!([Class::K4, Class::K128].map(|cap| size.wish_up_to(cap)), [Class::K4, Class::K32]);
    (0..3).for_each(|_| size.observe(32_768, 32_768, true));
    assert_eq!(size.wish(), Class::K32);
}

#[test]
#[should_panic(expected = "the bounds are in order")]
fn bounds_are_in_order() {
    let _ = AdaptiveSize::new(Class::K8, Class::K4);
}
