//! Model tests of the two structures below the driver.
//!
//! Lists (a few queues and wait lists over one slot table, against vectors):
//!
//! * an operation is in the list it was put in, and in no other;
//! * a queue gives back in the order of arrival, and knows its length;
//! * a turn takes out what was in a queue when it began, and nothing else, whatever is removed from the middle;
//! * removing from a wait list keeps the order of the others, and tells whether it was there.
//!
//! Table (against a map of entries):
//!
//! * an entry is what was last set, whatever happened to others;
//! * as many pages are held as have an entry that is not vacant, and they are charged;
//! * with every entry vacant again, no page is held.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_slab::Key;
use proptest::prelude::*;

use crate::fd::Number;
use crate::mio::list::{Queue, Waiters};
use crate::mio::table::{Entry, Flags, Table};
use crate::op::{Op, Token};
use crate::slots::{Raw, Slots};

fn pool() -> (Arc<Budget>, Pool) {
    let budget = Budget::new(MemoryLimit::mib(8));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
    (budget, pool)
}

#[derive(Clone, Debug)]
enum Step {
    /// A new operation goes to the queue or wait list of this number.
    Push(usize),
    /// The first of the list is taken out, and moved to another or finished.
    Pop(usize, Option<usize>),
    /// Some operation is taken out of a wait list, if it is in that one.
    Remove(usize, usize),
    /// A turn begins on a queue.
    BeginTurn(usize),
    /// The first of a queue is taken out, if it belongs to the turn.
    PopOfTurn(usize),
    /// Those of a descriptor are taken out of a queue, and finished.
    Close(usize, i32),
}

const QUEUES: usize = 2;
const LISTS: usize = 4;
const DESCRIPTORS: i32 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..LISTS).prop_map(Step::Push),
        2 => (0..LISTS, proptest::option::of(0..LISTS)).prop_map(|(from, to)| Step::Pop(from, to)),
        2 => (QUEUES..LISTS, 0..64_usize).prop_map(|(from, which)| Step::Remove(from, which)),
        1 => (0..QUEUES).prop_map(Step::BeginTurn),
        2 => (0..QUEUES).prop_map(Step::PopOfTurn),
        1 => (0..QUEUES, 0..DESCRIPTORS).prop_map(|(from, fd)| Step::Close(from, fd)),
    ];
    proptest::collection::vec(step, 1..200)
}

struct Lists {
    slots: Slots,
    queues: [Queue; QUEUES],
    waiters: [Waiters; LISTS - QUEUES],
}

impl Lists {
    fn push(&mut self, list: usize, index: u32) {
        match list.checked_sub(QUEUES) {
            None => self.queues[list].push(&mut self.slots, index),
            Some(list) => self.waiters[list].push(&mut self.slots, index),
        }
    }

    fn pop(&mut self, list: usize) -> Option<u32> {
        match list.checked_sub(QUEUES) {
            None => self.queues[list].pop(&mut self.slots),
            Some(list) => self.waiters[list].pop(&mut self.slots),
        }
    }
}

