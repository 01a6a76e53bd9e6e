//! Properties: a slot is freed once; a step has its slots and no more; metadata is charged for, and grows by half. The
//! model is in `segments`.

use super::*;
use crate::pages::{Shadow, SimPages};

fn opened(class: Class, page_bytes: usize) -> (Segment, Shadow) {
    let (mut segment, pages) = (Segment::new(class, page_bytes), Shadow::new(SimPages::new(1)));
    pages.commit(segment.next_step()).unwrap();
    segment.open_step();
    (segment, pages)
}

#[test]
#[should_panic(expected = "freed once")]
fn a_slot_is_not_freed_twice() {
    let (mut segment, pages) = opened(Class::K128, 4096);
    let slots = [segment.take_cold(&pages).unwrap(), segment.take_cold(&pages).unwrap()];
    segment.push(slots[0], &pages);
    segment.push(slots[0], &pages);
}

#[test]
fn a_step_has_as_many_slots_as_it_says() {
    let pages = |class| [4_096, 16_384, 65_536].map(|page_bytes| (class, page_bytes));
    for (class, page_bytes) in Class::ALL.into_iter().flat_map(pages) {
        let (mut segment, pages) = opened(class, page_bytes);
        let division = segment.division();
        for slot in 0..division.slots_per_step {
            assert_eq!(segment.take_warm(&pages).or_else(|| segment.take_cold(&pages)), Some(slot));
        }
        assert_eq!(segment.take_warm(&pages).or_else(|| segment.take_cold(&pages)), None);
        assert_eq!(segment.count().resident_units, division.units_per_step);
    }
}

/// What is charged for a step before it is opened, less what is free after, is what the directory takes then.
#[test]
fn metadata_is_charged_to_the_byte() {
    let mut segment = Segment::new(Class::K128, 4096);
    let free_slots = u64::from(segment.division.slots_per_step.div_ceil(64)) * 8 + ALLOCATION_BYTES;
    let mut charged = 0;
    for steps in 1..=200 {
        let (before, free) = segment.next_step_bytes().expect("the range is long");
        segment.open_step();
        charged = charged + before - free;
        let directory = segment.steps.capacity() * size_of::<Step>() + segment.sets.capacity() * size_of::<StepSets>();
        assert_eq!(charged, steps * free_slots + directory as u64 + 2 * ALLOCATION_BYTES, "{steps} steps");
    }
}

/// By half, so that an entry is copied a few times however many there are, and to no more than the range has steps.
#[test]
fn a_directory_grows_by_half_up_to_the_range() {
    let mut segment = Segment::new(Class::K128, 4096);
    let mut capacities = vec![];
    while segment.next_step_bytes().is_some() {
        segment.open_step();
        capacities.push(segment.steps.capacity());
    }
    capacities.dedup();
    assert_eq!(capacities[..7], [2, 4, 6, 9, 13, 19, 28]);
    assert_eq!(*capacities.last().unwrap(), segment.division.steps_max as usize);
}

/// Surplus and idle units are different ones: who takes an empty unit takes one of those that are idle.
#[test]
fn no_unit_is_surplus_twice() {
    let (mut segment, pages) = opened(Class::K128, 4096);
    let slots = [(); 4].map(|()| segment.take_cold(&pages).unwrap());
    slots[..2].iter().for_each(|slot| segment.push(*slot, &pages));
    segment.begin_epoch(&pages);
    segment.begin_epoch(&pages);
    assert_eq!((segment.count().empty_units, segment.surplus_units()), (2, 2), "empty for an epoch");
    slots[2..].iter().for_each(|slot| segment.push(*slot, &pages));
    segment.begin_epoch(&pages);
    assert_eq!((segment.count().empty_units, segment.surplus_units()), (4, 2));
    segment.take_warm(&pages).unwrap();
    segment.begin_epoch(&pages);
    assert_eq!((segment.count().empty_units, segment.surplus_units()), (3, 3), "all that are left");
}
