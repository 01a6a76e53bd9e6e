//! Properties, over any number of workers: what is given is not lost and not handed out twice; who waits longest is
//! served first; for what lies in its claim a worker was rung, unless it has fetched it. Under loom: in every
//! interleaving, each that waits has its credit or is rung for it.
#![cfg_attr(loom, allow(unused_imports))]

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;
use crate::credit::Credit;
use crate::{Budget, MemoryLimit};

/// A worker: how often it was rung since it last looked, and its flag.
struct Sleeper {
    rings: Arc<AtomicUsize>,
    flag: Arc<Flag>,
}

impl Sleeper {
    fn new(queue: &CreditQueue) -> Self {
        let rings = Arc::<AtomicUsize>::default();
        let rung = Arc::clone(&rings);
        let ring = Arc::new(move || _ = rung.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        Self { rings, flag: queue.join(&Arc::default(), ring) }
    }

    fn rings(&self) -> usize {
        self.rings.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
proptest! {
    #[test]
    fn credit_goes_to_who_waits_longest(
        workers in 1..12_usize,
        limit in 1_u64..10_000,
        ops in prop::collection::vec((0..12_usize, 0..4_u8, 1..3000_u64), 1..80),
    ) {
        let (queue, line) = (CreditQueue::default(), Line::new(limit));
        let sleepers: Vec<Sleeper> = (0..workers).map(|_| Sleeper::new(&queue)).collect();
        let mut held = vec![0_u64; workers];
        let mut needs = vec![0_u64; workers];
        let mut since = vec![0_u64; workers];
        for (turn, (worker, what, bytes)) in ops.into_iter().enumerate() {
            let worker = worker % workers;
            let sleeper = &sleepers[worker];
            match what {
                0 => held[worker] += line.take_up_to(bytes).unwrap_or(0),
                1 => {
                    let given = held[worker].min(bytes);
                    held[worker] -= given;
                    queue.give(given, &line);
                }
                2 => {
                    if needs[worker] == 0 {
                        since[worker] = turn as u64;
                    }
                    needs[worker] = bytes;
                    held[worker] += queue.state(&sleeper.flag, bytes, since[worker], &line);
                    sleeper.rings.store(0, std::sync::atomic::Ordering::Relaxed);
                }
                _ => {
                    needs[worker] = 0;
                    held[worker] += queue.state(&sleeper.flag, 0, 0, &line);
                    sleeper.rings.store(0, std::sync::atomic::Ordering::Relaxed);
                }
            }
            let claims: Vec<(u64, u64)> = queue.claims().iter().map(|claim| (claim.need_bytes, claim.handed_bytes)).collect();
            for worker in 0..workers {
                prop_assert!(claims[worker].0 <= needs[worker]);
                needs[worker] = claims[worker].0;
                let sleeper = &sleepers[worker];
                prop_assert!(sleeper.flag.is_raised() || claims[worker].1 == 0, "who has something sees it");
                prop_assert!(sleeper.rings() > 0 || claims[worker].1 == 0, "who has something is rung");
            }
            prop_assert_eq!(held.iter().sum::<u64>() + claims.iter().map(|claim| claim.1).sum::<u64>(), line.credited(), "I1");
            prop_assert!(line.credited() <= limit);
            prop_assert_eq!(queue.is_any(), needs.iter().any(|need| *need > 0));
            prop_assert!(!queue.is_any() || line.credited() == limit, "nobody waits while the line has credit");
        }
        for (worker, sleeper) in sleepers.iter().enumerate() {
            queue.leave(&sleeper.flag, &line);
            queue.give(held[worker], &line);
        }
        prop_assert_eq!(line.credited(), 0);
    }
}

/// All of them wait when the whole line comes back at once.
#[cfg(not(loom))]
#[test]
fn each_of_many_waiting_workers_is_rung() {
    for workers in [1, 2, 4, 5, 8, 9, 64, 65, 300] {
        let (queue, line) = (CreditQueue::default(), Line::new(8 * workers));
        assert_eq!(line.take(8 * workers, 8 * workers), Some(8 * workers));
        let sleepers: Vec<Sleeper> = (0..workers).map(|_| Sleeper::new(&queue)).collect();
        for (since, sleeper) in sleepers.iter().enumerate() {
            assert_eq!(queue.state(&sleeper.flag, 7, since as u64, &line), 0, "there is nothing");
            sleepers.iter().for_each(|sleeper| sleeper.rings.store(0, std::sync::atomic::Ordering::Relaxed));
        }
        queue.give(8 * workers, &line);
        for sleeper in &sleepers {
            assert_eq!(sleeper.rings(), 1, "rung once, of {workers}");
            assert_eq!(queue.fetch(&sleeper.flag), 7, "what it was rung for, of {workers}");
        }
        assert!(!queue.is_any());
        assert_eq!(line.credited(), 7 * workers, "the rest is back");
    }
}

#[cfg(not(loom))]
#[test]
fn who_serves_others_rings_them_and_not_itself() {
    let (queue, line) = (CreditQueue::default(), Line::new(30));
    let [first, second] = [0; 2].map(|_| Sleeper::new(&queue));
    assert_eq!((queue.state(&first.flag, 10, 1, &line), first.rings(), second.rings()), (10, 0, 0));
    assert!(!queue.is_any() && queue.need_bytes() == 0);
    assert_eq!(line.take(20, 20), Some(20));
    assert_eq!(queue.state(&first.flag, 12, 2, &line), 0);
    assert_eq!((queue.is_any(), queue.need_bytes(), second.rings()), (true, 12, 1), "it may have something to give");
    assert!(queue.is_longest(&first.flag) && !queue.is_longest(&second.flag));
    // What comes back past the claims is found by the next who needs some, for those first who waited before.
    line.give(15);
    assert_eq!(queue.state(&second.flag, 7, 3, &line), 3);
    assert_eq!((first.rings(), second.rings()), (2, 1), "served, and asked for more; its own bell is silent");
    assert_eq!((queue.fetch(&first.flag), queue.fetch(&first.flag)), (12, 0));
    assert!(queue.is_longest(&second.flag) && queue.need_bytes() == 4);
    // Who leaves takes neither its need nor what lies in its claim along.
    assert_eq!(queue.state(&first.flag, 5, 4, &line), 0);
    queue.give(6, &line);
    assert_eq!((first.rings(), queue.need_bytes()), (3, 3), "4 for the other, which waits longer, 2 for it");
    queue.leave(&first.flag, &line);
    assert!(!queue.is_any() && queue.is_longest(&second.flag));
    assert_eq!((line.credited(), queue.fetch(&second.flag)), (28, 4));
    queue.leave(&first.flag, &line);
    assert_eq!(line.credited(), 28, "it has left already");
}

#[cfg(not(loom))]
#[test]
fn who_leaves_without_a_need_leaves_those_of_the_others() {
    let (queue, line) = (CreditQueue::default(), Line::new(10));
    let [served, waiting] = [0; 2].map(|_| Sleeper::new(&queue));
    assert_eq!(line.take(10, 10), Some(10));
    assert_eq!(queue.state(&waiting.flag, 4, 1, &line), 0);
    queue.leave(&served.flag, &line);
    assert_eq!((queue.is_any(), queue.need_bytes()), (true, 4));
    queue.give(10, &line);
    assert_eq!((queue.fetch(&waiting.flag), queue.is_any(), line.credited()), (4, false, 4));
    queue.leave(&waiting.flag, &line);
    assert!(!queue.is_any());
}

/// Each look at a claim takes the lock, so whoever has looked does so again only for something new.
#[cfg(not(loom))]
#[test]
fn a_flag_is_down_when_its_worker_has_looked() {
    let (queue, line) = (CreditQueue::default(), Line::new(10));
    let worker = Sleeper::new(&queue);
    assert!(!worker.flag.is_raised());
    assert_eq!((queue.state(&worker.flag, 6, 1, &line), worker.flag.is_raised()), (6, false), "what it served itself");
    assert_eq!((queue.state(&worker.flag, 6, 2, &line), worker.flag.is_raised()), (4, false));
    queue.give(10, &line);
    assert!(worker.flag.is_raised());
    assert_eq!((queue.fetch(&worker.flag), worker.flag.is_raised()), (2, false));
}

#[cfg(not(loom))]
#[test]
fn whoever_has_most_free_memory_is_asked_once() {
    let budget = Budget::new(MemoryLimit::mib(4));
    let (queue, line) = (CreditQueue::default(), Line::new(0));
    let rings = [0; 3].map(|_| Arc::<AtomicUsize>::default());
    let credits = rings.each_ref().map(|_| Credit::open(&budget, 3));
    let flags: [Arc<Flag>; 3] = core::array::from_fn(|at| {
        let rung = Arc::clone(&rings[at]);
        queue.join(credits[at].account(), Arc::new(move || _ = rung.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
    });
    let rung = || rings.each_ref().map(|rings| rings.load(std::sync::atomic::Ordering::Relaxed));
    // Free pages of one, unused credit of another, and the one that waits has more than both.
    credits[0].adopt(9_000);
    credits[1].adopt(2_000);
    credits[1].charge(2_000).expect("it has credit");
    credits[2].adopt(1_500);
    queue.state(&flags[0], 10, 1, &line);
    assert_eq!((rung(), flags[1].is_raised(), flags[2].is_raised()), ([0, 1, 0], true, false));
    queue.state(&flags[0], 20, 1, &line);
    assert_eq!(rung(), [0, 1, 0], "it knows");
    queue.state(&flags[0], 0, 0, &line);
    credits[1].begin_use(crate::Kind::Buffers, 1_000);
    queue.state(&flags[0], 10, 2, &line);
    assert_eq!(rung(), [0, 1, 1], "1,000 free there, 1,500 unused here");
}

#[cfg(not(loom))]
#[test]
fn who_watches_is_rung_when_the_line_has_enough_and_nobody_waits() {
    let (queue, line) = (CreditQueue::default(), Line::new(30));
    let [watching, larger, waiting_one] = [0; 3].map(|_| Sleeper::new(&queue));
    assert_eq!(line.take(30, 30), Some(30));
    queue.watch(&watching.flag, 10);
    queue.watch(&larger.flag, 15);
    let rings = || (watching.rings(), larger.rings());
    queue.give(9, &line);
    assert_eq!(rings(), (0, 0), "too little");
    assert_eq!(queue.state(&waiting_one.flag, 12, 1, &line), 9, "it goes first");
    // Who has most was asked for some.
    [&watching, &larger].into_iter().for_each(|sleeper| sleeper.rings.store(0, std::sync::atomic::Ordering::Relaxed));
    queue.give(12, &line);
    assert_eq!((queue.fetch(&waiting_one.flag), rings()), (3, (0, 0)));
    queue.give(1, &line);
    assert_eq!(rings(), (1, 0));
    queue.give(5, &line);
    assert_eq!((rings(), line.credited()), ((2, 1), 15), "what it was rung for is the line's still");
    queue.watch(&watching.flag, 0);
    queue.leave(&larger.flag, &line);
    queue.give(15, &line);
    assert_eq!(rings(), (2, 1), "nobody watches");
}

/// One says that it watches, and looks at the line, while what it watches for comes back.
#[cfg(loom)]
#[test]
fn loom_who_watches_sees_what_comes_back_or_is_rung() {
    loom::model(|| {
        let (line, queue) = (Arc::new(Line::new(8)), Arc::new(CreditQueue::default()));
        assert_eq!(line.take(8, 8), Some(8));
        let watching = Sleeper::new(&queue);
        let giver = {
            let (line, queue) = (Arc::clone(&line), Arc::clone(&queue));
            loom::thread::spawn(move || queue.give(8, &line))
        };
        queue.watch(&watching.flag, 8);
        let sees = line.free() == 8;
        giver.join().unwrap();
        assert!(sees || watching.rings() > 0, "no wake-up is lost");
    });
}

/// So many have stated their need and sleep; one more states it while the credit of all of them comes back.
#[cfg(loom)]
fn credit_reaches_every_waiting_worker(asleep: u64) {
    loom::model(move || {
        let bytes = 6 * (asleep + 1) + 2;
        let line = Arc::new(Line::new(bytes));
        assert_eq!(line.take(bytes, bytes), Some(bytes));
        let queue = Arc::new(CreditQueue::default());
        let sleepers: Vec<Sleeper> = (0..asleep).map(|_| Sleeper::new(&queue)).collect();
        for (since, sleeper) in sleepers.iter().enumerate() {
            assert_eq!(queue.state(&sleeper.flag, 6, since as u64, &line), 0);
            sleepers.iter().for_each(|sleeper| sleeper.rings.store(0, std::sync::atomic::Ordering::Relaxed));
        }
        let last = Sleeper::new(&queue);
        let giver = {
            let (line, queue) = (Arc::clone(&line), Arc::clone(&queue));
            loom::thread::spawn(move || queue.give(bytes, &line))
        };
        let at_once = queue.state(&last.flag, 6, asleep, &line);
        giver.join().unwrap();
        assert!(at_once == 6 || last.rings() > 0, "who sleeps is rung");
        assert_eq!(at_once + queue.fetch(&last.flag), 6, "no wake-up is lost");
        for sleeper in &sleepers {
            assert!(sleeper.rings() > 0, "who sleeps is rung");
            assert_eq!(queue.fetch(&sleeper.flag), 6, "no wake-up is lost");
        }
        assert_eq!(line.credited(), 6 * (asleep + 1), "the rest is back");
        assert!(!queue.is_any());
    });
}

#[cfg(loom)]
#[test]
fn loom_credit_reaches_the_waiting_worker() {
    credit_reaches_every_waiting_worker(0);
}

#[cfg(loom)]
#[test]
fn loom_credit_reaches_two_waiting_workers() {
    credit_reaches_every_waiting_worker(1);
}

/// More than any number of places that a list of doorbells had.
#[cfg(loom)]
#[test]
fn loom_credit_reaches_six_waiting_workers() {
    credit_reaches_every_waiting_worker(5);
}

#[cfg(loom)]
#[test]
fn loom_two_waiting_workers_share_what_comes_back() {
    loom::model(|| {
        let line = Arc::new(Line::new(4));
        let queue = Arc::new(CreditQueue::default());
        let first = queue.join(&Arc::default(), Arc::new(|| ()));
        let second = queue.join(&Arc::default(), Arc::new(|| ()));
        assert_eq!(line.take(4, 4), Some(4));
        let other = {
            let (line, queue, second) = (Arc::clone(&line), Arc::clone(&queue), Arc::clone(&second));
            loom::thread::spawn(move || {
                let got = queue.state(&second, 2, 2, &line);
                queue.give(4, &line);
                got
            })
        };
        let got = queue.state(&first, 2, 1, &line);
        let others = other.join().unwrap();
        assert_eq!(got + queue.fetch(&first), 2);
        assert_eq!(others + queue.fetch(&second), 2);
        assert_eq!(line.credited(), 4);
    });
}
