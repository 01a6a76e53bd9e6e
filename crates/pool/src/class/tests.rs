//! Properties: the class of a length is the smallest that fits; slots tile their steps; units are whole pages; the
//! multiplication by the reciprocal is the division, at every slot's edges.

use proptest::prelude::*;

use super::*;

#[test]
fn the_smallest_class_that_fits_is_chosen() {
    for len in 0..=131_072 {
        let class = Class::for_len(len).expect("up to the largest class");
        assert!(class.bytes() >= len);
        assert!(Class::ALL.iter().take_while(|smaller| **smaller < class).all(|smaller| smaller.bytes() < len));
    }
    assert_eq!(Class::for_len(131_073), None);
    assert_eq!(Class::for_len(usize::MAX), None);
}

#[test]
fn steps_are_whole_units_of_whole_pages() {
    for class in Class::ALL {
        let shape = class.shape();
        assert_eq!(shape.slot_bytes as usize, class.bytes());
        assert_eq!(shape.unit_bytes as usize % PAGE_BYTES, 0);
        assert_eq!(shape.slots_per_unit * shape.slot_bytes, shape.unit_bytes);
        assert_eq!(shape.units_per_step * shape.unit_bytes, shape.step_bytes);
        assert_eq!(shape.slots_per_step, shape.units_per_step * shape.slots_per_unit);
        assert!(shape.slots_per_unit.is_power_of_two() && shape.slots_per_unit <= 64);
        assert!(shape.units_per_step as usize <= UNITS_PER_STEP_MAX && shape.step_bytes as usize <= STEP_BYTES);
        assert!(u64::from(shape.steps_max) * u64::from(shape.step_bytes) <= RANGE_BYTES);
        assert!(shape.magazine_slots_max as usize * class.bytes() <= MAGAZINE_BYTES_MAX);
    }
    assert_eq!(Class::K20.shape().units_per_step, 102);
    assert_eq!(Class::K128.shape().magazine_slots_max, 0);
}

#[test]
fn slots_are_found_from_their_first_and_last_bytes() {
    for class in Class::ALL.into_iter().filter(|class| *class >= Class::B1024) {
        let shape = class.shape();
        for slot in 0..shape.steps_max * shape.slots_per_step {
            let offset = shape.slot_offset(slot);
            assert_eq!(shape.slot_at(offset), slot);
            assert_eq!(shape.slot_at(offset + (shape.slot_bytes - 1)), slot);
        }
    }
}

proptest! {
    #[test]
    fn the_reciprocal_divides(offset: u32, class in 0..Class::COUNT) {
        let shape = Class::ALL[class].shape();
        prop_assert_eq!(shape.slot_at(offset), offset / shape.slot_bytes);
    }

    #[test]
    fn slots_of_a_class_are_aligned_to_its_power_of_two(slot in 0_u32..30_000, class in 0..Class::COUNT) {
        let shape = Class::ALL[class].shape();
        let align = if shape.slot_bytes.is_power_of_two() { shape.slot_bytes.min(4096) } else { 4096 };
        prop_assert_eq!(shape.slot_offset(slot) % align, 0);
    }
}

#[test]
fn classes_are_shown_by_their_bytes() {
    let shown = Class::ALL.map(|class| class.to_string());
    assert!(shown.iter().all(|text| text.parse::<crate::MemoryLimit>().is_ok()), "{shown:?}");
    assert_eq!(
        [Class::B64, Class::K4, Class::K20, Class::K128].map(|class| class.to_string()),
        ["64B", "4KiB", "20KiB", "128KiB"]
    );
}
