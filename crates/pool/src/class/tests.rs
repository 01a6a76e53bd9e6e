//! Properties: the class of a length is the smallest that fits; slots tile their steps; units are whole pages; the
//! multiplication by the reciprocal is the division, at every slot's edges.

use proptest::prelude::*;

use super::*;
use crate::page::PAGE_BYTES_MAX;

const PAGES: [usize; 4] = [PAGE_BYTES_MIN, 16 << 10, 64 << 10, PAGE_BYTES_MAX];

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
    for (class, page) in Class::ALL.into_iter().flat_map(|class| PAGES.map(|page| (class, page))) {
        let (shape, division) = (class.shape(), Division::of(class, page));
        assert_eq!(shape.slot_bytes as usize, class.bytes());
        assert_eq!(division.unit_bytes as usize % page, 0);
        assert_eq!(division.slots_per_unit * shape.slot_bytes, division.unit_bytes);
        assert_eq!(division.units_per_step * division.unit_bytes, division.step_bytes);
        assert_eq!(division.slots_per_step, division.units_per_step * division.slots_per_unit);
        assert!(division.slots_per_unit.is_power_of_two() && division.units_per_step > 0);
        assert_eq!(division.slots_per_unit == 1, class.bytes().is_multiple_of(page));
        assert!(division.units_per_step as usize <= UNITS_PER_STEP_MAX && division.step_bytes as usize <= STEP_BYTES);
        assert!(u64::from(division.steps_max) * u64::from(division.step_bytes) <= RANGE_BYTES);
        assert!(shape.magazine_slots_max as usize * class.bytes() <= MAGAZINE_BYTES_MAX);
    }
    assert_eq!(Division::of(Class::K20, 4_096).units_per_step, 102);
    assert_eq!(Class::K128.shape().magazine_slots_max, 0);
}

#[test]
fn what_is_resident_together_grows_with_the_page() {
    let unit = |class, page| Division::of(class, page).unit_bytes >> 10;
    assert_eq!([4_096, 16_384, 65_536].map(|page| unit(Class::B64, page)), [4, 16, 64]);
    assert_eq!([4_096, 16_384, 65_536].map(|page| unit(Class::K16, page)), [16, 16, 64]);
    assert_eq!([4_096, 16_384, 65_536].map(|page| unit(Class::K20, page)), [20, 80, 320]);
    assert_eq!([4_096, 16_384, 65_536].map(|page| unit(Class::K128, page)), [128, 128, 128]);
}

#[test]
fn slots_are_found_from_their_first_and_last_bytes() {
    for class in Class::ALL.into_iter().filter(|class| *class >= Class::B1024) {
        let shape = class.shape();
        let division = Division::of(class, PAGE_BYTES_MIN);
        for slot in 0..division.steps_max * division.slots_per_step {
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
