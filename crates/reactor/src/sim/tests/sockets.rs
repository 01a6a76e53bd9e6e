//! Sockets, with Linux's answers, and to the nanosecond.
#![forbid(unsafe_code)]

use core::time::Duration;

use super::{Bench, Done, LATENCY};
use crate::fd::{Number, SIMULATED};
use crate::sim::{Fault, Faults, SimConfig};
use crate::*;

#[test]
fn a_clean_exchange_takes_exactly_its_latencies() {
    let mut bench = Bench::clean();
    let start = bench.world.now();
    let listener = bench.listen("127.0.0.1:8080");
    let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    let address = bench.address("127.0.0.1:8080");
    bench.submit(1, Op::Accept { listener });
    bench.submit(2, Op::Connect { fd: client, address });
    let mut transcript = Vec::new();
    let mut server = None;
    while transcript.len() < 8 {
        for done in bench.wait() {
            transcript.push(((bench.world.now() - start).as_micros(), done.token, done.result));
            match done.token {
                1 => {
                    server = done.fd;
                    bench.submit(3, Op::Receive { fd: done.fd.expect("accepted") });
                }
                2 => drop(bench.submit(4, Op::Send { fd: client, bytes: SendBytes::Static(b"ping") })),
                3 => {
                    assert_eq!(done.bytes, b"ping");
                    bench.submit(5, Op::Send { fd: server.expect("1 came"), bytes: SendBytes::Static(b"pong!") });
                    bench.submit(6, Op::Receive { fd: client });
                }
                6 => {
                    assert_eq!(done.bytes, b"pong!");
                    bench.submit(7, Op::Shutdown { fd: client, how: Shutdown::Write });
                    bench.submit(8, Op::Receive { fd: server.expect("1 came") });
                }
                _ => {}
            }
        }
    }
    let expected = [
        (100, 1, Ok(0)),
        (200, 2, Ok(0)),
        (200, 4, Ok(4)),
        (300, 3, Ok(4)),
        (300, 5, Ok(5)),
        (400, 6, Ok(5)),
        (400, 7, Ok(0)),
        (500, 8, Ok(0)),
    ];
    assert_eq!(transcript, expected);
    assert!(bench.world.is_idle());
}

#[test]
fn nobody_listening_refuses_after_a_round_trip() {
    let mut bench = Bench::clean();
    let start = bench.world.now();
    let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    let address = bench.address("127.0.0.1:9");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Err(libc::ECONNREFUSED));
    assert_eq!(bench.world.now(), start + 2 * LATENCY);
    let address = bench.address("192.0.2.1:9");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Err(libc::ENETUNREACH));
    let address = bench.address("[::1]:9");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Err(libc::EAFNOSUPPORT));
    assert_eq!(bench.world.connections(), 0);
}

#[test]
fn a_full_backlog_makes_the_client_try_again() {
    let mut bench = Bench::clean();
    let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
    let listener = bench.driver.listen("127.0.0.1:80".parse().expect("an address"), &options).expect("free").number();
    for token in 1..=3 {
        let fd = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        let address = bench.address("127.0.0.1:80");
        bench.submit(token, Op::Connect { fd, address });
    }
    let start = bench.world.now();
    assert_eq!(bench.wait().len(), 2, "Linux takes one more than the backlog");
    assert_eq!(bench.elapse(Duration::from_millis(900)).len(), 0);
    assert!(bench.driver.accept_now(listener).expect("accept works").is_some());
    assert_eq!(bench.one().token, 3);
    assert_eq!(bench.world.now(), start + Duration::from_secs(1) + 2 * LATENCY, "one second later");
}

#[test]
fn a_backlog_that_stays_full_times_out() {
    let mut bench = Bench::clean();
    let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
    bench.driver.listen("127.0.0.1:80".parse().expect("an address"), &options).expect("free").number();
    for token in 1..=3 {
        let fd = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        let address = bench.address("127.0.0.1:80");
        bench.submit(token, Op::Connect { fd, address });
    }
    let start = bench.world.now();
    assert_eq!(bench.wait().len(), 2);
    assert_eq!(bench.one().result, Err(libc::ETIMEDOUT));
    assert_eq!(bench.world.now() - start, Duration::from_secs(127));
}

