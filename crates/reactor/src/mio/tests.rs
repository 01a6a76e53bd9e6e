//! What only this driver does: readiness remembered, descriptors closed under those who wait, the scratch buffer, and
//! file operations behind a small blocking pool. What all drivers do is in the conformance suite.
#![forbid(unsafe_code)]

mod models;
mod shortage;

use core::time::Duration;
use std::ffi::CString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
use plimsoll_slab::Key;

use crate::fd::Number;
use crate::{
    Blocking, BlockingConfig, Completion, Driver, DriverChoice, DriverConfig, Errno, Interest, Op, Payload, Received,
    SendBytes, Token, Wait, select, sys,
};

struct Bench {
    driver: Driver,
    pool: Pool,
    blocking: Arc<Blocking>,
}

impl Bench {
    fn new() -> Self {
        Self::with_blocking(BlockingConfig::default())
    }

    fn with_blocking(config: BlockingConfig) -> Self {
        let budget = Budget::new(MemoryLimit::mib(16));
        let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
        let blocking = Blocking::new(config, &budget);
        let selected = select(DriverChoice::Mio).expect("always there");
        let config = DriverConfig { drop_deadline: Duration::from_millis(100), ..DriverConfig::default() };
        let driver = Driver::new(&selected, &config, &pool, &blocking).expect("the line is wide");
        Self { driver, pool, blocking }
    }

    fn submit(&mut self, op: Op) -> Key {
        self.driver.submit(op, Token(0)).map_err(|(over, _)| over).expect("the line is wide")
    }

    /// Gives the blocking pool a job that lasts until what is returned is dropped.
    fn hold_thread(&self) -> mpsc::Sender<()> {
        let (open_gate, gate) = mpsc::channel();
        let wait = move || {
            let _ended = gate.recv();
        };
        assert!(self.blocking.run(Box::new(wait)).is_ok());
        open_gate
    }

    /// The completion of an operation; no other may come.
    fn completion(&mut self, key: Key) -> Completion {
        let deadline = sys::now() + Duration::from_secs(60);
        loop {
            // Also when it is there: one that the deadline has brought to light was forgotten before.
            assert!(self.driver.now() < deadline, "it ends");
            if let Some(completion) = self.driver.reap() {
                assert_eq!(completion.key, key, "another operation ended: {:?}", completion.result);
                return completion;
            }
            self.driver.enter(Wait::Until(deadline)).expect("a wait");
        }
    }

    /// Turns in which nothing may end.
    fn quiet(&mut self) {
        let until = sys::now() + Duration::from_millis(10);
        while self.driver.now() < until {
            self.driver.enter(Wait::Until(until)).expect("a wait");
            let completion = self.driver.reap();
            assert!(completion.is_none(), "{completion:?}");
        }
    }

    fn connection(&mut self) -> (TcpStream, Number) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (server, _) = listener.accept().expect("it is there");
        (client, Number::from_raw(server.into_raw_fd()))
    }
}

fn bytes_of(completion: Completion) -> Received {
    assert!(completion.result.is_ok(), "{:?}", completion.result);
    let Payload::Received(received) = completion.payload else { panic!("a receive brings bytes") };
    received
}

/// A directory that goes when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-mio-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a place for files");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

fn with_nul(path: PathBuf) -> Vec<u8> {
    CString::new(path.into_os_string().into_encoded_bytes()).expect("no NUL in it").into_bytes_with_nul()
}

#[test]
fn bytes_from_before_the_registration_are_noticed() {
    let mut bench = Bench::new();
    let (mut client, server) = bench.connection();
    client.write_all(b"early").expect("connected");
    let receive = bench.submit(Op::Receive { fd: server });
    assert_eq!(&*bytes_of(bench.completion(receive)), b"early");
    bench.driver.close_now(server.owned());
}

#[test]
fn an_edge_that_nobody_waited_for_is_remembered() {
    let mut bench = Bench::new();
    let (mut client, server) = bench.connection();
    // Registered by the first receive; the second edge meets nobody.
    client.write_all(b"1").expect("connected");
    let first = bench.submit(Op::Receive { fd: server });
    assert_eq!(&*bytes_of(bench.completion(first)), b"1");
    client.write_all(b"2").expect("connected");
    bench.quiet();
    bench.quiet();
    let second = bench.submit(Op::Receive { fd: server });
    assert_eq!(&*bytes_of(bench.completion(second)), b"2");
    drop(client);
    bench.quiet();
    let end = bench.submit(Op::Receive { fd: server });
    assert_eq!(bench.completion(end).result, Ok(0));
    bench.driver.close_now(server.owned());
}

