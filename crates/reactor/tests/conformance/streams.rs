//! Bytes that go over a connection and come out the same.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::io::IoSlice;

use plimsoll_reactor::op::Shutdown;
use plimsoll_reactor::{Errno, Fd, Interest, Op, RECEIVE_BYTES_MAX, SendBytes, SharedBytes, SocketOption};

use crate::bench::{Bench, pattern};

pub(crate) fn echo(bench: &mut Bench) {
    let (client, server) = bench.pair();
    for round in 0..3 {
        let receive = bench.start(Op::Receive { fd: server.at() });
        let question = pattern(round, 300);
        bench.send_all(&client, &question);
        let heard = bench.answer(receive).ok();
        assert_eq!((heard.result, &heard.bytes), (Ok(300), &question));
        let sent = bench.run(Op::Send { fd: server.at(), bytes: SendBytes::Static(b"answer") });
        assert_eq!(sent.result, Ok(6));
        assert!(sent.rest.expect("the rest comes back").is_empty());
        assert_eq!(bench.receive_exactly(&client, 6), b"answer");
    }
    bench.close(client);
    bench.close(server);
}

/// The same memory on its way to two sockets, one of which does not take all of it.
pub(crate) fn shared_bytes(bench: &mut Bench) {
    let pairs = [bench.pair(), bench.pair()];
    let block = pattern(5, 60_000);
    let shared = SharedBytes::new(bench.lease(&block), bench.pool.budget()).expect("the line is wide");
    let sends = pairs.each_ref().map(|(_, server)| {
        let bytes = SendBytes::Shared(shared.slice(10..60_000));
        bench.start(Op::Send { fd: server.at(), bytes })
    });
    drop(shared);
    for ((client, server), send) in pairs.iter().zip(sends) {
        let mut heard = Vec::new();
        let mut rest = bench.answer(send).ok().rest.expect("the rest comes back");
        while heard.len() < 59_990 {
            let left = rest.as_slice().len();
            heard.extend(bench.receive_exactly(client, 59_990 - left - heard.len()));
            if left > 0 {
                rest = bench.run(Op::Send { fd: server.at(), bytes: rest }).ok().rest.expect("the rest comes back");
            }
        }
        assert!(heard == block[10..], "the same bytes");
    }
    for (client, server) in pairs {
        bench.close(client);
        bench.close(server);
    }
}

/// What is sent, ended and dropped without an operation is what an operation would have done.
pub(crate) fn answers_without_an_operation(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    assert!(!bench.driver.is_readable_now(listener.at()), "nobody waits");
    let (client, server) = bench.pair_through(&listener, address);
    assert!(!bench.driver.is_readable_now(server.at()), "nothing has come");
    assert_eq!(bench.driver.discard_now(server.at(), 1_000), Err(Errno::AGAIN));
    bench.send_all(&client, &pattern(0, 3_000));
    while !bench.driver.is_readable_now(server.at()) {
        bench.pass_time();
    }
    assert_eq!(bench.driver.send_now(server.at(), b"no room"), Ok(7));
    bench.driver.shutdown_now(server.at(), Shutdown::Write).expect("a connected socket");
    assert_eq!(bench.receive_exactly(&client, 7), b"no room");
    assert_eq!(bench.run(Op::Receive { fd: client.at() }).result, Ok(0), "the end");
    let mut dropped = 0;
    while dropped < 3_000 {
        match bench.driver.discard_now(server.at(), 1_000) {
            Ok(bytes @ 1..=1_000) => dropped += bytes,
            Err(Errno::AGAIN) => bench.pass_time(),
            other => panic!("{other:?} after {dropped} bytes"),
        }
    }
    assert_eq!(bench.driver.discard_now(server.at(), 1_000), Err(Errno::AGAIN), "all of it");
    let mut taken = 0;
    let end = loop {
        match bench.driver.send_now(client.at(), &pattern(0, 100_000)) {
            Ok(bytes) => taken += bytes,
            Err(errno) => break errno,
        }
    };
    assert!(end == Errno::AGAIN && taken > 0, "{end} after {taken} bytes");
    for fd in [client, server, listener] {
        bench.close(fd);
    }
}

