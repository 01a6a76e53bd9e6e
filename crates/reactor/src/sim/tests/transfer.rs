//! Bytes are conserved: what an end receives is a prefix of what the other has sent, under all faults, and all of it
//! when nothing has failed.
#![forbid(unsafe_code)]

use core::time::Duration;

use super::{Bench, Done};
use crate::fd::Number;
use crate::sim::{Census, Fault, Faults, SimConfig};
use crate::{ListenOptions, Op, SendBytes, Shutdown, SocketKind, Wait};

/// One end of the connection, as its program sees it.
#[derive(Default)]
struct Peer {
    fd: Option<Number>,
    sent: usize,
    received: Vec<u8>,
    sending: Course,
    receiving: Course,
}

/// How far one direction of a peer has come.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    #[default]
    Going,
    /// All was sent, or end-of-file was received.
    Whole,
    Failed(i32),
}

/// What was left of both peers in the end.
struct Transfer {
    peers: [Peer; 2],
    len: usize,
    hash: u64,
    census: Census,
}

const ACCEPT: u32 = 0;
const CONNECT: u32 = 1;
const SEND: u32 = 10;
const RECEIVE: u32 = 20;
const SHUTDOWN: u32 = 30;

/// What side `side` sends at `at`.
fn pattern(side: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ (side * 0x55)) as u8
}

impl Bench {
    fn go_on_sending(&mut self, side: usize, peer: &Peer, len: usize) {
        let fd = peer.fd.expect("connected");
        if peer.sent == len {
            self.submit(SHUTDOWN + side as u32, Op::Shutdown { fd, how: Shutdown::Write });
            return;
        }
        let bytes: Vec<u8> = (peer.sent..len.min(peer.sent + 10_000)).map(|at| pattern(side, at)).collect();
        let bytes = SendBytes::Lease(self.bytes(&bytes));
        self.submit(SEND + side as u32, Op::Send { fd, bytes });
    }

    /// Receives in both ways, in turns.
    fn go_on_receiving(&mut self, side: usize, peer: &Peer) {
        let fd = peer.fd.expect("connected");
        let op = match peer.received.len() % 2 {
            0 => Op::Receive { fd },
            _ => Op::ReceiveInto { fd, lease: self.lease(3_000) },
        };
        self.submit(RECEIVE + side as u32, op);
    }
}

/// Sends `len` bytes each way over one connection.
fn transfer(seed: u64, faults: Faults, len: usize) -> Transfer {
    let mut bench = Bench::with(SimConfig::new(seed).with_faults(faults));
    let mut peers = [Peer::default(), Peer::default()];
    let listener = bench
        .driver
        .listen("127.0.0.1:80".parse().expect("an address"), &ListenOptions::default())
        .expect("a free address")
        .number();
    let client = loop {
        if let Ok(fd) = bench.driver.socket(SocketKind::Tcp4) {
            break fd;
        }
    };
    peers[0].fd = Some(client.number());
    let address = bench.address("127.0.0.1:80");
    bench.submit(ACCEPT, Op::Accept { listener });
    bench.submit(CONNECT, Op::Connect { fd: client.number(), address });
    // Nothing happens any more, and so waiting for ever is refused, when all is sent or a link is down for good.
    while bench.driver.enter(Wait::Forever).is_ok() {
        for done in bench.reap() {
            step(&mut bench, &mut peers, listener, len, done);
        }
    }
    for peer in &peers {
        if let Some(fd) = peer.fd {
            bench.driver.close_now(fd.owned());
        }
    }
    Transfer { peers, len, hash: bench.world.trace_hash(), census: bench.world.census() }
}