#[test]
fn a_second_receive_on_the_same_socket_gets_what_follows() {
    let mut bench = Bench::new();
    let (mut client, server) = bench.connection();
    let first = bench.submit(Op::Receive { fd: server });
    let second = bench.submit(Op::Receive { fd: server });
    bench.quiet();
    client.write_all(b"one").expect("connected");
    assert_eq!(&*bytes_of(bench.completion(first)), b"one");
    bench.quiet();
    client.write_all(b"two").expect("connected");
    assert_eq!(&*bytes_of(bench.completion(second)), b"two");
    bench.driver.close_now(server.owned());
}

/// Their owner should have cancelled them; they end all the same, and never touch the descriptor that gets the number.
#[test]
fn closing_under_a_wait_cancels() {
    let mut bench = Bench::new();
    let (_client, server) = bench.connection();
    let receive = bench.submit(Op::Receive { fd: server });
    bench.quiet();
    bench.driver.close_now(server.owned());
    let (mut next_client, next) = bench.connection();
    next_client.write_all(b"not for the old one").expect("connected");
    let completion = bench.completion(receive);
    assert_eq!(completion.result, Err(Errno::CANCELED));
    let receive = bench.submit(Op::Receive { fd: next });
    assert_eq!(&*bytes_of(bench.completion(receive)), b"not for the old one");

    let poll = bench.submit(Op::Poll { fd: next, interest: Interest::PeerClosed });
    bench.quiet();
    let close = bench.submit(Op::Close { fd: next.owned() });
    bench.driver.disown(close);
    assert_eq!(bench.completion(poll).result, Err(Errno::CANCELED));
}

/// What is queued when its descriptor is closed is not tried: the number may be another connection's by then.
#[test]
fn closing_under_what_is_queued_cancels() {
    let mut bench = Bench::new();
    for by_operation in [false, true] {
        let (mut client, server) = bench.connection();
        let (_other_client, other) = bench.connection();
        // Registered, so that an edge queues it.
        let receive = bench.submit(Op::Receive { fd: server });
        bench.quiet();
        client.write_all(b"unheard").expect("connected");
        let close = by_operation.then(|| bench.submit(Op::Close { fd: server.owned() }));
        // The edge comes, and nobody looks yet.
        bench.driver.enter(Wait::Until(sys::now() + Duration::from_secs(5))).expect("a wait");
        assert!(bench.driver.has_ready());
        let mut keys = vec![receive];
        if close.is_none() {
            let lease = bench.pool.try_acquire(64, Kind::Buffers).expect("the line is wide");
            keys.push(bench.submit(Op::Send { fd: server, bytes: SendBytes::Static(b"unsaid") }));
            keys.push(bench.submit(Op::ReadAt { fd: server, lease, offset: 0 }));
            bench.driver.close_now(server.owned());
        }
        let goes_on = bench.submit(Op::Send { fd: other, bytes: SendBytes::Static(b"said") });
        let (_next_client, next) = bench.connection();
        let mut results = std::collections::HashMap::new();
        let deadline = sys::now() + Duration::from_secs(5);
        while results.len() < keys.len() + 1 + usize::from(by_operation) {
            assert!(bench.driver.now() < deadline, "all end: {results:?}");
            bench.driver.enter(Wait::Until(deadline)).expect("a wait");
            while let Some(completion) = bench.driver.reap() {
                results.insert(completion.key, completion.result);
            }
        }
        for key in keys {
            assert_eq!(results[&key], Err(Errno::CANCELED));
        }
        assert_eq!(results[&goes_on], Ok(4), "others go on");
        assert!(close.is_none_or(|close| results[&close] == Ok(0)));
        let mut rest = Vec::new();
        let _reset = client.read_to_end(&mut rest);
        assert_eq!(rest, b"", "nothing was said");
        bench.driver.close_now(other.owned());
        bench.driver.close_now(next.owned());
        bench.quiet();
    }
}