/// One call fills leases in their order, no further than it may, and passes over places without one.
pub(crate) fn receives_into_several_leases(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let mut leases = [Some(bench.room(4_096)), None, Some(bench.lease(b"kept")), Some(bench.room(4_096))];
    assert_eq!(bench.driver.receive_now(server.at(), &mut leases, 1_000), Err(Errno::AGAIN), "nothing has come");
    let rooms: Vec<usize> = leases.iter().flatten().map(|lease| lease.spare_capacity()).collect();
    let sent = pattern(0, rooms.iter().sum::<usize>() - 10);
    bench.send_all(&client, &sent);
    let mut received = 0;
    while received < sent.len() {
        let may = (sent.len() - received).min(3_000);
        match bench.driver.receive_now(server.at(), &mut leases, may) {
            Ok(bytes) if (1..=may).contains(&bytes) => received += bytes,
            Err(Errno::AGAIN) => bench.pass_time(),
            other => panic!("{other:?} after {received} bytes"),
        }
        let [Some(first), None, Some(second), Some(third)] = &leases else { panic!("leases stay where they are") };
        assert!(second.starts_with(b"kept"), "bytes that were there stay");
        let heard = [&first[..], &second[4..], third].concat();
        assert!(heard == sent[..received], "the bytes of the stream, in their order");
        assert!(first.spare_capacity() == 0 || second.len() == 4, "one after the other");
        assert!(second.spare_capacity() == 0 || third.is_empty(), "one after the other");
    }
    assert_eq!(leases[3].as_ref().map(|lease| lease.spare_capacity()), Some(10));
    let shut = bench.run(Op::Shutdown { fd: client.at(), how: Shutdown::Write });
    assert_eq!(shut.result, Ok(0));
    let end = loop {
        match bench.driver.receive_now(server.at(), &mut leases, 1_000) {
            Err(Errno::AGAIN) => bench.pass_time(),
            end => break end,
        }
    };
    assert_eq!(end, Ok(0));
    for fd in [client, server] {
        bench.close(fd);
    }
}

