//! Properties: after any inserts and removals, every question is answered as by a `BTreeSet`.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn answers_as_a_set_does(ops in prop::collection::vec((any::<bool>(), 0_u32..512), 0..300), bound in 0_u32..=512) {
        let mut bits = Bitmap::<8>::EMPTY;
        let mut model = BTreeSet::new();
        for (insert, number) in ops {
            if insert {
                bits.insert(number);
                model.insert(number);
            } else {
                bits.remove(number);
                model.remove(&number);
            }
            prop_assert_eq!(bits.contains(number), insert);
            prop_assert_eq!(bits.is_empty(), model.is_empty());
            prop_assert_eq!(bits.lowest(), model.first().copied());
        }
        prop_assert_eq!(bits.highest_below(bound), model.range(..bound).next_back().copied());
        if let Some(last) = bits.highest_below(bound) {
            let run = (0..=last).rev().take_while(|number| model.contains(number)).count() as u32;
            prop_assert_eq!(bits.run_ending_at(last, 512), run);
            prop_assert_eq!(bits.run_ending_at(last, 3), run.min(3));
        }
    }

    #[test]
    fn the_first_numbers(count in 0_u32..=512) {
        let bits = Bitmap::<8>::first(count);
        for number in 0..512 {
            prop_assert_eq!(bits.contains(number), number < count);
        }
    }

    #[test]
    fn sets_of_any_length(words in prop::collection::vec(prop_oneof![Just(0_u64), any::<u64>()], 0..6), bound in 0_u32..500) {
        let model: BTreeSet<u32> = (0..words.len() as u32 * 64).filter(|n| words[word(*n)] & bit(*n) != 0).collect();
        prop_assert_eq!(lowest(&words), model.first().copied());
        prop_assert_eq!(highest_below(&words, bound), model.range(..bound).next_back().copied());
    }
}
