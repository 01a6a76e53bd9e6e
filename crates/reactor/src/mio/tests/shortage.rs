//! Operations that find no place to wait in: the line is reached, or epoll has no room. That is no fault of their
//! connections.
#![forbid(unsafe_code)]

use std::io::Write;

use plimsoll_pool::Lease;

use super::*;
use crate::SocketKind;
use crate::mio::table::Entry;
use crate::mio::{Mio, RETRY_DELAY_MIN};
use crate::slots::Slots;

/// All memory under the line, but for what tables have already.
fn hoard(pool: &Pool) -> Vec<Lease> {
    let mut hoard = Vec::new();
    for len in [131_072, 65_536, 32_768, 16_384, 8_192, 4_096] {
        while let Ok(lease) = pool.try_acquire(len, Kind::Buffers) {
            hoard.push(lease);
        }
    }
    hoard
}

fn next(driver: &mut Driver, within: Duration) -> Option<Completion> {
    let until = sys::now() + within;
    loop {
        if let Some(completion) = driver.reap() {
            return Some(completion);
        }
        if driver.now() >= until {
            return None;
        }
        driver.enter(Wait::Until(until)).expect("a wait");
    }
}

const LONG: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(20);

/// The line is no fault of the connection: what finds no memory to wait in is tried again, and asks for no turn in
/// between.
#[test]
fn without_room_for_the_table_a_receive_goes_on_later() {
    let budget = Budget::new(MemoryLimit::mib(2));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
    let blocking = Blocking::new(BlockingConfig::default(), &budget);
    let selected = select(DriverChoice::Mio).expect("always there");
    let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).expect("the line is wide");
    let (mut client, server) = Bench::new().connection();
    // The slot table has its page before the line is reached.
    driver
        .submit(Op::Close { fd: Number::from_raw(1 << 29).owned() }, Token(1))
        .map_err(|(over, _)| over)
        .expect("the line is wide");
    let mut memory = hoard(&pool);
    let receive = Op::Receive { fd: server };
    let first = driver.submit(receive, Token(2)).map_err(|(over, _)| over).expect("the slot table has room");
    let close = next(&mut driver, LONG).expect("it ends");
    assert_eq!((close.token, close.result), (Token(1), Err(Errno(libc::EBADF))));
    assert!(next(&mut driver, SHORT).is_none(), "it waits, though without a place in the table");
    assert!(!driver.has_ready(), "and nobody spins for it");
    // It ends when it is asked to.
    driver.cancel(first);
    let cancelled = next(&mut driver, LONG).expect("it ends");
    assert_eq!((cancelled.token, cancelled.result), (Token(2), Err(Errno::CANCELED)));
    // What comes meanwhile is received at the line.
    let receive = Op::Receive { fd: server };
    driver.submit(receive, Token(3)).map_err(|(over, _)| over).expect("the slot table has room");
    assert!(next(&mut driver, SHORT).is_none());
    client.write_all(b"at the line").expect("connected");
    assert_eq!(&*bytes_of(next(&mut driver, LONG).expect("it is received")), b"at the line");
    let receive = Op::Receive { fd: server };
    driver.submit(receive, Token(4)).map_err(|(over, _)| over).expect("the slot table has room");
    assert!(next(&mut driver, SHORT).is_none());
    // What is kept aside like this ends with its descriptor.
    let (_doomed_client, doomed) = Bench::new().connection();
    let receive = Op::Receive { fd: doomed };
    driver.submit(receive, Token(5)).map_err(|(over, _)| over).expect("the slot table has room");
    assert!(next(&mut driver, SHORT).is_none());
    driver.close_now(doomed.owned());
    let cancelled = next(&mut driver, LONG).expect("it ends");
    assert_eq!((cancelled.token, cancelled.result), (Token(5), Err(Errno::CANCELED)));
    // With room again, it waits as all do.
    memory.clear();
    assert!(next(&mut driver, SHORT).is_none());
    drop(client);
    let end = next(&mut driver, LONG).expect("the peer's end is told");
    assert_eq!((end.token, end.result), (Token(4), Ok(0)));
    driver.close_now(server.owned());
}

