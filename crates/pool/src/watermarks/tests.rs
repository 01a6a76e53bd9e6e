//! Properties: red exactly while somebody waits; else between the marks the level stays, and beyond them it is what
//! they say; a transition is reported exactly when the level changes, and joins on to the one before.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn levels_follow_the_marks(figures in prop::collection::vec((0_u64..1100, 0_u64..3), 1..100)) {
        let mut watermarks = Watermarks::new(Marks::default(), 1000);
        let (mut level, mut marked) = (Level::Calm, Level::Calm);
        for (used, waiting) in figures {
            let waiting = waiting.saturating_sub(1);
            let transition = watermarks.observe(used, waiting);
            marked = match (used, marked) {
                (900.., _) => Level::Orange,
                (800.., Level::Orange) => Level::Orange,
                (750.., _) => Level::Yellow,
                (600.., Level::Yellow | Level::Orange) => Level::Yellow,
                _ => Level::Calm,
            };
            let now = if waiting > 0 { Level::Red } else { marked };
            match transition {
                Some(transition) => prop_assert_eq!((transition.from, transition.to), (level, now)),
                None => prop_assert_eq!(level, now),
            }
            level = now;
        }
    }
}

#[test]
fn marks_are_in_order() {
    let refuses = |on, off, orange_on, orange_off| {
        std::panic::catch_unwind(|| Marks::new(on, off, orange_on, orange_off)).is_err()
    };
    for (on, off, orange_on, orange_off) in
        [(75, 75, 90, 80), (75, 60, 90, 90), (75, 60, 101, 80), (75, 60, 74, 65), (75, 60, 90, 59)]
    {
        assert!(refuses(on, off, orange_on, orange_off), "{on} {off} {orange_on} {orange_off}");
    }
    assert!(!refuses(75, 60, 100, 60) && !refuses(75, 60, 75, 60) && !refuses(1, 0, 1, 0));
    assert_eq!(Marks::new(75, 60, 90, 80), Marks::default());
    assert_eq!(Marks::new(50, 40, 90, 80).calm_below_percent(), 40);
}

/// At the mark itself it is reached, one byte below it is not, also where a part of the line is no whole number.
#[test]
fn marks_are_exact() {
    for limit in [1_u64, 999, 1 << 40, u64::MAX] {
        let at = |percent: u64| (u128::from(limit) * u128::from(percent)).div_ceil(100) as u64;
        let mut watermarks = Watermarks::new(Marks::default(), limit);
        let mut level = |bytes: u64| watermarks.observe(bytes, 0).map(|transition| transition.to);
        if limit > 1 {
            assert_eq!(level(at(75) - 1), None);
            assert_eq!(level(at(75)), Some(Level::Yellow));
            assert_eq!(level(at(60)), None);
            assert_eq!(level(at(60) - 1), Some(Level::Calm));
            assert_eq!(level(at(90) - 1), Some(Level::Yellow));
        }
        assert_eq!(level(at(90)), Some(Level::Orange));
        assert_eq!(level(0), Some(Level::Calm));
    }
    let transition = Watermarks::new(Marks::default(), 100).observe(3, 7).expect("somebody waits");
    assert_eq!((transition.in_use_bytes, transition.waiting), (3, 7));
}

#[test]
fn levels_have_numbers_and_names() {
    assert_eq!(
        [0, 1, 2, 3, 4].map(Level::from_number),
        [Level::Calm, Level::Yellow, Level::Orange, Level::Red, Level::Red]
    );
    assert_eq!(Level::ALL.map(|level| level.to_string()), ["calm", "yellow", "orange", "red"]);
}
