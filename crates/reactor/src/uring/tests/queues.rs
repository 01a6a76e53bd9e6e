//! Full queues and overflow.
#![forbid(unsafe_code)]

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
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn a_thousand_cancels_go_through_a_queue_of_eight() {
    in_each_mode(TINY, |bench| {
        let (_client, fd) = bench.connection();
        let keys: Vec<Key> =
            (0..1_000).map(|token| bench.submit(Op::Poll { fd, interest: Interest::PeerClosed }, token)).collect();
        bench.settle();
        keys.iter().for_each(|key| bench.driver.cancel(*key));
        for _ in 0..1_000 {
            assert_eq!(bench.completion().result, Err(Errno::CANCELED));
        }
        bench.driver.close_now(fd.owned());
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
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(fd.owned()));
    });
}

#[test]
fn completions_that_overflow_are_kept_by_the_kernel() {
    let mode = ReceiveMode::Classic;
    let Some(bench) = Bench::new(mode, &TINY) else { return };
    let Some(mut uring) = bench.backend(mode, &TINY) else { return };
    let mut slots = Slots::new();
    let nowhere = Number::from_raw(1 << 20);
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
        keys.push(slots.insert(&bench.pool, Op::Poll { fd, interest: Interest::PeerClosed }, Token(token)).unwrap());
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
    bench.driver.close_now(fd.owned());
}

#[test]
fn a_wait_without_an_armed_doorbell_is_short() {
    let Ok(mode) = probe() else { return };
    let Some(bench) = Bench::new(mode, &TINY) else { return };
    let Some(mut uring) = bench.backend(mode, &TINY) else { return };
    // As if the queue had been full, and the kernel behind with completions.
    assert_eq!(uring.bell, Bell::Unarmed);
    assert_eq!(uring.timeout(Wait::Forever, Submitted::All), Timeout::For(RETRY_DELAY));
    assert_eq!(uring.timeout(Wait::No, Submitted::All), Timeout::None);
    uring.arm_bell();
    assert_eq!(uring.bell, Bell::Armed);
    assert_eq!(uring.timeout(Wait::Forever, Submitted::All), Timeout::Unlimited);
    assert_eq!(uring.timeout(Wait::Forever, Submitted::Some), Timeout::For(RETRY_DELAY));
}

/// The kernel is asked once to watch a connection, however often bytes are waited for.
#[test]
fn waits_for_bytes_that_are_received_at_once_are_one_entry() {
    let mode = ReceiveMode::Poll;
    let config = DriverConfig::default();
    let Some(mut bench) = Bench::new(mode, &config) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut uring) = bench.backend(mode, &config) else { return };
    let mut slots = Slots::new();
    let mut entries = Vec::new();
    for token in 0..4 {
        let poll = Op::Poll { fd, interest: Interest::Readable };
        let key = slots.insert(&bench.pool, poll, Token(token)).unwrap();
        uring.start(key, &mut slots);
        entries.push(uring.ring.queued());
        client.write_all(b"bytes").unwrap();
        let raw = loop {
            uring.enter(Wait::Until(sys::now() + Duration::from_secs(5)), &mut slots).unwrap();
            if let Some(raw) = uring.next(&mut slots) {
                break raw;
            }
        };
        assert_eq!((raw.key, raw.result), (key, Ok(0)));
        slots.finish(raw);
        let mut room = [Some(bench.pool.try_acquire(64, Kind::Buffers).unwrap())];
        assert_eq!(uring.receive_now(fd, &mut room, 64), Ok(5));
    }
    assert_eq!(entries, [1, 0, 0, 0]);
    uring.closes(fd, &mut slots);
    uring.enter(Wait::No, &mut slots).unwrap();
    bench.driver.close_now(fd.owned());
}

/// A backend to be driven by hand, and what it has in flight.
struct Bare {
    uring: Uring,
    slots: Slots,
    pool: Pool,
}

