//! Full queues, overflow, and the list of operations against a model.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::slots::{Finished, SlotState};
use crate::uring::ring::Setup;

const TINY: DriverConfig = DriverConfig { entries: 8, receive_buffers: 1, drop_deadline: Duration::from_secs(1) };

#[test]
fn a_thousand_operations_go_through_a_queue_of_eight() {
    in_each_mode(TINY, |bench| {
        let (_client, fd) = bench.connection();
        // Nothing is reaped meanwhile: the completion queue has 32 places.
        for token in 0..1_000 {
            bench.submit(Op::Poll { fd, interest: Interest::Writable }, token);
        }
        let mut seen = vec![false; 1_000];
        for _ in 0..1_000 {
            let completion = bench.completion();
            assert_eq!(completion.result, Ok(0));
            assert!(!core::mem::replace(&mut seen[completion.token.0 as usize], true), "once each");
        }
        assert_eq!(bench.driver.in_flight(), 0);
        bench.driver.close_now(fd);
    });
}

#[test]
fn a_thousand_cancels_go_through_a_queue_of_eight() {
    in_each_mode(TINY, |bench| {
        let (_client, fd) = bench.connection();
        let keys: Vec<Key> =
            (0..1_000).map(|token| bench.submit(Op::Poll { fd, interest: Interest::Readable }, token)).collect();
        bench.settle();
        keys.iter().for_each(|key| bench.driver.cancel(*key));
        for _ in 0..1_000 {
            assert_eq!(bench.completion().result, Err(Errno::CANCELED));
        }
        bench.driver.close_now(fd);
    });
}

#[test]
fn receives_of_many_connections_go_through_a_queue_of_eight() {
    in_each_mode(TINY, |bench| {
        let mut connections = bench.connections(200);
        for round in 0..3 {
            for (index, (_, fd)) in connections.iter().enumerate() {
                bench.submit(Op::Receive { fd: *fd }, index as u32);
            }
            for (index, (client, _)) in connections.iter_mut().enumerate() {
                client.write_all(format!("{round} {index}").as_bytes()).unwrap();
            }
            for _ in 0..connections.len() {
                let completion = bench.completion();
                assert_eq!(received(&completion), format!("{round} {}", completion.token.0).as_bytes());
            }
        }
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(*fd));
    });
}

#[test]
fn completions_that_overflow_are_kept_by_the_kernel() {
    let mode = ReceiveMode::Classic;
    let Some(bench) = Bench::new(mode, &TINY) else { return };
    let Some(mut uring) = bench.backend(mode, &TINY) else { return };
    let mut slots = Slots::new();
    let nowhere = Fd::from_raw(1 << 20);
    for _ in 0..500 {
        let key = slots.insert(&bench.pool, Op::Shutdown { fd: nowhere, how: Shutdown::Both }, Token(0)).unwrap();
        uring.start(key, &mut slots);
    }
    uring.enter(Wait::No, &mut slots).unwrap();
    assert!(uring.ring.is_overflown(), "500 do not fit into 32");
    let mut seen = 0;
    while seen < 500 {
        uring.enter(Wait::No, &mut slots).unwrap();
        assert!(uring.has_ready());
        while let Some(raw) = uring.next(&mut slots) {
            assert_eq!(raw.result, Err(Errno(libc::EBADF)));
            assert!(slots.finish(raw).is_some());
            seen += 1;
        }
    }
    assert_eq!(slots.len(), 0);
}

#[test]
fn a_full_queue_keeps_the_order_of_operations_and_of_cancels() {
    let Ok(mode) = probe() else { return };
    let Some(mut bench) = Bench::new(mode, &TINY) else { return };
    let (_client, fd) = bench.connection();
    let Some(mut uring) = bench.backend(mode, &TINY) else { return };
    let mut slots = Slots::new();
    let mut keys = Vec::new();
    for token in 0..6 {
        keys.push(slots.insert(&bench.pool, Op::Poll { fd, interest: Interest::Readable }, Token(token)).unwrap());
    }
    // As if the kernel had taken no entry: the first is with it, the others wait behind it.
    uring.start(keys[0], &mut slots);
    uring.enter(Wait::No, &mut slots).unwrap();
    for key in &keys[1..] {
        uring.backlog.push(&mut slots, key.index());
    }
    slots.get_mut(keys[2]).unwrap().state = SlotState::Cancelling;
    uring.cancel(keys[2], &mut slots);
    assert_eq!(uring.backlog.len(), 4);
    assert!(uring.has_ready());
    let raw = uring.next(&mut slots).unwrap();
    assert_eq!((raw.key, raw.result), (keys[2], Err(Errno::CANCELED)));
    slots.finish(raw);

    // A cancel that waits is forgotten when its operation ends first.
    uring.cancels.push(&mut slots, keys[0].index());
    uring.enter(Wait::No, &mut slots).unwrap();
    assert!(uring.backlog.is_empty() && uring.cancels.is_empty());
    for key in [keys[1], keys[3], keys[4], keys[5]] {
        slots.get_mut(key).unwrap().state = SlotState::Cancelling;
        uring.cancel(key, &mut slots);
    }
    let mut ended = Vec::new();
    while ended.len() < 5 {
        uring.enter(Wait::Until(sys::now() + Duration::from_secs(1)), &mut slots).unwrap();
        while let Some(raw) = uring.next(&mut slots) {
            assert_eq!(raw.result, Err(Errno::CANCELED));
            ended.push(raw.key);
            slots.finish(raw);
        }
    }
    assert_eq!(ended, [keys[0], keys[1], keys[3], keys[4], keys[5]]);
    bench.driver.close_now(fd);
}

