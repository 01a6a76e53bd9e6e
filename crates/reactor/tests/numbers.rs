//! A descriptor's number is another file's as soon as it was closed: nothing that is still on its way may act upon it
//! then.
//!
//! The tests take turns in a process of their own, so that the number which was closed is the next one that the system
//! hands out.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_reactor::op::Shutdown;
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_reactor::{
    Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, Errno, Fd, Interest, ListenOptions, Op, Payload,
    SendBytes, SocketKind, SocketOption, Token, Wait,
};

/// What became of the shutdown before its descriptor was closed.
#[derive(Clone, Copy, Debug)]
enum Given {
    Disowned,
    Orphaned,
    /// Its owner still waits for it.
    Kept,
}

/// How the descriptor is closed.
#[derive(Clone, Copy, Debug)]
enum Closed {
    Queued,
    Now,
}

/// When the number is handed out again.
#[derive(Clone, Copy, Debug)]
enum Reused {
    BeforeTheTurn,
    /// When the kernel has done what it was asked to, and nobody has looked.
    WithinTheTurn,
}

fn accepted(driver: &mut Driver, listener: &Fd) -> Fd {
    loop {
        if let Some(fd) = driver.accept_now(listener.at()).expect("it accepts") {
            return fd;
        }
    }
}

/// Whether the number came back.
fn scene(driver: &mut Driver, given: Given, closed: Closed, reused: Reused) -> bool {
    let listener = driver.listen("127.0.0.1:0".parse().expect("an address"), &ListenOptions::default()).expect("free");
    let address = driver.local_address(listener.at()).expect("bound").ip().expect("of TCP");
    let mut first_peer = TcpStream::connect(address).expect("it listens");
    let mut second_peer = TcpStream::connect(address).expect("it listens");
    for peer in [&first_peer, &second_peer] {
        peer.set_read_timeout(Some(Duration::from_secs(120))).expect("a plain socket");
    }
    let first = accepted(driver, &listener);
    let number = first.raw();

    driver.submit(Op::Send { fd: first.at(), bytes: SendBytes::Static(b"first") }, Token(1)).expect("room");
    let shutdown = driver.submit(Op::Shutdown { fd: first.at(), how: Shutdown::Write }, Token(2)).expect("room");
    match given {
        Given::Disowned => driver.disown(shutdown),
        Given::Orphaned => driver.orphan(shutdown),
        Given::Kept => {}
    }
    if matches!(closed, Closed::Now) {
        // A send that is still queued on this side would be the owner's to give up.
        while driver.in_flight() > 0 && driver.reap().is_none() {
            driver.enter(Wait::No).expect("the driver works");
        }
        let again = driver.submit(Op::Shutdown { fd: first.at(), how: Shutdown::Write }, Token(3)).expect("room");
        match given {
            Given::Disowned => driver.disown(again),
            Given::Orphaned => driver.orphan(again),
            Given::Kept => {}
        }
        driver.close_now(first);
    } else {
        driver.close(first);
    }
    let second = match reused {
        Reused::BeforeTheTurn => accepted(driver, &listener),
        Reused::WithinTheTurn => {
            driver.enter(Wait::No).expect("the driver works");
            accepted(driver, &listener)
        }
    };
    while driver.in_flight() > 0 {
        while driver.reap().is_some() {}
        driver.enter(Wait::No).expect("the driver works");
    }
    while driver.reap().is_some() {}

    // The second connection works in both directions.
    driver.submit(Op::Send { fd: second.at(), bytes: SendBytes::Static(b"second") }, Token(4)).expect("room");
    second_peer.write_all(b"hello").expect("it is open");
    driver.submit(Op::Receive { fd: second.at() }, Token(5)).expect("room");
    let mut answers = 0;
    while answers < 2 {
        driver.enter(Wait::Forever).expect("the driver works");
        while let Some(completion) = driver.reap() {
            answers += 1;
            let how = (given, closed, reused);
            match completion.payload {
                Payload::Received(bytes) => assert_eq!(&bytes[..], b"hello", "{how:?}"),
                _ => assert_eq!(completion.result, Ok(6), "the shutdown of another connection has hit it: {how:?}"),
            }
        }
    }
    let mut read = [0; 6];
    second_peer.read_exact(&mut read).expect("the bytes come");
    assert_eq!(&read, b"second");
    // And the first one has ended, after its bytes.
    let mut all = Vec::new();
    first_peer.read_to_end(&mut all).expect("an orderly end");
    assert_eq!(all, b"first");

    let is_reused = second.raw() == number;
    for fd in [second, listener] {
        driver.close_now(fd);
    }
    is_reused
}

/// What waits when its descriptor is closed, and was not given up before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiting {
    Send,
    ReceiveInto,
    Poll,
}

