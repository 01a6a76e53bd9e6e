//! The coarse wheel against a map of deadlines.
//!
//! Properties, checked after every operation of a random sequence:
//!
//! * an entry comes out once, not before its tick, and only if it was scheduled and not cancelled;
//! * when there is nothing more to do for a tick, no deadline at or before it is left;
//! * `next_tick` is never late, and after now when there is nothing to do;
//! * putting a deadline off stores one link; a call of `pop_due` looks at a bounded number of entries;
//! * the buckets hold exactly the scheduled entries, each visited no later than its deadline.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Records {
    links: Vec<Link>,
    stores: u32,
}

impl Links for Records {
    fn link(&self, index: u32) -> Link {
        self.links[index as usize]
    }

    fn set_link(&mut self, index: u32, link: Link) {
        self.stores += 1;
        self.links[index as usize] = link;
    }
}

impl Records {
    fn new(len: u32) -> Records {
        Records { links: vec![Link::default(); len as usize], stores: 0 }
    }

    /// The links stored by an action.
    fn stores_of<T>(&mut self, action: impl FnOnce(&mut Records) -> T) -> (T, u32) {
        let before = self.stores;
        let result = action(self);
        (result, self.stores - before)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Schedule { index: u32, after: u32 },
    ScheduleLate { index: u32, before: u32 },
    Cancel { index: u32 },
    Advance { by: u32 },
    AdvanceToNext { off_by_one: bool },
    Pop { times: u32 },
    Drain,
}

const RECORDS: u32 = 90;

/// Ticks within the wheel, at its horizon, and beyond.
fn ticks() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..20u32, 4 => 0..300u32, 2 => 250..262u32, 1 => 505..520u32, 1 => 0..100_000u32]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        16 => (0..RECORDS, ticks()).prop_map(|(index, after)| Op::Schedule { index, after }),
        1 => (0..RECORDS, ticks()).prop_map(|(index, before)| Op::ScheduleLate { index, before }),
        3 => (0..RECORDS).prop_map(|index| Op::Cancel { index }),
        2 => ticks().prop_map(|by| Op::Advance { by }),
        3 => any::<bool>().prop_map(|off_by_one| Op::AdvanceToNext { off_by_one }),
        3 => (1..5u32).prop_map(|times| Op::Pop { times }),
        2 => Just(Op::Drain),
    ];
    prop::collection::vec(op, 1..300)
}

struct Model {
    wheel: Coarse,
    records: Records,
    deadlines: BTreeMap<u32, u32>,
    now: u32,
    /// The time when the wheel was told the time last.
    told: u32,
}

impl Model {
    fn new(start: u32) -> Model {
        Model {
            wheel: Coarse::new(start),
            records: Records::new(RECORDS),
            deadlines: BTreeMap::new(),
            now: start,
            told: start,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Schedule { index, after } => self.schedule(index, self.now.saturating_add(after)),
            Op::ScheduleLate { index, before } => self.schedule(index, self.now.saturating_sub(before)),
            Op::Cancel { index } => {
                let cancelled = self.wheel.cancel(&mut self.records, index);
                assert_eq!(cancelled, self.deadlines.remove(&index).is_some());
            }
            Op::Advance { by } => self.now = self.now.saturating_add(by),
            Op::AdvanceToNext { off_by_one } => {
                let next = self.wheel.next_tick().unwrap_or(self.now);
                self.now = self.now.max(next.saturating_sub(u32::from(off_by_one)));
            }
            Op::Pop { times } => (0..times).for_each(|_| {
                self.pop();
            }),
            Op::Drain => self.drain(),
        }
        self.check();
    }

    fn schedule(&mut self, index: u32, deadline: u32) {
        let link = self.records.links[index as usize];
        let visit = link.is_scheduled().then(|| self.wheel.visit_tick(link.bucket()));
        let wheel = &mut self.wheel;
        let ((), stores) = self.records.stores_of(|records| wheel.schedule(records, index, deadline));
        if visit.is_some_and(|visit| visit <= deadline) {
            assert_eq!(stores, 1, "putting it off is one store");
            let link = Link { deadline_tick: deadline, ..link };
            assert_eq!(self.records.links[index as usize], link, "it stays where it is");
        }
        assert!(stores <= 6);
        let earlier = self.deadlines.insert(index, deadline);
        let lazy = earlier.is_some_and(|earlier| deadline >= earlier && visit.is_some_and(|visit| visit <= earlier));
        assert!(!lazy || stores == 1, "later is lazy");
    }

    /// Whether an entry came out.
    fn pop(&mut self) -> bool {
        self.told = self.now;
        let (wheel, now) = (&mut self.wheel, self.now);
        let (popped, stores) = self.records.stores_of(|records| wheel.pop_due(records, now));
        assert!(stores <= VISITS_MAX * 6, "unlinked and appended, three links each");
        if let Some(index) = popped {
            let deadline = self.deadlines.remove(&index).expect("it was scheduled");
            assert!(deadline <= now, "early");
            assert_eq!(self.records.links[index as usize], Link::default());
        }
        popped.is_some()
    }

    /// Pops until there is nothing left to do, which takes few calls.
    fn drain(&mut self) {
        let mut calls_left = RECORDS * 3;
        while self.pop() || self.wheel.next_tick().is_some_and(|tick| tick <= self.now) {
            calls_left -= 1;
            assert!(calls_left > 0, "it does not come to an end");
        }
        assert!(self.deadlines.values().all(|deadline| *deadline > self.now), "something is left");
    }

