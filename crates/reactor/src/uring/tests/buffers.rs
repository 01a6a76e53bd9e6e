//! Shared receive buffers: right bytes to the right receive, blocked receives in order, storms, astray buffers.
#![forbid(unsafe_code)]

use super::*;
use crate::slots::Finished;

/// The byte at an offset of what a connection sends.
fn byte_at(connection: usize, offset: usize) -> u8 {
    let mixed = (connection as u64 * 0x9e37_79b9 + offset as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as u8
}

fn assert_stream(connection: usize, offset: usize, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(*byte, byte_at(connection, offset + at), "connection {connection}, offset {}", offset + at);
    }
}

/// One connection of a test that streams.
struct Stream {
    client: TcpStream,
    fd: Number,
    sent: usize,
    got: usize,
}

/// Received bytes that somebody has not let go of yet.
struct Held {
    stream: usize,
    offset: usize,
    until_round: usize,
    completion: Completion,
}

#[test]
fn many_connections_interleave_in_few_buffers_while_bytes_are_held() {
    const STREAM_BYTES: usize = 12_000;
    for receive_buffers in [1, 4] {
        in_each_mode(DriverConfig { receive_buffers, ..DriverConfig::default() }, |bench| {
            let mut dice = Dice(u64::from(receive_buffers));
            let mut streams: Vec<Stream> =
                bench.connections(64).into_iter().map(|(client, fd)| Stream { client, fd, sent: 0, got: 0 }).collect();
            for (index, stream) in streams.iter().enumerate() {
                bench.submit(Op::Receive { fd: stream.fd }, index as u32);
            }
            let mut held: Vec<Held> = Vec::new();
            let mut round = 0;
            while streams.iter().any(|stream| stream.got < STREAM_BYTES) {
                round += 1;
                assert!(round < 20_000, "it goes on");
                for _ in 0..dice.roll(8) {
                    let index = dice.roll(streams.len());
                    let stream = &mut streams[index];
                    let len = (1 + dice.roll(3_000)).min(STREAM_BYTES - stream.sent);
                    let bytes: Vec<u8> = (stream.sent..stream.sent + len).map(|at| byte_at(index, at)).collect();
                    stream.client.write_all(&bytes).unwrap();
                    stream.sent += len;
                }
                bench.driver.enter(Wait::Until(sys::now() + Duration::from_micros(200))).unwrap();
                while let Some(completion) = bench.driver.reap() {
                    let index = completion.token.0 as usize;
                    let stream = &mut streams[index];
                    assert_stream(index, stream.got, received(&completion));
                    let until_round = round + dice.roll(4);
                    let len = received(&completion).len();
                    held.push(Held { stream: index, offset: stream.got, until_round, completion });
                    stream.got += len;
                    let fd = stream.fd;
                    if stream.got < STREAM_BYTES {
                        bench.submit(Op::Receive { fd }, index as u32);
                    }
                }
                // What is held has not changed meanwhile, whatever came in behind it.
                for held in &held {
                    assert_stream(held.stream, held.offset, received(&held.completion));
                }
                held.retain(|held| held.until_round > round);
            }
            for stream in streams {
                bench.driver.close_now(stream.fd.owned());
            }
        });
    }
}

#[test]
fn small_messages_of_many_connections_lie_back_to_back() {
    if probe::attempt(ReceiveMode::Incremental).is_err() {
        return;
    }
    in_mode(ReceiveMode::Incremental, DriverConfig::default(), |bench| {
        let mut connections = bench.connections(200);
        for (index, (_, fd)) in connections.iter().enumerate() {
            bench.submit(Op::Receive { fd: *fd }, index as u32);
        }
        bench.settle();
        for (client, _) in &mut connections {
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        }
        let answers: Vec<Completion> = (0..connections.len()).map(|_| bench.completion()).collect();
        let mut expected = received(&answers[0]).as_ptr();
        for answer in &answers {
            assert_eq!(received(answer).as_ptr(), expected, "18 bytes a message, and no more");
            expected = received(answer).as_ptr_range().end;
        }
        assert_eq!(bench.driver.enobufs_total(), 0);
        drop(answers);
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(fd.owned()));
    });
}