/// Connects at the line, and gives the line free when `is_freed`, while the connect is under way.
fn connect_at_the_line(to: core::net::SocketAddr, is_freed: bool) -> (Driver, Number, Completion) {
    let budget = Budget::new(MemoryLimit::mib(2));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
    let blocking = Blocking::new(BlockingConfig::default(), &budget);
    let selected = select(DriverChoice::Mio).expect("always there");
    let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).expect("the line is wide");
    let address = driver.address(to.into()).expect("the line is wide");
    let fd = driver.socket(SocketKind::Tcp4).expect("a socket").number();
    // The slot table has its page before the line is reached.
    let nowhere = Op::Close { fd: Number::from_raw(1 << 29).owned() };
    driver.submit(nowhere, Token(1)).map_err(|(over, _)| over).expect("the line is wide");
    let mut memory = hoard(&pool);
    assert_eq!(next(&mut driver, LONG).map(|completion| completion.token), Some(Token(1)));
    driver.submit(Op::Connect { fd, address }, Token(2)).map_err(|(over, _)| over).expect("the slot table has room");
    driver.enter(Wait::No).expect("a look");
    let at_once = driver.reap();
    if is_freed {
        memory.clear();
    }
    let connected = at_once.or_else(|| next(&mut driver, LONG)).expect("it ends");
    assert_eq!(connected.token, Token(2));
    (driver, fd, connected)
}

#[test]
fn a_connect_at_the_line_goes_on() {
    for is_freed in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut driver, fd, connected) = connect_at_the_line(listener.local_addr().expect("bound"), is_freed);
        assert_eq!(connected.result, Ok(0), "freed: {is_freed}");
        let (mut peer, _) = listener.accept().expect("it is there");
        peer.write_all(b"welcome").expect("connected");
        driver.submit(Op::Receive { fd }, Token(3)).map_err(|(over, _)| over).expect("room");
        assert_eq!(&*bytes_of(next(&mut driver, LONG).expect("it is received")), b"welcome");
        driver.close_now(fd.owned());
    }
}

#[test]
fn a_connect_that_fails_at_the_line_says_why() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    for is_freed in [false, true] {
        let (mut driver, fd, refused) = connect_at_the_line(nobody, is_freed);
        assert_eq!(refused.result, Err(Errno(libc::ECONNREFUSED)), "freed: {is_freed}");
        driver.close_now(fd.owned());
    }
}

/// File operations of a descriptor are counted in 16 bits: one more is refused, and there is room again when one has
/// ended.
#[test]
fn a_descriptor_has_so_many_file_operations() {
    let bench = Bench::new();
    let config = DriverConfig::default();
    let mut mio = Mio::new(&config, &bench.pool, bench.driver.doorbell(), &bench.blocking).expect("the line is wide");
    let mut slots = Slots::new();
    let fd = Number::from_raw(std::fs::File::open("/proc/self/status").expect("it exists").into_raw_fd());
    mio.watch.table.reserve(fd).expect("the line is wide");
    let mut results = Vec::new();
    for jobs in [u16::MAX, u16::MAX - 1] {
        let entry = mio.watch.table.get(fd);
        mio.watch.table.set(fd, Entry { jobs, ..entry });
        let lease = bench.pool.try_acquire(100, Kind::Buffers).expect("the line is wide");
        let key = slots.insert(&bench.pool, Op::ReadAt { fd, lease, offset: 0 }, Token(1)).expect("the line is wide");
        mio.start(key, &mut slots);
        while slots.len() > 0 {
            mio.enter(Wait::Until(mio.now() + Duration::from_secs(20)), &mut slots).expect("a wait");
            while let Some(raw) = mio.next(&mut slots) {
                results.push(raw.result.is_ok());
                assert!(raw.result.is_ok() || raw.result == Err(Errno::AGAIN), "{:?}", raw.result);
                slots.finish(raw).expect("it was in flight");
            }
        }
        assert_eq!(mio.watch.table.get(fd).jobs, jobs);
    }
    assert_eq!(results, [false, true]);
    sys::close(fd).expect("it is open");
}

#[test]
fn without_room_in_epoll_a_receive_goes_on_later() {
    let mut bench = Bench::new();
    let (mut client, fd) = bench.connection();
    let config = DriverConfig::default();
    let mut mio = Mio::new(&config, &bench.pool, bench.driver.doorbell(), &bench.blocking).expect("the line is wide");
    let mut slots = Slots::new();
    mio.watch.is_full = true;
    let key = slots.insert(&bench.pool, Op::Receive { fd }, Token(1)).expect("the line is wide");
    mio.start(key, &mut slots);
    for _ in 0..3 {
        mio.enter(Wait::Until(sys::now() + Duration::from_millis(10)), &mut slots).expect("a wait");
        assert!(mio.next(&mut slots).is_none(), "it waits");
        assert!(!mio.has_ready(), "and nobody spins for it");
    }
    client.write_all(b"with no place to wait in").expect("connected");
    let deadline = sys::now() + LONG;
    let raw = loop {
        if let Some(raw) = mio.next(&mut slots) {
            break raw;
        }
        assert!(sys::now() < deadline, "it is received");
        mio.enter(Wait::Until(deadline), &mut slots).expect("a wait");
    };
    assert_eq!((raw.key, raw.result), (key, Ok(24)));
    slots.finish(raw).expect("it was in flight");
    bench.driver.close_now(fd.owned());
}

