//! Whoever comes while others publish. With `--cfg loom`, every interleaving of small programs:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-http --lib loom`.
//!
//! * A member gets every message from the one on that it was told of, each once, in the encoding that it takes.
//! * A subscription gets every message in the encoding that it takes, without a gap from its first to the last.

use ::core::task::{Context, Poll, Waker};
use std::sync::Arc as StdArc;

use plimsoll_pool::{Budget, MemoryLimit};

use super::super::port::{Port, Taken, Wants};
use super::super::post::Formats;
use super::super::queue::{Bounds, SlowConsumer, Weigh};
use super::super::sync::{Mutex, lock};
use super::{Origin, Roster, Takes};

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(not(loom))]
use std::{sync::Arc, thread};

const BOUNDS: Bounds = Bounds { messages_max: 65_536, bytes_max: 65_536, policy: SlowConsumer::Close };

#[derive(Clone, Copy, Debug)]
struct Item {
    number: u64,
    formats: Formats,
}

impl Weigh for Item {
    fn weight_bytes(&self) -> u64 {
        1
    }
}

/// Publishes so many, as a hub does: encoded before the lock is taken, and again if somebody came who takes the other
/// encoding.
fn publish(roster: &Mutex<Roster<Item>>, count: u64, budget: &StdArc<Budget>) {
    for _ in 0..count {
        let mut formats = lock(roster).formats();
        loop {
            let mut state = lock(roster);
            let now = state.formats();
            if (now.frame && !formats.frame) || (now.events && !formats.events) {
                formats = now;
                continue;
            }
            state.post(
                Origin::Here,
                |number| Item { number, formats },
                |port, item| {
                    port.push(item, &BOUNDS, budget);
                },
            );
            break;
        }
    }
}

/// All that is there.
fn read(port: &Port<Item>) -> Vec<Item> {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut items = Vec::new();
    while let Poll::Ready(Taken::Item(item)) = port.poll(cx) {
        items.push(item);
    }
    items
}

/// A member and a subscription come while `count` messages are published.
fn race(count: u64) {
    let budget = Budget::new(MemoryLimit::mib(8));
    let roster = Arc::new(Mutex::new(Roster::new()));
    let publisher = {
        let (roster, budget) = (Arc::clone(&roster), StdArc::clone(&budget));
        thread::spawn(move || publish(&roster, count, &budget))
    };
    let (_, port) = lock(&roster).open(None, Wants::All);
    let joined = lock(&roster).join(Takes::Frames, 1).expect("the first");
    let (_, own) = lock(&roster).open(Some(Takes::Events), Wants::All);
    publisher.join().expect("no panic");
    assert_eq!(lock(&roster).join(Takes::Frames, 1), None, "one too many");
    let for_member: Vec<Item> = read(&port).into_iter().filter(|item| item.number >= joined.since).collect();
    let numbers: Vec<u64> = for_member.iter().map(|item| item.number).collect();
    assert_eq!(numbers, (joined.since..=count).collect::<Vec<_>>(), "each once");
    assert!(for_member.iter().all(|item| item.formats.frame), "{for_member:?}");
    let subscribed = read(&own);
    let first = subscribed.first().map_or(count + 1, |item| item.number);
    let numbers: Vec<u64> = subscribed.iter().map(|item| item.number).collect();
    assert_eq!(numbers, (first..=count).collect::<Vec<_>>(), "no gap");
    assert!(subscribed.iter().all(|item| item.formats.events), "{subscribed:?}");
}

#[cfg(not(loom))]
#[test]
fn nobody_who_comes_misses_a_message_or_gets_it_in_the_wrong_encoding() {
    for _ in 0..200 {
        race(100);
    }
}

#[cfg(loom)]
#[test]
fn loom_a_join_and_a_publisher() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| race(2));
}