/// As many connections as asked for, or as the process may have descriptors for.
fn crowd(wanted: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let soft = line.split_whitespace().nth(3).and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    wanted.min(soft.saturating_sub(400) / 2)
}

#[test]
#[expect(clippy::print_stdout, reason = "a figure for the report on memory")]
fn in_a_storm_each_receive_is_blocked_about_once_and_none_is_lost() {
    const MESSAGE_BYTES: usize = 2_000;
    in_each_mode(DriverConfig { receive_buffers: 1, ..DriverConfig::default() }, |bench| {
        let mut connections = bench.connections(crowd(1_000));
        for (index, (_, fd)) in connections.iter().enumerate() {
            bench.submit(Op::Receive { fd: *fd }, index as u32);
        }
        bench.settle();
        for (index, (client, _)) in connections.iter_mut().enumerate() {
            let bytes: Vec<u8> = (0..MESSAGE_BYTES).map(|at| byte_at(index, at)).collect();
            client.write_all(&bytes).unwrap();
        }
        let mut seen = vec![0_usize; connections.len()];
        let mut turns = 0;
        while seen.iter().any(|got| *got < MESSAGE_BYTES) {
            turns += 1;
            assert!(turns < 5_000, "{} turns, {} blocked", turns, bench.driver.enobufs_total());
            let mut held = Vec::new();
            // The owners keep every buffer for a while: nothing can come back.
            for _ in 0..3 {
                bench.driver.enter(Wait::Until(sys::now() + Duration::from_micros(100))).unwrap();
                while let Some(completion) = bench.driver.reap() {
                    let index = completion.token.0 as usize;
                    assert_stream(index, seen[index], received(&completion));
                    seen[index] += received(&completion).len();
                    if seen[index] < MESSAGE_BYTES {
                        bench.submit(Op::Receive { fd: connections[index].1 }, index as u32);
                    }
                    held.push(completion);
                }
            }
        }
        let blocked = bench.driver.enobufs_total();
        assert!(blocked <= connections.len() as u64 * 11 / 10, "{blocked} blocked in {turns} turns");
        // For `cargo xtask bench --pool`.
        println!("figure: blocked receives, for each {:.3} -", blocked as f64 / connections.len() as f64);
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(fd.owned()));
    });
}

/// Takes every receive buffer there is, through one connection that sends a lot.
fn take_all_buffers(bench: &mut Bench, greedy: &mut (TcpStream, Number)) -> Vec<Completion> {
    let mut held = Vec::new();
    greedy.0.write_all(&vec![0xee; 200_000]).unwrap();
    loop {
        bench.submit(Op::Receive { fd: greedy.1 }, u32::MAX);
        let until = sys::now() + Duration::from_millis(30);
        let before = held.len();
        while sys::now() < until && held.len() == before {
            bench.driver.enter(Wait::Until(until)).unwrap();
            held.extend(bench.driver.reap());
        }
        if held.len() == before {
            return held;
        }
    }
}

