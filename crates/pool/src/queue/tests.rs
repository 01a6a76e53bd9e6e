//! Properties, beside a model that is a list. Whoever comes, is served or goes away, of whichever name and for however
//! much:
//!
//! * there are never more places than are charged; who is in the queue is in it once, and a key of one that is gone
//!   names nobody;
//! * the next is the one with the lowest tag of those that may be: somebody always is while somebody waits;
//! * within a name, those of one priority are served as they came, and what was begun waits for what is new of its own
//!   name only as far as that was there before and due;
//! * nobody waits for ever: I8.
//!
//! And over bytes that come free a few at a time: while there are enough for the head, somebody is served, so nobody
//! waits in a circle.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Budget, MemoryLimit, PoolConfig};

const PLACES: usize = 16;

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(2)), PoolConfig::default()).expect("room for a pool")
}

fn queue() -> Queue<u32> {
    Queue::new(&pool(), 512, 512)
}

fn next<T>(queue: &Queue<T>) -> Option<PlaceKey> {
    queue.first(|_| true).map(Place::key)
}

/// All that wait, in the order in which they are served.
fn order(queue: &mut Queue<u32>) -> Vec<u32> {
    core::iter::from_fn(|| next(queue).and_then(|key| queue.serve(key))).collect()
}

fn add(queue: &mut Queue<u32>, name: u64, priority: Priority, item: u32) -> PlaceKey {
    queue.add(name, priority, 1, item).expect("a place")
}

#[test]
fn many_of_one_name_cost_another_one_turn() {
    let mut queue = queue();
    let keys: Vec<PlaceKey> = (0..400).map(|item| add(&mut queue, 1, Priority::Head, item)).collect();
    queue.serve(keys[0]);
    for item in 1_000..1_003 {
        add(&mut queue, 2, Priority::Head, item);
    }
    let order = order(&mut queue);
    assert_eq!(&order[..6], &[1, 1_000, 2, 1_001, 3, 1_002]);
    assert_eq!(order.len(), 402);
}

#[test]
fn what_has_begun_goes_first_and_does_not_keep_requests_waiting_for_ever() {
    let mut queue = queue();
    let request = add(&mut queue, 2, Priority::Head, 100);
    let mut served_before = 0;
    for item in 0..50 {
        add(&mut queue, 1, Priority::Output, item);
        let first = next(&queue).expect("somebody waits");
        queue.serve(first);
        if first == request {
            break;
        }
        served_before += 1;
    }
    assert!((1..=4).contains(&served_before), "{served_before} answers before one request");
}

#[test]
fn what_has_begun_does_not_wait_behind_the_requests_of_its_own_name() {
    let mut queue = queue();
    for item in 0..400 {
        add(&mut queue, 1, Priority::Head, item);
    }
    add(&mut queue, 1, Priority::Body, 1_000);
    add(&mut queue, 1, Priority::Output, 1_001);
    let order = order(&mut queue);
    assert_eq!(&order[..4], &[1_001, 1_000, 0, 1]);
}

#[test]
fn places_are_bounded_and_charged_and_a_low_line_has_none() {
    let mut full = queue();
    let keys: Vec<PlaceKey> = (0..512).map(|item| add(&mut full, u64::from(item), Priority::Output, item)).collect();
    assert!(full.is_full() && full.add(1, Priority::Output, 1, 9_999) == Err(9_999));
    assert_eq!((full.remove(keys[3]), full.remove(keys[3])), (Some(3), None));
    let again = add(&mut full, 1, Priority::Output, 9_999);
    assert_eq!((full.get(keys[3]).is_none(), full.get(again).map(|place| *place.item())), (true, Some(9_999)));

    let budget = Budget::new(MemoryLimit::kib(256));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("room for a pool");
    let before = budget.charged();
    let queue = Queue::<usize>::new(&pool, PLACES, 3 * PLACES);
    let of_first = budget.charged() - before;
    assert!(of_first >= (PLACES * size_of::<Place<usize>>()) as u64);
    drop(queue);
    assert_eq!(budget.charged(), before);
    let _rest = pool.charge(Kind::Fixed, budget.limit().as_bytes() - before - of_first).expect("what is left");
    let mut small = Queue::new(&pool, PLACES, 3 * PLACES);
    let keys: Vec<PlaceKey> = (0..PLACES).map(|item| small.add(1, Priority::Head, 1, item).expect("a place")).collect();
    assert_eq!(small.add(1, Priority::Head, 1, PLACES), Err(PLACES), "the line is reached");
    assert_eq!(keys.into_iter().filter_map(|key| small.serve(key)).count(), PLACES);
    let mut none = Queue::new(&pool, PLACES, PLACES);
    assert!(none.add(1, Priority::Output, 1, 1).is_err() && none.is_empty() && next(&none).is_none());
}