#[test]
fn addresses_ports_and_sharing() {
    let mut bench =
        Bench::with(SimConfig { hosts: vec!["10.0.0.7".parse().expect("an address")], ..SimConfig::new(1) });
    let plain = ListenOptions::default();
    let shared = ListenOptions { reuse_port: true, ..plain };
    let joins = ListenOptions { join: true, ..shared };
    let mut listen = |address: &str, options: &ListenOptions| {
        bench.driver.listen(address.parse::<Address>().expect("an address"), options)
    };
    let first = listen("0.0.0.0:80", &shared).expect("free");
    assert!(matches!(listen("0.0.0.0:80", &shared), Err(Error::AddressInUse(_))), "not joined: the probe finds it");
    assert!(matches!(listen("127.0.0.1:80", &plain), Err(Error::AddressInUse(_))), "the wildcard covers it");
    assert!(matches!(listen("[::]:80", &plain), Err(Error::AddressInUse(_))), "and the other wildcard covers that");
    assert!(matches!(listen("10.0.0.8:80", &plain), Err(Error::AddressNotAvailable(_))));
    let second = listen("0.0.0.0:80", &joins).expect("joined");
    let other = listen("10.0.0.7:81", &plain).expect("free");
    let dual = listen("[::]:0", &plain).expect("free");
    let port = bench.driver.local_address(dual.number()).expect("bound").ip().expect("of TCP").port();
    assert!((32_768..=60_999).contains(&port));
    assert_eq!(bench.driver.local_address(other.number()), Ok("10.0.0.7:81".parse().expect("an address")));
    assert_eq!(bench.driver.peer_address(other.number()), Err(Errno(libc::ENOTCONN)));

    let mut accepted = [0, 0];
    for _ in 0..32 {
        let fd = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        let address = bench.address("10.0.0.7:80");
        assert_eq!(bench.run(Op::Connect { fd, address }).result, Ok(0));
        for (at, listener) in [&first, &second].into_iter().enumerate() {
            if let Some(server) = bench.driver.accept_now(listener.number()).expect("accept works") {
                accepted[at] += 1;
                assert_eq!(bench.driver.peer_address(server.number()), bench.driver.local_address(fd));
                assert_eq!(bench.driver.peer_address(fd), Ok("10.0.0.7:80".parse().expect("an address")));
            }
        }
    }
    assert!(accepted[0] > 5 && accepted[1] > 5 && accepted[0] + accepted[1] == 32, "{accepted:?}");

    let fd = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    let address = bench.address(&format!("127.0.0.1:{port}"));
    assert_eq!(bench.run(Op::Connect { fd, address }).result, Ok(0));
    let server = bench.driver.accept_now(dual.number()).expect("accept works").expect("it is in the queue");
    let local = bench.driver.local_address(server.number()).expect("connected");
    assert_eq!(local, format!("[::ffff:127.0.0.1]:{port}").parse().expect("an address"));
}