/// A descriptor that was closed behind the driver's back, and whose number the driver is given again.
#[test]
fn a_number_that_is_handed_out_is_a_fresh_one() {
    let mut bench = Bench::new();
    let listener = bench
        .driver
        .listen("127.0.0.1:0".parse().expect("an address"), &crate::ListenOptions::default())
        .expect("a port")
        .number();
    let address = bench.driver.local_address(listener).expect("bound").ip().expect("of TCP");
    let (_gone, stranger) = bench.connection();
    let receive = bench.submit(Op::Receive { fd: stranger });
    bench.quiet();
    bench.driver.cancel(receive);
    assert_eq!(bench.completion(receive).result, Err(Errno::CANCELED));
    sys::close(stranger).expect("open until now");
    // Parallel tests may take the number first; then there is nothing to be seen here.
    let client = std::thread::spawn(move || TcpStream::connect(address).expect("a connection"));
    let accept = bench.submit(Op::Accept { listener });
    let Payload::Fd(accepted) = bench.completion(accept).payload else { panic!("an accept brings a descriptor") };
    let mut client = client.join().expect("no panic");
    let receive = bench.submit(Op::Receive { fd: accepted.number() });
    bench.quiet();
    client.write_all(b"hello").expect("connected");
    assert_eq!(&*bytes_of(bench.completion(receive)), b"hello");
    bench.driver.close_now(accepted);
    bench.driver.close_now(listener.owned());
}

#[test]
fn receives_stop_when_the_scratch_buffer_is_lent() {
    const CONNECTIONS: usize = 8;
    let mut bench = Bench::new();
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| bench.connection()).collect();
    for (number, (client, _)) in connections.iter_mut().enumerate() {
        client.write_all(&vec![number as u8; 15_000]).expect("the socket has room");
    }
    let fds: Vec<Number> = connections.iter().map(|&(_, fd)| fd).collect();
    let keys: Vec<Key> = fds.iter().map(|&fd| bench.submit(Op::Receive { fd })).collect();
    let mut order = Vec::new();
    let mut turns = 0;
    while order.len() < CONNECTIONS {
        bench.driver.enter(Wait::Until(sys::now() + Duration::from_secs(5))).expect("a wait");
        turns += 1;
        let mut held = Vec::new();
        while let Some(completion) = bench.driver.reap() {
            let number = keys.iter().position(|&key| key == completion.key).expect("one of them");
            order.push(number);
            held.push((number, bytes_of(completion)));
        }
        let lent: usize = held.iter().map(|(_, received)| received.len()).sum();
        assert!(lent <= crate::received::RECEIVE_BUFFER_BYTES);
        if order.len() < CONNECTIONS && lent > 0 {
            assert!(
                lent + super::SCRATCH_BYTES_MIN > crate::received::RECEIVE_BUFFER_BYTES || held.len() < CONNECTIONS,
                "it is not stopped early"
            );
            assert!(bench.driver.reap().is_none(), "while they are held, none is given");
        }
        for (number, received) in held {
            assert!(received.iter().all(|&byte| byte == number as u8), "lent bytes stay what they were");
        }
    }
    assert!(turns > 1, "120,000 bytes do not fit");
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..CONNECTIONS).collect::<Vec<_>>());
    // Received bytes outlive the driver.
    let last = fds[0];
    connections[0].0.write_all(b"kept").expect("connected");
    let receive = bench.submit(Op::Receive { fd: last });
    // What the first receive left of the 15,000 comes first, if anything.
    let mut kept = bytes_of(bench.completion(receive));
    if !kept.ends_with(b"kept") {
        let receive = bench.submit(Op::Receive { fd: last });
        kept = bytes_of(bench.completion(receive));
    }
    for fd in fds {
        bench.driver.close_now(fd.owned());
    }
    drop(bench);
    assert!(kept.ends_with(b"kept"));
}

