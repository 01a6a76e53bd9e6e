//! Random programs: every operation on any descriptor, cancelled, orphaned and closed at any time, under all faults.
//! Properties:
//!
//! * every operation has exactly one completion, unless it was orphaned;
//! * in the end no slot, no descriptor, no connection and no byte of a lease is left;
//! * the same seed does the same twice, to the last event;
//! * over the seeds, every kind of operation and every fault has happened.
//!
//! `PLIMSOLL_SIM_SEEDS` in the environment makes the sweep longer.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use core::time::Duration;

use plimsoll_slab::Key;

use super::{Bench, path};
use crate::fd::Number;
use crate::sim::rng::Rng;
use crate::sim::{Census, Faults, SimConfig};
use crate::{Interest, ListenOptions, Op, SendBytes, Shutdown, SocketKind, SocketOption, Wait};

/// A program that does anything.
struct Chaos {
    bench: Bench,
    rng: Rng,
    listeners: Vec<Number>,
    sockets: Vec<Number>,
    files: Vec<Number>,
    /// Operations that must still be answered.
    awaited: BTreeMap<u32, Key>,
    tokens: u32,
}

const ADDRESSES: [&str; 3] = ["127.0.0.1:80", "127.0.0.1:81", "[::1]:80"];
const PATHS: [&str; 4] = ["/a", "/b", "/d/c", "/d"];

impl Chaos {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut bench = Bench::with(SimConfig::new(seed).with_faults(faults));
        bench.world.place_file("/d/c", vec![3; 5_000]).expect("no directory in the way");
        let mut listeners = Vec::new();
        for address in &ADDRESSES[1..] {
            let address = address.parse().expect("an address");
            let options = ListenOptions { backlog: 3, ..ListenOptions::default() };
            listeners.push(bench.driver.listen(address, &options).expect("a free address").number());
        }
        let rng = Rng::new(!seed);
        Self { bench, rng, listeners, sockets: Vec::new(), files: Vec::new(), awaited: BTreeMap::new(), tokens: 0 }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.rng.below(from.len() as u64) as usize])
    }

    fn any_fd(&mut self) -> Option<Number> {
        let all = [self.listeners.clone(), self.sockets.clone(), self.files.clone()].concat();
        self.pick(&all)
    }

    fn submit(&mut self, op: Op) {
        self.tokens += 1;
        let key = self.bench.submit(self.tokens, op);
        self.awaited.insert(self.tokens, key);
    }

    fn socket_op(&mut self, fd: Number) -> Op<'static> {
        match self.rng.below(9) {
            0 | 1 => Op::Receive { fd },
            2 => Op::ReceiveInto { fd, lease: self.bench.lease(1_000) },
            3 => {
                let len = self.rng.between(1, 40_000) as usize;
                Op::Send { fd, bytes: SendBytes::Lease(self.bench.bytes(&vec![9; len])) }
            }
            4 => Op::Send { fd, bytes: SendBytes::Static(b"static") },
            5 => {
                let how = self.pick(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]).expect("three");
                Op::Shutdown { fd, how }
            }
            6 => Op::Accept { listener: fd },
            7 => {
                let address = self.pick(&ADDRESSES).expect("three");
                Op::Connect { fd, address: self.bench.address(address) }
            }
            _ => {
                let all = [Interest::Readable, Interest::Writable, Interest::PeerClosed];
                Op::Poll { fd, interest: self.pick(&all).expect("three") }
            }
        }
    }

    fn file_op(&mut self, fd: Number) -> Op<'static> {
        let offset = self.rng.below(6_000);
        match self.rng.below(4) {
            0 => Op::Stat { fd, lease: self.bench.lease(256) },
            1 => Op::ReadAt { fd, lease: self.bench.lease(3_000), offset },
            2 => Op::WriteAt { fd, lease: self.bench.bytes(&[1; 500]), offset },
            _ => Op::Fsync { fd, data_only: offset.is_multiple_of(2) },
        }
    }

    fn act(&mut self) {
        match self.rng.below(20) {
            0 => {
                let kind = self.pick(&[SocketKind::Tcp4, SocketKind::Tcp6]).expect("two");
                if let Ok(fd) = self.bench.driver.socket(kind) {
                    self.sockets.push(fd.number());
                    let address = self.pick(&ADDRESSES).expect("three");
                    let address = self.bench.address(address);
                    self.submit(Op::Connect { fd: fd.number(), address });
                }
            }
            1 | 2 => {
                let listener = self.pick(&self.listeners.clone()).expect("they stay open");
                self.submit(Op::Accept { listener });
            }
            3 => {
                let listener = self.pick(&self.listeners.clone()).expect("they stay open");
                if let Ok(Some(fd)) = self.bench.driver.accept_now(listener) {
                    self.sockets.push(fd.number());
                }
            }
            4 => {
                let flags = [libc::O_RDONLY, libc::O_RDWR | libc::O_CREAT, libc::O_WRONLY | libc::O_TRUNC];
                let flags = self.pick(&flags).expect("three");
                let name = self.pick(&PATHS).expect("four");
                let path = path(&self.bench, name);
                self.submit(Op::Open { path, flags, mode: 0o600 });
            }
            5..=10 => {
                if let Some(fd) = self.pick(&self.sockets.clone()) {
                    let op = self.socket_op(fd);
                    self.submit(op);
                }
            }
            11 | 12 => {
                if let Some(fd) = self.pick(&self.files.clone()) {
                    let op = self.file_op(fd);
                    self.submit(op);
                }
            }
            13 => {
                if let Some(fd) = self.any_fd() {
                    let op = if self.rng.below(2) == 0 { self.socket_op(fd) } else { self.file_op(fd) };
                    self.submit(op);
                }
            }
            14 => {
                let keys: Vec<Key> = self.awaited.values().copied().collect();
                if let Some(key) = self.pick(&keys) {
                    self.bench.driver.cancel(key);
                }
            }
            15 => {
                let tokens: Vec<u32> = self.awaited.keys().copied().collect();
                if let Some(token) = self.pick(&tokens) {
                    let key = self.awaited.remove(&token).expect("picked from there");
                    self.bench.driver.orphan(key);
                }
            }
            16 => self.close_one(),
            _ => self.turn(),
        }
    }

    fn close_one(&mut self) {
        let open = [self.sockets.clone(), self.files.clone()].concat();
        let Some(fd) = self.pick(&open) else { return };
        self.sockets.retain(|&other| other != fd);
        self.files.retain(|&other| other != fd);
        if self.rng.below(4) == 0 {
            let linger = SocketOption::Linger(Some(Duration::ZERO));
            assert!(matches!(self.bench.driver.set_option(fd, linger), Ok(()) | Err(crate::Errno(libc::ENOTSOCK))));
        }
        match self.rng.below(3) {
            0 => self.bench.driver.close_now(fd.owned()),
            1 => self.bench.driver.close(fd.owned()),
            _ => self.submit(Op::Close { fd: fd.owned() }),
        }
    }

    fn turn(&mut self) {
        let deadline = self.bench.world.now() + Duration::from_micros(self.rng.between(0, 3_000));
        let wait = if self.rng.below(3) == 0 { Wait::No } else { Wait::Until(deadline) };
        self.bench.driver.enter(wait).expect("a deadline always comes");
        self.collect();
    }

    fn collect(&mut self) {
        for done in self.bench.reap() {
            let known = self.awaited.remove(&done.token);
            assert!(known.is_some(), "answered twice, or though orphaned: {done:?}");
            if let Some(fd) = done.fd {
                let is_file = self.bench.driver.local_address(fd) == Err(crate::Errno(libc::ENOTSOCK));
                if is_file { &mut self.files } else { &mut self.sockets }.push(fd);
            }
        }
    }

    /// Ends everything; what is left is a leak.
    fn end(mut self) -> (u64, Census) {
        let (world, budget) = (self.bench.world.clone(), self.bench.budget.clone());
        for key in self.awaited.values() {
            self.bench.driver.cancel(*key);
        }
        let deadline = world.now() + Duration::from_secs(10);
        while self.bench.driver.in_flight() > 0 {
            self.bench.driver.enter(Wait::Until(deadline)).expect("a deadline always comes");
            self.collect();
            assert!(world.now() < deadline, "{} operations do not end", self.bench.driver.in_flight());
        }
        assert_eq!(self.awaited, BTreeMap::new(), "every operation is answered");
        let mut open = [self.listeners, self.sockets, self.files].concat();
        open.sort();
        assert_eq!(open, world.descriptors(), "nothing is open that nobody knows of");
        for fd in open {
            self.bench.driver.close_now(fd.owned());
        }
        assert_eq!((world.connections(), world.in_flight()), (0, 0));
        while self.bench.driver.release_pages() > 0 {}
        drop(self.bench.driver);
        assert_eq!(world.nodes(), []);
        drop(self.bench.pool);
        assert_eq!(budget.charged(), 0, "every lease and slot came back");
        (world.trace_hash(), world.census())
    }
}

