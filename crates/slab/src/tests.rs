//! The slab against a model, its drops, and the sizes it promises.
//!
//! Properties, checked after every operation of a random sequence:
//!
//! * the slab and a `BTreeMap` hold the same values under the same keys, and `iter` visits them in order;
//! * the key that `vacant` announces is the lowest free index of the chunks held;
//! * no key is given out twice, and no stale key is found by any lookup, also after its chunk was released and the
//!   place got another one;
//! * `grow` fills the lowest place without a chunk, `release_empty` empties the highest place where nothing lives, and
//!   both do so exactly when they can;
//! * counts (`len`, `capacity`, `chunks`, `empty_chunks`, `is_full`) agree, and the directory stays within its bound;
//! * a value drops once: when it is removed, or with the slab.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;

use crate::key::{GENERATION_MASK, next_generation};
use crate::set::Set;
use crate::{CHUNK_BYTES, HeapChunk, Key, Slab};

#[derive(Clone, Debug)]
enum Op {
    Insert,
    Announce,
    Remove(usize),
    RemoveStale(usize),
    RemoveAbove(u32),
    Write(usize),
    Grow,
    Release,
}

fn ops(len: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        10 => Just(Op::Insert),
        2 => Just(Op::Announce),
        5 => any::<usize>().prop_map(Op::Remove),
        2 => any::<usize>().prop_map(Op::RemoveStale),
        1 => (0..40u32).prop_map(Op::RemoveAbove),
        2 => any::<usize>().prop_map(Op::Write),
        2 => Just(Op::Grow),
        2 => Just(Op::Release),
    ];
    prop::collection::vec(op, 1..len)
}

/// A value that counts its drops and can be told from others.
struct Value<const PADDING: usize> {
    number: u64,
    dropped: Rc<Cell<u64>>,
    _padding: [u8; PADDING],
}

impl<const PADDING: usize> Drop for Value<PADDING> {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

struct Model<const PADDING: usize> {
    slab: Slab<Value<PADDING>>,
    live: BTreeMap<u32, (Key, u64)>,
    stale: Vec<Key>,
    ever: BTreeSet<Key>,
    places: BTreeSet<u32>,
    /// Places that ever had a chunk: `0..reached`.
    reached: u32,
    made: u64,
    dropped: Rc<Cell<u64>>,
    /// Where the generations of a chunk begin, if not at 1.
    generation: Option<u32>,
}

impl<const PADDING: usize> Model<PADDING> {
    const PER_CHUNK: u32 = Slab::<Value<PADDING>>::ENTRIES_PER_CHUNK;

    fn new(chunks_max: u32) -> Self {
        Model {
            slab: Slab::new(chunks_max),
            live: BTreeMap::new(),
            stale: Vec::new(),
            ever: BTreeSet::new(),
            places: BTreeSet::new(),
            reached: 0,
            made: 0,
            dropped: Rc::default(),
            generation: None,
        }
    }

    fn value(&mut self) -> Value<PADDING> {
        self.made += 1;
        Value { number: self.made, dropped: Rc::clone(&self.dropped), _padding: [0xa5; PADDING] }
    }

    fn lowest_free(&self) -> Option<u32> {
        let indexes = self.places.iter().flat_map(|place| place * Self::PER_CHUNK..(place + 1) * Self::PER_CHUNK);
        indexes.into_iter().find(|index| !self.live.contains_key(index))
    }

    fn lives_in(&self, place: u32) -> bool {
        self.live.range(place * Self::PER_CHUNK..(place + 1) * Self::PER_CHUNK).next().is_some()
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert => self.insert(),
            Op::Announce => {
                let announced = self.slab.vacant().map(|vacant| vacant.key());
                assert_eq!(announced, self.slab.vacant().map(|vacant| vacant.key()));
                assert_eq!(announced.map(Key::index), self.lowest_free());
            }
            Op::Remove(pick) if !self.live.is_empty() => {
                let (key, _) = *self.live.values().nth(pick % self.live.len()).expect("in range");
                self.remove(key);
            }
            Op::RemoveStale(pick) if !self.stale.is_empty() => {
                let key = self.stale[pick % self.stale.len()];
                assert!(self.slab.remove(key).is_none(), "{key:?} is stale");
            }
            Op::RemoveAbove(index) => {
                let above: Vec<Key> = self.live.range(index..).map(|(_, (key, _))| *key).collect();
                above.into_iter().for_each(|key| self.remove(key));
            }
            Op::Write(pick) if !self.live.is_empty() => self.write(pick),
            Op::Remove(_) | Op::RemoveStale(_) | Op::Write(_) => {}
            Op::Grow => self.grow(),
            Op::Release => {
                let highest = self.places.iter().rev().copied().find(|&place| !self.lives_in(place));
                assert_eq!(self.slab.release_empty().is_some(), highest.is_some());
                highest.map(|place| self.places.remove(&place));
            }
        }
        self.check();
    }