#[test]
fn blocked_receives_go_on_in_order_and_can_be_given_up() {
    in_each_mode(DriverConfig { receive_buffers: 1, ..DriverConfig::default() }, |bench| {
        let mut greedy = bench.connection();
        let mut connections = bench.connections(20);
        let held = take_all_buffers(bench, &mut greedy);
        assert_eq!(bench.driver.enobufs_total(), 1, "the greedy one waits, too");
        let mut keys = Vec::new();
        for (index, (client, fd)) in connections.iter_mut().enumerate() {
            client.write_all(format!("message {index}").as_bytes()).unwrap();
            keys.push(bench.submit(Op::Receive { fd: *fd }, index as u32));
            bench.settle();
        }
        bench.assert_quiet();
        assert_eq!(bench.driver.enobufs_total(), 21);

        bench.driver.cancel(keys[3]);
        let cancelled = bench.completion();
        assert_eq!((cancelled.key, cancelled.result), (keys[3], Err(Errno::CANCELED)));
        let before = bench.driver.in_flight();
        bench.driver.orphan(keys[4]);
        bench.assert_quiet();
        assert_eq!(bench.driver.in_flight(), before - 1);

        drop(held);
        let mut order = Vec::new();
        while order.len() < 18 {
            let completion = bench.completion();
            if completion.token != Token(u32::MAX) {
                let index = completion.token.0;
                assert_eq!(received(&completion), format!("message {index}").as_bytes());
                order.push(index);
            }
        }
        let expected: Vec<u32> = (0..20).filter(|index| ![3, 4].contains(index)).collect();
        assert_eq!(order, expected, "first in, first out");

        // What the two have given up is still there for the next receive.
        for index in [3, 4] {
            let completion = bench.run(Op::Receive { fd: connections[index].1 });
            assert_eq!(received(&completion), format!("message {index}").as_bytes());
        }
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(fd.owned()));
        bench.driver.close_now(greedy.1.owned());
    });
}

#[test]
fn a_blocked_receive_does_not_outlive_its_descriptor() {
    in_each_mode(DriverConfig { receive_buffers: 1, ..DriverConfig::default() }, |bench| {
        let mut greedy = bench.connection();
        let (mut client, fd) = bench.connection();
        let held = take_all_buffers(bench, &mut greedy);
        client.write_all(b"unheard").unwrap();
        let key = bench.submit(Op::Receive { fd }, 1);
        bench.assert_quiet();
        bench.driver.close_now(fd.owned());
        // Now the number is another connection's, whose bytes are not the receive's.
        let (mut other_client, other) = bench.connection();
        other_client.write_all(b"for somebody else").unwrap();
        drop(held);
        bench.submit(Op::Receive { fd: other }, 2);
        let (mut ended, mut heard, mut greedy_goes_on) = (false, false, false);
        while !(ended && heard && greedy_goes_on) {
            let completion = bench.completion();
            greedy_goes_on |= completion.token == Token(u32::MAX);
            if completion.key == key {
                assert_eq!(completion.result, Err(Errno::CANCELED));
                ended = true;
            } else if completion.token == Token(2) {
                assert_eq!(received(&completion), b"for somebody else");
                heard = true;
            }
        }
        bench.driver.close_now(other.owned());
        bench.driver.close_now(greedy.1.owned());
    });
}

#[test]
#[cfg(debug_assertions)]
fn a_close_under_a_receive_that_was_not_cancelled_is_noticed() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (_client, fd) = bench.connection();
        let key = bench.submit(Op::Receive { fd }, 1);
        bench.settle();
        let closed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.driver.close_now(fd.owned())));
        let message = *closed.expect_err("it is a mistake").downcast::<String>().unwrap();
        assert!(message.contains("cancel or orphan it before"), "{message}");
        bench.driver.orphan(key);
        bench.driver.close(fd.owned());
        bench.assert_quiet();
    });
}

/// What the kernel watches keeps its file open.
#[test]
fn a_peer_sees_the_end_of_a_connection_that_was_watched() {
    in_each_mode(DriverConfig::default(), |bench| {
        for turn in 0..4 {
            let (mut client, fd) = bench.connection();
            client.write_all(b"one").unwrap();
            bench.submit(Op::Receive { fd }, 1);
            assert_eq!(received(&bench.completion()), b"one");
            let parked = (turn % 2 == 0).then(|| bench.submit(Op::Receive { fd }, 2));
            bench.settle();
            parked.into_iter().for_each(|key| bench.driver.orphan(key));
            if turn < 2 {
                bench.driver.close_now(fd.owned());
            } else {
                bench.driver.close(fd.owned());
            }
            bench.settle();
            let mut rest = Vec::new();
            assert_eq!(client.read_to_end(&mut rest).unwrap(), 0, "turn {turn}");
        }
        bench.assert_quiet();
    });
}