#[test]
fn buffers_are_bounded_and_open_up_again() {
    let mut bench = Bench::clean();
    let (client, server) = bench.pair();
    let block = vec![7_u8; 100_000];
    let mut sent = 0;
    let key = loop {
        let bytes = SendBytes::Lease(bench.bytes(&block));
        let key = bench.submit(1, Op::Send { fd: client, bytes });
        match bench.elapse(Duration::from_secs(1)).pop() {
            Some(done) => sent += done.result.expect("the peer is there"),
            None => break key,
        }
    };
    assert_eq!(sent, 2 * 64 * 1024, "a send buffer and a receive buffer full");
    bench.submit(2, Op::Poll { fd: client, interest: Interest::Writable });
    assert_eq!(bench.elapse(Duration::from_secs(1)), []);
    assert_eq!(bench.receive(server).map(|bytes| bytes.len()), Ok(RECEIVE_BYTES_MAX));
    let all = bench.elapse(Duration::from_secs(1));
    assert_eq!(all.iter().map(|done| done.token).collect::<Vec<_>>(), [1], "there is room, but not a third: {all:?}");
    for _ in 0..2 {
        assert_eq!(bench.receive(server).map(|bytes| bytes.len()), Ok(RECEIVE_BYTES_MAX));
    }
    let all = bench.elapse(Duration::from_secs(1));
    assert_eq!(all.iter().map(|done| done.token).collect::<Vec<_>>(), [2], "{all:?}");
    bench.driver.cancel(key);
    assert_eq!(bench.elapse(Duration::from_secs(1)), [], "it had ended");
}

#[test]
fn halves_end_one_by_one() {
    let mut bench = Bench::clean();
    let (client, server) = bench.pair();
    assert_eq!(bench.send(client, b"last words"), Ok(10));
    assert_eq!(bench.run(Op::Shutdown { fd: client, how: Shutdown::Write }).result, Ok(0));
    assert_eq!(bench.send(client, b"more"), Err(libc::EPIPE));
    assert_eq!(bench.run(Op::Poll { fd: server, interest: Interest::PeerClosed }).result, Ok(0));
    assert_eq!(bench.receive(server), Ok(b"last words".to_vec()), "the poll took nothing");
    assert_eq!(bench.receive(server), Ok(Vec::new()));
    assert_eq!(bench.receive(server), Ok(Vec::new()), "and again");
    assert_eq!(bench.send(server, b"answer"), Ok(6));
    assert_eq!(bench.receive(client), Ok(b"answer".to_vec()));
    bench.driver.close_now(server.owned());
    assert_eq!(bench.receive(client), Ok(Vec::new()));
    bench.driver.close_now(client.owned());
    assert_eq!((bench.world.connections(), bench.world.descriptors()), (0, vec![]));
}

#[test]
fn closing_with_unread_bytes_or_no_linger_resets() {
    let mut bench = Bench::clean();
    let (client, server) = bench.pair();
    assert_eq!(bench.send(client, b"unread"), Ok(6));
    assert_eq!(bench.send(server, b"readable"), Ok(8));
    bench.elapse(Duration::from_secs(1));
    bench.driver.close_now(server.owned());
    bench.elapse(Duration::from_secs(1));
    assert_eq!(bench.receive(client), Ok(b"readable".to_vec()), "what had arrived stays");
    assert_eq!(bench.receive(client), Err(libc::ECONNRESET));
    assert_eq!(bench.receive(client), Ok(Vec::new()), "the error is told once");
    assert_eq!(bench.send(client, b"x"), Err(libc::EPIPE));
    assert_eq!(bench.driver.peer_address(client), Err(Errno(libc::ENOTCONN)));
    bench.driver.close_now(client.owned());

    let (client, server) = bench.pair();
    bench.driver.set_option(client, SocketOption::Linger(Some(Duration::ZERO))).expect("a socket");
    bench.submit(1, Op::Receive { fd: server });
    bench.driver.close(client.owned());
    assert_eq!(bench.one().result, Err(libc::ECONNRESET));
    bench.driver.close_now(server.owned());
    assert_eq!((bench.world.connections(), bench.world.descriptors()), (0, vec![]));
}

#[test]
fn sending_to_a_closed_end_is_answered_by_a_reset() {
    let mut bench = Bench::clean();
    let (client, server) = bench.pair();
    bench.driver.close_now(server.owned());
    assert_eq!(bench.receive(client), Ok(Vec::new()));
    assert_eq!(bench.send(client, b"first"), Ok(5), "nobody has told it yet");
    bench.elapse(Duration::from_secs(1));
    assert_eq!(bench.send(client, b"second"), Err(libc::EPIPE));
}

