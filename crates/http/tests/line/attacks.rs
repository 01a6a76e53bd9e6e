//! The attacks on the memory line, from one address, and an honest client from another: it is answered all the while,
//! the line holds, and nobody who is turned away is turned away in silence. In full size they are run by hand; here
//! they are as many as fill a low line. How long the honest client waited is printed, not judged.

#![allow(clippy::print_stdout, reason = "timings are printed")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use plimsoll_http::{Config, Error, Request, Response, Server, StatusCode, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::{MemoryLimit, sleep};
use socket2::{Domain, Protocol, Socket, Type};

use crate::rig::frames::{ACK, DATA, GOAWAY, PREFACE, SETTINGS, frame, request};
use crate::rig::threads::{TEST_TIMEOUT, serve_until, under_line};

const LINE: MemoryLimit = MemoryLimit::mib(4);
const ATTACKER: [u8; 4] = [127, 0, 0, 7];
const HONEST: [u8; 4] = [127, 0, 0, 2];
/// An attack lasts so long after it has begun.
const HOLD: Duration = Duration::from_millis(1_500);
/// Or until so many honest requests were answered.
const SERVED_MIN: usize = 50;
/// A handler keeps the first piece of an upload for so long.
const KEPT: Duration = Duration::from_millis(200);

async fn answer(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/json" => Ok(Response::json_text(vec![b'1'; 10_000])),
        "/blob" => {
            let mut out = req.respond(Response::new(StatusCode::OK), Some(1 << 20))?;
            for _ in 0..64 {
                out.write_bytes(vec![b'b'; 16 * 1024].into()).await?;
            }
            out.finish().await
        }
        "/upload" => {
            let mut bytes = 0;
            while let Some(chunk) = req.chunk().await? {
                if bytes == 0 {
                    // The first is kept for a while: how much is held at a time is not how fast the machine is.
                    sleep(KEPT).await;
                }
                bytes += chunk.len();
            }
            Ok(Response::text(bytes.to_string()))
        }
        "/never-read" => {
            sleep(TEST_TIMEOUT * 2).await;
            Ok(Response::text("late"))
        }
        "/socket" => {
            let deaf = |_: &mut WebSocketRef<'_>, _| Ok(());
            let patient = TEST_TIMEOUT * 2;
            let config =
                WebSocketConfig { message_timeout: patient, ping_interval: Some(patient), ..Default::default() };
            req.serve_websocket(&config, deaf)
        }
        _ => Ok(Response::text("fine")),
    }
}

fn connect(from: [u8; 4], to: SocketAddr, receive_bytes: Option<usize>) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    stream.set_write_timeout(Some(TEST_TIMEOUT))?;
    Ok(stream)
}