#[test]
fn a_receive_after_others_finds_what_came_between() {
    in_each_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        for (round, message) in [b"first".as_slice(), b"second", b"third"].into_iter().enumerate() {
            // Twice before, and once after somebody wants it.
            if round < 2 {
                client.write_all(message).unwrap();
                bench.settle();
            }
            bench.submit(Op::Receive { fd }, round as u32);
            if round == 2 {
                bench.settle();
                client.write_all(message).unwrap();
            }
            assert_eq!(received(&bench.completion()), message);
        }
        // The end comes with the last bytes, in one event.
        client.write_all(b"last").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        bench.settle();
        bench.submit(Op::Receive { fd }, 7);
        assert_eq!(received(&bench.completion()), b"last");
        bench.submit(Op::Receive { fd }, 8);
        assert_eq!(bench.completion().result, Ok(0));
        bench.submit(Op::Receive { fd }, 9);
        assert_eq!(bench.completion().result, Ok(0), "as often as one asks");
        bench.driver.close_now(fd.owned());
        bench.assert_quiet();
    });
}

#[test]
fn blocked_receives_do_not_hold_up_the_exit() {
    in_each_mode(DriverConfig { receive_buffers: 1, ..DriverConfig::default() }, |bench| {
        let mut greedy = bench.connection();
        let mut connections = bench.connections(5);
        let held = take_all_buffers(bench, &mut greedy);
        for (client, fd) in &mut connections {
            client.write_all(b"unheard").unwrap();
            bench.submit(Op::Receive { fd: *fd }, 0);
        }
        bench.assert_quiet();
        let before = sys::now();
        bench.finish();
        assert!(sys::now() - before < Duration::from_secs(10));
        assert!(
            held.iter().all(|completion| received(completion).iter().all(|byte| *byte == 0xee)),
            "readable to the end"
        );
        connections.iter().chain([&greedy]).for_each(|(_, fd)| sys::close(*fd).unwrap());
    });
}

#[test]
fn bytes_of_receives_that_were_given_up_do_not_shift_the_others() {
    in_each_mode(DriverConfig::default(), |bench| {
        let mut connections = bench.connections(30);
        let keys: Vec<Key> = connections
            .iter()
            .enumerate()
            .map(|(index, (_, fd))| bench.driver.submit(Op::Receive { fd: *fd }, Token(index as u32)).unwrap())
            .collect();
        bench.settle();
        for (index, (client, _)) in connections.iter_mut().enumerate() {
            client.write_all(format!("from connection {index}").as_bytes()).unwrap();
        }
        // The bytes are in the buffers, and some of their owners go.
        bench.settle();
        keys.iter().step_by(3).for_each(|key| bench.driver.orphan(*key));
        for _ in 0..20 {
            let completion = bench.completion();
            assert_ne!(completion.token.0 % 3, 0);
            assert_eq!(received(&completion), format!("from connection {}", completion.token.0).as_bytes());
        }
        bench.assert_quiet();
        assert_eq!(bench.driver.in_flight(), 0);
        connections.iter().for_each(|(_, fd)| bench.driver.close_now(fd.owned()));
    });
}

/// Drives a backend by hand.
struct Bare {
    uring: Uring,
    slots: Slots,
    pool: Pool,
}