#[test]
fn closing_ends_what_waits_and_numbers_are_used_again() {
    let mut bench = Bench::clean();
    let (client, server) = bench.pair();
    bench.submit(1, Op::Receive { fd: server });
    bench.submit(2, Op::Poll { fd: server, interest: Interest::PeerClosed });
    bench.submit(3, Op::Close { fd: server.owned() });
    let mut all = bench.wait();
    all.sort_by_key(|done| done.token);
    let results: Vec<_> = all.iter().map(|done| (done.token, done.result)).collect();
    assert_eq!(results, [(1, Err(libc::ECANCELED)), (2, Err(libc::ECANCELED)), (3, Ok(0))]);
    assert_eq!(bench.run(Op::Receive { fd: server }).result, Err(libc::EBADF));
    let numbers: Vec<i32> = [client, server].map(|fd| fd.raw() - SIMULATED).to_vec();
    assert_eq!(numbers, [4, 5], "the listener was 3");
    let fresh: Vec<i32> =
        (0..3).map(|_| bench.driver.socket(SocketKind::Tcp6).expect("a socket").raw() - SIMULATED).collect();
    assert_eq!(fresh, [3, 5, 6], "the lowest free number first");
}

#[test]
fn closing_a_listener_resets_its_queue() {
    let mut bench = Bench::clean();
    let listener = bench.listen("127.0.0.1:80");
    let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    let address = bench.address("127.0.0.1:80");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Ok(0));
    bench.driver.close_now(listener.owned());
    assert_eq!(bench.receive(client), Err(libc::ECONNRESET));
    bench.listen("127.0.0.1:80");
}

#[test]
fn calls_on_the_wrong_descriptor() {
    let mut bench = Bench::clean();
    let listener = bench.listen("127.0.0.1:80");
    let fresh = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    let (client, _server) = {
        let address = bench.address("127.0.0.1:80");
        let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Ok(0));
        (client, bench.driver.accept_now(listener).expect("accept works"))
    };
    let address = bench.address("127.0.0.1:80");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Err(libc::EISCONN));
    assert_eq!(bench.receive(fresh), Err(libc::ENOTCONN));
    assert_eq!(bench.send(fresh, b"x"), Err(libc::EPIPE));
    assert_eq!(bench.receive(listener), Err(libc::ENOTCONN));
    assert_eq!(bench.run(Op::Shutdown { fd: fresh, how: Shutdown::Both }).result, Err(libc::ENOTCONN));
    assert_eq!(bench.run(Op::Accept { listener: client }).result, Err(libc::EINVAL));
    assert_eq!(bench.run(Op::Poll { fd: fresh, interest: Interest::Readable }).result, Ok(0), "hung up");
    let lease = bench.lease(64);
    assert_eq!(bench.run(Op::ReadAt { fd: client, lease, offset: 0 }).result, Err(libc::ESPIPE));
    assert_eq!(bench.driver.accept_now(Number::from_raw(99)), Err(Errno(libc::EBADF)));
}

#[test]
fn the_descriptor_table_has_an_end() {
    let mut bench = Bench::with(SimConfig { descriptors_max: 2, ..SimConfig::new(1) });
    let listener = bench.listen("127.0.0.1:80");
    let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
    assert_eq!(bench.driver.socket(SocketKind::Tcp4), Err(Errno(libc::EMFILE)));
    let address = bench.address("127.0.0.1:80");
    assert_eq!(bench.run(Op::Connect { fd: client, address }).result, Ok(0));
    assert_eq!(bench.driver.accept_now(listener), Err(Errno(libc::EMFILE)));
    bench.driver.close_now(client.owned());
    assert!(bench.driver.accept_now(listener).expect("there is room now").is_some(), "it stayed in the queue");
}