impl Bare {
    fn new(bench: &Bench, mode: ReceiveMode) -> Option<Self> {
        let uring = bench.backend(mode, &TINY)?;
        Some(Self { uring, slots: Slots::new(), pool: bench.pool.clone() })
    }

    fn start(&mut self, op: Op<'static>) -> Key {
        let key = self.slots.insert(&self.pool, op, Token(0)).unwrap();
        self.uring.start(key, &mut self.slots);
        key
    }

    /// As the driver does before it closes a descriptor.
    fn close(&mut self, fd: Number) {
        self.uring.closes(fd, &mut self.slots);
        self.uring.close_now(fd);
    }

    fn give_up(&mut self, key: Key) {
        self.slots.get_mut(key).unwrap().state = SlotState::Orphaned;
        self.uring.cancel(key, &mut self.slots);
    }

    /// Turns until nothing is in flight.
    fn settle(&mut self) {
        let deadline = sys::now() + Duration::from_secs(5);
        while self.slots.len() > 0 {
            assert!(sys::now() < deadline, "{} in flight", self.slots.len());
            self.uring.enter(Wait::Until(deadline), &mut self.slots).unwrap();
            while let Some(raw) = self.uring.next(&mut self.slots) {
                self.slots.finish(raw).expect("it was in flight");
            }
        }
    }

    /// Fills the submission queue with entries that the kernel does not take.
    fn stop_taking(&mut self) {
        self.uring.ring.takes_nothing = true;
        let nowhere = Number::from_raw(1 << 20);
        while self.uring.ring.queued() < TINY.entries {
            self.start(Op::Shutdown { fd: nowhere, how: Shutdown::Both });
        }
    }
}

#[test]
fn a_watch_behind_a_full_queue_ends_with_its_descriptor() {
    for is_submitted in [false, true] {
        let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
        let (mut client, fd) = bench.connection();
        let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
        bare.uring.ring.takes_nothing = !is_submitted;
        let receive = bare.start(Op::Receive { fd });
        if is_submitted {
            bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
        }
        bare.stop_taking();
        bare.give_up(receive);
        bare.close(fd);
        assert!(sys::local_address(fd).is_ok(), "an entry in the queue names it, or may do so");
        assert!(bare.uring.submit_backlog(&mut bare.slots) == Submitted::Some, "the wait will be short");

        bare.uring.ring.takes_nothing = false;
        bare.settle();
        assert!(bare.uring.late.is_empty());
        let mut rest = Vec::new();
        assert_eq!(client.read_to_end(&mut rest).unwrap(), 0, "closed, and watched by nobody");
    }
}

/// Whoever has the number by the time the kernel takes the entries.
#[test]
fn a_send_behind_a_full_queue_reaches_nobody_else() {
    let Ok(mode) = probe() else { return };
    let Some(mut bench) = Bench::new(mode, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, mode) else { return };
    bare.uring.ring.takes_nothing = true;
    let send = bare.start(Op::Send { fd, bytes: SendBytes::Static(b"for the first") });
    bare.stop_taking();
    bare.give_up(send);
    bare.close(fd);
    let (mut stranger, other) = bench.connection();
    assert_ne!(fd, other, "the number is not free");
    bare.uring.ring.takes_nothing = false;
    bare.settle();
    bench.driver.close_now(other.owned());
    let (mut for_client, mut for_stranger) = (Vec::new(), Vec::new());
    client.read_to_end(&mut for_client).unwrap();
    stranger.read_to_end(&mut for_stranger).unwrap();
    assert!(for_client.is_empty() || for_client == b"for the first");
    assert_eq!(for_stranger, b"");
}