#[test]
fn a_wait_without_an_armed_doorbell_is_short() {
    let Ok(mode) = probe() else { return };
    let Some(bench) = Bench::new(mode, &TINY) else { return };
    let Some(mut uring) = bench.backend(mode, &TINY) else { return };
    // As if the queue had been full, and the kernel behind with completions.
    assert_eq!(uring.bell, Bell::Unarmed);
    assert_eq!(uring.patience(Wait::Forever, Submitted::All), Patience::For(RETRY_DELAY));
    assert_eq!(uring.patience(Wait::No, Submitted::All), Patience::None);
    uring.arm_bell();
    assert_eq!(uring.bell, Bell::Armed);
    assert_eq!(uring.patience(Wait::Forever, Submitted::All), Patience::Unlimited);
    assert_eq!(uring.patience(Wait::Forever, Submitted::Some), Patience::For(RETRY_DELAY));
}

#[test]
fn older_kernels_get_a_simpler_ring_that_works_all_the_same() {
    for rung in 0..Setup::LADDER.len() {
        let Ok(mode) = probe() else { return };
        let Some(mut bench) = Bench::new(mode, &TINY) else { return };
        let mut connections = bench.connections(50);
        let ring = Ring::on_ladder(&Setup::LADDER[rung..], 8, bench.pool.budget());
        let Some(ring) = available(ring) else { return };
        assert_eq!(ring.is_deferred(), rung < 2);
        let uring = Uring::with_ring(ring, mode, &TINY, &bench.pool, bench.driver.doorbell());
        let Some(mut uring) = available(uring) else { return };
        assert!(rung < 2 || !uring.receiver.is_shared(), "sharing needs a kernel that waits until it is asked");
        let mut slots = Slots::new();
        for (index, (_, fd)) in connections.iter().enumerate() {
            let key = slots.insert(&bench.pool, Op::Receive { fd: *fd }, Token(index as u32)).unwrap();
            uring.start(key, &mut slots);
        }
        uring.enter(Wait::No, &mut slots).unwrap();
        for (index, (client, _)) in connections.iter_mut().enumerate() {
            client.write_all(format!("{index} on rung {rung}").as_bytes()).unwrap();
        }
        let deadline = sys::now() + Duration::from_secs(5);
        while slots.len() > 0 {
            assert!(sys::now() < deadline, "{} left on rung {rung}", slots.len());
            uring.enter(Wait::Until(deadline), &mut slots).unwrap();
            while let Some(raw) = uring.next(&mut slots) {
                let Some(Finished::Completed(completion)) = slots.finish(raw) else { panic!("nothing was orphaned") };
                assert_eq!(received(&completion), format!("{} on rung {rung}", completion.token.0).as_bytes());
            }
        }
        connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
    }
}

#[test]
fn a_thread_may_have_more_rings_than_it_can_register() {
    /// The kernel's limit.
    const REGISTERED_MAX: usize = 16;
    let Ok(mode) = probe() else { return };
    let Some(bench) = Bench::new(mode, &TINY) else { return };
    for _ in 0..3 {
        let rings: Result<Vec<Ring>, Error> = (0..20).map(|_| Ring::new(8, bench.pool.budget())).collect();
        let Some(mut rings) = available(rings) else { return };
        let registered = rings.iter().filter(|ring| ring.is_registered()).count();
        assert_eq!(registered, REGISTERED_MAX - 1, "the driver has one, and dropped rings give theirs back");
        for ring in &mut rings {
            ring.enter(Patience::For(Duration::from_micros(100))).unwrap();
        }
    }
}

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
    fn a_list_of_operations_is_a_queue(steps in prop::collection::vec(step(), 1..80)) {
        let budget = Budget::new(MemoryLimit::mib(4));
        let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
        let mut slots = Slots::new();
        let keys: Vec<Key> = (0..32)
            .map(|token| slots.insert(&pool, Op::Close { fd: Fd::from_raw(1) }, Token(token)).unwrap())
            .collect();
        let (mut queue, mut model) = (Queue::default(), VecDeque::new());
        for step in steps {
            match step {
                Step::Push(at) if !model.contains(&keys[at]) => {
                    queue.push(&mut slots, keys[at].index());
                    model.push_back(keys[at]);
                }
                Step::Push(_) => {}
                Step::Pop => prop_assert_eq!(queue.pop(&mut slots), model.pop_front()),
                Step::Remove(at) => {
                    let listed = model.contains(&keys[at]);
                    model.retain(|key| *key != keys[at]);
                    prop_assert_eq!(queue.remove(&mut slots, keys[at].index()), listed);
                }
                Step::RetainEven => {
                    let mut removed = Vec::new();
                    queue.retain(&mut slots, |index, _| index % 2 == 0, |_, index| removed.push(index));
                    let odd: Vec<u32> = model.iter().map(|key| key.index()).filter(|index| index % 2 == 1).collect();
                    model.retain(|key| key.index() % 2 == 0);
                    prop_assert_eq!(removed, odd);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.first(), model.front().map(|key| key.index()));
            for key in &keys {
                prop_assert_eq!(queue::is_listed(slots.get(*key).unwrap()), model.contains(key));
            }
        }
    }
}