#[test]
fn a_queue_that_grew_gives_back_what_it_grew_by_when_it_is_empty() {
    let pool = pool();
    let mut queue = Queue::new(&pool, PLACES, 4 * PLACES);
    let mut left = Vec::new();
    for _ in 0..2 {
        let keys: Vec<PlaceKey> =
            (0..4 * PLACES).map(|item| queue.add(1, Priority::Body, 1, item).expect("a place")).collect();
        assert!(queue.is_full() && queue.add(1, Priority::Body, 1, 0).is_err());
        let full = pool.used_bytes();
        queue.retain(|item| item % 2 == 0);
        assert_eq!(queue.len(), 2 * PLACES);
        assert_eq!(keys.into_iter().filter_map(|key| queue.remove(key)).count(), 2 * PLACES);
        assert_eq!((queue.len(), queue.is_full()), (0, false));
        left.push(pool.used_bytes());
        assert!(full - left[0] >= (3 * PLACES * size_of::<Place<usize>>()) as u64, "three of the steps go back");
    }
    // The first time a class is used, the pool charges for its own books.
    assert_eq!(left[0], left[1]);
}

#[test]
fn the_last_is_that_of_the_heaviest_name() {
    let mut queue = queue();
    for (item, name) in [(0, 1), (1, 2), (2, 3)] {
        add(&mut queue, name, Priority::Head, item);
    }
    let last = |queue: &Queue<u32>, heavy| {
        queue.last(|name| u64::from(name == heavy)).map(|place| (place.name(), *place.item()))
    };
    assert_eq!(last(&queue, 2), Some((2, 1)));
    assert_eq!(last(&queue, 9), Some((3, 2)), "the one that came last");
    add(&mut queue, 1, Priority::Head, 3);
    assert_eq!(last(&queue, 2), Some((1, 3)), "it is behind another of its name");
}

#[test]
fn the_name_with_the_most_gives_a_place_up_for_another() {
    let mut queue = queue();
    for item in 0..512 {
        // Every fourth place is the smaller one's.
        add(&mut queue, if item % 4 == 0 { 1 } else { 2 }, Priority::Head, item);
    }
    let displaced = |queue: &Queue<u32>, name| queue.displaced_by(name, Priority::Head).map(|place| *place.item());
    assert_eq!(displaced(&queue, 2), None, "it has the most itself");
    assert_eq!(displaced(&queue, 3), Some(511), "what would be served last");
    assert_eq!(displaced(&queue, 1), Some(511), "the smaller one of two is still helped");
    // Where all are alike, nobody goes for a newcomer that would be alike.
    let mut equal = self::queue();
    for item in 0..512 {
        add(&mut equal, u64::from(item), Priority::Head, item);
    }
    assert_eq!(displaced(&equal, 9_999), None);
    assert_eq!(displaced(&self::queue(), 1), None, "nobody waits");
}

#[test]
fn what_was_begun_gives_no_place_up_and_gets_that_of_a_request() {
    let mut queue = queue();
    for item in 0..512 {
        add(&mut queue, 1, if item == 7 { Priority::Head } else { Priority::Body }, item);
    }
    assert!(queue.displaced_by(2, Priority::Head).is_none(), "one for one is no gain");
    let displaced = queue.displaced_by(2, Priority::Output).map(Place::key).expect("the one that was not begun");
    assert_eq!(queue.remove(displaced), Some(7));
    add(&mut queue, 2, Priority::Output, 1_000);
    assert!(queue.displaced_by(3, Priority::Body).is_none(), "all were begun");
    assert!(queue.displaced_by(3, Priority::Head).is_none());
}

