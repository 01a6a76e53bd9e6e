//! `cargo xtask bench --fanout`: one message to many WebSockets, by `examples/push.rs` on each driver.
//!
//! | row | what is done |
//! |---|---|
//! | parked | 10,000 WebSockets that wait: anonymous bytes of the server for each |
//! | round | a message of 1 KiB to all of them, again and again: wall time until the last has it, CPU of the server, and by how much its resident memory grew at most |
//! | slow | 100 that read and 100 that do not, 400 messages of 16 KiB, for each policy: what became of those that do not read, the time of a round for those that do, and the growth |

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use super::figures::Spread;
use super::placement::{self, Placement};
use super::process::Running;
use super::servers::{self, Server};
use super::{Extent, client, pairs};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};

/// Measures and prints.
pub(super) fn run(extent: &Extent, profiles: &[String]) -> u8 {
    if let Some(install) = placement::missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    if let Some(unknown) = profiles.iter().find(|name| !PROFILES.contains(&name.as_str())) {
        eprintln!("no profile `{unknown}`; of fan-out there are {}", PROFILES.join(", "));
        return EXIT_MISSING;
    }
    match measure(extent, |name| profiles.is_empty() || profiles.iter().any(|profile| profile == name)) {
        Ok(()) => EXIT_OK,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(extent: &Extent, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let all: Vec<_> = servers::PUSHERS.iter().collect();
    let pushers = servers::build(&all, |_, _| unreachable!("ours are built or an error"))?;
    std::fs::create_dir_all(super::dir().join("servers")).map_err(|error| error.to_string())?;
    placement::raise_open_files(pairs::OPEN_FILES);
    let placement = Placement::here()?;
    placement.stay_away();
    let members = pairs::connections(MEMBERS / extent.part as usize);
    for pusher in pushers.iter().filter(|_| wanted("round")) {
        many(pusher, &placement, members, extent.rounds * ROUNDS_EACH)
            .map_err(|why| format!("{}: {why}", pusher.name))?;
    }
    for pusher in pushers.iter().filter(|_| wanted("slow")) {
        for policy in ["drop-newest", "drop-oldest", "close"] {
            slow(pusher, &placement, policy).map_err(|why| format!("{} {policy}: {why}", pusher.name))?;
        }
    }
    Ok(())
}

fn many(pusher: &'static Server, placement: &Placement, members: usize, rounds: u32) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    let running = Running::start(pusher, "drop-oldest", placement)?;
    let mut publisher = Publisher::new(running.address()).map_err(said)?;
    let warm = Audience::open(running.address(), 200).map_err(said)?;
    publisher.publish(MESSAGE_BYTES).map_err(said)?;
    drop(warm);
    std::thread::sleep(SETTLE);
    let before = running.memory()?.anonymous_bytes;
    let mut audience = Audience::open(running.address(), members).map_err(said)?;
    std::thread::sleep(SETTLE);
    let each = (running.memory()?.anonymous_bytes as f64 - before as f64) / members as f64;
    println!("{}: parked: {members} WebSockets, {each:.0} bytes each", pusher.name);
    let (mut wall, mut cpu, mut growth) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        std::thread::sleep(Duration::from_millis(100));
        let resident = running.resident_bytes()?;
        running.reset_peak()?;
        let (used, began) = (running.cpu()?, Instant::now());
        publisher.publish(MESSAGE_BYTES).map_err(said)?;
        audience.until(MESSAGE_BYTES + FRAME_HEAD_BYTES).map_err(said)?;
        wall.push(began.elapsed().as_secs_f64() * 1_000.0);
        cpu.push(running.cpu()?.since(&used) as f64 / 1_000.0 / members as f64);
        growth.push(running.peak_resident_bytes()?.saturating_sub(resident) as f64 / 1_024.0);
    }
    let [wall, cpu, growth] = [wall, cpu, growth].map(|series| Spread::of(series).expect("a round at least"));
    println!(
        "{}: round: {:.1} ms ({:.1} to {:.1}) until all have it, {:.2} us of CPU for each, {:.0} KiB more resident at most ({:.0} at worst); {} bytes of copies would be {} KiB",
        pusher.name,
        wall.median,
        wall.min,
        wall.max,
        cpu.median,
        growth.median,
        growth.max,
        MESSAGE_BYTES,
        members * MESSAGE_BYTES / 1_024,
    );
    println!("{}: {}", pusher.name, publisher.stats().map_err(said)?.replace('\n', ", "));
    Ok(())
}

fn slow(pusher: &'static Server, placement: &Placement, policy: &str) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    let running = Running::start(pusher, policy, placement)?;
    let mut publisher = Publisher::new(running.address()).map_err(said)?;
    let mut readers = Audience::open(running.address(), 100).map_err(said)?;
    let sleepers = Audience::open(running.address(), 100).map_err(said)?;
    let resident = running.resident_bytes()?;
    running.reset_peak()?;
    let mut wall = Vec::new();
    for _ in 0..SLOW_MESSAGES {
        let began = Instant::now();
        publisher.publish(SLOW_BYTES).map_err(said)?;
        readers.until(SLOW_BYTES + FRAME_HEAD_BYTES).map_err(said)?;
        wall.push(began.elapsed().as_secs_f64() * 1_000.0);
    }
    let growth = running.peak_resident_bytes()?.saturating_sub(resident) / 1_024;
    let wall = Spread::of(wall).expect("a message at least");
    println!(
        "{}: slow, {policy}: {:.2} ms for those that read ({:.2} at worst), {growth} KiB more resident at most; {}",
        pusher.name,
        wall.median,
        wall.max,
        publisher.stats().map_err(said)?.replace('\n', ", ")
    );
    drop(sleepers);
    Ok(())
}

/// A keep-alive connection that posts.
struct Publisher(TcpStream);

impl Publisher {
    fn new(server: SocketAddr) -> io::Result<Publisher> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        Ok(Publisher(stream))
    }

    fn publish(&mut self, bytes: usize) -> io::Result<()> {
        let head = format!("POST /publish HTTP/1.1\r\nHost: push\r\nContent-Length: {bytes}\r\n\r\n");
        self.0.write_all(&[head.as_bytes(), &vec![b'x'; bytes]].concat())?;
        self.answer().map(drop)
    }

    fn stats(&mut self) -> io::Result<String> {
        self.0.write_all(b"GET /stats HTTP/1.1\r\nHost: push\r\n\r\n")?;
        Ok(self.answer()?.trim_end().to_owned())
    }

    /// The body of a short answer.
    fn answer(&mut self) -> io::Result<String> {
        let mut answer = String::new();
        let mut buffer = [0; 4_096];
        loop {
            let count = self.0.read(&mut buffer)?;
            answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
            if let Some((head, body)) = answer.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                match length {
                    _ if !head.starts_with("HTTP/1.1 200 ") => {
                        return Err(io::Error::other(format!("answered {head}")));
                    }
                    Some(length) if body.len() >= length => return Ok(body.to_owned()),
                    _ => {}
                }
            }
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// WebSockets that listen.
struct Audience {
    poll: Poll,
    members: Vec<(mio::net::TcpStream, usize)>,
    buffer: Vec<u8>,
}

impl Audience {
    fn open(server: SocketAddr, count: usize) -> io::Result<Audience> {
        let poll = Poll::new()?;
        let mut members = Vec::with_capacity(count);
        for index in 0..count {
            let mut stream = mio::net::TcpStream::from_std(socket(server, index)?);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            members.push((stream, 0));
        }
        Ok(Audience { poll, members, buffer: vec![0; 64 * 1_024] })
    }

    /// Reads until each has got so many bytes more.
    fn until(&mut self, bytes: usize) -> io::Result<()> {
        let mut events = Events::with_capacity(1_024);
        let mut left = self.members.len();
        let deadline = Instant::now() + WAIT_MAX;
        while left > 0 {
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{left} did not get the message")));
            }
            self.poll.poll(&mut events, Some(Duration::from_millis(100)))?;
            for event in &events {
                let (stream, got) = &mut self.members[event.token().0];
                loop {
                    match stream.read(&mut self.buffer) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(count) => *got += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                if *got >= bytes {
                    *got -= bytes;
                    left -= 1;
                }
            }
        }
        Ok(())
    }
}

/// A WebSocket after its handshake.
fn socket(server: SocketAddr, index: usize) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((client::from(index), 0)).into())?;
    socket.connect(&server.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.write_all(HANDSHAKE)?;
    let mut head = Vec::new();
    let mut byte = [0];
    // A byte at a time: what follows is a message.
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(format!("no WebSocket: {}", head.escape_ascii())));
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

const HANDSHAKE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: push\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const PROFILES: [&str; 2] = ["round", "slow"];
const MEMBERS: usize = 10_000;
const MESSAGE_BYTES: usize = 1_024;
/// Of a frame between 126 bytes and 64 KiB.
const FRAME_HEAD_BYTES: usize = 4;
const ROUNDS_EACH: u32 = 5;
const SLOW_MESSAGES: usize = 400;
const SLOW_BYTES: usize = 16 * 1_024;
/// The server gives memory back after two seconds.
const SETTLE: Duration = Duration::from_millis(3_500);
const WAIT_MAX: Duration = Duration::from_secs(20);
