//! Nodes, the clock and what a world tells of itself.
#![forbid(unsafe_code)]

use core::time::Duration;

use super::{Bench, LATENCY, path};
use crate::fd::Number;
use crate::sim::clock::TURNS_AT_ONE_INSTANT;
use crate::sim::{Census, Fault, Faults, OpKind, SimConfig, Step};
use crate::*;

#[test]
fn the_clock_jumps_exactly_to_deadlines_and_not_at_all_without_a_wait() {
    let mut bench = Bench::clean();
    let start = bench.world.now();
    bench.driver.enter(Wait::No).expect("no wait");
    assert_eq!(bench.driver.now(), start);
    let target = start + Duration::from_nanos(123_456_789_123);
    bench.driver.enter(Wait::Until(target)).expect("a deadline");
    assert_eq!(bench.driver.now(), target);
    bench.driver.enter(Wait::Until(start)).expect("a deadline in the past");
    assert_eq!(bench.driver.now(), target);
    bench.world.advance(Duration::from_secs(1));
    assert_eq!(bench.driver.now(), target + Duration::from_secs(1));
}

#[test]
fn waiting_for_nothing_is_a_deadlock_and_a_doorbell_is_not() {
    let mut bench = Bench::clean();
    assert_eq!(bench.driver.enter(Wait::Forever), Err(Errno(libc::EDEADLK)));
    bench.driver.doorbell().ring();
    let before = bench.world.now();
    bench.driver.enter(Wait::Forever).expect("it was rung");
    assert_eq!(bench.world.now(), before);
    assert_eq!(bench.driver.enter(Wait::Forever), Err(Errno(libc::EDEADLK)), "a ring is heard once");
    let listener = bench.listen("[::1]:80");
    let key = bench.submit(1, Op::Accept { listener });
    assert_eq!(bench.driver.enter(Wait::Forever), Err(Errno(libc::EDEADLK)), "nobody will connect");
    bench.driver.cancel(key);
    assert_eq!(bench.one().result, Err(libc::ECANCELED));
}

#[test]
fn a_program_that_never_waits_is_an_error_at_last() {
    let mut bench = Bench::clean();
    let turns = |bench: &mut Bench| (0..=TURNS_AT_ONE_INSTANT).find_map(|_| bench.driver.enter(Wait::No).err());
    for _ in 0..TURNS_AT_ONE_INSTANT {
        bench.driver.enter(Wait::No).expect("so many are right");
    }
    bench.world.advance(Duration::from_nanos(1));
    assert_eq!(turns(&mut bench), Some(Errno(libc::ELOOP)));
    bench.world.advance(Duration::from_nanos(1));
    bench.driver.enter(Wait::No).expect("time went on");
}

#[test]
fn several_nodes_share_the_clock() {
    let mut bench = Bench::clean();
    let mut other = Driver::simulated(&bench.world, &DriverConfig::default(), &bench.pool).expect("a driver");
    let start = bench.world.now();
    let listener = bench.listen("127.0.0.1:80");
    bench.submit(1, Op::Accept { listener });
    bench.driver.enter(Wait::Forever).expect("it only says that it waits");
    assert_eq!((bench.driver.reap().is_none(), bench.world.now()), (true, start));
    assert_eq!(bench.world.step(), Step::Run(other.node().expect("simulated")), "it has not waited yet");

    let fd = other.socket(SocketKind::Tcp4).expect("a socket");
    let address = other.address("127.0.0.1:80".parse().expect("an address")).expect("below the line");
    assert!(other.submit(Op::Connect { fd: fd.number(), address }, Token(2)).is_ok());
    other.enter(Wait::Until(start + Duration::from_secs(1))).expect("it only says that it waits");
    assert_eq!(bench.world.next_event(), Some(start + LATENCY));
    assert_eq!(bench.world.step(), Step::Advanced(start + LATENCY));
    assert_eq!(bench.world.step(), Step::Run(bench.driver.node().expect("simulated")), "it can accept");
    bench.driver.enter(Wait::No).expect("no wait");
    let accepted = bench.reap();
    assert_eq!((accepted.len(), accepted[0].token), (1, 1));
    bench.driver.enter(Wait::Forever).expect("it only says that it waits");
    assert_eq!(bench.world.step(), Step::Advanced(start + 2 * LATENCY));
    assert_eq!(bench.world.step(), Step::Run(other.node().expect("simulated")), "it is connected");
    other.enter(Wait::Forever).expect("it has a completion");
    assert_eq!(other.reap().map(|done| done.token), Some(Token(2)));
    other.enter(Wait::Until(start + Duration::from_secs(1))).expect("it only says that it waits");
    assert_eq!(bench.world.step(), Step::Advanced(start + Duration::from_secs(1)), "its deadline");
    assert_eq!(bench.world.step(), Step::Run(other.node().expect("simulated")));
    other.enter(Wait::Forever).expect("it only says that it waits");
    assert_eq!(bench.world.step(), Step::Stuck);
    bench.driver.doorbell().ring();
    assert_eq!(bench.world.step(), Step::Run(bench.driver.node().expect("simulated")));
}

#[test]
fn a_node_that_waits_alone_among_several_is_not_held_up() {
    let mut bench = Bench::clean();
    let other = Driver::simulated(&bench.world, &DriverConfig::default(), &bench.pool).expect("a driver");
    let deadline = bench.world.now() + Duration::from_secs(9);
    bench.driver.enter(Wait::Until(deadline)).expect("it only says that it waits");
    assert!(bench.world.now() < deadline);
    bench.driver.enter(Wait::Until(deadline)).expect("nobody else does anything");
    assert_eq!(bench.world.now(), deadline);
    drop(other);
    assert_eq!(bench.world.nodes(), [bench.driver.node().expect("simulated")]);
}

