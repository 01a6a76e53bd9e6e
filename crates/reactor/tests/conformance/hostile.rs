//! Peers that do with TCP what no program of good will does. On the real drivers only: the simulated kernel has no
//! urgent data, windows or segments.
//!
//! After each case the bench looks for worker threads of the kernel, as after all others.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use plimsoll_reactor::op::{Interest, Shutdown};
use plimsoll_reactor::{Address, DriverKind, Fd, ListenOptions, Op, SendBytes, SharedBytes, SocketOption, Wait};
use socket2::{Domain, SockRef, Socket, Type};

use crate::bench::{Bench, Ticket, pattern};

/// Connections of one case: enough that a thread for each is noticed.
const PEERS: usize = 12;

fn by_ip(address: Address) -> SocketAddr {
    address.ip().expect("hostile peers come by TCP")
}

/// Our end, and the peer's as a plain socket.
fn connection(bench: &mut Bench) -> (Fd, TcpStream) {
    connection_with(bench, |_| {})
}

/// The same, with the peer's socket prepared before it connects.
fn connection_with(bench: &mut Bench, prepare: impl FnOnce(&Socket)) -> (Fd, TcpStream) {
    let (listener, address) = bench.listen();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    prepare(&socket);
    socket.connect(&by_ip(address).into()).expect("it listens");
    let ours = bench.run(Op::Accept { listener: listener.at() }).descriptor();
    bench.close(listener);
    (ours, socket.into())
}

/// One that takes little before a send has to wait.
fn narrow_connection(bench: &mut Bench) -> (Fd, TcpStream) {
    let (ours, peer) = connection_with(bench, |socket| socket.set_recv_buffer_size(4_096).expect("a socket"));
    bench.driver.set_option(ours.at(), SocketOption::SendBuffer(16_384)).expect("a socket");
    (ours, peer)
}

fn urgent(peer: &TcpStream) {
    assert_eq!(SockRef::from(peer).send_out_of_band(b"!").expect("it is connected"), 1);
}

/// The peer closes with a reset.
fn reset(peer: TcpStream) {
    SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(peer);
}

/// Nothing goes on here: a driver that spins would take its turns as fast as it can.
fn assert_idle(bench: &mut Bench) {
    bench.settle();
    let before = bench.driver.counters().turns;
    let deadline = bench.driver.now() + Duration::from_millis(200);
    while bench.driver.now() < deadline {
        bench.driver.enter(Wait::Until(deadline)).expect("a wait");
        bench.reap();
    }
    let turns = bench.driver.counters().turns - before;
    assert!(turns <= 20, "{turns} turns with nothing to do");
}

/// Receives until the end.
fn drain(bench: &mut Bench, fd: &Fd) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let answer = bench.run(Op::Receive { fd: fd.at() }).ok();
        if answer.bytes.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&answer.bytes);
    }
}

/// Every kind of bytes that a send takes, to peers whose urgent byte nobody receives.
pub(crate) fn urgent_byte_under_sends(bench: &mut Bench) {
    static BODY: [u8; 4 << 20] = [b'x'; 4 << 20];
    let shared = SharedBytes::new(bench.lease(&pattern(0, 60_000)), bench.pool.budget()).expect("the line is wide");
    let mut peers = Vec::new();
    for turn in 0..PEERS {
        let (ours, peer) = narrow_connection(bench);
        urgent(&peer);
        let waiting = loop {
            let bytes = match turn % 3 {
                0 => SendBytes::Static(&BODY),
                1 => SendBytes::Shared(shared.clone()),
                _ => SendBytes::Lease(bench.lease(&pattern(0, 60_000))),
            };
            let send = bench.start(Op::Send { fd: ours.at(), bytes });
            bench.settle();
            if bench.is_waiting(send) {
                break send;
            }
            bench.answer(send).ok();
        };
        // Another one while it waits.
        urgent(&peer);
        peers.push((ours, peer, waiting));
    }
    assert_idle(bench);
    assert_eq!(bench.kernel_threads(), 0);
    for (turn, (ours, mut peer, waiting)) in peers.into_iter().enumerate() {
        assert!(bench.is_waiting(waiting));
        match turn % 3 {
            // The peer reads at last.
            0 => {
                let reader = std::thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()));
                assert!(bench.answer(waiting).result.expect("there is room") > 0);
                bench.close(ours);
                // An orderly end or, because of the urgent byte that nobody has received, a reset.
                let _ended = reader.join().expect("no panic");
            }
            // It goes away.
            1 => {
                reset(peer);
                assert!(matches!(bench.answer(waiting).errno(), libc::ECONNRESET | libc::EPIPE));
                bench.close(ours);
            }
            // We do.
            _ => {
                bench.driver.cancel(waiting.key);
                assert_eq!(bench.answer(waiting).errno(), libc::ECANCELED);
                bench.close(ours);
            }
        }
    }
}

