//! Clients that mean no good, or are no clients. Whatever comes back is not looked at: what counts is what is left of
//! the server afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::http2::{
    CANCEL, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame, request,
};
use crate::bench::swarm::websocket;
use crate::random::Random;

/// What each connection of an attack does.
#[derive(Debug)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    connections: usize,
    /// Sent as far as the server takes it.
    bytes: fn(&mut Random) -> Vec<u8>,
    then: Then,
}

/// What it does when it has sent that.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Goes away at once.
    Leave,
    /// Stays and reads nothing.
    Hold,
    /// Sends a few bytes more every now and then.
    Trickle(&'static [u8]),
    /// Reads a few bytes every now and then, through a small buffer.
    Sip,
    /// Sends a byte out of band.
    Urgent,
}

/// All of them.
pub(super) static ATTACKS: &[Attack] = &[
    Attack {
        name: "slow heads",
        connections: 48,
        bytes: |_| b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ".to_vec(),
        then: Then::Trickle(b"a"),
    },
    Attack {
        name: "slow bodies",
        connections: 32,
        bytes: |_| b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx".to_vec(),
        then: Then::Trickle(b"x"),
    },
    Attack {
        name: "slow chunks",
        connections: 32,
        bytes: |_| b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        then: Then::Trickle(b"1\r\nx\r\n"),
    },
    Attack {
        name: "slow readers",
        connections: 32,
        bytes: |_| b"GET /blob/8388608 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        then: Then::Sip,
    },
    Attack {
        name: "unread pipelines",
        connections: 24,
        bytes: |_| b"GET /json/50?m=1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(400),
        then: Then::Hold,
    },
    Attack { name: "heads over the limit", connections: 16, bytes: |_| oversize(), then: Then::Hold },
    Attack { name: "garbage", connections: 32, bytes: noise, then: Then::Hold },
    Attack { name: "malformed requests", connections: 32, bytes: malformed, then: Then::Hold },
    Attack { name: "connections without a word", connections: 200, bytes: |_| Vec::new(), then: Then::Leave },
    Attack {
        name: "requests without a listener",
        connections: 100,
        bytes: |_| b"GET /delay/200 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4),
        then: Then::Leave,
    },
    Attack {
        name: "urgent bytes",
        connections: 16,
        bytes: |_| b"GET /blob/8388608 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        then: Then::Urgent,
    },
    Attack { name: "rapid resets", connections: 8, bytes: |_| resets(), then: Then::Hold },
    Attack { name: "windows of zero", connections: 8, bytes: |_| closed_windows(), then: Then::Hold },
    Attack { name: "endless header blocks", connections: 8, bytes: |_| endless(), then: Then::Hold },
    Attack { name: "bombs of fields", connections: 8, bytes: |_| bombs(), then: Then::Hold },
    Attack {
        name: "pings",
        connections: 8,
        bytes: |_| hello(frame(PING, 0, 0, &[0; 8]).repeat(20_000)),
        then: Then::Hold,
    },
    Attack {
        name: "SETTINGS",
        connections: 8,
        bytes: |_| hello(frame(SETTINGS, 0, 0, &[]).repeat(20_000)),
        then: Then::Hold,
    },
    Attack { name: "slow messages", connections: 16, bytes: |_| long_message(), then: Then::Trickle(b"zzzz") },
    Attack {
        name: "unread echoes",
        connections: 16,
        bytes: |_| [websocket::handshake("/ws"), websocket::message(60_000).repeat(40)].concat(),
        then: Then::Hold,
    },
];

/// Runs an attack to its end; how many connections it had.
pub(super) fn run(attack: &Attack, to: SocketAddr, random: &mut Random) -> u64 {
    let lasts = Duration::from_millis(500 + random.below(2_500) as u64);
    let resets = random.below(2) == 0;
    let mut open: Vec<Attacker> = Vec::new();
    for _ in 0..attack.connections {
        // A server may refuse to be attacked.
        open.extend(Attacker::open(to, (attack.bytes)(random), attack.then, resets).ok());
    }
    let until = Instant::now() + lasts;
    let count = open.len() as u64;
    while !matches!(attack.then, Then::Leave) && Instant::now() < until && !open.is_empty() {
        open.retain_mut(|attacker| attacker.go_on(attack.then));
        thread::sleep(TICK);
    }
    count
}

struct Attacker {
    stream: TcpStream,
    unsent: Vec<u8>,
    sent: usize,
}

impl Attacker {
    fn open(to: SocketAddr, bytes: Vec<u8>, then: Then, resets: bool) -> std::io::Result<Attacker> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        if matches!(then, Then::Sip | Then::Urgent) {
            socket.set_recv_buffer_size(SMALL_BUFFER_BYTES)?;
        }
        if resets {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        socket.connect_timeout(&to.into(), CONNECT_TIMEOUT)?;
        socket.set_nonblocking(true)?;
        let mut attacker = Attacker { stream: socket.into(), unsent: bytes, sent: 0 };
        attacker.push();
        Ok(attacker)
    }

    /// Sends what the server takes; whether it is still there.
    fn push(&mut self) -> bool {
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Whether the server still bears with it.
    fn go_on(&mut self, then: Then) -> bool {
        let is_sent = self.sent == self.unsent.len();
        match then {
            Then::Trickle(piece) if is_sent => {
                (self.unsent, self.sent) = (piece.to_vec(), 0);
                self.push()
            }
            Then::Sip => match self.stream.read(&mut [0; 64]) {
                Ok(len) => len > 0 && self.push(),
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
            Then::Urgent if is_sent => {
                let sent = socket2::SockRef::from(&self.stream).send_out_of_band(b"!");
                sent.is_ok_and(|_| true) || self.push()
            }
            _ => self.push(),
        }
    }
}

fn oversize() -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a\r\nX-Large: ", &[b'x'; 200_000][..]].concat()
}

fn noise(random: &mut Random) -> Vec<u8> {
    (0..random.below(4_000)).map(|_| random.next() as u8).collect()
}

fn malformed(random: &mut Random) -> Vec<u8> {
    let wrong: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    ];
    random.pick(&wrong).to_vec()
}

/// Behind the beginning of a connection of HTTP/2.
fn hello(frames: Vec<u8>) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frames].concat()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path))
}

fn streams(count: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(|at| one(2 * at + 1)).collect()
}

fn resets() -> Vec<u8> {
    let reset = |id| [get(id, "/delay/1000"), frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes())].concat();
    hello(streams(10_000, reset))
}

fn closed_windows() -> Vec<u8> {
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    [PREFACE, &settings, &streams(100, |id| get(id, "/blob/1048576"))].concat()
}

fn endless() -> Vec<u8> {
    let first = frame(HEADERS, 0, 1, &request("GET", "/"));
    hello([first, frame(CONTINUATION, 0, 1, &[0; 1_000]).repeat(1_000)].concat())
}

/// A field of the table, again and again.
fn bombs() -> Vec<u8> {
    let block = [&request("GET", "/")[..], &[0x90; 10_000]].concat();
    hello(streams(90, |id| frame(HEADERS, END_HEADERS | END_STREAM, id, &block)))
}

/// The head of a masked message of 8 MiB.
fn long_message() -> Vec<u8> {
    let head = [&[0x82, 0xFF][..], &(8_u64 << 20).to_be_bytes(), &[0; 4]].concat();
    [websocket::handshake("/ws"), head].concat()
}

const TICK: Duration = Duration::from_millis(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SMALL_BUFFER_BYTES: usize = 4 * 1024;
