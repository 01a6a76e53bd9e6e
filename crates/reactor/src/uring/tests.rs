//! The io_uring driver against the real kernel. Every test runs in each way of receiving where that matters, and is
//! skipped, with a line that says so, where io_uring is not available.
//!
//! | file | properties |
//! |---|---|
//! | `ops.rs` | every operation's answer; waits and the doorbell |
//! | `ending.rs` | cancel, orphan and exit at every stage: one completion each, nothing leaks, nothing is lost |
//! | `buffers.rs` | shared receive buffers: right bytes to the right receive, shortage, storms, worker threads |
//! | `queues.rs` | full queues, overflow, list model |
//! | `soak.rs` | all of that in random order |
//! | `sandbox.rs` | the probe where io_uring is forbidden |
#![deny(unsafe_code)]

mod buffers;
mod ending;
mod ops;
mod queues;
mod sandbox;
mod soak;

use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use plimsoll_pool::{Budget, Kind, Lease, MemoryLimit, Pool, PoolConfig};

use super::*;
use crate::probe::{self, probe};
use crate::{
    Blocking, BlockingConfig, Completion, Driver, DriverKind, Interest, Payload, Selected, SendBytes, Shutdown, Token,
};

/// How long anything may take at most.
const TIMEOUT: Duration = Duration::from_secs(60);
const MODES: [ReceiveMode; 3] = [ReceiveMode::Incremental, ReceiveMode::Classic, ReceiveMode::Poll];

/// A driver with its surroundings.
struct Bench {
    driver: Driver,
    pool: Pool,
    budget: Arc<Budget>,
}

/// Runs `test` in every way of receiving that works here.
fn in_each_mode(config: DriverConfig, test: impl Fn(&mut Bench)) {
    for mode in MODES {
        if let Some(mut bench) = Bench::new(mode, &config) {
            test(&mut bench);
            bench.close();
        }
    }
}

/// Runs `test` in the way of receiving that a process would choose here.
fn in_best_mode(config: DriverConfig, test: impl FnOnce(&mut Bench)) {
    match probe() {
        Ok(mode) => in_mode(mode, config, test),
        Err((step, errno)) => skip(step, errno),
    }
}