#[test]
fn file_operations_queue_behind_a_small_pool() {
    let directory = Directory::new("backlog");
    let config = BlockingConfig { threads_max: 1, queue_max: 1, ..BlockingConfig::default() };
    let mut bench = Bench::with_blocking(config);
    let path = bench.pool.try_copy(&with_nul(directory.path("file")), Kind::Buffers).expect("the line is wide");
    let open = bench.submit(Op::Open { path, flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600 });
    let Payload::Fd(file) = bench.completion(open).payload else { panic!("an open brings a descriptor") };
    let writes: Vec<Key> = (0..100_u8)
        .map(|place| {
            let lease = bench.pool.try_copy(&[place; 10], Kind::Buffers).expect("the line is wide");
            bench.submit(Op::WriteAt { fd: file.number(), lease, offset: u64::from(place) * 10 })
        })
        .collect();
    // One thread and one queue, so the order is that of submission.
    for write in writes {
        assert_eq!(bench.completion(write).result, Ok(10));
    }
    assert!(bench.blocking.threads() <= 1);
    let written = std::fs::read(directory.path("file")).expect("it exists");
    assert!(written.chunks(10).enumerate().all(|(place, chunk)| chunk == [place as u8; 10]) && written.len() == 1_000);

    // A foreign job holds the only thread, another the queue: ours wait in the backlog, can be cancelled there, and go
    // on by themselves.
    let open_gate = bench.hold_thread();
    while bench.blocking.queued() > 0 {}
    assert!(bench.blocking.run(Box::new(|| {})).is_ok());
    let syncs: Vec<Key> = (0..3).map(|_| bench.submit(Op::Fsync { fd: file.number(), data_only: true })).collect();
    bench.quiet();
    bench.driver.cancel(syncs[1]);
    assert_eq!(bench.completion(syncs[1]).result, Err(Errno::CANCELED));
    let close = bench.submit(Op::Close { fd: file });
    bench.quiet();
    drop(open_gate);
    assert_eq!(bench.completion(syncs[0]).result, Ok(0));
    assert_eq!(bench.completion(syncs[2]).result, Ok(0));
    assert_eq!(bench.completion(close).result, Ok(0));
}

/// A job acts on a number: while one is out, the number stays this file's, whichever way it is closed.
#[test]
fn closing_waits_for_jobs() {
    let directory = Directory::new("closing");
    let mut bench = Bench::with_blocking(BlockingConfig { threads_max: 1, ..BlockingConfig::default() });
    for at_once in [true, false] {
        let opened = std::fs::File::create(directory.path("file")).expect("a file");
        let file = Number::from_raw(opened.into_raw_fd());
        let link = format!("/proc/self/fd/{}", file.raw());
        let names_ours = || std::fs::read_link(&link).is_ok_and(|path| path == directory.path("file"));
        let open_gate = bench.hold_thread();
        let lease = bench.pool.try_copy(b"written", Kind::Buffers).expect("the line is wide");
        let write = bench.submit(Op::WriteAt { fd: file, lease, offset: 0 });
        bench.quiet();
        if at_once {
            bench.driver.close_now(file.owned());
        } else {
            bench.driver.close(file.owned());
        }
        bench.quiet();
        assert!(names_ours(), "the write is still to come");
        drop(open_gate);
        assert_eq!(bench.completion(write).result, Ok(7));
        bench.quiet();
        assert!(!names_ours(), "nothing holds it open any more");
        assert_eq!(std::fs::read(directory.path("file")).expect("it exists"), b"written");
    }
}

#[test]
fn file_operations_without_a_thread_fail() {
    let budget = Budget::new(MemoryLimit::mib(2));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
    // Its stack is more than the line.
    let blocking = Blocking::new(BlockingConfig { stack_bytes: 4 << 20, ..BlockingConfig::default() }, &budget);
    let selected = select(DriverChoice::Mio).expect("always there");
    let mut driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).expect("the line is wide");
    let path = pool.try_copy(b"/\0", Kind::Buffers).expect("the line is wide");
    let open = driver
        .submit(Op::Open { path, flags: libc::O_RDONLY, mode: 0 }, Token(1))
        .map_err(|(over, _)| over)
        .expect("the line is wide");
    driver.enter(Wait::Forever).expect("a wait");
    let completion = driver.reap().expect("it fails at once");
    assert_eq!((completion.key, completion.result), (open, Err(Errno(libc::ENOMEM))));
}