#[test]
fn an_operation_that_outlives_its_driver_is_leaked_and_reported() {
    let mut faults = Faults::clean().with(Fault::SlowFile, 1_000_000);
    faults.slow_max = Duration::from_secs(3600);
    let mut bench = Bench::with(SimConfig::new(3).with_faults(faults));
    let other = Driver::simulated(&bench.world, &DriverConfig::default(), &bench.pool).expect("a driver");
    let lease = path(&bench, "/none");
    bench.submit(1, Op::Open { path: lease, flags: libc::O_RDONLY, mode: 0 });
    bench.driver.enter(Wait::No).expect("it begins");
    let deadline = bench.world.now() + Duration::from_millis(10);
    let report = bench.driver.shutdown(deadline);
    assert_eq!(report.in_flight, 1);
    assert!(report.leaked_bytes > 64 * 1024, "{report:?}");
    assert_eq!(bench.world.nodes(), [other.node().expect("simulated")], "nobody waits for it");
    assert_eq!(bench.world.in_flight(), 0);
}

#[test]
fn received_bytes_that_do_not_fit_wait_for_the_next_turn() {
    let mut bench = Bench::clean();
    let pairs: Vec<(Number, Number)> = (0..5).map(|_| bench.pair()).collect();
    for (at, &(client, _)) in pairs.iter().enumerate() {
        assert_eq!(bench.send(client, &[at as u8; RECEIVE_BYTES_MAX]), Ok(RECEIVE_BYTES_MAX as u32));
        bench.elapse(Duration::from_secs(1));
    }
    for (at, &(_, server)) in pairs.iter().enumerate() {
        bench.submit(at as u32, Op::Receive { fd: server });
    }
    bench.driver.enter(Wait::Forever).expect("all are there");
    let held: Vec<Completion> = core::iter::from_fn(|| bench.driver.reap()).collect();
    assert_eq!(held.len(), 4, "the scratch buffer is full");
    assert!(!bench.driver.has_ready());
    for completion in &held {
        let Payload::Received(received) = &completion.payload else { panic!("bytes") };
        assert!(received.iter().all(|&byte| u32::from(byte) == completion.token.0));
    }
    let until = bench.world.now() + Duration::from_secs(1);
    bench.driver.enter(Wait::Until(until)).expect("it waits while the bytes are lent");
    assert_eq!((bench.driver.reap().is_none(), bench.world.now()), (true, until));
    drop(held);
    assert!(bench.driver.has_ready());
    let last = bench.one();
    assert_eq!((last.token, last.bytes), (4, vec![4; RECEIVE_BYTES_MAX]));
}

#[test]
fn the_trace_tells_the_last_events() {
    let mut bench = Bench::with(SimConfig { trace_events_max: 3, ..SimConfig::new(1) });
    let (client, server) = bench.pair();
    bench.driver.close_now(client.owned());
    bench.driver.close_now(server.owned());
    let lines = bench.world.trace();
    assert_eq!(lines.len(), 3);
    assert!(lines[2].ends_with("closed"), "{lines:?}");
    assert!(format!("{:?}", bench.world).contains("seed: 1"));
    let note = bench.world.kernel().replay_note();
    assert!(note.contains("SimConfig::new(1)") && note.ends_with("closed"), "{note}");
}

#[test]
fn a_census_adds_up() {
    let mut bench = Bench::clean();
    let (client, _) = bench.pair();
    assert_eq!(bench.send(client, b"x"), Ok(1));
    let mut total = Census::default();
    total.add(&bench.world.census());
    total.add(&bench.world.census());
    assert_eq!((total.op(OpKind::Send), total.completed), (2, 4));
    assert_eq!(total.faults_missing().count(), Fault::ALL.len());
    assert!(total.ops_missing().all(|kind| !matches!(kind, OpKind::Send | OpKind::Connect)));
    for (at, fault) in Fault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, at, "chances are found by number");
    }
}

#[test]
fn a_descriptor_that_nobody_was_told_of_is_closed_with_its_driver() {
    let mut faults = Faults::clean().with(Fault::Delayed, 1_000_000);
    faults.delay_max = Duration::from_secs(3600);
    let mut bench = Bench::with(SimConfig::new(4).with_faults(faults));
    bench.world.place_file("/file", Vec::new()).expect("no directory in the way");
    let lease = path(&bench, "/file");
    bench.submit(1, Op::Open { path: lease, flags: libc::O_RDONLY, mode: 0 });
    assert_eq!(bench.elapse(Duration::from_millis(1)), []);
    assert_eq!(bench.world.descriptors().len(), 1, "it is open, but the completion is late");
    let deadline = bench.world.now();
    assert_eq!(bench.driver.shutdown(deadline).in_flight, 1);
    assert_eq!(bench.world.descriptors(), []);
}

#[test]
fn the_hash_sees_when_something_happens() {
    let run = |pause: u64| {
        let bench = Bench::clean();
        bench.world.advance(Duration::from_nanos(pause));
        bench.world.trace_hash()
    };
    assert_eq!(run(1_000), run(1_000));
    assert_ne!(run(1_000), run(1_001));
}