#[test]
fn what_finds_no_room_is_tried_less_and_less_until_there_is_some() {
    let mut bench = Bench::new();
    let (_client, fd) = bench.connection();
    let config = DriverConfig::default();
    let mut mio = Mio::new(&config, &bench.pool, bench.driver.doorbell(), &bench.blocking).expect("the line is wide");
    let mut slots = Slots::new();
    mio.watch.is_full = true;
    for interest in [Interest::Readable, Interest::PeerClosed] {
        let key = slots.insert(&bench.pool, Op::Poll { fd, interest }, Token(1)).expect("the line is wide");
        mio.start(key, &mut slots);
    }
    let mut turn = |mio: &mut Mio| {
        let wait = if mio.has_ready() { Wait::No } else { Wait::Until(sys::now() + LONG) };
        mio.enter(wait, &mut slots).expect("a wait");
        assert!(mio.next(&mut slots).is_none(), "nothing to be told");
        (mio.watch.refusals, mio.retry.delay.as_millis())
    };
    assert_eq!(turn(&mut mio), (2, 5));
    for (times, delay_ms) in [(2, 10), (3, 20), (4, 40), (5, 80), (6, 100), (7, 100)] {
        while mio.watch.refusals < 2 * times {
            turn(&mut mio);
        }
        assert_eq!((mio.watch.refusals, mio.retry.delay.as_millis()), (2 * times, delay_ms));
    }
    mio.watch.is_full = false;
    while mio.watch.queues.aside() > 0 {
        turn(&mut mio);
    }
    mio.enter(Wait::No, &mut slots).expect("a look");
    assert_eq!(mio.retry.delay, RETRY_DELAY_MIN);
    bench.driver.close_now(fd.owned());
}

#[test]
fn a_connect_that_finds_no_room_in_epoll_asks_once() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = bench.driver.address(listener.local_addr().expect("bound").into()).expect("the line is wide");
    let config = DriverConfig::default();
    let mut mio = Mio::new(&config, &bench.pool, bench.driver.doorbell(), &bench.blocking).expect("the line is wide");
    let mut slots = Slots::new();
    let fd = mio.socket(SocketKind::Tcp4).expect("a socket");
    mio.watch.is_full = true;
    let key = slots.insert(&bench.pool, Op::Connect { fd, address }, Token(1)).expect("the line is wide");
    mio.start(key, &mut slots);
    mio.enter(Wait::No, &mut slots).expect("a look");
    assert!(mio.next(&mut slots).is_none(), "it is under way");
    assert_eq!(mio.watch.refusals, 1);
    mio.close_now(fd, &mut slots);
}

/// What was received at once is no reason to ask the system when the next bytes are waited for.
#[test]
fn what_was_received_at_once_is_used_up() {
    let mut bench = Bench::new();
    let (mut client, fd) = bench.connection();
    let config = DriverConfig::default();
    let mut mio = Mio::new(&config, &bench.pool, bench.driver.doorbell(), &bench.blocking).expect("the line is wide");
    let mut slots = Slots::new();
    let told = |mio: &mut Mio, slots: &mut Slots, wait: Wait| {
        mio.enter(if mio.has_ready() { Wait::No } else { wait }, slots).expect("a wait");
        let raw = mio.next(slots)?;
        assert_eq!(raw.result, Ok(0));
        slots.finish(raw)
    };
    for (bytes, room) in [(5, 64), (64, 64), (0, 64)] {
        if bytes > 0 {
            let poll = Op::Poll { fd, interest: Interest::Readable };
            let key = slots.insert(&bench.pool, poll, Token(1)).expect("the line is wide");
            mio.start(key, &mut slots);
            // Registered, and told that there is room to send.
            for _ in 0..3 {
                assert!(told(&mut mio, &mut slots, Wait::No).is_none(), "nothing is there");
            }
            client.write_all(&[b'b'; 64][..bytes]).expect("connected");
            let deadline = sys::now() + LONG;
            while told(&mut mio, &mut slots, Wait::Until(deadline)).is_none() {
                assert!(sys::now() < deadline, "there are bytes");
            }
        }
        let mut leases = [Some(bench.pool.try_acquire(room, Kind::Buffers).expect("the line is wide"))];
        let received = mio.receive_now(fd, &mut leases, room);
        assert_eq!(received, if bytes > 0 { Ok(bytes) } else { Err(Errno::AGAIN) });
        assert_eq!(mio.watch.is_readable(fd), bytes == room, "there may be more behind what filled the room");
    }
    bench.driver.close_now(fd.owned());
}
