//! HTTP/2 over both addresses, what the one for HTTP/2 alone refuses, and CONNECT.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use plimsoll_codec::h1::FieldSlot;
use plimsoll_codec::hpack::{Decoder, FieldBuf, TABLE_BYTES};
use plimsoll_codec::ws::{FrameHead, Opcode};
use plimsoll_conformance::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, block, frame};

use crate::process::{Arena, Running, WAIT_MAX, drivers};

const ENABLE_CONNECT_PROTOCOL: [u8; 6] = [0, 8, 0, 0, 0, 1];

/// Sends bytes and reads until `enough` has come, or to the end.
fn talk(port: &str, bytes: &[u8], enough: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).expect("arena listens");
    socket.set_read_timeout(Some(WAIT_MAX)).expect("a live socket");
    socket.write_all(bytes).expect("arena reads");
    let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
    while !answer.windows(enough.len()).any(|window| window == enough) {
        match socket.read(&mut piece).expect("arena answers in time") {
            0 => break,
            bytes => answer.extend_from_slice(&piece[..bytes]),
        }
    }
    answer
}

#[test]
fn http2_is_spoken_on_both_ports_and_http1_on_one() {
    // The preface, SETTINGS, and a request whose path is the fifth field of a list without tables.
    let block = b"\x82\x86\x00\x0a:authority\x01h\x00\x05:path\x09/pipeline";
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0".to_vec();
    hello.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    hello.extend(block);
    for driver in drivers() {
        let flags = ["--listen", "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--driver", driver, "--workers", "2"];
        let (mut arena, ready) = Running::start("arena", &flags);
        let port = |before: &str| {
            let after = ready.split(before).nth(1).unwrap_or_else(|| panic!("{before} is not in {ready}"));
            after.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let (both, alone) = (port("http://127.0.0.1:"), port("h2c=127.0.0.1:"));
        for port in [&both, &alone] {
            let answer = talk(port, &hello, b"ok");
            assert!(answer.ends_with(b"\0\0\x02\0\x01\0\0\0\x01ok"), "on {driver}: {answer:?}");
        }
        let request = b"GET /pipeline HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        assert!(talk(&both, request, b"\r\n\r\nok").starts_with(b"HTTP/1.1 200 "));
        assert!(talk(&alone, request, b"\r\n\r\n").starts_with(b"HTTP/1.1 505 "));
        let metrics = talk(&both, b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", b"never");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        assert!(metrics.contains("plimsoll_requests_total{protocol=\"h2\"} 2\n"), "both servers count: {metrics}");
        arena.signal("TERM");
        let ended = arena.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}

/// A connection whose fields are literals that no table keeps.
struct Http2 {
    socket: TcpStream,
    decoder: Decoder,
    table: Vec<u8>,
}

impl Http2 {
    fn connect(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).expect("arena listens");
        socket.set_read_timeout(Some(WAIT_MAX)).expect("a live socket");
        let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, 1, 0, &[])];
        socket.write_all(&hello.concat()).expect("arena reads");
        Self { socket, decoder: Decoder::new(TABLE_BYTES as u16), table: vec![0; TABLE_BYTES] }
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        self.socket.write_all(&frame(kind, flags, stream.into(), payload)).expect("arena reads");
    }

    /// The next frame of this kind: its flags, stream and payload.
    fn next_of(&mut self, kind: u8) -> (u8, u8, Vec<u8>) {
        loop {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).expect("arena answers in time");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.socket.read_exact(&mut payload).expect("the rest of the frame");
            if head[3] == kind {
                return (head[4], head[8], payload);
            }
        }
    }

    /// Asks without a body; the status, `allow`, and whether the answer has ended with its fields.
    fn ask(&mut self, stream: u8, fields: &[(&str, &str)]) -> (String, Option<String>, bool) {
        let ends = if fields.contains(&(":method", "CONNECT")) { 0 } else { END_STREAM };
        self.send(HEADERS, END_HEADERS | ends, stream, &block(fields));
        let (flags, answered, block) = self.next_of(HEADERS);
        assert_eq!(answered, stream);
        let (mut bytes, mut slots) = ([0; 4_096], [FieldSlot::EMPTY; 16]);
        let mut answer = FieldBuf::new(&mut bytes, &mut slots, 4_096);
        self.decoder.decode(&mut self.table, &block, &mut answer).expect("a block");
        let field = |wanted: &str| {
            let (_, value) = answer.fields().find(|(name, _)| *name == wanted.as_bytes())?;
            Some(String::from_utf8(value.to_vec()).expect("a text"))
        };
        (field(":status").expect("a status"), field("allow"), flags & END_STREAM != 0)
    }
}

/// An extended CONNECT (RFC 8441).
fn extended<'a>(path: &'a str, protocol: &'a str) -> [(&'a str, &'a str); 6] {
    let version = ("sec-websocket-version", "13");
    let target = [(":scheme", "http"), (":authority", "arena"), (":path", path)];
    [(":method", "CONNECT"), (":protocol", protocol), target[0], target[1], target[2], version]
}

#[test]
fn a_websocket_begins_with_an_extended_connect() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "1"]);
        let mut client = Http2::connect(arena.address);
        let (_, _, settings) = client.next_of(SETTINGS);
        assert!(settings.chunks(6).any(|setting| setting == ENABLE_CONNECT_PROTOCOL), "{settings:?}");
        let (status, _, ended) = client.ask(1, &extended("/ws", "websocket"));
        assert_eq!((&*status, ended), ("200", false), "on {driver}");
        let mut payload = b"hello".to_vec();
        let head = FrameHead::message(Opcode::Text, payload.len() as u64).masked([1, 2, 3, 4]);
        head.mask(&mut payload);
        client.send(DATA, 0, 1, &[head.encode().as_bytes(), &payload].concat());
        assert_eq!(client.next_of(DATA), (0, 1, b"\x81\x05hello".to_vec()), "it comes back");
        let close = FrameHead::message(Opcode::Close, 0).masked([0; 4]);
        client.send(DATA, END_STREAM, 1, close.encode().as_bytes());
        assert_eq!(client.next_of(DATA).2, b"\x88\x00", "and so does the close");
        arena.stop();
    }
}

#[test]
fn any_other_connect_is_not_allowed() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "1"]);
        let mut client = Http2::connect(arena.address);
        let plain = [(":method", "CONNECT"), (":authority", "arena:443")];
        let (paths, another) = (extended("/pipeline", "websocket"), extended("/ws", "another"));
        for (at, (fields, allow)) in
            [(&plain[..], "GET, HEAD, POST, OPTIONS"), (&paths, "GET, HEAD"), (&another, "GET, HEAD")]
                .iter()
                .enumerate()
        {
            let (status, allowed, _) = client.ask(2 * at as u8 + 1, fields);
            assert_eq!((&*status, allowed.as_deref()), ("405", Some(*allow)), "{fields:?} on {driver}");
        }
        arena.stop();
    }
}
