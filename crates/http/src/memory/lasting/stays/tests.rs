//! Properties, under random operations, beside a model that is a list:
//!
//! * the open ones come newest first, and those that were told end in the order in which they were told;
//! * a stream of events is found by its exchange, by all of it, and nothing else is;
//! * who was taken out is told nothing, whoever is in its place now;
//! * no operation looks at more entries than a few, however many there are;
//! * what is charged goes back with the last.

use ::core::time::Duration;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_runtime::Instant;
use plimsoll_slab::{HeapChunk, Key, Slab};
use proptest::prelude::*;

use super::{ExchangeId, Number, Sort, Stage, Stays};

const AFTER: Duration = Duration::from_millis(5);

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(16)), PoolConfig::default()).expect("16 MiB are enough")
}

/// Keys of so many connections.
fn connections(count: usize) -> Vec<Key> {
    let mut slab: Slab<u8> = Slab::new(1_024);
    let key = |_| match slab.insert(0) {
        Ok(key) => key,
        Err(_) => {
            slab.grow(HeapChunk::new()).expect("fewer than there may be");
            slab.insert(0).expect("it has just grown")
        }
    };
    (0..count).map(key).collect()
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn put(stays: &mut Stays, pool: &Pool, sort: Sort, exchange: ExchangeId) -> Number {
    stays.put(pool, sort, [0, 0], Some(exchange)).expect("there is room")
}

/// The key of what is at a place now.
fn key_of(stays: &Stays, number: Number) -> Key {
    stays.entries.key_at(number.get() - 1).expect("it is there")
}

#[test]
fn an_exchange_is_its_connection_its_number_and_its_stream() {
    let (pool, mut stays, key) = (pool(), Stays::default(), connections(2)[1]);
    let exchange = |number, stream: Option<u32>| {
        let stream = stream.map(|id| plimsoll_codec::h2::StreamKey { slot: 1, id });
        ExchangeId::new(key, number, stream)
    };
    // The writer of the first request was forgotten, and its connection has gone on.
    put(&mut stays, &pool, Sort::Events, exchange(1, None));
    assert_eq!(stays.find(exchange(2, None)), None, "another request of the connection");
    let second = put(&mut stays, &pool, Sort::Events, exchange(2, None));
    assert_eq!(stays.find(exchange(2, None)), Some((key_of(&stays, second), Stage::Open)));
    assert_eq!(stays.find(exchange(0, Some(2))), None, "a stream with the same number");
    put(&mut stays, &pool, Sort::Tunnel, exchange(0, Some(3)));
    assert_eq!(stays.find(exchange(0, Some(3))), None, "no stream of events");
}

#[test]
fn who_takes_a_place_is_not_told_in_the_place_of_another() {
    let (pool, mut stays, keys) = (pool(), Stays::default(), connections(2));
    for fills in [false, true] {
        let before = put(&mut stays, &pool, Sort::Events, ExchangeId::new(keys[0], 1, None));
        let other = fills.then(|| put(&mut stays, &pool, Sort::Released, ExchangeId::new(keys[1], 1, None)));
        let chosen = stays.open().find(|(_, _, sort)| *sort == Sort::Events).expect("it is open").0;
        // What runs when others are told ends this one, and begins another.
        assert!(stays.take(before).is_some());
        let after = put(&mut stays, &pool, Sort::Events, ExchangeId::new(keys[1], 2, None));
        assert_eq!(before, after, "the same place");
        assert!(stays.tell(chosen, at(1)).is_none());
        assert_eq!(stays.stage(after), Some(Stage::Open));
        other.into_iter().chain([after]).for_each(|number| drop(stays.take(number)));
    }
    assert_eq!(pool.budget().charged_by(plimsoll_pool::Kind::Slots), 0);
}

#[test]
fn those_of_one_bucket_are_found_whoever_of_them_leaves() {
    for leaves in 0..3 {
        let (pool, mut stays, keys) = (pool(), Stays::default(), connections(1));
        let exchange = |number| ExchangeId::new(keys[0], number, None);
        let first = put(&mut stays, &pool, Sort::Events, exchange(0));
        let buckets = stays.buckets.len();
        let is_beside = |number: &u32| exchange(*number).bucket(buckets) == exchange(0).bucket(buckets);
        let beside = (1..)
            .filter(is_beside)
            .take(2)
            .map(|number| (number, put(&mut stays, &pool, Sort::Events, exchange(number))));
        let mut all = vec![(0, first)];
        all.extend(beside.collect::<Vec<_>>());
        let (gone, place) = all.remove(leaves);
        assert!(stays.take(place).is_some());
        assert_eq!(stays.find(exchange(gone)), None);
        for (number, place) in all {
            assert_eq!(stays.find(exchange(number)), Some((key_of(&stays, place), Stage::Open)), "{leaves} has left");
        }
    }
}

#[test]
fn a_few_entries_are_looked_at_for_each_that_is_told_found_and_ended() {
    const MANY: usize = 20_000;
    let (pool, mut stays, keys) = (pool(), Stays::default(), connections(MANY));
    let exchange = |at: usize| ExchangeId::new(keys[at], 7, None);
    let numbers: Vec<_> = (0..MANY).map(|at| put(&mut stays, &pool, Sort::Events, exchange(at))).collect();
    stays.looks.set(0);
    for number in (0..MANY).rev() {
        let (key, stage) = stays.find(exchange(number)).expect("it is there");
        assert_eq!(stage, Stage::Open);
        assert!(stays.tell(key, at(1)).is_some());
        assert_eq!(
            stays.open().next().map(|(key, _, _)| key.index() + 1),
            (number > 0).then(|| numbers[number - 1].get())
        );
    }
    for number in (0..MANY).rev() {
        assert_eq!(stays.first_told(), Some(at(1)));
        assert_eq!(stays.next_unended(at(6), AFTER), Some(exchange(number)), "in the order in which they were told");
    }
    assert_eq!(stays.next_unended(at(6), AFTER), None);
    numbers.into_iter().for_each(|number| drop(stays.take(number)));
    let looks = stays.looks.get() as usize;
    assert!(looks < 12 * MANY, "{looks} looks for {MANY}");
}

/// What the model knows of one.
#[derive(Clone, Debug)]
struct Known {
    number: Number,
    sort: Sort,
    exchange: ExchangeId,
    stage: Stage,
    told_at: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Put { sort: Sort, connection: usize, id: u32 },
    Take(usize),
    Tell(usize),
    End,
}

fn act() -> impl Strategy<Value = Act> {
    let sort = prop_oneof![Just(Sort::Events), Just(Sort::Tunnel), Just(Sort::Released)];
    prop_oneof![
        4 => (sort, 0_usize..40, 0_u32..4).prop_map(|(sort, connection, id)| Act::Put { sort, connection, id }),
        2 => any::<usize>().prop_map(Act::Take),
        3 => any::<usize>().prop_map(Act::Tell),
        1 => Just(Act::End),
    ]
}

proptest! {
    #[test]
    fn it_is_what_a_list_would_be(acts in prop::collection::vec(act(), 1..400)) {
        let (pool, mut stays, keys) = (pool(), Stays::default(), connections(40));
        // In the order in which they came, and in which they were told.
        let (mut known, mut told): (Vec<Known>, Vec<ExchangeId>) = Default::default();
        for (now, act) in (0_u64..).zip(acts) {
            match act {
                Act::Put { sort, connection, id } => {
                    let exchange = ExchangeId::new(keys[connection], id, None);
                    if known.iter().any(|known| known.exchange == exchange) {
                        continue;
                    }
                    let number = put(&mut stays, &pool, sort, exchange);
                    known.push(Known { number, sort, exchange, stage: Stage::Open, told_at: 0 });
                }
                Act::Take(which) if !known.is_empty() => {
                    let gone = known.remove(which % known.len());
                    told.retain(|other| *other != gone.exchange);
                    prop_assert!(stays.take(gone.number).is_some());
                }
                Act::Tell(which) if !known.is_empty() => {
                    let which = which % known.len();
                    let known = &mut known[which];
                    let key = key_of(&stays, known.number);
                    let is_open = known.stage == Stage::Open;
                    prop_assert_eq!(stays.tell(key, at(now)).is_some(), is_open);
                    if is_open {
                        (known.stage, known.told_at) = (Stage::Told, now);
                        told.extend((known.sort == Sort::Events).then_some(known.exchange));
                    }
                }
                Act::End => {
                    let is_due = |exchange: &ExchangeId| {
                        known.iter().any(|known| known.exchange == *exchange && at(now).since(at(known.told_at)) >= AFTER)
                    };
                    let ended = told.first().copied().filter(is_due);
                    prop_assert_eq!(stays.next_unended(at(now), AFTER), ended);
                    if let Some(ended) = ended {
                        told.remove(0);
                        known.iter_mut().filter(|known| known.exchange == ended).for_each(|known| known.stage = Stage::Ended);
                    }
                }
                Act::Take(_) | Act::Tell(_) => {}
            }
            let open: Vec<_> = stays.open().map(|(key, _, sort)| (key.index() + 1, sort)).collect();
            let wanted = known.iter().rev().filter(|known| known.stage == Stage::Open);
            prop_assert_eq!(open, wanted.map(|known| (known.number.get(), known.sort)).collect::<Vec<_>>());
            for known in &known {
                let found = (known.sort == Sort::Events).then(|| (key_of(&stays, known.number), known.stage));
                prop_assert_eq!(stays.find(known.exchange), found);
            }
        }
        known.into_iter().for_each(|known| drop(stays.take(known.number)));
        prop_assert_eq!(pool.budget().charged_by(plimsoll_pool::Kind::Slots), 0);
    }
}