    fn insert(&mut self) {
        let (expected, value) = (self.lowest_free(), self.value());
        let number = value.number;
        let inserted = self.slab.insert(value).ok();
        assert_eq!(inserted.map(Key::index), expected, "the lowest free index");
        if let Some(key) = inserted {
            assert!(key.generation() & 1 == 1, "the generation of a live key is odd");
            assert!(self.ever.insert(key), "{key:?} was given out before");
            self.live.insert(key.index(), (key, number));
        }
    }

    fn remove(&mut self, key: Key) {
        let (_, number) = self.live.remove(&key.index()).expect("live");
        let dropped = self.dropped.get();
        let value = self.slab.remove(key).expect("live");
        assert_eq!((value.number, self.dropped.get()), (number, dropped), "moved out, not dropped");
        assert!(self.slab.remove(key).is_none(), "a second time");
        self.stale.push(key);
    }

    fn write(&mut self, pick: usize) {
        self.made += 1;
        let number = self.made;
        let pick_live = pick % self.live.len();
        let (key, expected) = self.live.values_mut().nth(pick_live).expect("in range");
        *expected = number;
        if pick & 1 == 0 {
            self.slab.get_mut(*key).expect("live").number = number;
        } else {
            self.slab.get_at_mut(key.index()).expect("live").number = number;
        }
        // The overwritten number counts as dropped with the one that replaces it.
        self.dropped.set(self.dropped.get() + 1);
    }

    fn grow(&mut self) {
        let place = (0..self.slab.chunks_max()).find(|place| !self.places.contains(place));
        assert_eq!(self.slab.grow(HeapChunk::new()).is_ok(), place.is_some());
        if let Some(place) = place {
            self.places.insert(place);
            if let Some(generation) = self.generation.filter(|_| place == self.reached) {
                self.slab.set_generation(place, generation);
            }
            self.reached = self.reached.max(place + 1);
        }
    }

    fn check(&mut self) {
        let found: Vec<(u32, (Key, u64))> =
            self.slab.iter().map(|(key, value)| (key.index(), (key, value.number))).collect();
        assert!(found.iter().copied().eq(self.live.iter().map(|(index, entry)| (*index, *entry))));
        for (index, (key, number)) in &self.live {
            assert_eq!(self.slab.get(*key).map(|value| value.number), Some(*number));
            assert_eq!(self.slab.get_at(*index).map(|value| value.number), Some(*number));
            assert!(self.slab.contains(*key) && self.slab.key_at(*index) == Some(*key));
        }
        for &key in &self.stale {
            assert!(self.slab.get(key).is_none() && self.slab.get_mut(key).is_none());
            assert!(!self.slab.contains(key) && self.slab.key_at(key.index()) != Some(key));
        }
        for index in 0..(self.reached + 1) * Self::PER_CHUNK {
            assert_eq!(self.slab.get_at(index).is_some(), self.live.contains_key(&index));
        }
        self.check_counts();
    }

    fn check_counts(&self) {
        let slab = &self.slab;
        let (len, chunks) = (self.live.len(), self.places.len());
        assert_eq!((slab.len(), slab.is_empty()), (len, len == 0));
        assert_eq!(slab.chunks() as usize, chunks);
        assert_eq!(slab.capacity(), chunks * Self::PER_CHUNK as usize);
        assert_eq!(slab.is_full(), slab.len() == slab.capacity_max());
        let empty = self.places.iter().filter(|&&place| !self.lives_in(place)).count();
        assert_eq!(slab.empty_chunks() as usize, empty);
        assert!(slab.directory_bytes() <= Slab::<Value<PADDING>>::directory_bytes_max(slab.chunks_max()));
        assert_eq!(self.dropped.get() + len as u64, self.made, "each value is live or dropped once");
    }

    fn finish(self) {
        let Model { slab, made, dropped, .. } = self;
        drop(slab);
        assert_eq!(dropped.get(), made, "the slab drops what lives in it, once");
    }
}