/// What waits for bytes does not hear of an urgent one, and hears of those after it.
pub(crate) fn urgent_byte_under_receives(bench: &mut Bench) {
    let mut peers = Vec::new();
    for turn in 0..PEERS {
        let (ours, peer) = connection(bench);
        let ticket = match turn % 3 {
            0 => bench.start(Op::Receive { fd: ours.at() }),
            1 => {
                let lease = bench.room(4_000);
                bench.start(Op::ReceiveInto { fd: ours.at(), lease })
            }
            _ => bench.start(Op::Poll { fd: ours.at(), interest: Interest::Readable }),
        };
        bench.settle();
        urgent(&peer);
        peers.push((ours, peer, ticket));
    }
    assert_idle(bench);
    assert_eq!(bench.kernel_threads(), 0);
    for (turn, (ours, mut peer, ticket)) in peers.into_iter().enumerate() {
        assert!(bench.is_waiting(ticket), "an urgent byte is not part of the stream");
        peer.write_all(b"bytes").expect("it is connected");
        let mut answer = bench.answer(ticket).ok();
        match turn % 3 {
            0 => assert_eq!(answer.bytes, b"bytes"),
            1 => assert_eq!(&answer.lease.take().expect("it comes back")[..], b"bytes"),
            _ => assert_eq!(bench.receive_exactly(&ours, 5), b"bytes"),
        }
        bench.close(ours);
    }
}

/// A receive stops at an urgent byte. What is behind it is there already, but io_uring does not tell a small receive of
/// it until more comes. Nothing is lost.
pub(crate) fn bytes_behind_an_urgent_byte(bench: &mut Bench) {
    for turn in 0..6 {
        let (known, armed, is_into) = (turn % 3 > 0, turn % 3 > 1, turn >= 3);
        let (ours, mut peer) = connection(bench);
        if known {
            // A receive before: what is known of the descriptor is that nothing is there.
            peer.write_all(b"first").expect("it is connected");
            assert_eq!(bench.receive_exactly(&ours, 5), b"first");
        }
        let early = armed.then(|| {
            let early = bench.start(Op::Receive { fd: ours.at() });
            bench.settle();
            early
        });
        peer.write_all(b"before").expect("it is connected");
        urgent(&peer);
        peer.write_all(b"behind").expect("it is connected");
        urgent(&peer);
        peer.write_all(b"the second").expect("it is connected");
        let mut heard = early.map(|early| bench.answer(early).ok().bytes).unwrap_or_default();
        // Of two urgent bytes the later one is out of the stream, and the earlier one is not any more (RFC 6093,
        // section 3.1).
        let without = |heard: &[u8]| heard.iter().copied().filter(|byte| !b"!.".contains(byte)).collect::<Vec<u8>>();
        while without(&heard) != b"beforebehindthe second" {
            let lease = bench.room(4_000);
            let receive = bench.start(if is_into {
                Op::ReceiveInto { fd: ours.at(), lease }
            } else {
                Op::Receive { fd: ours.at() }
            });
            bench.settle();
            if bench.is_waiting(receive) {
                assert!(!is_into && bench.driver.kind() == DriverKind::Uring, "{heard:?} is not all");
                peer.write_all(b".").expect("it is connected");
            }
            let answer = bench.answer(receive).ok();
            heard.extend_from_slice(&answer.bytes);
            heard.extend_from_slice(&answer.lease.map(|lease| lease.to_vec()).unwrap_or_default());
        }
        drop(peer);
        assert_eq!(without(&drain(bench, &ours)), b"");
        bench.close(ours);
    }
}

/// What a socket is asked at once, with an urgent byte and nothing else to receive.
pub(crate) fn urgent_byte_under_calls_at_once(bench: &mut Bench) {
    let (ours, mut peer) = connection(bench);
    urgent(&peer);
    bench.pass_time();
    let mut leases = [Some(bench.room(4_000))];
    assert!(!bench.driver.is_readable_now(ours.at()));
    assert_eq!(bench.driver.receive_now(ours.at(), &mut leases, 4_000), Err(plimsoll_reactor::Errno::AGAIN));
    assert_eq!(bench.driver.discard_now(ours.at(), 4_000), Err(plimsoll_reactor::Errno::AGAIN));
    peer.write_all(b"bytes").expect("it is connected");
    let poll = bench.start(Op::Poll { fd: ours.at(), interest: Interest::Readable });
    bench.answer(poll).ok();
    assert_eq!(bench.driver.receive_now(ours.at(), &mut leases, 4_000), Ok(5));
    bench.close(ours);
}