#[test]
fn a_link_that_is_down_for_ever_times_the_sender_out() {
    let faults = Faults::clean().with(Fault::BlackHole, 1_000_000);
    let mut timed_out = 0;
    for seed in 0..24 {
        let mut bench = Bench::with(SimConfig::new(seed).with_faults(faults.clone()));
        let listener = bench.listen("127.0.0.1:80");
        let client = bench.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        let address = bench.address("127.0.0.1:80");
        let start = bench.world.now();
        match bench.run(Op::Connect { fd: client, address }).result {
            Err(errno) => {
                assert_eq!(errno, libc::ETIMEDOUT);
                assert_eq!(bench.world.now() - start, Duration::from_secs(127));
                continue;
            }
            Ok(_) => assert!(bench.world.now() - start < Duration::from_secs(4)),
        }
        bench.driver.set_option(client, SocketOption::UserTimeout(Duration::from_secs(10))).expect("a socket");
        let server = bench.driver.accept_now(listener).expect("accept works").expect("it is in the queue");
        let start = bench.world.now();
        assert_eq!(bench.send(client, b"hello?"), Ok(6));
        bench.submit(1, Op::Receive { fd: client });
        bench.submit(2, Op::Receive { fd: server.number() });
        let first = bench.one();
        match first.token {
            1 => {
                assert_eq!(first.result, Err(libc::ETIMEDOUT));
                assert_eq!(bench.world.now() - start, Duration::from_secs(10));
                timed_out += 1;
            }
            _ => assert_eq!(first.bytes, b"hello?", "late, but whole"),
        }
    }
    assert!(timed_out > 0, "one link in four stays down");
}

#[test]
fn what_uses_the_same_stream_keeps_its_order_under_delays() {
    let faults = [Fault::Delayed, Fault::Reordered, Fault::Segmented, Fault::Overflow, Fault::Interrupted];
    let faults = faults.into_iter().fold(Faults::clean(), |faults, fault| faults.with(fault, 500_000));
    let mut overtaken = 0;
    for seed in 0..50 {
        let mut bench = Bench::with(SimConfig::new(seed).with_faults(faults.clone()));
        let (client, server) = bench.pair();
        for at in 0..8 {
            bench.submit(at, Op::Receive { fd: server });
            let bytes = SendBytes::Lease(bench.bytes(&[at as u8; 3]));
            bench.submit(100 + at, Op::Send { fd: client, bytes });
        }
        bench.submit(108, Op::Shutdown { fd: client, how: Shutdown::Write });
        let mut all = Vec::new();
        while all.len() < 17 {
            all.extend(bench.wait());
        }
        let received: Vec<&Done> = all.iter().filter(|done| done.token < 100).collect();
        let sent: Vec<u32> = all.iter().map(|done| done.token).filter(|&token| token >= 100).collect();
        assert!(received.is_sorted_by_key(|done| done.token), "seed {seed}: {all:?}");
        assert!(sent.is_sorted(), "seed {seed}: {all:?}");
        let mut bytes: Vec<u8> = received.iter().flat_map(|done| done.bytes.clone()).collect();
        while bytes.len() < 24 {
            bytes.extend(bench.receive(server).expect("the rest"));
        }
        assert!(bytes.is_sorted(), "seed {seed}: {bytes:?}");
        overtaken += u32::from(all[0].token < 100 || !all.is_sorted_by_key(|done| done.token % 100));
    }
    assert!(overtaken > 0, "operations on different streams do not");
}

#[test]
fn a_reset_does_not_overtake_bytes() {
    for seed in 0..50 {
        let faults = Faults::clean().with(Fault::Segmented, 900_000);
        let mut bench = Bench::with(SimConfig::new(seed).with_faults(faults));
        let (client, server) = bench.pair();
        bench.driver.set_option(client, SocketOption::Linger(Some(Duration::ZERO))).expect("a socket");
        assert_eq!(bench.send(client, &[5; 1_000]), Ok(1_000));
        bench.driver.close_now(client.owned());
        bench.elapse(Duration::from_secs(1));
        assert_eq!(bench.receive(server), Ok(vec![5; 1_000]), "seed {seed}: they had left before");
        assert_eq!(bench.receive(server), Err(libc::ECONNRESET));
    }
}
