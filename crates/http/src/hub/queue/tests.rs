//! Properties: the queue holds what a plain list under the same rule holds; it never holds more than its bounds; what
//! it is charged is what it has places for.

use std::sync::Arc;

use plimsoll_pool::{Budget, MemoryLimit};
use proptest::prelude::*;

use super::{Bounds, Pushed, Queue, SlowConsumer, Weigh};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    number: u32,
    weight: u64,
}

impl Weigh for Item {
    fn weight_bytes(&self) -> u64 {
        self.weight
    }
}

/// The rule, written down again.
fn push(list: &mut Vec<Item>, item: Item, bounds: &Bounds) -> Pushed {
    let full = |list: &[Item]| {
        list.len() as u32 >= bounds.messages_max
            || list.iter().map(|item| item.weight).sum::<u64>() + item.weight > bounds.bytes_max
    };
    if !full(list) {
        list.push(item);
        return Pushed::Waits;
    }
    match bounds.policy {
        SlowConsumer::DropNewest => Pushed::Refused,
        SlowConsumer::Close => Pushed::Overrun,
        SlowConsumer::DropOldest => {
            let mut dropped = 0;
            while full(list) {
                list.remove(0);
                dropped += 1;
            }
            list.push(item);
            Pushed::Replaced(dropped)
        }
    }
}

fn policies() -> impl Strategy<Value = SlowConsumer> {
    prop_oneof![Just(SlowConsumer::DropNewest), Just(SlowConsumer::DropOldest), Just(SlowConsumer::Close)]
}

proptest! {
    #[test]
    fn it_holds_what_the_rule_says(
        policy in policies(),
        messages_max in 1_u32..12,
        steps in prop::collection::vec(prop_oneof![3 => (0_u64..=100).prop_map(Some), 2 => Just(None)], 0..200),
    ) {
        let budget = Budget::new(MemoryLimit::mib(1));
        let bounds = Bounds { messages_max, bytes_max: 300, policy };
        let (mut queue, mut model) = (Queue::default(), Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Some(weight) => {
                    let item = Item { number: number as u32, weight };
                    prop_assert_eq!(queue.push(item, &bounds, &budget), push(&mut model, item, &bounds));
                }
                None => prop_assert_eq!(queue.pop(), (!model.is_empty()).then(|| model.remove(0))),
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.bytes, model.iter().map(|item: &Item| item.weight).sum::<u64>());
            prop_assert!(budget.charged() >= (queue.items.capacity() * size_of::<Item>()) as u64);
            prop_assert!(!model.is_empty() || queue.pop().is_none());
        }
        while queue.pop().is_some() {}
        prop_assert_eq!(budget.charged(), 0, "an empty queue has no places");
    }
}

#[test]
fn at_the_line_a_queue_that_must_grow_is_full() {
    let budget = Budget::new(MemoryLimit::bytes(4 * size_of::<Item>() as u64));
    let item = |number| Item { number, weight: 1 };
    for (policy, expected) in [
        (SlowConsumer::DropNewest, Pushed::Refused),
        (SlowConsumer::Close, Pushed::Overrun),
        (SlowConsumer::DropOldest, Pushed::Replaced(1)),
    ] {
        let bounds = Bounds { messages_max: 8, bytes_max: 300, policy };
        let mut queue = Queue::default();
        for number in 0..4 {
            assert_eq!(queue.push(item(number), &bounds, &budget), Pushed::Waits);
        }
        assert_eq!(queue.push(item(4), &bounds, &budget), expected, "{policy:?}");
        drop(queue);
    }
    let nothing: Arc<Budget> = Budget::new(MemoryLimit::bytes(1));
    let mut queue = Queue::default();
    let bounds = Bounds { messages_max: 8, bytes_max: 300, policy: SlowConsumer::DropOldest };
    assert_eq!(queue.push(item(0), &bounds, &nothing), Pushed::Refused, "nothing to take the place of");
}