/// What was read at once is used up: a wait for bytes is told of the next ones only, and each of them is. Sends from
/// several slices are one piece of the stream.
pub(crate) fn reads_into_a_buffer(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let mut room = [0; 8];
    // The kernel watches it from here on.
    bench.send_all(&client, b"first");
    assert_eq!(bench.receive_exactly(&server, 5), b"first");
    let poll = |bench: &mut Bench| bench.start(Op::Poll { fd: server.at(), interest: Interest::Readable });
    assert_eq!(bench.driver.read_now(server.at(), &mut room), Err(Errno::AGAIN), "nothing has come");
    for sent in [&b"hello"[..], b"eight by", b"more than eight"] {
        let told = poll(bench);
        for _ in 0..3 {
            bench.pass_time();
        }
        assert!(bench.is_waiting(told), "nothing is there: {sent:?}");
        let (front, back) = sent.split_at(2);
        let slices = [IoSlice::new(front), IoSlice::new(b""), IoSlice::new(back)];
        let mut taken = bench.driver.send_vectored_now(client.at(), &slices).expect("there is room");
        while taken < sent.len() {
            taken += bench.driver.send_now(client.at(), &sent[taken..]).expect("there is room");
        }
        assert_eq!(bench.answer(told).result, Ok(0));
        let mut got = Vec::new();
        while got.len() < sent.len() {
            match bench.driver.read_now(server.at(), &mut room) {
                Ok(bytes) => got.extend_from_slice(&room[..bytes]),
                Err(Errno::AGAIN) => bench.pass_time(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, sent);
        assert_eq!(bench.driver.read_now(server.at(), &mut room), Err(Errno::AGAIN), "all of it was read");
    }
    let told = poll(bench);
    bench.driver.shutdown_now(client.at(), Shutdown::Write).expect("it is connected");
    assert_eq!(bench.answer(told).result, Ok(0));
    assert_eq!(bench.driver.read_now(server.at(), &mut room), Ok(0), "the end");
    assert_eq!(bench.driver.read_now(server.at(), &mut room), Ok(0), "which stays");
    for fd in [client, server] {
        bench.close(fd);
    }
}

/// What is looked at stays in the socket, as often as it is looked at.
pub(crate) fn peeks(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let mut room = [0; 8];
    assert_eq!(bench.driver.peek_now(server.at(), &mut room), Err(Errno::AGAIN), "nothing has come");
    bench.send_all(&client, b"hello, you");
    while bench.driver.peek_now(server.at(), &mut room) != Ok(8) {
        bench.pass_time();
    }
    assert_eq!(&room, b"hello, y");
    let mut large = [0; 64];
    let seen = loop {
        match bench.driver.peek_now(server.at(), &mut large) {
            Ok(10) => break 10,
            Ok(8 | 9) => bench.pass_time(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(&large[..seen], b"hello, you");
    let mut leases = [Some(bench.room(4_096))];
    assert_eq!(bench.driver.receive_now(server.at(), &mut leases, 1_000), Ok(10));
    assert_eq!(bench.driver.peek_now(server.at(), &mut room), Err(Errno::AGAIN), "all of it was received");
    let shut = bench.run(Op::Shutdown { fd: client.at(), how: Shutdown::Write });
    assert_eq!(shut.result, Ok(0));
    let end = loop {
        match bench.driver.peek_now(server.at(), &mut room) {
            Err(Errno::AGAIN) => bench.pass_time(),
            end => break end,
        }
    };
    assert_eq!(end, Ok(0));
    for fd in [client, server] {
        bench.close(fd);
    }
}

pub(crate) fn addresses(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let (client, server) = bench.pair_through(&listener, address);
    let local = |bench: &Bench, fd: &Fd| bench.driver.local_address(fd.at()).expect("a bound socket");
    let peer = |bench: &Bench, fd: &Fd| bench.driver.peer_address(fd.at()).expect("a connected socket");
    assert_eq!(peer(bench, &client), address);
    assert_eq!(local(bench, &server), address);
    assert_eq!(peer(bench, &server), local(bench, &client));
    assert_eq!(bench.driver.peer_address(listener.at()).expect_err("it has no peer").0, libc::ENOTCONN);
    for fd in [client, server, listener] {
        bench.close(fd);
    }
}

pub(crate) fn large_transfer(bench: &mut Bench) {
    const BYTES: usize = 8 << 20;
    const PIECE: usize = 100_000;
    let (client, server) = bench.pair();
    let mut handed = 0;
    let mut next_piece = |bench: &mut Bench| {
        let len = PIECE.min(BYTES - handed);
        let piece = SendBytes::Lease(bench.lease(&pattern(handed, len)));
        handed += len;
        (len > 0).then(|| bench.start(Op::Send { fd: client.at(), bytes: piece }))
    };
    let mut blocked = 0;
    let mut received = 0;
    let mut send = next_piece(bench);
    while received < BYTES {
        // Sending goes on until the socket takes no more; then the receiver takes a little, in both ways.
        while let Some(ticket) = send {
            bench.driver.enter(plimsoll_reactor::Wait::No).expect("a look");
            bench.reap();
            if bench.is_waiting(ticket) {
                blocked += 1;
                break;
            }
            let rest = bench.answer(ticket).ok().rest.expect("the rest comes back");
            send = if rest.is_empty() {
                next_piece(bench)
            } else {
                Some(bench.start(Op::Send { fd: client.at(), bytes: rest }))
            };
        }
        for round in 0..4 {
            if received == BYTES {
                break;
            }
            let bytes = receive_some(bench, &server, round % 2 == 0);
            assert!(!bytes.is_empty(), "the end after {received} bytes");
            assert!(bytes == pattern(received, bytes.len()), "wrong bytes at {received}");
            received += bytes.len();
        }
    }
    assert_eq!(received, BYTES);
    assert!(blocked > 0, "the sender had to wait for the receiver");
    bench.close(client);
    assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
    bench.close(server);
}

fn receive_some(bench: &mut Bench, fd: &Fd, lent: bool) -> Vec<u8> {
    if lent {
        return bench.run(Op::Receive { fd: fd.at() }).ok().bytes;
    }
    let lease = bench.room(64 * 1024);
    bench.run(Op::ReceiveInto { fd: fd.at(), lease }).ok().lease.expect("the lease comes back").to_vec()
}

pub(crate) fn receive_before_data(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    bench.settle();
    assert!(bench.is_waiting(receive));
    bench.send_all(&client, b"late");
    assert_eq!(bench.answer(receive).ok().bytes, b"late");
    bench.close(client);
    bench.close(server);
}

pub(crate) fn receive_after_data(bench: &mut Bench) {
    let (client, server) = bench.pair();
    for round in 0..3_usize {
        bench.send_all(&client, &pattern(round, 10));
        bench.settle();
        assert_eq!(bench.receive_exactly(&server, 10), pattern(round, 10));
    }
    bench.close(client);
    bench.close(server);
}

pub(crate) fn receive_into(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let mut lease = bench.room(256);
    assert_eq!(lease.extend(b"head "), 5);
    let receive = bench.start(Op::ReceiveInto { fd: server.at(), lease });
    bench.settle();
    assert!(bench.is_waiting(receive));
    bench.send_all(&client, b"and tail");
    let answer = bench.answer(receive).ok();
    assert_eq!(answer.result, Ok(8));
    assert_eq!(&*answer.lease.expect("the lease comes back"), b"head and tail", "behind what it showed");

    bench.send_all(&client, &pattern(0, 1_000));
    bench.settle();
    let lease = bench.room(256);
    let full = lease.capacity();
    let answer = bench.run(Op::ReceiveInto { fd: server.at(), lease }).ok();
    assert_eq!(answer.result, Ok(full as u32), "no more than there is room for");
    assert_eq!(bench.receive_exactly(&server, 1_000 - full), pattern(full, 1_000 - full), "and the rest afterwards");
    bench.close(client);
    bench.close(server);
}

pub(crate) fn receive_limit(bench: &mut Bench) {
    const BYTES: usize = 3 * RECEIVE_BYTES_MAX + 100;
    let (client, server) = bench.pair();
    let send = bench.start_send(&client, &pattern(0, BYTES));
    bench.settle();
    let mut received = Vec::new();
    while received.len() < BYTES {
        let answer = bench.run(Op::Receive { fd: server.at() }).ok();
        assert!(answer.bytes.len() <= RECEIVE_BYTES_MAX, "{} bytes at once", answer.bytes.len());
        received.extend(answer.bytes);
        bench.reap();
    }
    assert!(received == pattern(0, BYTES));
    assert_eq!(bench.answer(send).result, Ok(BYTES as u32));
    bench.close(client);
    bench.close(server);
}

pub(crate) fn socket_options(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let options = [
        SocketOption::NoDelay(true),
        SocketOption::KeepAlive(Some(Duration::from_secs(30))),
        SocketOption::KeepAlive(None),
        SocketOption::Linger(Some(Duration::from_millis(1_500))),
        SocketOption::Linger(None),
        SocketOption::ReceiveBuffer(64 * 1024),
        SocketOption::SendBuffer(64 * 1024),
        SocketOption::NotSentLowWater(16 * 1024),
        SocketOption::UserTimeout(Duration::from_secs(10)),
    ];
    for option in options {
        bench.driver.set_option(client.at(), option).unwrap_or_else(|errno| panic!("{option:?}: {errno}"));
    }
    bench.send_all(&client, b"still works");
    assert_eq!(bench.receive_exactly(&server, 11), b"still works");
    bench.close(client);
    bench.close(server);
}