#[derive(Clone, Debug)]
enum Op {
    Come {
        name: u64,
        priority: usize,
        amount: u64,
    },
    /// The next of those whose name is not this one.
    Serve {
        but: u64,
    },
    Leave(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..5_u64, 0..Priority::COUNT, prop_oneof![3 => Just(1_u64), 1 => 1..40_u64])
            .prop_map(|(name, priority, amount)| Op::Come { name, priority, amount }),
        3 => (0..12_u64).prop_map(|but| Op::Serve { but }),
        1 => any::<usize>().prop_map(Op::Leave),
    ]
}

/// Somebody who waits, as the model knows it.
#[derive(Clone, Debug)]
struct Waits {
    key: PlaceKey,
    name: u64,
    priority: Priority,
    tag: u64,
    /// The tag that was served last when it came.
    came_at: u64,
    /// How often others that came later were served since, and the least that one of them cost, by name and priority.
    passed: BTreeMap<(u64, Priority), (u64, u64)>,
    /// How often requests of its own name were.
    requests: u64,
}

#[derive(Default)]
struct Model {
    waits: Vec<Waits>,
    served: u64,
    came: u32,
}

impl Model {
    fn come(
        &mut self,
        queue: &mut Queue<u32>,
        name: u64,
        priority: Priority,
        amount: u64,
    ) -> Result<(), TestCaseError> {
        let Ok(key) = queue.add(name, priority, amount, self.came) else {
            prop_assert_eq!(self.waits.len(), PLACES, "there is a place while there is one");
            return Ok(());
        };
        self.came += 1;
        let own = self.waits.iter().filter(|other| other.name == name && other.priority <= priority);
        let behind = own.map(|other| other.tag).max().unwrap_or(0).max(self.served);
        let tag = behind + amount * [1, 2, 4][priority as usize];
        let passed = BTreeMap::new();
        self.waits.push(Waits { key, name, priority, tag, came_at: self.served, passed, requests: 0 });
        Ok(())
    }