#[test]
fn a_pool_that_is_shut_down_answers() {
    let mut bench = Bench::with_blocking(BlockingConfig { threads_max: 1, ..BlockingConfig::default() });
    let open_gate = bench.hold_thread();
    let path = || bench.pool.try_copy(b"/\0", Kind::Buffers).expect("the line is wide");
    let (first, second) = (path(), path());
    let queued = bench.submit(Op::Open { path: first, flags: libc::O_RDONLY, mode: 0 });
    bench.quiet();
    drop(open_gate);
    assert_eq!(bench.completion(queued).payload_fd().map(sys::close), Some(Ok(())));

    let open_gate = bench.hold_thread();
    let queued = bench.submit(Op::Open { path: second, flags: libc::O_RDONLY, mode: 0 });
    bench.quiet();
    let blocking = Arc::clone(&bench.blocking);
    assert_eq!(blocking.shutdown(sys::now()), 1, "the foreign job runs on");
    assert_eq!(bench.completion(queued).result, Err(Errno::CANCELED), "its job was dropped");
    let late = bench.pool.try_copy(b"/\0", Kind::Buffers).expect("the line is wide");
    let late = bench.submit(Op::Open { path: late, flags: libc::O_RDONLY, mode: 0 });
    assert_eq!(bench.completion(late).result, Err(Errno::CANCELED));
    drop(open_gate);
}

impl Completion {
    fn payload_fd(self) -> Option<Number> {
        if let Payload::Fd(fd) = self.payload { Some(fd.number()) } else { None }
    }
}

/// An open of a FIFO without a writer never ends by itself: the driver leaks what its job may still touch, and says so.
#[test]
fn a_job_that_outlives_the_driver_keeps_its_lease() {
    let directory = Directory::new("fifo");
    let fifo = directory.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("coreutils are there");
    assert!(made.success());
    let mut bench = Bench::new();
    let budget = Arc::clone(bench.pool.budget());
    let path = bench.pool.try_copy(&with_nul(fifo.clone()), Kind::Buffers).expect("the line is wide");
    let lease_bytes = path.class().bytes() as u64;
    bench.submit(Op::Open { path, flags: libc::O_RDONLY, mode: 0 });
    bench.quiet();
    let deadline = bench.driver.now() + Duration::from_millis(50);
    let report = bench.driver.shutdown(deadline);
    assert_eq!(report.in_flight, 1);
    assert!(report.leaked_bytes >= lease_bytes, "{} bytes", report.leaked_bytes);
    assert!(budget.charged() >= lease_bytes, "what is leaked stays charged");
    // The job ends after all, reads its path in memory that is still there, and reports to nobody.
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).expect("a reader opens it");
    writer.write_all(b"x").expect("somebody has it open");
    assert_eq!(bench.blocking.shutdown(sys::now() + Duration::from_secs(5)), 0);
}

#[test]
fn what_was_to_be_closed_is_closed_though_the_deadline_is_reached() {
    let mut bench = Bench::new();
    let (mut client, fd) = bench.connection();
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    bench.submit(Op::Close { fd: fd.owned() });
    let report = bench.driver.shutdown(bench.driver.now());
    assert_eq!(report.in_flight, 1);
    assert_eq!(client.read(&mut [0; 1]).expect("no wait for it"), 0, "the peer sees the end");
}

#[test]
fn a_turn_tries_nothing_twice() {
    let mut bench = Bench::new();
    let (mut client, server) = bench.connection();
    let mut sends = 0;
    // Each completion is answered with another send within the turn: the turn ends all the same.
    bench.submit(Op::Send { fd: server, bytes: SendBytes::Static(b"ping") });
    for _ in 0..5 {
        bench.driver.enter(Wait::No).expect("a look");
        let mut this_turn = 0;
        while let Some(completion) = bench.driver.reap() {
            assert_eq!(completion.result, Ok(4));
            this_turn += 1;
            bench.submit(Op::Send { fd: server, bytes: SendBytes::Static(b"ping") });
        }
        assert_eq!(this_turn, 1);
        sends += 1;
    }
    bench.driver.enter(Wait::No).expect("a look");
    while bench.driver.reap().is_some() {
        sends += 1;
    }
    let mut heard = vec![0; sends * 4];
    client.read_exact(&mut heard).expect("all of it was sent");
    assert_eq!(heard, b"ping".repeat(sends));
    bench.driver.close_now(server.owned());
}
