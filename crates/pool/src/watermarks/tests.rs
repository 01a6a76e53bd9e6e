//! Properties: red exactly while somebody waits; else between the marks the level stays, and beyond them it is what they say; a transition
//! is reported exactly when the level changes, and joins on to the one before.

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
#[should_panic(expected = "off is below on")]
fn marks_are_in_order() {
    let _ = Marks::new(75, 75, 90, 80);
}
