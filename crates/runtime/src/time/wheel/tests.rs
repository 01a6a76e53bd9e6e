//! The wheel against a model that searches a map for the earliest deadline.
//!
//! Properties, checked after every operation of a random sequence:
//!
//! * a timer fires once, not before its deadline, and with the value that it was set with;
//! * timers fire earliest first, those that were late when they were set as if due at the position;
//! * `pop_expired` gives `None` exactly when nothing is due any more;
//! * `next_deadline_ms` is never late, and after now when nothing is due;
//! * the keys of set timers reach their value; a timer that has fired keeps its place until it is let go; keys that are
//!   used up do nothing;
//! * the lists hold exactly the set timers, each in the list that its deadline has seen from the position.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use plimsoll_slab::HeapChunk;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert { after_ms: u64 },
    InsertLate { before_ms: u64 },
    Reset { pick: usize, after_ms: u64 },
    Remove { pick: usize },
    RemoveGone { pick: usize },
    LetGo { pick: usize, by_reset: bool },
    Advance { by_ms: u64 },
    AdvanceToNext { off_by_one: bool },
    Pop { times: usize },
    Drain,
    Release,
}

/// Durations of every level, and near the borders between them.
fn span_ms() -> impl Strategy<Value = u64> {
    (0..38u32, any::<u64>(), -2..3i64, any::<bool>()).prop_map(|(bits, random, offset, border)| {
        let span = if border { 1 << bits } else { random & ((1 << bits) - 1) };
        span.saturating_add_signed(offset)
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => span_ms().prop_map(|after_ms| Op::Insert { after_ms }),
        2 => span_ms().prop_map(|before_ms| Op::InsertLate { before_ms }),
        4 => (any::<usize>(), span_ms()).prop_map(|(pick, after_ms)| Op::Reset { pick, after_ms }),
        3 => any::<usize>().prop_map(|pick| Op::Remove { pick }),
        1 => any::<usize>().prop_map(|pick| Op::RemoveGone { pick }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(pick, by_reset)| Op::LetGo { pick, by_reset }),
        3 => span_ms().prop_map(|by_ms| Op::Advance { by_ms }),
        5 => any::<bool>().prop_map(|off_by_one| Op::AdvanceToNext { off_by_one }),
        4 => (1..5usize).prop_map(|times| Op::Pop { times }),
        3 => Just(Op::Drain),
        1 => Just(Op::Release),
    ];
    prop::collection::vec(op, 1..150)
}

#[derive(Clone, Copy, Debug)]
struct Set {
    deadline_ms: u64,
    /// The deadline, or the position when it was set, if that is later.
    fires_ms: u64,
    value: u64,
}

struct Model {
    wheel: Wheel<u64, HeapChunk>,
    set: BTreeMap<u32, (TimerKey, Set)>,
    /// Not let go yet.
    fired: Vec<TimerKey>,
    gone: Vec<TimerKey>,
    now_ms: u64,
    position_ms: u64,
    made: u64,
}

impl Model {
    fn new(start_ms: u64) -> Model {
        Model {
            wheel: Wheel::new(start_ms, 3),
            set: BTreeMap::new(),
            fired: Vec::new(),
            gone: Vec::new(),
            now_ms: start_ms,
            position_ms: start_ms,
            made: 0,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert { after_ms } => self.insert(self.now_ms.saturating_add(after_ms)),
            Op::InsertLate { before_ms } => self.insert(self.now_ms.saturating_sub(before_ms)),
            Op::Reset { pick, after_ms } => self.reset(pick, self.now_ms.saturating_add(after_ms)),
            Op::Remove { pick } => {
                if let Some((key, set)) = self.pick(pick) {
                    assert_eq!(self.wheel.remove(key), Some(set.value));
                    self.forget(key);
                    self.gone.push(key);
                }
            }
            Op::RemoveGone { pick } if !self.gone.is_empty() => {
                let key = self.gone[pick % self.gone.len()];
                assert_eq!(self.wheel.remove(key), None);
                assert!(!self.wheel.reset(key, self.now_ms));
            }
            Op::RemoveGone { .. } => {}
            Op::LetGo { pick, by_reset } if !self.fired.is_empty() => {
                let key = self.fired.swap_remove(pick % self.fired.len());
                if by_reset {
                    assert!(!self.wheel.reset(key, self.now_ms), "too late");
                } else {
                    assert_eq!(self.wheel.remove(key), None, "its value was taken");
                }
                self.gone.push(key);
            }
            Op::LetGo { .. } => {}
            Op::Advance { by_ms } => self.advance(self.now_ms + by_ms),
            Op::AdvanceToNext { off_by_one } => {
                let next_ms = self.wheel.next_deadline_ms().unwrap_or(self.now_ms);
                self.advance(next_ms.saturating_sub(u64::from(off_by_one)));
            }
            Op::Pop { times } => (0..times).for_each(|_| {
                self.pop();
            }),
            Op::Drain => while self.pop() {},
            Op::Release => {
                let empty = self.wheel.release_empty().is_some();
                assert!(!empty || self.wheel.chunks() < 3);
            }
        }
        self.check();
    }

    fn pick(&self, pick: usize) -> Option<(TimerKey, Set)> {
        self.set.values().nth(pick % self.set.len().max(1)).copied()
    }

    fn forget(&mut self, key: TimerKey) {
        self.set.remove(&key.0.index()).expect("it was set");
    }

    fn insert(&mut self, deadline_ms: u64) {
        self.made += 1;
        let value = self.made;
        let needs_chunk = self.wheel.needs_chunk();
        let key = match self.wheel.insert(deadline_ms, value) {
            Ok(key) => key,
            Err(back) => {
                assert!(needs_chunk && back == value);
                if self.wheel.grow(HeapChunk::new()).is_err() {
                    assert_eq!(self.wheel.chunks(), 3);
                    return;
                }
                self.wheel.insert(deadline_ms, value).expect("it has grown")
            }
        };
        let fires_ms = deadline_ms.max(self.position_ms);
        let before = self.set.insert(key.0.index(), (key, Set { deadline_ms, fires_ms, value }));
        assert!(before.is_none());
    }

    fn reset(&mut self, pick: usize, deadline_ms: u64) {
        if let Some((key, set)) = self.pick(pick) {
            assert!(self.wheel.reset(key, deadline_ms));
            let fires_ms = deadline_ms.max(self.position_ms);
            self.set.insert(key.0.index(), (key, Set { deadline_ms, fires_ms, ..set }));
        }
    }

    fn advance(&mut self, now_ms: u64) {
        self.wheel.advance(now_ms);
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// Whether a timer fired.
    fn pop(&mut self) -> bool {
        let earliest = self.set.values().map(|(_, set)| set.fires_ms).min();
        let due = earliest.is_some_and(|fires_ms| fires_ms <= self.now_ms);
        match self.wheel.pop_expired() {
            None => {
                assert!(!due, "something is due");
                self.position_ms = self.now_ms;
                false
            }
            Some((key, value)) => {
                let (expected, set) = self.set[&key.0.index()];
                assert_eq!((key, value), (expected, set.value));
                assert!(set.deadline_ms <= self.now_ms, "early");
                assert_eq!(Some(set.fires_ms), earliest, "not the earliest");
                self.position_ms = set.fires_ms;
                self.forget(key);
                self.fired.push(key);
                true
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(self.wheel.len(), self.set.len() + self.fired.len());
        for (key, set) in self.set.values() {
            assert_eq!(self.wheel.get_mut(*key).copied(), Some(set.value));
        }
        for key in self.gone.iter().chain(&self.fired) {
            assert_eq!(self.wheel.get_mut(*key), None);
        }
        let earliest = self.set.values().map(|(_, set)| set.fires_ms).min();
        let next_ms = self.wheel.next_deadline_ms();
        assert_eq!(next_ms.is_some(), earliest.is_some());
        if let (Some(next_ms), Some(earliest)) = (next_ms, earliest) {
            assert!(next_ms <= earliest, "a sleep until then would be too long");
            let drained = self.position_ms == self.now_ms && earliest > self.now_ms;
            assert!(!drained || next_ms > self.now_ms, "a sleep until then would spin");
            let one_block = earliest / 64 == self.position_ms / 64;
            assert!(!one_block || next_ms == earliest, "exact in the next 64 ms block");
        }
        self.check_lists();
    }

    fn check_lists(&mut self) {
        let mut linked = 0;
        for list in 0..LISTS {
            let first = self.wheel.heads[list];
            if list < OVERFLOW {
                assert_eq!(self.wheel.occupied[list / SLOTS] >> (list % SLOTS) & 1 == 1, first != NIL);
            }
            let mut index = first;
            while index != NIL {
                linked += 1;
                let timer = self.wheel.timer(index);
                let (next, deadline_ms) = (timer.next, timer.when >> LIST_BITS);
                assert_eq!((timer.when & LIST_MASK) as usize, list);
                assert_eq!(self.wheel.timer(next).prev, index);
                assert_eq!(self.wheel.list_of(deadline_ms), list, "it should have cascaded");
                index = if next == first { NIL } else { next };
            }
        }
        assert_eq!(linked, self.set.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model(start_ms in prop_oneof![Just(0), span_ms()], ops in ops()) {
        let mut model = Model::new(start_ms);
        model.check();
        ops.iter().for_each(|op| model.apply(op));
        // Whatever was set fires in the end, however far away.
        model.advance(model.now_ms + (1 << 40));
        while model.pop() {}
        model.check();
        prop_assert!(model.set.is_empty());
    }

    #[test]
    fn a_sleeper_is_woken_few_times_for_one_timer(start_ms in span_ms(), after_ms in span_ms()) {
        let mut wheel: Wheel<(), HeapChunk> = Wheel::new(start_ms, 1);
        prop_assert!(wheel.grow(HeapChunk::new()).is_ok());
        prop_assert!(wheel.insert(start_ms + after_ms, ()).is_ok());
        let mut wakes = 0;
        while let Some(next_ms) = wheel.next_deadline_ms() {
            wakes += 1;
            wheel.advance(next_ms);
            if wheel.pop_expired().is_some() {
                prop_assert_eq!(next_ms, start_ms + after_ms, "on the millisecond");
            }
        }
        // Each wake of the overflow list is a turn of the highest level, of which a span has at most four.
        prop_assert!(wakes <= 7 + 4, "{} wakes", wakes);
        prop_assert!(after_ms >> 36 != 0 || wakes <= 7, "{} wakes", wakes);
    }
}

fn wheel_with_room(start_ms: u64) -> Wheel<u32, HeapChunk> {
    let mut wheel = Wheel::new(start_ms, 64);
    for _ in 0..64 {
        assert!(wheel.grow(HeapChunk::new()).is_ok());
    }
    wheel
}

#[test]
fn timers_of_one_millisecond_fire_in_order() {
    let mut wheel = wheel_with_room(1000);
    for value in 0..200 {
        wheel.insert(1000 + u64::from(value % 2) * 5000, value).expect("room");
    }
    wheel.advance(10_000);
    let fired: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired()).map(|(_, value)| value).collect();
    let expected: Vec<u32> = (0..200).step_by(2).chain((1..200).step_by(2)).collect();
    assert_eq!(fired, expected);
}

#[test]
fn a_deadline_past_the_end_of_time_does_not_fire() {
    let mut wheel = wheel_with_room(5);
    let key = wheel.insert(u64::MAX, 1).expect("room");
    wheel.advance(TIME_MAX_MS - 1);
    assert_eq!(wheel.pop_expired(), None);
    assert!(wheel.get_mut(key).is_some());
    wheel.advance(u64::MAX);
    assert_eq!(wheel.pop_expired(), Some((key, 1)));
}

#[test]
fn a_timer_set_while_timers_fire_is_not_lost() {
    let mut wheel = wheel_with_room(0);
    wheel.insert(10, 1).expect("room");
    wheel.insert(90, 2).expect("room");
    wheel.advance(100);
    assert_eq!(wheel.pop_expired().map(|(_, value)| value), Some(1));
    // Between the two, and before the position.
    wheel.insert(50, 3).expect("room");
    wheel.insert(3, 4).expect("room");
    let rest: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired()).map(|(_, value)| value).collect();
    assert_eq!(rest, [4, 3, 2]);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let mut wheel = wheel_with_room(100);
    wheel.advance(50);
    wheel.insert(100, 1).expect("room");
    assert_eq!(wheel.pop_expired().map(|(_, value)| value), Some(1));
}

/// A key is told from all others of its place for 2^23 insertions; a timer that has fired is somebody's for longer than
/// that.
#[test]
fn a_timer_that_fired_is_never_taken_for_another_one() {
    let mut wheel = wheel_with_room(0);
    let kept = wheel.insert(1, 0).expect("room");
    wheel.advance(1);
    assert_eq!(wheel.pop_expired(), Some((kept, 0)));
    for _ in 1..GENERATIONS {
        let key = wheel.insert(2, 1).expect("room");
        wheel.remove(key).expect("it has not fired");
    }
    let other = wheel.insert(2, 1).expect("room");
    assert_ne!(other, kept);
    assert!(wheel.remove(kept).is_none(), "the other one's timer is its own");
    assert_eq!(wheel.get_mut(other).copied(), Some(1));
}

/// Insertions into a chunk after which its generations begin anew.
const GENERATIONS: u32 = 1 << (plimsoll_slab::GENERATION_BITS - 1);