fn in_mode(mode: ReceiveMode, config: DriverConfig, test: impl FnOnce(&mut Bench)) {
    let Some(mut bench) = Bench::new(mode, &config) else { return };
    test(&mut bench);
    bench.close();
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skip(step: &str, errno: Errno) {
    eprintln!("skipped: io_uring is not available here ({step}: {errno})");
}

/// What was made, or nothing where the system refuses: also for want of locked memory, which all tests of a user share.
fn available<T>(made: Result<T, Error>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(Error::System { step, errno }) => {
            skip(step, errno);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl Bench {
    fn new(receive: ReceiveMode, config: &DriverConfig) -> Option<Self> {
        let budget = Budget::new(MemoryLimit::mib(64));
        let pool = Pool::new(&budget, PoolConfig::default()).expect("64 MiB are enough for a pool");
        let blocking = Blocking::new(BlockingConfig::default(), &budget);
        let selected = Selected { kind: DriverKind::Uring, receive, reason: None };
        let driver = available(Driver::new(&selected, config, &pool, &blocking))?;
        Some(Self { driver, pool, budget })
    }

    /// Another backend beside the bench's own, to be driven by hand.
    fn backend(&self, mode: ReceiveMode, config: &DriverConfig) -> Option<Uring> {
        available(Uring::new(mode, config, &self.pool, self.driver.doorbell()))
    }

    fn close(mut self) {
        self.finish();
        let Self { driver, pool, budget } = self;
        drop(driver);
        let live: u64 = pool.stats().classes.iter().map(|class| class.live).sum();
        assert_eq!(live, 0, "every lease has come back");
        assert_eq!(budget.charged_by(Kind::Rings), 0);
    }

    /// Nothing may be left behind.
    fn finish(&mut self) {
        let deadline = sys::now() + TIMEOUT;
        let report = self.driver.shutdown(deadline);
        assert_eq!((report.in_flight, report.leaked_bytes), (0, 0));
        assert_eq!(self.driver.counters().stale, 0);
        assert_eq!(self.driver.counters().submitted, self.driver.counters().completed);
    }

    /// A connection: our end as a plain socket, the driver's as a descriptor.
    fn connection(&mut self) -> (TcpStream, Number) {
        let listener = self.driver.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap().number();
        let pair = self.connection_to(listener);
        self.driver.close_now(listener.owned());
        pair
    }

    fn connections(&mut self, count: usize) -> Vec<(TcpStream, Number)> {
        let listener = self.driver.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap().number();
        let pairs = (0..count).map(|_| self.connection_to(listener)).collect();
        self.driver.close_now(listener.owned());
        pairs
    }

    fn connection_to(&mut self, listener: Number) -> (TcpStream, Number) {
        let client = TcpStream::connect(self.driver.local_address(listener).unwrap().ip().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        loop {
            if let Some(fd) = self.driver.accept_now(listener).unwrap() {
                return (client, fd.number());
            }
        }
    }

    fn submit(&mut self, op: Op, token: u32) -> Key {
        self.driver.submit(op, Token(token)).expect("within the budget")
    }

    /// Hands over what was submitted and lets the kernel do what it can.
    fn settle(&mut self) {
        self.driver.enter(Wait::No).unwrap();
    }

    /// The next completion; a minute without one is a failure.
    fn completion(&mut self) -> Completion {
        let deadline = sys::now() + TIMEOUT;
        loop {
            if let Some(completion) = self.driver.reap() {
                return completion;
            }
            assert!(sys::now() < deadline, "no completion in a minute, {} in flight", self.driver.in_flight());
            self.driver.enter(Wait::Until(deadline)).unwrap();
        }
    }

    /// Submits an operation alone, and its completion.
    fn run(&mut self, op: Op) -> Completion {
        let key = self.submit(op, 77);
        let completion = self.completion();
        assert_eq!((completion.key, completion.token), (key, Token(77)));
        completion
    }

    /// No completion is there, nor does one come soon.
    fn assert_quiet(&mut self) {
        for _ in 0..3 {
            self.driver.enter(Wait::Until(sys::now() + Duration::from_millis(5))).unwrap();
            let surprise = self.driver.reap();
            assert!(surprise.is_none(), "{surprise:?}");
        }
    }

    fn lease(&self, bytes: &[u8]) -> Lease {
        self.pool.try_copy(bytes, Kind::Buffers).expect("within the budget")
    }

    fn room(&self, len: usize) -> Lease {
        self.pool.try_acquire(len, Kind::Buffers).expect("within the budget")
    }

    fn path(&self, path: &std::path::Path) -> Lease {
        let mut bytes = path.to_str().expect("a path of ours").as_bytes().to_vec();
        bytes.push(0);
        self.lease(&bytes)
    }

    fn open(&mut self, path: &std::path::Path, flags: i32) -> Number {
        let path = self.path(path);
        let completion = self.run(Op::Open { path, flags, mode: 0o600 });
        assert_eq!(completion.result, Ok(0));
        let Payload::Fd(fd) = completion.payload else { panic!("an open brings a descriptor") };
        fd.number()
    }
}

/// A small generator: the tests want variety, not randomness.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// The bytes of a receive.
fn received(completion: &Completion) -> &[u8] {
    match &completion.payload {
        Payload::Received(bytes) => {
            assert_eq!(completion.result, Ok(bytes.len() as u32));
            bytes
        }
        other => panic!("no received bytes but {other:?} with {:?}", completion.result),
    }
}

fn lease_of(completion: Completion) -> Lease {
    match completion.payload {
        Payload::Lease(lease) => lease,
        other => panic!("no lease but {other:?}"),
    }
}

/// A file that is gone when the test ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-uring-{}-{name}", std::process::id()));
        let _old = std::fs::remove_file(&path);
        Self(path)
    }

    /// Descriptors of this process that are open on it.
    fn descriptors(&self) -> usize {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap();
        entries.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == self.0)).count()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}