/// A window that shuts and does not open: nothing but the send's own end ends it. Also of a peer that has ended its
/// half, which the kernel tells again and again beside what is waited for.
pub(crate) fn zero_window(bench: &mut Bench) {
    for (turn, has_ended) in (0..4).flat_map(|turn| [(turn, false), (turn, true)]) {
        let (ours, mut peer) = narrow_connection(bench);
        if has_ended {
            peer.shutdown(std::net::Shutdown::Write).expect("it is connected");
        }
        if turn == 3 {
            let timeout = Duration::from_millis(300);
            bench.driver.set_option(ours.at(), SocketOption::UserTimeout(timeout)).expect("a socket");
        }
        let waiting = bench.fill(&ours);
        match turn {
            0 => {
                assert_idle(bench);
                bench.driver.orphan(waiting.key);
                bench.until_idle();
            }
            1 => {
                assert_idle(bench);
                bench.driver.cancel(waiting.key);
                let answer = bench.answer(waiting);
                assert_eq!(answer.errno(), libc::ECANCELED);
                assert_eq!(answer.rest.expect("it comes back").as_slice().len(), 128 << 10, "nothing was taken");
            }
            2 => {
                // It opens a little, and a little more.
                let mut room = [0; 2_000];
                while bench.is_waiting(waiting) {
                    assert!(peer.read(&mut room).expect("there is something") > 0);
                    bench.settle();
                }
                assert!(bench.answer(waiting).result.expect("there was room") > 0);
            }
            // The kernel gives the connection up.
            _ => assert_eq!(bench.answer(waiting).errno(), libc::ETIMEDOUT),
        }
        bench.close(ours);
    }
}

/// What waits while the reset comes.
fn arm(bench: &mut Bench, ours: &Fd, turn: usize) -> Option<Ticket> {
    Some(match turn {
        0 => return None,
        1 => bench.start(Op::Receive { fd: ours.at() }),
        2 => {
            let lease = bench.room(4_000);
            bench.start(Op::ReceiveInto { fd: ours.at(), lease })
        }
        3 => bench.fill(ours),
        4 => bench.start(Op::Poll { fd: ours.at(), interest: Interest::Readable }),
        5 => bench.start(Op::Poll { fd: ours.at(), interest: Interest::PeerClosed }),
        _ => unreachable!("six ways to wait"),
    })
}

/// A reset in every state of the connection, under every operation that waits.
pub(crate) fn resets(bench: &mut Bench) {
    for state in ["open", "urgent", "unread", "we have ended", "the peer has ended"] {
        for turn in 0..6 {
            let (ours, mut peer) = narrow_connection(bench);
            match state {
                "urgent" => urgent(&peer),
                "unread" if turn != 1 && turn != 2 && turn != 4 => peer.write_all(b"unread").expect("connected"),
                "we have ended" if turn != 3 => {
                    bench.run(Op::Shutdown { fd: ours.at(), how: Shutdown::Write }).ok();
                }
                "the peer has ended" if turn == 0 || turn == 3 => {
                    peer.shutdown(std::net::Shutdown::Write).expect("connected")
                }
                _ => {}
            }
            let ticket = arm(bench, &ours, turn);
            bench.settle();
            reset(peer);
            if let Some(ticket) = ticket {
                let answer = bench.answer(ticket);
                let gone = [libc::ECONNRESET, libc::EPIPE];
                match turn {
                    4 | 5 => assert_eq!(answer.result, Ok(0), "{state}, {turn}: readiness"),
                    _ => assert!(
                        answer.result.is_err_and(|errno| gone.contains(&errno.0)),
                        "{state}, {turn}: {answer:?}"
                    ),
                }
            }
            // Whatever is tried on it ends.
            let mut answers = 0;
            while bench.run(Op::Receive { fd: ours.at() }).result.is_ok_and(|bytes| bytes > 0) {
                answers += 1;
                assert!(answers < 3, "the end comes");
            }
            assert!(bench.run(Op::Send { fd: ours.at(), bytes: SendBytes::Static(b"late") }).result.is_err());
            bench.close(ours);
        }
    }
}