impl Bare {
    fn next(&mut self) -> Option<(Token, Result<u32, Errno>, Vec<u8>)> {
        let deadline = sys::now() + Duration::from_millis(50);
        let mut rounds = 0;
        // Also after a pause of this thread there are some rounds.
        while sys::now() < deadline || rounds < 3 {
            rounds += 1;
            if let Some(raw) = self.uring.next(&mut self.slots) {
                let Some(Finished::Completed(completion)) = self.slots.finish(raw) else {
                    panic!("nothing was orphaned")
                };
                let bytes = match &completion.payload {
                    Payload::Received(bytes) => bytes.to_vec(),
                    _ => Vec::new(),
                };
                return Some((completion.token, completion.result, bytes));
            }
            self.uring.enter(Wait::Until(deadline), &mut self.slots).unwrap();
        }
        None
    }

    fn insert(&mut self, op: Op<'static>, token: u32) -> Key {
        self.slots.insert(&self.pool, op, Token(token)).unwrap()
    }

    fn receive(&mut self, fd: Number, token: u32) {
        let key = self.insert(Op::Receive { fd }, token);
        self.uring.start(key, &mut self.slots);
    }
}

#[test]
fn a_receive_on_a_worker_thread_never_shows_bytes_of_another() {
    let Some(mut bench) = Bench::new(ReceiveMode::Incremental, &DriverConfig::default()) else { return };
    let mut connections = bench.connections(3);
    let Some(uring) = bench.backend(ReceiveMode::Incremental, &DriverConfig::default()) else { return };
    if !uring.receiver.is_shared() {
        return;
    }
    let mut bare = Bare { uring, slots: Slots::new(), pool: bench.pool.clone() };
    let [worker, first, second] = [0, 1, 2].map(|index: usize| connections[index].1);

    let key = bare.insert(Op::Receive { fd: worker }, 0);
    let group = bare.uring.receiver.group().unwrap();
    assert!(bare.uring.ring.push(&Entry::receive_on_worker(key, worker, group)));
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    std::thread::sleep(Duration::from_millis(200));

    // The worker has taken room that it has not filled. Whatever comes now lies behind that room.
    bare.receive(first, 1);
    bare.receive(second, 2);
    connections[1].0.write_all(b"to be noticed").unwrap();
    connections[2].0.write_all(b"to be noticed, too").unwrap();
    let mut answers = [bare.next().unwrap(), bare.next().unwrap()];
    answers.sort_by_key(|(token, ..)| token.0);
    for (token, result, bytes) in &answers {
        let lost = *result == Err(Errno(libc::EIO));
        let right = *bytes == if *token == Token(1) { &b"to be noticed"[..] } else { &b"to be noticed, too"[..] };
        assert!(lost || right, "the right bytes or none: {token:?} {result:?} {bytes:?}");
    }
    assert!(!bare.uring.receiver.is_shared(), "the group was given up");

    // The others go on, and what the worker brings is recognised.
    for round in 0..40 {
        let message = format!("round {round}");
        bare.receive(first, 1);
        connections[1].0.write_all(message.as_bytes()).unwrap();
        let (token, result, bytes) = bare.next().unwrap();
        assert_eq!((token, result, &bytes[..]), (Token(1), Ok(message.len() as u32), message.as_bytes()));
    }
    connections[0].0.write_all(b"late").unwrap();
    let (token, result, bytes) = bare.next().unwrap();
    assert_eq!(token, Token(0));
    assert!(result == Err(Errno(libc::EIO)) || (result == Ok(4) && bytes == b"late"), "{result:?} {bytes:?}");
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}

