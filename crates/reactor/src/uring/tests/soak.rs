//! Receives, sends, accepts, cancels and orphans in random order on tiny queues: one completion each, and every byte in
//! its place.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::*;

const CONNECTIONS: usize = 12;
const TURNS: usize = 400;

/// The stream of a connection says in every byte whose it is and where: its number, and four bits of the offset.
fn byte_at(connection: usize, offset: usize) -> u8 {
    (connection << 4 | offset & 15) as u8
}

struct Peer {
    client: TcpStream,
    fd: Number,
    sent: usize,
    /// Where the next receive must go on.
    expected: usize,
    receive: Option<Key>,
    answered: usize,
}

struct Soak<'a> {
    bench: &'a mut Bench,
    dice: Dice,
    peers: Vec<Peer>,
    listener: Number,
    /// What is in flight and wanted, by key.
    wanted: HashMap<Key, What>,
    held: Vec<Completion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Receive(usize),
    ReceiveInto(usize),
    Send(usize),
    Accept,
}

impl Soak<'_> {
    fn act(&mut self) {
        let at = self.dice.roll(CONNECTIONS);
        match self.dice.roll(10) {
            0..3 => self.write(at),
            3..6 => self.receive(at),
            6 => {
                let op = Op::Send { fd: self.peers[at].fd, bytes: SendBytes::Static(b"a") };
                let key = self.bench.submit(op, 0);
                self.wanted.insert(key, What::Send(at));
            }
            7 => {
                let key = self.bench.submit(Op::Accept { listener: self.listener }, 0);
                self.wanted.insert(key, What::Accept);
            }
            8 => self.cancel(at),
            _ => self.orphan(at),
        }
    }

    fn write(&mut self, at: usize) {
        let most = if self.dice.roll(8) == 0 { 40_000 } else { 300 };
        let len = 1 + self.dice.roll(most);
        let peer = &mut self.peers[at];
        let bytes: Vec<u8> = (peer.sent..peer.sent + len).map(|offset| byte_at(at, offset)).collect();
        peer.client.set_nonblocking(true).unwrap();
        // A full socket takes a part, or nothing.
        peer.sent += peer.client.write(&bytes).unwrap_or(0);
    }

    fn receive(&mut self, at: usize) {
        let into = self.dice.roll(4) == 0;
        let peer = &mut self.peers[at];
        if peer.receive.is_some() {
            return;
        }
        let (op, what) = if into {
            (
                Op::ReceiveInto { fd: peer.fd, lease: self.bench.pool.try_acquire(1_024, Kind::Buffers).unwrap() },
                What::ReceiveInto(at),
            )
        } else {
            (Op::Receive { fd: peer.fd }, What::Receive(at))
        };
        let key = self.bench.driver.submit(op, Token(at as u32)).unwrap();
        peer.receive = Some(key);
        self.wanted.insert(key, what);
    }

    fn cancel(&mut self, at: usize) {
        if let Some(key) = self.peers[at].receive {
            self.bench.driver.cancel(key);
        }
    }

    /// A connection dies, its receive with it, and another takes its place.
    fn orphan(&mut self, at: usize) {
        let sending = self.wanted.values().any(|what| *what == What::Send(at));
        let Some(key) = self.peers[at].receive.filter(|_| !sending) else { return };
        self.bench.driver.orphan(key);
        self.wanted.remove(&key);
        self.bench.driver.close(self.peers[at].fd.owned());
        let (client, fd) = self.bench.connection();
        self.peers[at] = Peer { client, fd, sent: 0, expected: 0, receive: None, answered: 0 };
    }

    fn turn(&mut self) {
        let until = sys::now() + Duration::from_micros(self.dice.roll(150) as u64);
        self.bench.driver.enter(Wait::Until(until)).unwrap();
        while let Some(completion) = self.bench.driver.reap() {
            self.check(completion);
        }
        let mut dice = Dice(self.dice.roll(1 << 30) as u64);
        self.held.retain(|_| dice.roll(3) > 0);
    }

    fn check(&mut self, completion: Completion) {
        let what = self.wanted.remove(&completion.key).expect("one completion, for what is wanted");
        match (what, completion.result) {
            (What::Receive(at) | What::ReceiveInto(at), result) => {
                let peer = &mut self.peers[at];
                peer.receive = None;
                let bytes: &[u8] = match &completion.payload {
                    Payload::Received(bytes) => bytes,
                    Payload::Lease(lease) => lease,
                    _ => &[],
                };
                match result {
                    Ok(count) => assert!(count > 0 && count as usize == bytes.len(), "nobody hangs up"),
                    Err(errno) => assert_eq!((errno, bytes.len()), (Errno::CANCELED, 0)),
                }
                for byte in bytes {
                    assert_eq!(*byte, byte_at(at, peer.expected), "connection {at}, offset {}", peer.expected);
                    peer.expected += 1;
                }
            }
            (What::Send(at), result) => {
                assert_eq!(result, Ok(1));
                self.peers[at].answered += 1;
            }
            (What::Accept, result) => panic!("nobody connects: {result:?}"),
        }
        if self.dice.roll(3) == 0 {
            self.held.push(completion);
        }
    }

    /// Lets everything end that is still wanted, and the clients hear all their answers.
    fn finish(mut self) {
        self.held.clear();
        let accepts: Vec<Key> =
            self.wanted.iter().filter(|(_, what)| **what == What::Accept).map(|(key, _)| *key).collect();
        for key in accepts {
            self.bench.driver.orphan(key);
            self.wanted.remove(&key);
        }
        (0..CONNECTIONS).for_each(|at| self.cancel(at));
        let deadline = sys::now() + Duration::from_secs(5);
        while self.bench.driver.in_flight() > 0 {
            assert!(sys::now() < deadline, "{} in flight", self.bench.driver.in_flight());
            self.turn();
        }
        assert!(self.wanted.is_empty(), "{:?}", self.wanted);
        for peer in &mut self.peers {
            peer.client.set_nonblocking(false).unwrap();
            let mut answers = vec![0; peer.answered];
            peer.client.read_exact(&mut answers).unwrap();
            assert!(answers.iter().all(|answer| *answer == b'a'));
            self.bench.driver.close_now(peer.fd.owned());
        }
        self.bench.driver.close_now(self.listener.owned());
    }
}

#[test]
fn everything_at_once() {
    for (seed, entries) in [(1, 8), (2, 8), (3, 64)] {
        in_each_mode(DriverConfig { entries, receive_buffers: 1, ..DriverConfig::default() }, |bench| {
            let peers = bench.connections(CONNECTIONS).into_iter();
            let peers = peers
                .map(|(client, fd)| Peer { client, fd, sent: 0, expected: 0, receive: None, answered: 0 })
                .collect();
            let listener =
                bench.driver.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap().number();
            let mut soak = Soak { bench, dice: Dice(seed), peers, listener, wanted: HashMap::new(), held: Vec::new() };
            for _ in 0..TURNS {
                for _ in 0..soak.dice.roll(30) {
                    soak.act();
                }
                soak.turn();
            }
            soak.finish();
        });
    }
}