    fn serve(&mut self, queue: &mut Queue<u32>, but: u64) -> Result<(), TestCaseError> {
        let expected =
            (0..self.waits.len()).filter(|at| self.waits[*at].name != but).min_by_key(|at| self.waits[*at].tag);
        let first = queue.first(|place| place.name() != but).map(Place::key);
        prop_assert_eq!(
            first,
            expected.map(|at| self.waits[at].key),
            "the lowest tag, and of several the one that came first"
        );
        let Some(at) = expected else { return Ok(()) };
        let Waits { key, name, priority, tag, came_at, passed, requests } = self.waits.remove(at);
        prop_assert!(queue.serve(key).is_some() && queue.serve(key).is_none(), "it is there once");
        for ((other, priority), (count, least)) in passed {
            prop_assert!(count <= (tag - came_at) / least, "I8: {count} of {other}, {priority:?} passed");
        }
        let is_begun = priority != Priority::Head;
        prop_assert!(!is_begun || requests <= (tag - came_at) / 4 + 1, "{requests} of its own requests went before it");
        for other in &mut self.waits[at..] {
            prop_assert!((other.name, other.priority) != (name, priority) || other.tag > tag, "as they came");
        }
        // Those who came before it were passed.
        let cost = [1, 2, 4][priority as usize];
        for other in self.waits[..at].iter_mut().filter(|other| other.name != but) {
            let (count, least) = other.passed.entry((name, priority)).or_insert((0, u64::MAX));
            (*count, *least) = (*count + 1, cost.min(*least));
        }
        // What was due before it came is not counted.
        let of_name = self.waits.iter_mut().filter(|other| other.name == name && other.came_at < tag);
        of_name.for_each(|other| other.requests += u64::from(priority == Priority::Head));
        self.served = self.served.max(tag);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_queue_is_the_list_that_it_should_be(ops in vec(op(), 1..120)) {
        let mut queue = Queue::new(&pool(), PLACES / 2, PLACES);
        let mut model = Model::default();
        for op in ops {
            match op {
                Op::Come { name, priority, amount } => model.come(&mut queue, name, Priority::ALL[priority], amount)?,
                Op::Serve { but } => model.serve(&mut queue, but)?,
                Op::Leave(pick) if !model.waits.is_empty() => {
                    let gone = model.waits.remove(pick % model.waits.len());
                    let item = *queue.get(gone.key).expect("it waits").item();
                    match pick / 2 % 2 {
                        0 => prop_assert_eq!(queue.remove(gone.key), Some(item)),
                        _ => queue.retain(|other| *other != item),
                    }
                    prop_assert!(queue.get(gone.key).is_none());
                }
                Op::Leave(_) => {}
            }
            prop_assert_eq!(queue.len(), model.waits.len());
            prop_assert!(queue.len() <= PLACES && queue.iter().count() == queue.len());
            prop_assert_eq!(next(&queue).is_none(), model.waits.is_empty());
            prop_assert_eq!(queue.has_begun(), model.waits.iter().any(|waits| waits.priority != Priority::Head));
            for waits in &model.waits {
                let place = queue.get(waits.key).expect("it waits");
                prop_assert_eq!((place.name(), place.priority(), place.key.tag), (waits.name, waits.priority, waits.tag));
                prop_assert_eq!(queue.count_of(waits.name), model.waits.iter().filter(|other| other.name == waits.name).count());
            }
        }
        while !model.waits.is_empty() {
            model.serve(&mut queue, u64::MAX)?;
        }
        prop_assert!(queue.is_empty());
    }

    /// Whatever comes and goes, each name gets within one turn of its share of those that wait.
    #[test]
    fn turns_are_shared_equally(names in vec(0_u64..4, 1..200)) {
        let mut queue = queue();
        let mut left = [0_i64; 4];
        for (item, name) in names.iter().enumerate() {
            add(&mut queue, *name, Priority::Body, item as u32);
            left[*name as usize] += 1;
        }
        let mut served = [0_i64; 4];
        for item in order(&mut queue) {
            let name = names[item as usize] as usize;
            served[name] += 1;
            left[name] -= 1;
            // Nobody who still waits is more than one turn behind.
            let behind = (0..4).filter(|at| left[*at] > 0).map(|at| served[name] - served[at]).max();
            prop_assert!(behind.unwrap_or(0) <= 1, "{served:?} {left:?}");
        }
        prop_assert_eq!(left, [0; 4]);
    }

    /// Who is served holds bytes until it ends, and needs no more to end: as long as all there are suffice for the
    /// largest, everybody ends.
    #[test]
    fn nobody_waits_in_a_circle(
        needs in vec((0_u64..4, 0..Priority::COUNT, 1_u64..=100), 1..60), more in 0_u64..100, ends in vec(any::<usize>(), 1..20),
    ) {
        let mut queue = Queue::new(&pool(), 512, 512);
        for (at, (name, priority, bytes)) in needs.iter().enumerate() {
            queue.add(*name, Priority::ALL[*priority], *bytes, at).expect("a place");
        }
        let (mut free, mut held, mut ended) = (100 + more, Vec::new(), 0);
        for step in 0.. {
            // The head only, and it alone: what is free is kept for it.
            while let Some((key, at)) = queue.first(|_| true).map(|place| (place.key(), *place.item()))
                && needs[at].2 <= free
            {
                free -= needs[at].2;
                held.extend(queue.serve(key));
            }
            if held.is_empty() {
                break;
            }
            let at: usize = held.swap_remove(ends[step % ends.len()] % held.len());
            free += needs[at].2;
            ended += 1;
        }
        prop_assert_eq!((ended, queue.len()), (needs.len(), 0), "somebody holds something while somebody waits");
    }
}