fn check_lists(steps: Vec<Step>) {
    let (_, pool) = pool();
    let mut lists = Lists { slots: Slots::new(), queues: Default::default(), waiters: Default::default() };
    let mut model: [VecDeque<Key>; LISTS] = Default::default();
    // Of the first ones of each queue, how many belong to the turn.
    let mut turns = [0; QUEUES];
    let descriptor = |key: Key| Number::from_raw(key.index() as i32 % DESCRIPTORS);
    for step in steps {
        match step {
            Step::Push(list) => {
                let Ok(key) = lists.slots.insert(&pool, Op::Close { fd: Number::from_raw(0).owned() }, Token(0)) else {
                    panic!("the line is wide")
                };
                lists.slots.get_mut(key).expect("just inserted").op = Op::Close { fd: descriptor(key).owned() };
                lists.push(list, key.index());
                model[list].push_back(key);
            }
            Step::Pop(from, to) => {
                let expected = model[from].pop_front();
                assert_eq!(lists.pop(from), expected.map(Key::index));
                let Some(key) = expected else { continue };
                if from < QUEUES {
                    turns[from] = usize::saturating_sub(turns[from], 1);
                }
                match to {
                    Some(to) => {
                        lists.push(to, key.index());
                        model[to].push_back(key);
                    }
                    None => {
                        drop(lists.slots.finish(Raw { key, result: Ok(0), received: None }).expect("it was in flight"))
                    }
                }
            }
            Step::BeginTurn(queue) => {
                lists.queues[queue].begin_turn();
                turns[queue] = model[queue].len();
            }
            Step::PopOfTurn(queue) => {
                let expected = if turns[queue] > 0 { model[queue].pop_front() } else { None };
                assert_eq!(lists.queues[queue].pop_of_turn(&mut lists.slots), expected.map(Key::index));
                if let Some(key) = expected {
                    turns[queue] -= 1;
                    lists.slots.finish(Raw { key, result: Ok(0), received: None }).expect("it was in flight");
                }
            }
            Step::Close(queue, number) => {
                let fd = Number::from_raw(number);
                let mut removed = Vec::new();
                lists.queues[queue].retain(
                    &mut lists.slots,
                    |op| op.descriptor() != Some(fd),
                    |_, index| removed.push(index),
                );
                let (gone, kept): (Vec<Key>, Vec<Key>) = model[queue].iter().partition(|key| descriptor(**key) == fd);
                turns[queue] -= model[queue].iter().take(turns[queue]).filter(|key| descriptor(**key) == fd).count();
                model[queue] = kept.into();
                assert_eq!(removed, gone.iter().map(|key| key.index()).collect::<Vec<u32>>());
                for key in gone {
                    lists.slots.finish(Raw { key, result: Ok(0), received: None }).expect("it was in flight");
                }
            }
            Step::Remove(from, which) => {
                let all: Vec<Key> = model.iter().flatten().copied().collect();
                let Some(&key) = all.get(which % all.len().max(1)) else { continue };
                let at = model[from].iter().position(|&listed| listed == key);
                // Asked only for operations that wait somewhere on the descriptor: not for those of the queues.
                if model[..QUEUES].iter().any(|queue| queue.contains(&key)) {
                    continue;
                }
                let removed = lists.waiters[from - QUEUES].remove(&mut lists.slots, key.index());
                assert_eq!(removed, at.is_some());
                if let Some(at) = at {
                    model[from].remove(at);
                    lists.push(0, key.index());
                    model[0].push_back(key);
                }
            }
        }
        for (turn, expected) in turns.iter().zip(&model) {
            assert!(*turn <= expected.len());
        }
        for (queue, expected) in lists.queues.iter().zip(&model) {
            assert_eq!((queue.len(), queue.is_empty()), (expected.len(), expected.is_empty()));
            assert_eq!(queue.first(), expected.front().map(|key| key.index()));
        }
    }
    for (list, expected) in model.iter_mut().enumerate() {
        while let Some(index) = lists.pop(list) {
            assert_eq!(Some(index), expected.pop_front().map(Key::index));
        }
        assert!(expected.is_empty());
    }
}

fn entries() -> impl Strategy<Value = Entry> {
    let index = || proptest::option::of(prop_oneof![0..100_u32, Just((1 << 24) - 2)]).prop_map(Waiters);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(registered, readable, closing)| {
        let set = |flags: Flags, on: bool, flag| if on { flags.with(flag) } else { flags };
        let flags = set(Flags::default(), registered, Flags::REGISTERED);
        set(set(flags, readable, Flags::READABLE), closing, Flags::CLOSING)
    });
    let entry = (flags, index(), index(), index(), prop_oneof![Just(0_u16), any::<u16>()])
        .prop_map(|(flags, readers, writers, polls, jobs)| Entry { flags, readers, writers, polls, jobs });
    prop_oneof![1 => Just(Entry::default()), 2 => entry]
}

/// Descriptors on one page, around its end, and far away.
fn numbers() -> impl Strategy<Value = i32> {
    prop_oneof![0..20, 330..350, 100_000..100_010]
}

fn check_table(steps: Vec<(i32, Entry)>) {
    let (_budget, pool) = pool();
    let mut table = Table::new(&pool);
    let mut model: HashMap<i32, Entry> = HashMap::new();
    for (number, entry) in steps {
        let fd = Number::from_raw(number);
        if entry != Entry::default() {
            table.reserve(fd).expect("the line is wide");
        }
        table.set(fd, entry);
        model.insert(number, entry);
        for (&number, &expected) in &model {
            assert_eq!(table.get(Number::from_raw(number)), expected, "fd {number}");
        }
        let pages: std::collections::HashSet<i32> =
            model.iter().filter(|(_, entry)| **entry != Entry::default()).map(|(number, _)| number / 341).collect();
        assert_eq!(table.pages_held(), pages.len());
    }
    for number in model.into_keys() {
        table.set(Number::from_raw(number), Entry::default());
    }
    assert_eq!(table.pages_held(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_match_their_model(steps in steps()) {
        check_lists(steps);
    }

    #[test]
    fn table_matches_its_model(steps in proptest::collection::vec((numbers(), entries()), 1..60)) {
        check_table(steps);
    }
}