/// A connection that is gone before it is accepted.
pub(crate) fn reset_before_the_accept(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    for _ in 0..PEERS {
        let peer = TcpStream::connect(by_ip(address)).expect("it listens");
        urgent(&peer);
        reset(peer);
    }
    bench.settle();
    for _ in 0..PEERS {
        // Linux hands it over all the same.
        let ours = bench.run(Op::Accept { listener: listener.at() }).descriptor();
        assert_eq!(bench.run(Op::Receive { fd: ours.at() }).errno(), libc::ECONNRESET);
        bench.close(ours);
    }
    bench.close(listener);
}

/// A peer that is connected and says nothing, and one whose connection is never completed.
pub(crate) fn half_open(bench: &mut Bench) {
    let (listener, address) = bench.listen_with(&ListenOptions { backlog: 1, ..ListenOptions::default() });
    // Silent, and never accepted: the queue is full from the second one on, and further connects are not answered.
    let _silent: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(by_ip(address)).expect("it listens")).collect();
    let connects: Vec<(Fd, Ticket)> = (0..PEERS).map(|_| bench.start_connect(address)).collect();
    assert_idle(bench);
    assert_eq!(bench.kernel_threads(), 0);
    let mut waiting = 0;
    for (turn, (fd, connect)) in connects.into_iter().enumerate() {
        if bench.is_waiting(connect) {
            waiting += 1;
            if turn % 2 == 0 {
                bench.driver.cancel(connect.key);
                assert_eq!(bench.answer(connect).errno(), libc::ECANCELED);
            } else {
                bench.driver.orphan(connect.key);
            }
        } else {
            bench.answer(connect).ok();
        }
        bench.close(fd);
    }
    assert!(waiting > 0, "a queue of one takes a dozen");
    bench.close(listener);
}

/// Both sides end at the same time, with bytes under way in both directions.
pub(crate) fn simultaneous_close(bench: &mut Bench) {
    for turn in 0..PEERS {
        let (ours, mut peer) = connection(bench);
        let receive = bench.start(Op::Receive { fd: ours.at() });
        let send = bench.start_send(&ours, b"ours");
        let end = bench.start(Op::Shutdown { fd: ours.at(), how: Shutdown::Write });
        peer.write_all(b"theirs").expect("connected");
        if turn % 2 == 0 {
            urgent(&peer);
        }
        peer.shutdown(std::net::Shutdown::Write).expect("connected");
        assert_eq!(bench.answer(send).result, Ok(4));
        assert_eq!(bench.answer(end).result, Ok(0));
        let mut heard = bench.answer(receive).ok().bytes;
        heard.extend(drain(bench, &ours));
        assert_eq!(heard, b"theirs");
        let mut theirs = Vec::new();
        peer.read_to_end(&mut theirs).expect("an orderly end");
        assert_eq!(theirs, b"ours");
        bench.close(ours);
    }
}

/// Segments of a few bytes.
pub(crate) fn tiny_segments(bench: &mut Bench) {
    const BYTES: usize = 200_000;
    let (ours, peer) = connection_with(bench, |socket| socket.set_tcp_mss(88).expect("a socket"));
    let back = peer.try_clone().expect("a descriptor");
    let writer = std::thread::spawn(move || (&back).write_all(&pattern(3, BYTES)).expect("connected"));
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; BYTES];
        (&peer).read_exact(&mut bytes).expect("connected");
        (peer, bytes)
    });
    let mut rest = SendBytes::Lease(bench.lease(&[]));
    let mut sent = 0;
    let mut heard = Vec::new();
    let mut receive = bench.start(Op::Receive { fd: ours.at() });
    let mut send: Option<Ticket> = None;
    while sent < BYTES || heard.len() < BYTES {
        if send.is_none() && sent < BYTES {
            if rest.is_empty() {
                rest = SendBytes::Lease(bench.lease(&pattern(7 + sent, (BYTES - sent).min(50_000))));
            }
            send = Some(
                bench.start(Op::Send { fd: ours.at(), bytes: core::mem::replace(&mut rest, SendBytes::Static(b"")) }),
            );
        }
        bench.turn();
        if let Some(ticket) = send.filter(|ticket| !bench.is_waiting(*ticket)) {
            let answer = bench.answer(ticket).ok();
            sent += answer.result.expect("asked above") as usize;
            rest = answer.rest.expect("it comes back");
            send = None;
        }
        if heard.len() < BYTES && !bench.is_waiting(receive) {
            heard.extend(bench.answer(receive).ok().bytes);
            if heard.len() < BYTES {
                receive = bench.start(Op::Receive { fd: ours.at() });
            }
        }
    }
    assert_eq!(heard, pattern(3, BYTES));
    writer.join().expect("no panic");
    let (peer, bytes) = reader.join().expect("no panic");
    assert_eq!(bytes, pattern(7, BYTES));
    drop(peer);
    bench.close(ours);
}
