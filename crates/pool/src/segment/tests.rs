//! Properties: a slot is freed once; the last word of a step's free slots has no bits beyond them. The model is in `segments`.

use super::*;
use crate::pages::{Shadow, SimPages};

fn opened(class: Class) -> (Segment, Shadow) {
    let (mut segment, pages) = (Segment::new(class), Shadow::new(SimPages::new(1)));
    pages.commit(segment.next_step()).unwrap();
    segment.open_step();
    (segment, pages)
}

#[test]
#[should_panic(expected = "freed once")]
fn a_slot_is_not_freed_twice() {
    let (mut segment, pages) = opened(Class::K128);
    let slots = [segment.take_cold(&pages).unwrap(), segment.take_cold(&pages).unwrap()];
    segment.push(slots[0], &pages);
    segment.push(slots[0], &pages);
}

#[test]
fn a_step_has_as_many_slots_as_it_says() {
    for class in Class::ALL {
        let (mut segment, pages) = opened(class);
        let shape = class.shape();
        for slot in 0..shape.slots_per_step {
            assert_eq!(segment.take_warm(&pages).or_else(|| segment.take_cold(&pages)), Some(slot));
        }
        assert_eq!(segment.take_warm(&pages).or_else(|| segment.take_cold(&pages)), None);
        assert_eq!(segment.count().resident_units, shape.units_per_step);
    }
}
