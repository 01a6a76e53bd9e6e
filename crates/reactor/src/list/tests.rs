//! The list of operations against a model.

use std::collections::VecDeque;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_slab::Key;
use proptest::prelude::*;

use super::{List, is_listed};
use crate::fd::Number;
use crate::op::{Op, Token};
use crate::slots::Slots;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop,
    Remove(usize),
    RetainEven,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..32_usize).prop_map(Step::Push),
        2 => Just(Step::Pop),
        1 => (0..32_usize).prop_map(Step::Remove),
        1 => Just(Step::RetainEven),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a `VecDeque`: the same order, the same length, and slots that know whether they are in a list.
    #[test]
    fn a_list_of_operations_is_as_a_queue_of_keys(steps in prop::collection::vec(step(), 1..80)) {
        let budget = Budget::new(MemoryLimit::mib(4));
        let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
        let mut slots = Slots::new();
        let keys: Vec<Key> = (0..32)
            .map(|token| slots.insert(&pool, Op::Close { fd: Number::from_raw(1).owned() }, Token(token)).unwrap())
            .collect();
        let (mut list, mut model) = (List::default(), VecDeque::new());
        for step in steps {
            match step {
                Step::Push(at) if !model.contains(&keys[at]) => {
                    list.push(&mut slots, keys[at].index());
                    model.push_back(keys[at]);
                }
                Step::Push(_) => {}
                Step::Pop => prop_assert_eq!(list.pop(&mut slots), model.pop_front()),
                Step::Remove(at) => {
                    let listed = model.contains(&keys[at]);
                    model.retain(|key| *key != keys[at]);
                    prop_assert_eq!(list.remove(&mut slots, keys[at].index()), listed);
                }
                Step::RetainEven => {
                    let mut removed = Vec::new();
                    list.retain(&mut slots, |index, _| index % 2 == 0, |_, index| removed.push(index));
                    let odd: Vec<u32> = model.iter().map(|key| key.index()).filter(|index| index % 2 == 1).collect();
                    model.retain(|key| key.index() % 2 == 0);
                    prop_assert_eq!(removed, odd);
                }
            }
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.first(), model.front().map(|key| key.index()));
            for key in &keys {
                prop_assert_eq!(is_listed(slots.get(*key).unwrap()), model.contains(key));
            }
        }
    }
}