fn step(bench: &mut Bench, peers: &mut [Peer; 2], listener: Number, len: usize, done: Done) {
    let side = (done.token % 10) as usize;
    match done.token {
        ACCEPT => match done.fd {
            Some(fd) => {
                peers[1].fd = Some(fd);
                bench.go_on_sending(1, &peers[1], len);
                bench.go_on_receiving(1, &peers[1]);
            }
            None => drop(bench.submit(ACCEPT, Op::Accept { listener })),
        },
        CONNECT if done.result.is_ok() => {
            bench.go_on_sending(0, &peers[0], len);
            bench.go_on_receiving(0, &peers[0]);
        }
        CONNECT => {}
        _ => {
            let peer = &mut peers[side];
            match (done.token / 10 * 10, done.result) {
                (SEND, Ok(taken)) => {
                    peer.sent += taken as usize;
                    bench.go_on_sending(side, peer, len);
                }
                (SHUTDOWN, Ok(_)) => peer.sending = Course::Whole,
                (RECEIVE, Ok(0)) => peer.receiving = Course::Whole,
                (RECEIVE, Ok(_)) => {
                    peer.received.extend(done.bytes);
                    bench.go_on_receiving(side, peer);
                }
                (RECEIVE, Err(errno)) => peer.receiving = Course::Failed(errno),
                (_, Err(errno)) => peer.sending = Course::Failed(errno),
                other => panic!("unexpected completion {other:?}"),
            }
        }
    }
}

impl Transfer {
    fn check(&self, context: &str) {
        for side in 0..2 {
            let (sender, receiver) = (&self.peers[side], &self.peers[1 - side]);
            assert!(receiver.received.len() <= sender.sent, "{context}: more received than sent");
            let same = receiver.received.iter().enumerate().all(|(at, &byte)| byte == pattern(side, at));
            assert!(same, "{context}: what is received is what was sent");
            if receiver.receiving == Course::Whole && sender.sending == Course::Whole {
                // End-of-file also follows an error that a send was told of.
                let lost = matches!(receiver.sending, Course::Failed(_));
                assert!(lost || receiver.received.len() == self.len, "{context}: end-of-file comes last");
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.peers.iter().all(|peer| peer.receiving == Course::Whole && peer.received.len() == self.len)
    }
}

#[test]
fn clean_transfers_are_whole() {
    for seed in 0..20 {
        let len = seed as usize * 30_011;
        let transfer = transfer(seed, Faults::clean(), len);
        transfer.check("clean");
        assert!(transfer.is_whole(), "seed {seed}");
    }
}

#[test]
fn every_fault_alone_loses_nothing_it_need_not() {
    for fault in Fault::ALL {
        for seed in 0..6 {
            let faults = Faults::clean().with(fault, 200_000);
            let transfer = transfer(seed, faults, 100_000);
            let context = format!("seed {seed} with {fault}");
            transfer.check(&context);
            let loses = [Fault::Reset, Fault::BlackHole, Fault::AcceptAborted, Fault::Refused].contains(&fault);
            assert!(loses || transfer.is_whole(), "{context}");
        }
    }
}

#[test]
fn certain_faults_still_end() {
    let wholly = [Fault::ShortReceive, Fault::ShortSend, Fault::Segmented, Fault::Interrupted, Fault::NoBuffers];
    for fault in [wholly.as_slice(), &[Fault::Delayed, Fault::Reordered, Fault::Overflow]].concat() {
        let transfer = transfer(1, Faults::clean().with(fault, 1_000_000), 5_000);
        assert!(transfer.is_whole(), "{fault}");
        assert!(transfer.census.fault(fault) > 0, "{fault}");
    }
}

#[test]
fn wild_transfers_conserve_bytes_and_replay() {
    let mut whole = 0;
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let faults = || if seed % 2 == 0 { Faults::wild() } else { Faults::mild() };
        let first = transfer(seed, faults(), 60_000);
        first.check(&format!("seed {seed}"));
        assert_eq!(first.hash, transfer(seed, faults(), 60_000).hash, "seed {seed} does the same twice");
        whole += usize::from(first.is_whole());
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 200, "seeds differ");
    assert!((10..190).contains(&whole), "some make it, some do not: {whole}");
}

#[test]
fn one_bit_of_difference_changes_the_hash() {
    let run = |byte: u8| {
        let mut bench = Bench::with(SimConfig::new(5));
        let (client, server) = bench.pair();
        assert_eq!(bench.send(client, &[1, 2, byte]), Ok(3));
        assert_eq!(bench.receive(server), Ok(vec![1, 2, byte]));
        bench.elapse(Duration::from_secs(1));
        bench.world.trace_hash()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(2));
}