    fn check(&self) {
        assert_eq!(self.wheel.len() as usize, self.deadlines.len());
        let next = self.wheel.next_tick();
        assert_eq!(next.is_some(), !self.deadlines.is_empty());
        if let (Some(next), Some(&earliest)) = (next, self.deadlines.values().min()) {
            assert!(next <= earliest.max(self.now), "a sleep until then would be too long");
        }
        let mut linked = 0;
        for bucket in 0..BUCKETS as usize {
            let first = self.wheel.heads[bucket];
            assert_eq!(self.wheel.occupied[bucket / 64] >> (bucket % 64) & 1 == 1, first != NIL);
            let mut index = first;
            while index != NIL {
                linked += 1;
                let link = self.records.links[index as usize];
                assert_eq!(link.deadline_tick(), self.deadlines.get(&index).copied());
                assert_eq!(link.bucket() as usize, bucket);
                let visit = self.wheel.visit_tick(link.bucket());
                assert!(visit <= link.deadline_tick.max(self.told), "visited too late");
                assert_eq!(self.records.links[link.next() as usize].prev(), index);
                index = if link.next() == first { NIL } else { link.next() };
            }
        }
        assert_eq!(linked, self.deadlines.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model(start in prop_oneof![Just(0), 0..2000u32, Just(1 << 31)], ops in ops()) {
        let mut model = Model::new(start);
        model.check();
        ops.iter().for_each(|op| model.apply(op));
        model.now += 200_000;
        model.drain();
        model.check();
        prop_assert!(model.deadlines.is_empty());
    }

    #[test]
    fn a_link_keeps_what_it_is_given(next in 0..=NIL, prev in 0..=NIL, bucket: u8, tick: u32) {
        let link = Link::new(next, prev, bucket, tick);
        prop_assert_eq!((link.next(), link.prev(), link.bucket(), link.deadline_tick), (next, prev, bucket, tick));
    }

    #[test]
    fn what_is_put_off_all_the_time_is_moved_once_in_a_timeout(step in 1..5u32, longer in 1..1000u32) {
        let (mut wheel, mut records, timeout) = (Coarse::new(0), Records::new(1), step + longer);
        let mut stores = 0;
        for now in (0..20_000).step_by(step as usize) {
            prop_assert_eq!(wheel.pop_due(&mut records, now), None);
            let ((), scheduled) = records.stores_of(|records| wheel.schedule(records, 0, now + timeout));
            prop_assert_eq!(scheduled, 1);
            stores += 1;
        }
        // A move of a lone entry is two stores. What it is moved by is the timeout, less the step since the last store.
        let moves = (records.stores - stores) / 2;
        prop_assert!(moves <= 20_000 / longer.min(HORIZON) + 1, "{} moves", moves);
    }
}

#[test]
fn a_full_bucket_is_visited_in_pieces() {
    let count = 10 * VISITS_MAX;
    let (mut wheel, mut records) = (Coarse::new(0), Records::new(count));
    for index in 0..count {
        wheel.schedule(&mut records, index, 10);
        wheel.schedule(&mut records, index, 500);
    }
    assert_eq!(wheel.next_tick(), Some(10), "where they were linked first");
    for left in (0..10).rev() {
        assert_eq!(wheel.pop_due(&mut records, 10), None, "nothing is due");
        let to_do = wheel.next_tick().is_some_and(|tick| tick <= 10);
        assert_eq!(to_do, left > 0, "the rest is for the next turn");
    }
    assert_eq!(wheel.len(), count);
}

#[test]
fn a_deadline_that_moves_to_and_fro_behind_its_bucket_is_lazy() {
    let (mut wheel, mut records) = (Coarse::new(0), Records::new(1));
    wheel.schedule(&mut records, 0, 40);
    for deadline in [240, 40, 100, 41, 240] {
        let ((), stores) = records.stores_of(|records| wheel.schedule(records, 0, deadline));
        assert_eq!(stores, 1);
    }
    assert_eq!(wheel.pop_due(&mut records, 239), None);
    assert_eq!(wheel.pop_due(&mut records, 240), Some(0));
}

#[test]
fn the_last_tick_is_reached() {
    let (mut wheel, mut records) = (Coarse::new(u32::MAX - 300), Records::new(2));
    wheel.schedule(&mut records, 0, u32::MAX);
    wheel.schedule(&mut records, 1, u32::MAX - 100);
    assert_eq!(wheel.pop_due(&mut records, u32::MAX - 1), Some(1));
    assert_eq!(wheel.pop_due(&mut records, u32::MAX - 1), None);
    assert_eq!(wheel.pop_due(&mut records, u32::MAX), Some(0));
}

#[test]
fn a_jump_of_the_clock_costs_two_visits_an_entry() {
    let (mut wheel, mut records) = (Coarse::new(0), Records::new(100));
    for index in 0..100 {
        wheel.schedule(&mut records, index, index * 2);
        wheel.schedule(&mut records, index, 2_000_000);
    }
    let before = records.stores;
    while wheel.next_tick().is_some_and(|tick| tick <= 1_000_000) {
        assert_eq!(wheel.pop_due(&mut records, 1_000_000), None);
    }
    assert!(records.stores - before <= 100 * 6 * 2, "{} stores", records.stores - before);
}

#[test]
fn the_reach_is_seen_from_now_after_a_long_silence() {
    let (mut wheel, mut records) = (Coarse::new(0), Records::new(1));
    assert_eq!(wheel.pop_due(&mut records, 1_000_000), None);
    wheel.schedule(&mut records, 0, 1_000_200);
    assert_eq!(wheel.next_tick(), Some(1_000_200));
}