/// A whole request of the honest client, and its answer.
fn ask(to: SocketAddr) -> String {
    let mut stream = connect(HONEST, to, None).expect("the listener's queue has room");
    stream.write_all(b"GET /json HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

/// How it goes while an attack lasts.
#[derive(Default)]
struct Siege {
    is_over: AtomicBool,
    /// Honest requests that were answered.
    served: AtomicUsize,
}

impl Siege {
    /// For attackers, once they hold what they want: until the honest client was answered many times all the same.
    fn hold(&self) {
        let (before, start) = (self.served.load(Ordering::Relaxed), Instant::now());
        while self.served.load(Ordering::Relaxed) < before + SERVED_MIN {
            assert!(start.elapsed() < TEST_TIMEOUT, "the honest client is not served");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What an attack does to the server at an address.
type Attack = fn(SocketAddr, &Siege);

/// Runs an attack on a server of each driver beside an honest client.
fn withstand(name: &str, attack: Attack) {
    under_line(name, LINE, async |runtime| {
        // How long who finds no room waits is not what is judged.
        let config = Config { admission_timeout: TEST_TIMEOUT, memory_timeout: TEST_TIMEOUT, ..Config::default() };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let to = server.local_addr();
        let (served, slowest) = serve_until(server.serve(answer), move || besiege(to, attack)).await?;
        println!("{name} on {}: {served} honest requests, the slowest took {slowest:?}", runtime.driver().kind);
        let peak = runtime.budget().peak();
        println!("{name}: at most {peak} bytes");
        assert!(peak > runtime.budget().limit().as_bytes() / 2, "{name}: memory was not short: {peak} bytes");
        Ok(())
    });
}

/// The attack, and how many honest requests were answered meanwhile, with the longest time for one.
fn besiege(to: SocketAddr, attack: Attack) -> (usize, Duration) {
    let siege = Arc::new(Siege::default());
    let attacking = thread::spawn({
        let siege = Arc::clone(&siege);
        move || {
            attack(to, &siege);
            siege.is_over.store(true, Ordering::Relaxed);
        }
    });
    let (mut served, mut slowest) = (0, Duration::ZERO);
    while !siege.is_over.load(Ordering::Relaxed) && !attacking.is_finished() {
        let asked = Instant::now();
        let answer = ask(to);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("111"), "after {served}: {answer:?}");
        slowest = slowest.max(asked.elapsed());
        served += 1;
        siege.served.store(served, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(10));
    }
    attacking.join().expect("the attackers' assertions hold");
    (served, slowest)
}

/// What has come on a connection that asked and does not read on.
fn heard(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_nonblocking(true).expect("a mode");
    let mut bytes = vec![0; 64];
    match stream.read(&mut bytes) {
        Ok(len) => bytes.truncate(len),
        Err(_) => bytes.clear(),
    }
    bytes
}

/// Each attacker who was turned away has heard why.
fn check(heard: &[u8]) {
    let is_answer = [&b"HTTP/1.1 200 "[..], b"HTTP/1.1 503 "].iter().any(|start| heard.starts_with(start));
    assert!(is_answer || heard.is_empty(), "{}", String::from_utf8_lossy(heard));
}

#[test]
fn readers_that_do_not_read() {
    withstand("unread answers", |to, _siege| {
        let mut held = Vec::new();
        for _ in 0..300 {
            let mut stream = connect(ATTACKER, to, Some(4_096)).expect("the listener's queue has room");
            let _turned_away = stream.write_all(b"GET /blob HTTP/1.1\r\nHost: h\r\n\r\n");
            held.push(stream);
        }
        thread::sleep(HOLD);
        held.iter_mut().for_each(|stream| check(&heard(stream)));
    });
}

#[test]
fn pipelines_that_are_not_read() {
    withstand("unread pipelines", |to, _siege| {
        let requests = b"GET /json HTTP/1.1\r\nHost: h\r\n\r\n".repeat(64);
        let mut held = Vec::new();
        for _ in 0..600 {
            let mut stream = connect(ATTACKER, to, Some(4_096)).expect("the listener's queue has room");
            let _turned_away = stream.write_all(&requests);
            held.push(stream);
        }
        thread::sleep(HOLD);
        held.iter_mut().for_each(|stream| check(&heard(stream)));
    });
}

/// An upload of 2 MiB, as fast as the server takes it.
fn upload(to: SocketAddr) {
    let mut stream = connect(ATTACKER, to, None).expect("the listener's queue has room");
    let head = format!("POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", 2 << 20);
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'u'; 2 << 20]));
    let answer = match (sent, stream.read(&mut [0; 512])) {
        (Ok(()), Ok(len)) => len,
        // Turned away midway: the answer may be overtaken by the reset.
        (Err(_), heard) => heard.unwrap_or(1),
        (Ok(()), Err(error)) => panic!("an upload waits for its answer: {error}"),
    };
    assert!(answer > 0, "closed without a word");
}

#[test]
fn uploads_at_full_speed() {
    withstand("uploads", |to, _siege| {
        let end = Instant::now() + HOLD;
        let clients: Vec<_> = (0..100)
            .map(|_| {
                thread::spawn(move || {
                    while Instant::now() < end {
                        upload(to);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("it is answered"));
    });
}

#[test]
fn many_of_one_address_and_one_of_another() {
    withstand("a greedy address", |to, _siege| {
        let end = Instant::now() + HOLD;
        let clients: Vec<_> = (0..80)
            .map(|_| {
                thread::spawn(move || {
                    while Instant::now() < end {
                        let mut stream = connect(ATTACKER, to, None).expect("the listener's queue has room");
                        let asked = stream.write_all(b"GET /blob HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                        let mut answer = Vec::new();
                        match asked.and_then(|()| stream.read_to_end(&mut answer)) {
                            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it waits for ever"),
                            _ => check(&answer),
                        }
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("it is answered or turned away"));
    });
}

/// What has come on a connection, until its end if that has come; whether it has.
fn drained(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    stream.set_nonblocking(true).expect("a mode");
    let mut bytes = Vec::new();
    let ended = match stream.read_to_end(&mut bytes) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    (bytes, ended)
}

/// The types of the frames of HTTP/2 that have come whole.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some(&[a, b, c, kind, ..]) = bytes.first_chunk::<9>() {
        let Some(rest) = bytes.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..) else { break };
        kinds.push(kind);
        bytes = rest;
    }
    kinds
}

#[test]
fn http2_uploads_that_no_handler_reads() {
    withstand("HTTP/2 uploads", |to, siege| {
        const STREAMS: u32 = 4;
        let mut words = PREFACE.to_vec();
        words.extend([frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
        for at in 0..STREAMS {
            let stream = 2 * at + 1;
            words.extend(request(stream, "POST", "/never-read", &[], 0));
            // All that the windows of the stream and of the connection allow.
            words.extend(frame(DATA, 0, stream, &[b'u'; 16_000]));
        }
        let mut held = Vec::new();
        for _ in 0..120 {
            let mut stream = connect(ATTACKER, to, None).expect("the listener's queue has room");
            let _turned_away = stream.write_all(&words);
            held.push(stream);
        }
        siege.hold();
        for mut stream in held {
            let (heard, has_ended) = drained(&mut stream);
            // Whoever is turned away before the preface was read hears it as a client of HTTP/1.1 would. Who was begun
            // is kept waiting.
            let is_told = kinds(&heard).contains(&GOAWAY) || heard.starts_with(b"HTTP/1.1 503 ");
            assert!(!has_ended || heard.is_empty() || is_told, "ended in silence: {}", heard.escape_ascii());
        }
    });
}

#[test]
fn websocket_messages_that_never_end() {
    withstand("half messages", |to, siege| {
        let opening = b"GET /socket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        // A binary message of 100,000 bytes, masked with zeros, of which little comes.
        let mut part = vec![0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0x86, 0xA0, 0, 0, 0, 0];
        part.extend([b'm'; 6_000]);
        let mut held = Vec::new();
        for _ in 0..600 {
            let mut stream = connect(ATTACKER, to, None).expect("the listener's queue has room");
            let mut answer = [0; 512];
            let opened = stream.write_all(opening).and_then(|()| stream.read(&mut answer));
            if opened.is_ok_and(|len| answer[..len].starts_with(b"HTTP/1.1 101 ")) {
                let _turned_away = stream.write_all(&part);
            }
            held.push(stream);
        }
        siege.hold();
        let mut told = 0;
        for mut stream in held {
            let (heard, has_ended) = drained(&mut stream);
            let is_told = heard.ends_with(&[0x88, 2, 0x03, 0xF5]);
            assert!(!has_ended || heard.is_empty() || is_told, "ended in silence: {heard:?}");
            told += usize::from(is_told);
        }
        assert!(told > 0, "the line was not reached: nobody was let go of");
    });
}