/// The tail of a ring of buffers has 16 bits.
#[test]
fn buffers_are_handed_out_more_often_than_the_ring_counts() {
    let Some(mut bench) = Bench::new(ReceiveMode::Classic, &DriverConfig::default()) else { return };
    let mut connections = bench.connections(16);
    let config = DriverConfig { receive_buffers: 1, ..DriverConfig::default() };
    let Some(uring) = bench.backend(ReceiveMode::Classic, &config) else { return };
    let mut bare = Bare { uring, slots: Slots::new(), pool: bench.pool.clone() };
    let mut received = 0_u32;
    while received < 70_000 {
        for (index, (client, fd)) in connections.iter_mut().enumerate() {
            client.write_all(&received.to_le_bytes()).unwrap();
            let key = bare.insert(Op::Receive { fd: *fd }, index as u32);
            bare.uring.start(key, &mut bare.slots);
        }
        let mut missing = connections.len();
        while missing > 0 {
            bare.uring.enter(Wait::Until(sys::now() + TIMEOUT), &mut bare.slots).unwrap();
            while let Some(raw) = bare.uring.next(&mut bare.slots) {
                assert_eq!(raw.received.as_deref(), Some(&received.to_le_bytes()[..]), "after {received}");
                bare.slots.finish(raw).unwrap();
                missing -= 1;
            }
        }
        received += connections.len() as u32;
    }
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}

#[test]
fn the_end_of_a_stream_may_come_with_a_buffer() {
    for mode in [ReceiveMode::Incremental, ReceiveMode::Classic] {
        let Some(mut bench) = Bench::new(mode, &DriverConfig::default()) else { return };
        let (client, fd) = bench.connection();
        let Some(uring) = bench.backend(mode, &DriverConfig::default()) else { return };
        let mut bare = Bare { uring, slots: Slots::new(), pool: bench.pool.clone() };
        let key = bare.insert(Op::Receive { fd }, 0);
        let group = bare.uring.receiver.group().unwrap();
        assert!(bare.uring.ring.push(&Entry::receive_on_worker(key, fd, group)));
        bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
        // It waits on its thread, with a buffer taken.
        std::thread::sleep(Duration::from_millis(100));
        drop(client);
        let (token, result, bytes) = loop {
            if let Some(answer) = bare.next() {
                break answer;
            }
        };
        assert_eq!((token, bytes.len()), (Token(0), 0));
        assert!(result == Ok(0) || result == Err(Errno(libc::EIO)), "{mode:?}: {result:?}");
        sys::close(fd).unwrap();
    }
}

/// A bare backend in which a receive on a worker thread of the kernel has taken room that it has not filled.
fn bare_with_a_worker(bench: &mut Bench, config: &DriverConfig, worker: Number) -> Option<Bare> {
    let uring = bench.backend(ReceiveMode::Incremental, config)?;
    if !uring.receiver.is_shared() {
        return None;
    }
    let mut bare = Bare { uring, slots: Slots::new(), pool: bench.pool.clone() };
    let key = bare.insert(Op::Receive { fd: worker }, 0);
    let group = bare.uring.receiver.group().unwrap();
    assert!(bare.uring.ring.push(&Entry::receive_on_worker(key, worker, group)));
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    Some(bare)
}

#[test]
fn an_overflow_does_not_hide_a_receive_on_a_worker_thread() {
    let Some(mut bench) = Bench::new(ReceiveMode::Incremental, &DriverConfig::default()) else { return };
    let mut connections = bench.connections(2);
    let config = DriverConfig { entries: 8, receive_buffers: 1, ..DriverConfig::default() };
    let Some(mut bare) = bare_with_a_worker(&mut bench, &config, connections[0].1) else { return };
    bare.receive(connections[1].1, 1);
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    connections[1].0.write_all(b"behind the worker's room").unwrap();
    // Many more completions than the 32 for which there is room.
    let nowhere = Number::from_raw(1 << 20);
    for _ in 0..2 {
        for _ in 0..100 {
            let key = bare.insert(Op::Shutdown { fd: nowhere, how: Shutdown::Both }, 2);
            bare.uring.start(key, &mut bare.slots);
        }
        // The receive's own is in the middle of them.
        bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    }
    let (mut others, mut answer) = (0, None);
    while others < 200 || answer.is_none() {
        match bare.next().expect("all of them come") {
            (Token(2), result, _) => {
                assert_eq!(result, Err(Errno(libc::EBADF)));
                others += 1;
            }
            (token, result, bytes) => {
                assert_eq!(token, Token(1));
                answer = Some((result, bytes));
            }
        }
    }
    let (result, bytes) = answer.unwrap();
    let right = bytes == b"behind the worker's room";
    assert!(result == Err(Errno(libc::EIO)) || right, "the right bytes or none: {result:?} {bytes:?}");
    assert!(!bare.uring.receiver.is_shared(), "the group was given up");
    connections[0].0.write_all(b"late").unwrap();
    assert!(bare.next().is_some(), "the worker's receive ends");
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}