/// Operations that were not given up before their descriptor was closed, without memory to note which life of the
/// number they belong to.
#[test]
fn what_waits_on_a_closed_descriptor_reaches_nobody_else_without_memory_either() {
    let Ok(mode) = probe() else { return };
    let Some(mut bench) = Bench::new(mode, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let (mut other_client, other) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, mode) else { return };
    let warm = bare.start(Op::Shutdown { fd: Number::from_raw(1 << 20), how: Shutdown::Both });
    bare.give_up(warm);
    bare.settle();
    let lease = bench.room(100);
    let other_lease = bench.room(100);
    let empty = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default()).unwrap();
    let mut held = Vec::new();
    for class in plimsoll_pool::Class::ALL.into_iter().rev() {
        while let Ok(lease) = empty.try_acquire_class(class, Kind::Buffers) {
            held.push(lease);
        }
    }
    bare.uring.watches = Watches::new(&empty);
    let closed = bare.start(Op::ReceiveInto { fd, lease });
    let stays = bare.start(Op::ReceiveInto { fd: other, lease: other_lease });
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    assert!(bare.uring.next(&mut bare.slots).is_none(), "both wait");
    assert_eq!(bare.uring.unknown_lives, UnknownLives::Some);
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    bare.close(fd);
    assert_eq!(bare.uring.unknown_lives, UnknownLives::Some, "one is left");

    let _reset_or_not = client.write_all(b"late");
    other_client.write_all(b"for the other").unwrap();
    let mut ended = Vec::new();
    let deadline = sys::now() + TIMEOUT;
    while ended.len() < 2 {
        assert!(sys::now() < deadline);
        bare.uring.enter(Wait::Until(deadline), &mut bare.slots).unwrap();
        while let Some(raw) = bare.uring.next(&mut bare.slots) {
            ended.push((raw.key, raw.result));
            bare.slots.finish(raw).expect("it was in flight");
        }
    }
    ended.sort_by_key(|(key, _)| *key != closed);
    assert_eq!(ended, [(closed, Err(Errno::CANCELED)), (stays, Ok(13))]);
    bare.close(other);
    assert_eq!(bare.uring.unknown_lives, UnknownLives::None);
}

#[test]
fn what_was_put_off_is_done_at_the_end() {
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let mut connections = bench.connections(120);
    for is_leaked in [false, true] {
        let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
        let charged = bench.budget.charged_by(Kind::Slots);
        let part: Vec<_> = connections.drain(..60).collect();
        let receives: Vec<Key> = part.iter().map(|(_, fd)| bare.start(Op::Receive { fd: *fd })).collect();
        bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
        bare.uring.ring.takes_nothing = true;
        receives.into_iter().for_each(|key| bare.give_up(key));
        part.iter().for_each(|(_, fd)| bare.close(*fd));
        assert!(!bare.uring.late.is_empty());
        assert!(bench.budget.charged_by(Kind::Slots) > charged, "its memory is charged");
        if is_leaked {
            bare.uring.abandon(&mut bare.slots);
            core::mem::forget(bare);
        } else {
            drop(bare);
        }
        for (mut client, _) in part {
            // Not `read`: the kernel interrupts the thread whose ring it takes down.
            assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0, "the peer sees the end");
        }
    }
}

#[test]
fn a_watch_that_could_not_be_begun_leaves_no_page() {
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
    bare.stop_taking();
    // Of what fills the queue.
    let pages = bare.uring.watches.pages_held();
    bare.start(Op::Receive { fd });
    assert_eq!((bare.uring.backlog.len(), bare.uring.watches.pages_held()), (1, pages));
    client.write_all(b"heard").unwrap();
    bare.uring.ring.takes_nothing = false;
    bare.settle();
    assert_eq!(bare.uring.watches.pages_held(), pages + 1);
    bare.close(fd);
    assert_eq!(bare.uring.watches.pages_held(), pages);
}