fn run(seed: u64, faults: Faults, acts: usize) -> (u64, Census) {
    let mut chaos = Chaos::new(seed, faults);
    for _ in 0..acts {
        chaos.act();
    }
    chaos.end()
}

fn seeds() -> u64 {
    std::env::var("PLIMSOLL_SIM_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(600)
}

#[test]
fn clean_programs_leave_nothing() {
    for seed in 0..seeds() {
        let (_, census) = run(seed, Faults::clean(), 300);
        assert_eq!(census.faults_missing().count(), crate::sim::Fault::ALL.len(), "a clean world has no faults");
    }
}

#[test]
fn wild_programs_leave_nothing_replay_and_see_everything() {
    let mut total = Census::default();
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..seeds() {
        let faults = || if seed % 3 == 0 { Faults::mild() } else { Faults::wild() };
        let (hash, census) = run(seed, faults(), 400);
        if seed % 4 == 0 {
            assert_eq!((hash, census.clone()), run(seed, faults(), 400), "seed {seed} does the same twice");
        }
        total.add(&census);
        hashes.insert(hash);
    }
    assert_eq!(hashes.len() as u64, seeds(), "seeds differ");
    assert_eq!(total.faults_missing().collect::<Vec<_>>(), [], "{total}");
    assert_eq!(total.ops_missing().collect::<Vec<_>>(), [], "{total}");
    assert!(total.canceled > 0 && total.cancels_lost > 0 && total.orphaned > 0, "{total}");
}