/// Whether the number came back.
fn waiting_scene(driver: &mut Driver, waiting: Waiting, closed: Closed) -> bool {
    let listener = driver.listen("127.0.0.1:0".parse().expect("an address"), &ListenOptions::default()).expect("free");
    let address = driver.local_address(listener.at()).expect("bound").ip().expect("of TCP");
    let mut first_peer = TcpStream::connect(address).expect("it listens");
    let mut second_peer = TcpStream::connect(address).expect("it listens");
    let first = accepted(driver, &listener);
    let number = first.raw();
    loop {
        let fd = first.at();
        let op = match waiting {
            Waiting::Send => Op::Send { fd, bytes: SendBytes::Static(&[b'x'; 1 << 20]) },
            Waiting::ReceiveInto => {
                let lease = driver.pool().try_acquire(1_000, plimsoll_pool::Kind::Buffers).expect("room");
                Op::ReceiveInto { fd, lease }
            }
            Waiting::Poll => Op::Poll { fd, interest: Interest::Readable },
        };
        driver.submit(op, Token(1)).expect("room");
        let mut is_over = false;
        for _ in 0..3 {
            let soon = driver.now() + Duration::from_millis(10);
            driver.enter(Wait::Until(soon)).expect("the driver works");
            is_over |= driver.reap().is_some();
        }
        if !is_over {
            break;
        }
        assert_eq!(waiting, Waiting::Send, "nothing has come");
    }
    match closed {
        Closed::Now => driver.close_now(first),
        Closed::Queued => {
            driver.close(first);
            driver.enter(Wait::No).expect("the driver works");
        }
    }
    let second = accepted(driver, &listener);
    let is_reused = second.raw() == number;

    // What they waited for comes, and is there for the second connection as well. Whether the first one has ended
    // already, is the driver's.
    second_peer.write_all(b"hello").expect("it is open");
    let _may_be_over = first_peer.write_all(b"late");
    first_peer.set_nonblocking(true).expect("a plain socket");
    let deadline = driver.now() + Duration::from_secs(120);
    let mut room = vec![0; 1 << 16];
    while driver.in_flight() > 0 {
        assert!(driver.now() < deadline, "{waiting:?} {closed:?}: it does not end");
        while first_peer.read(&mut room).is_ok_and(|bytes| bytes > 0) {}
        let soon = driver.now() + Duration::from_millis(5);
        driver.enter(Wait::Until(soon)).expect("the driver works");
        while let Some(completion) = driver.reap() {
            let ended = completion.result == Err(Errno::CANCELED) || waiting == Waiting::Poll;
            assert!(ended, "{waiting:?} {closed:?}: {:?}", completion.result);
        }
    }
    // The second connection has what was sent to it, and its peer what we send.
    let mut leases = [Some(driver.pool().try_acquire(1_000, plimsoll_pool::Kind::Buffers).expect("room"))];
    assert_eq!(driver.receive_now(second.at(), &mut leases, 1_000), Ok(5));
    assert_eq!(driver.send_now(second.at(), b"second"), Ok(6));
    for fd in [second, listener] {
        driver.close_now(fd);
    }
    let mut all = Vec::new();
    second_peer.read_to_end(&mut all).expect("an orderly end");
    assert_eq!(all, b"second");
    is_reused
}

#[test]
fn what_waits_never_reaches_a_later_connection() {
    on_each_driver(|driver| {
        let mut reuses = 0;
        for waiting in [Waiting::Send, Waiting::ReceiveInto, Waiting::Poll] {
            for closed in [Closed::Queued, Closed::Now] {
                reuses += u32::from(waiting_scene(driver, waiting, closed));
            }
        }
        reuses
    });
}

#[test]
fn a_shutdown_never_hits_a_later_connection() {
    on_each_driver(|driver| {
        let mut reuses = 0;
        for given in [Given::Disowned, Given::Orphaned, Given::Kept] {
            for closed in [Closed::Queued, Closed::Now] {
                for reused in [Reused::BeforeTheTurn, Reused::WithinTheTurn] {
                    reuses += u32::from(scene(driver, given, closed, reused));
                }
            }
        }
        reuses
    });
}

/// A simulated kernel counts from three, too.
#[test]
fn a_simulated_descriptor_is_no_file_of_the_process() {
    on_each_driver(|driver| {
        let world = World::new(SimConfig::new(1));
        let mut simulated =
            Driver::simulated(&world, &DriverConfig::default(), &driver.pool().clone()).expect("there is room");
        for _ in 0..64 {
            let fd = simulated.socket(SocketKind::Tcp4).expect("a socket");
            assert!(fd.raw() < 0, "{fd:?}");
            assert_eq!(driver.send_now(fd.at(), b"x"), Err(Errno(libc::EBADF)));
            assert_eq!(driver.set_option(fd.at(), SocketOption::NoDelay(true)), Err(Errno(libc::EBADF)));
            assert_eq!(driver.shutdown_now(fd.at(), Shutdown::Both), Err(Errno(libc::EBADF)));
            assert_eq!(driver.local_address(fd.at()), Err(Errno(libc::EBADF)));
            assert!(!driver.is_readable_now(fd.at()));
            simulated.close_now(fd);
        }
        1
    });
}

/// Runs scenes on the real drivers, one test at a time. They say how many numbers came back.
fn on_each_driver(scenes: impl Fn(&mut Driver) -> u32) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        let selected = match plimsoll_reactor::select(choice) {
            Ok(selected) => selected,
            Err(error) => {
                println!("skipped: {error}");
                continue;
            }
        };
        let budget = Budget::new(MemoryLimit::mib(16));
        let pool = Pool::new(&budget, PoolConfig::default()).expect("there is room");
        let blocking = Blocking::new(BlockingConfig::default(), &budget);
        let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).expect("it was probed");
        let reuses = scenes(&mut driver);
        assert_eq!(driver.in_flight(), 0);
        assert!(reuses > 0, "no number ever came back: the test tests nothing");
    }
}