/// A peer that goes on sending while its handler is slow.
#[test]
fn bytes_that_nobody_asks_for_cost_few_completions() {
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
    for _ in 0..3 {
        client.write_all(b"begin").unwrap();
        bare.start(Op::Receive { fd });
        bare.settle();
        let mut completions = 0;
        for _ in 0..50 {
            client.write_all(b".").unwrap();
            bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
            completions += bare.uring.batch;
            assert!(bare.uring.next(&mut bare.slots).is_none());
        }
        assert!((2..=3).contains(&completions), "two, and the end of the watch: {completions}");
        let (mut heard, deadline) = (0, sys::now() + Duration::from_secs(5));
        while heard < 50 {
            assert!(sys::now() < deadline, "the new watch tells of what is there");
            if bare.slots.len() == 0 {
                bare.start(Op::Receive { fd });
            }
            bare.uring.enter(Wait::Until(deadline), &mut bare.slots).unwrap();
            if let Some(raw) = bare.uring.next(&mut bare.slots) {
                heard += raw.result.unwrap();
                bare.slots.finish(raw);
            }
        }
        assert_eq!(heard, 50);
    }
    bare.close(fd);
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
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
            ring.enter(Timeout::For(Duration::from_micros(100))).unwrap();
        }
    }
}

/// A second one that is queued would be forgotten when the first is tried, and made on the number after a close.
#[test]
fn one_receive_of_a_descriptor_is_queued_at_a_time() {
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
    // More than a receive takes, so that the next one is tried at once.
    client.write_all(&[7; 2 * crate::RECEIVE_BYTES_MAX]).unwrap();
    while sys::poll_now(fd, libc::POLLIN) == Ok(0) {}
    bare.start(Op::Receive { fd });
    bare.settle();
    client.write_all(&[7; 2 * crate::RECEIVE_BYTES_MAX]).unwrap();

    let first = bare.start(Op::Receive { fd });
    let second = bare.start(Op::Receive { fd });
    assert_eq!(bare.uring.readable.len(), 1);
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    let raw = bare.uring.next(&mut bare.slots).expect("it is tried");
    assert_eq!((raw.key, raw.result.is_ok()), (first, true));
    bare.slots.finish(raw);
    bare.give_up(second);
    bare.close(fd);
    assert!(bare.uring.readable.is_empty(), "nothing is made on the number any more");
    bare.settle();
}

#[test]
fn a_receive_that_is_cancelled_in_the_queue_leaves_no_mark() {
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
    client.write_all(&[7; 2 * crate::RECEIVE_BYTES_MAX]).unwrap();
    bare.start(Op::Receive { fd });
    bare.settle();
    client.write_all(&[7; 2 * crate::RECEIVE_BYTES_MAX]).unwrap();
    let receive = bare.start(Op::Receive { fd });
    assert!(bare.uring.watches.is_queued(fd));
    bare.give_up(receive);
    assert!(!bare.uring.watches.is_queued(fd));
    bare.settle();
    bare.close(fd);
}

#[test]
fn a_leaked_ring_leaves_no_descriptor_open() {
    let file = Scratch::new("leaked");
    std::fs::write(&file.0, b"there").unwrap();
    let Some(mut bench) = Bench::new(ReceiveMode::Poll, &TINY) else { return };
    let (mut client, fd) = bench.connection();
    let Some(mut bare) = Bare::new(&bench, ReceiveMode::Poll) else { return };
    let path = bench.path(&file.0);
    bare.start(Op::Open { path, flags: libc::O_RDONLY, mode: 0 });
    // It is opened, and nobody looks.
    let deadline = sys::now() + Duration::from_secs(5);
    while file.descriptors() == 0 {
        assert!(sys::now() < deadline, "it is opened");
        bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    }
    bare.stop_taking();
    bare.start(Op::Close { fd: fd.owned() });
    assert_eq!(bare.uring.backlog.len(), 1);
    bare.uring.abandon(&mut bare.slots);
    core::mem::forget(bare);
    assert_eq!(file.descriptors(), 0, "what was opened is closed");
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0, "what was to be closed is closed");
}