#[test]
fn an_overflow_of_receives_that_share_buffers_loses_none() {
    let Some(mut bench) = Bench::new(ReceiveMode::Incremental, &DriverConfig::default()) else { return };
    let mut connections = bench.connections(200);
    let config = DriverConfig { entries: 8, ..DriverConfig::default() };
    let Some(uring) = bench.backend(ReceiveMode::Incremental, &config) else { return };
    if !uring.receiver.is_shared() {
        return;
    }
    let mut bare = Bare { uring, slots: Slots::new(), pool: bench.pool.clone() };
    for round in 0..3 {
        for (index, (_, fd)) in connections.iter().enumerate() {
            bare.receive(*fd, index as u32);
        }
        for (index, (client, _)) in connections.iter_mut().enumerate() {
            client.write_all(format!("{round}: {index}").as_bytes()).unwrap();
        }
        for _ in 0..connections.len() {
            let (token, result, bytes) = bare.next().expect("all of them come");
            let expected = format!("{round}: {}", token.0);
            assert_eq!((result, &bytes[..]), (Ok(expected.len() as u32), expected.as_bytes()));
        }
    }
    assert!(bare.uring.receiver.is_shared(), "there was no reason to give the buffers up");
    bare.uring.enter(Wait::No, &mut bare.slots).unwrap();
    assert!(bare.uring.spill_charge.is_none(), "the memory is given back");
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}

#[test]
fn without_memory_for_other_buffers_receives_wait_for_it() {
    let Some(mut bench) = Bench::new(ReceiveMode::Incremental, &DriverConfig::default()) else { return };
    let mut connections = bench.connections(2);
    let (worker, other) = (connections[0].1, connections[1].1);
    let Some(mut bare) = bare_with_a_worker(&mut bench, &DriverConfig::default(), worker) else { return };
    bare.receive(other, 1);
    let key = bare.insert(Op::Poll { fd: other, interest: Interest::Readable }, 2);
    bare.uring.start(key, &mut bare.slots);
    let mut held = Vec::new();
    for class in plimsoll_pool::Class::ALL.into_iter().rev() {
        while let Ok(lease) = bench.pool.try_acquire_class(class, Kind::Buffers) {
            held.push(lease);
        }
    }
    connections[1].0.write_all(b"to be noticed").unwrap();
    let mut answers = [bare.next().unwrap(), bare.next().unwrap()];
    answers.sort_by_key(|(token, ..)| token.0);
    assert_eq!(answers[0], (Token(1), Err(Errno(libc::EIO)), Vec::new()));
    assert_eq!(answers[1].1, Ok(0));
    assert!(bare.uring.receiver.is_without_memory());

    connections[1].0.write_all(b"when there is room").unwrap();
    bare.receive(other, 3);
    assert_eq!(bare.next(), None, "it is blocked, and the driver goes on");
    assert_eq!(bare.uring.timeout(Wait::Forever, Submitted::All), Timeout::For(RETRY_DELAY));
    drop(held);
    assert_eq!(bare.next(), Some((Token(3), Ok(18), b"when there is room".to_vec())));

    connections[0].0.write_all(b"late").unwrap();
    assert_eq!(bare.next(), Some((Token(0), Err(Errno(libc::EIO)), Vec::new())), "it is not passed over in silence");
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}