fn run<const PADDING: usize>(chunks_max: u32, ops: &[Op]) {
    let mut model = Model::<PADDING>::new(chunks_max);
    model.check();
    ops.iter().for_each(|op| model.apply(op));
    model.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_model_in_chunks_of_four(ops in ops(200)) {
        prop_assert_eq!(Slab::<Value<950>>::ENTRIES_PER_CHUNK, 4);
        run::<950>(7, &ops);
    }

    #[test]
    fn agrees_with_the_model_where_generations_wrap(start in 0..60_u32, ops in ops(200)) {
        let mut model = Model::<950>::new(7);
        model.generation = Some(GENERATION_MASK - 2 * start);
        ops.iter().for_each(|op| model.apply(op));
        model.finish();
    }

    #[test]
    fn agrees_with_the_model_in_many_chunks(ops in ops(60)) {
        // More chunks than a word of a set has bits.
        let mut model = Model::<950>::new(140);
        for _ in 0..135 {
            model.grow();
            model.insert();
        }
        ops.iter().for_each(|op| model.apply(op));
        model.finish();
    }

    #[test]
    fn agrees_with_the_model_in_chunks_of_two_words(ops in ops(300)) {
        prop_assert_eq!(Slab::<Value<0>>::ENTRIES_PER_CHUNK, 128);
        let mut model = Model::<0>::new(3);
        model.grow();
        model.grow();
        (0..200).for_each(|_| model.insert());
        ops.iter().for_each(|op| model.apply(op));
        model.finish();
    }

    #[test]
    fn a_set_finds_its_lowest_and_highest_member(toggles in prop::collection::vec((0..400usize, 0..3u8), 1..200)) {
        let (mut set, mut model) = (Set::new(), BTreeSet::new());
        set.extend_to(400, 400);
        for (number, look) in toggles {
            prop_assert_eq!(set.contains(number), model.contains(&number));
            if model.remove(&number) {
                set.remove(number);
            } else {
                model.insert(number);
                set.insert(number);
            }
            // A search moves a cursor, so it must not follow each change.
            match look {
                0 => prop_assert_eq!(set.first(), model.first().copied()),
                1 => prop_assert_eq!(set.last(), model.last().copied()),
                _ => prop_assert_eq!(set.len() as usize, model.len()),
            }
        }
    }

    #[test]
    fn a_key_survives_packing(index: u32, generation in 0..=GENERATION_MASK, kind: u8) {
        let key = Key::new(index, generation);
        prop_assert_eq!((key.index(), key.generation()), (index, generation));
        prop_assert_eq!(Key::unpack(key.pack(kind)), (kind, key));
    }

    #[test]
    fn an_arbitrary_word_is_found_only_as_the_live_key_it_equals(words: Vec<u64>, near in 0..256u64, generation in 0..8u64) {
        let mut slab: Slab<u64> = Slab::new(2);
        slab.grow(HeapChunk::new()).expect("below 2 chunks");
        let live = slab.insert(5).expect("room");
        for word in words.into_iter().chain([generation << 32 | near]) {
            let (_, key) = Key::unpack(word);
            prop_assert_eq!(slab.get(key).is_some(), key == live);
            prop_assert_eq!(slab.remove(key).is_some(), key == live);
            if key == live {
                break;
            }
        }
    }
}

#[test]
fn a_set_allocates_when_it_must_and_what_it_is_told() {
    let mut set = Set::new();
    set.extend_to(1, 64);
    assert_eq!(set.bytes(), 8);
    set.extend_to(64, 1000);
    assert_eq!(set.bytes(), 8, "there was room");
    set.extend_to(65, 150);
    assert_eq!(set.bytes(), 24);
    set.extend_to(400, 150);
    assert_eq!(set.bytes(), 56, "not less than it needs");
}

#[test]
fn as_many_values_as_fit_in_a_page() {
    fn fits<T>(expected: u32) {
        let count = Slab::<T>::ENTRIES_PER_CHUNK;
        assert_eq!(count, expected);
        assert!(count as usize * (size_of::<T>() + 4) <= CHUNK_BYTES);
        assert!(count == 128 || (count as usize + 1) * (size_of::<T>() + 4) > CHUNK_BYTES);
    }
    fits::<()>(128);
    fits::<u8>(128);
    fits::<[u8; 28]>(128);
    fits::<[u8; 29]>(124);
    fits::<[u64; 8]>(60);
    fits::<[u8; 64]>(60);
    fits::<[u8; 1020]>(4);
}

#[test]
fn a_directory_entry_is_small() {
    assert_eq!(Slab::<u64>::DIRECTORY_BYTES_PER_CHUNK, 33);
    let mut slab: Slab<u64> = Slab::new(1000);
    assert_eq!(slab.directory_bytes(), 0, "nothing up front");
    for _ in 0..1000 {
        slab.grow(HeapChunk::new()).expect("below 1000 chunks");
    }
    assert_eq!(slab.directory_bytes(), Slab::<u64>::directory_bytes_max(1000));
    assert!(slab.directory_bytes() <= 1000 * Slab::<u64>::DIRECTORY_BYTES_PER_CHUNK);
}

#[test]
fn holes_are_passed_over() {
    // Every set of holes below one chunk that has values.
    for holes in 0..16_u32 {
        let mut slab: Slab<Value<950>> = Slab::new(5);
        let mut model = Model::<950>::new(5);
        (0..5).for_each(|_| assert!(slab.grow(HeapChunk::new()).is_ok()));
        let keys: Vec<Key> = (0..20).map(|_| slab.insert(model.value()).ok().expect("room")).collect();
        let is_hole = |key: &&Key| holes & 1 << (key.index() / 4) != 0;
        keys.iter().filter(is_hole).for_each(|key| drop(slab.remove(*key)));
        let released = core::iter::from_fn(|| slab.release_empty()).count();
        assert_eq!(released as u32, holes.count_ones());
        let left: Vec<Key> = keys.iter().filter(|key| !is_hole(key)).copied().collect();
        assert_eq!(slab.iter().map(|(key, _)| key).collect::<Vec<_>>(), left, "holes {holes:b}");
        assert_eq!(slab.iter().len(), left.len());
    }
}

#[test]
fn a_directory_grows_by_doubling() {
    let mut slab: Slab<Value<950>> = Slab::new(1_000);
    let mut sizes = vec![slab.directory_bytes()];
    for _ in 0..100 {
        assert!(slab.grow(HeapChunk::new()).is_ok());
        sizes.push(slab.directory_bytes());
    }
    sizes.dedup();
    assert_eq!(sizes.len(), 6, "none, and room for 8, 16, 32, 64 and 128 chunks: {sizes:?}");
    assert_eq!(*sizes.last().expect("some"), Slab::<Value<950>>::directory_bytes_max(128));
}

#[test]
fn generations_wrap_past_zero() {
    // A round is 2^23 insertions; the first one past it is the stated limit of stale keys.
    for start in [1, 3, GENERATION_MASK / 2, GENERATION_MASK - 2, GENERATION_MASK] {
        let mut slab: Slab<u32> = Slab::new(1);
        slab.grow(HeapChunk::new()).expect("below 1 chunk");
        slab.set_generation(0, start);
        let first = slab.insert(0).expect("room");
        slab.remove(first);
        let others = |slab: &mut Slab<u32>, count| {
            for _ in 0..count {
                let key = slab.insert(0).expect("room");
                assert!(key != first && key.generation() & 1 == 1);
                assert!(slab.get(first).is_none() && slab.remove(first).is_none(), "stale");
                slab.remove(key);
            }
        };
        others(&mut slab, 1_000);
        // As if all but the last thousand of the round had been given out.
        slab.set_generation(0, first.generation().wrapping_sub(2 * 1_000) & GENERATION_MASK);
        others(&mut slab, 999);
        assert_eq!(slab.insert(0), Ok(first), "after 2^23 insertions, as documented");
    }
    assert_eq!(next_generation(GENERATION_MASK), 1);
}

#[test]
fn values_of_no_size_and_of_great_alignment() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(64))]
    struct Line(u8);

    let mut lines: Slab<Line> = Slab::new(1);
    lines.grow(HeapChunk::new()).expect("below 1 chunk");
    let keys: Vec<Key> = (0..60).map(|n| lines.insert(Line(n)).expect("room")).collect();
    assert!(lines.insert(Line(60)).is_err() && lines.is_full());
    for (n, key) in keys.iter().enumerate() {
        let line = lines.get(*key).expect("live");
        assert_eq!(*line, Line(n as u8));
        assert!(core::ptr::from_ref(line).addr().is_multiple_of(64));
    }

    let mut units: Slab<()> = Slab::new(1);
    units.grow(HeapChunk::new()).expect("below 1 chunk");
    let keys: Vec<Key> = (0..128).map(|_| units.insert(()).expect("room")).collect();
    assert!(units.is_full() && keys.iter().all(|key| units.contains(*key)));
}

#[test]
fn a_value_stays_where_it_is() {
    let mut slab: Slab<[u8; 900]> = Slab::new(64);
    slab.grow(HeapChunk::new()).expect("below 64 chunks");
    let key = slab.insert([7; 900]).expect("room");
    let before = core::ptr::from_ref(slab.get(key).expect("live"));
    for _ in 1..64 {
        slab.grow(HeapChunk::new()).expect("below 64 chunks");
        let _ = slab.insert([1; 900]);
    }
    let slab = Box::new(slab);
    assert_eq!(core::ptr::from_ref(slab.get(key).expect("live")), before);
}

#[test]
fn a_panic_in_a_drop_leaks_at_most_and_drops_nothing_twice() {
    thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
            assert!(!self.0, "boom");
        }
    }
    let mut slab: Slab<Bomb> = Slab::new(1);
    slab.grow(HeapChunk::new()).expect("below 1 chunk");
    for n in 0..8 {
        assert!(slab.insert(Bomb(n == 3)).is_ok());
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(slab)));
    assert!(result.is_err());
    assert_eq!(DROPPED.get(), 4, "up to the one that panicked");
}

#[test]
fn a_slab_can_be_sent() {
    fn sendable<T: Send + Sync>() {}
    sendable::<Slab<u64>>();
    assert_eq!(size_of::<Key>(), size_of::<Option<Key>>());
}
