//! One connection of a load.
//!
//! ```text
//! connecting -> asking -> (next request) asking -> done, or held
//!      any -> failed: refused, closed, wrong
//! ```

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};

use super::answer::{Answers, Expected};
use super::plan::{Plan, Reads};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    state: State,
    answers: Answers,
    /// Bytes of this request that have been sent, head and body.
    sent: u64,
    /// Requests whose answers are complete.
    requests: u32,
    /// When this request was begun.
    asked: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Asking,
    /// Its requests are done, or all that is sent has been sent.
    Done,
}

/// What came of looking after a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on when the socket is ready.
    Waits,
    Done,
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Refused,
    Closed,
    Wrong,
}

/// What is the same for all connections, and what they report to.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) plan: &'a Plan,
    /// Sent before the first request; empty if nothing is.
    pub(super) opening: Vec<u8>,
    pub(super) head: Vec<u8>,
    pub(super) filler: Vec<u8>,
    pub(super) room: Vec<u8>,
    /// Bytes of bodies that have been sent.
    pub(super) sent_bytes: u64,
    pub(super) requests: u64,
    pub(super) latencies_us: Vec<u32>,
}

impl Connection {
    /// Begins to connect, from one of twenty addresses.
    pub(super) fn open(index: usize, to: SocketAddr, plan: &Plan) -> io::Result<Connection> {
        let mut tries = 1;
        loop {
            match Connection::try_open(index, to, plan) {
                // The port that was free on its own is taken towards this server.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && tries < TRIES_MAX => tries += 1,
                opened => return opened,
            }
        }
    }

    fn try_open(index: usize, to: SocketAddr, plan: &Plan) -> io::Result<Connection> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        let from = Ipv4Addr::new(127, 0, 0, FIRST_CLIENT + (index % plan.addresses) as u8);
        // Connections that were closed a moment ago keep their ports for a minute otherwise.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        if matches!(plan.reads, Reads::Slowly { .. } | Reads::Never) {
            socket.set_recv_buffer_size(SMALL_BUFFER_BYTES)?;
        }
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            _ => {}
        }
        Ok(Connection {
            stream: TcpStream::from_std(socket.into()),
            state: State::Connecting,
            answers: Answers::new(match plan.message_bytes {
                None => Expected::Responses,
                Some(_) => Expected::Upgrade,
            }),
            sent: 0,
            requests: 0,
            asked: Instant::now(),
        })
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(super) const fn is_connected(&self) -> bool {
        !matches!(self.state, State::Connecting)
    }

    /// Goes on as far as the socket lets it. It reads at most `read_bytes_max`.
    pub(super) fn go_on(&mut self, shared: &mut Shared<'_>, read_bytes_max: usize) -> Outcome {
        if self.state == State::Connecting {
            match self.stream.peer_addr() {
                Ok(_) => self.state = State::Asking,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => match self.stream.take_error() {
                    Ok(None) => return Outcome::Waits,
                    _ => return Outcome::Failed(Failure::Refused),
                },
                Err(_) => return Outcome::Failed(Failure::Refused),
            }
            self.asked = Instant::now();
        }
        let mut left = read_bytes_max;
        loop {
            if let Some(failure) = self.send(shared) {
                return Outcome::Failed(failure);
            }
            let is_sent = self.sent == self.total(shared);
            if is_sent && (shared.plan.half || shared.plan.reads == Reads::Never) {
                self.state = State::Done;
                return Outcome::Done;
            }
            match self.read(shared, &mut left) {
                Err(failure) => return Outcome::Failed(failure),
                Ok(false) => return Outcome::Waits,
                Ok(true) if self.requests == shared.plan.requests => {
                    self.state = State::Done;
                    return Outcome::Done;
                }
                Ok(true) => {}
            }
        }
    }

    /// Whether the server has neither closed it nor sent anything that nobody asked for. Only for connections that are
    /// done.
    pub(super) fn is_quiet(&self, plan: &Plan) -> bool {
        match self.stream.peek(&mut [0]) {
            // What is not read waits there, of course.
            Ok(len) => len > 0 && plan.reads == Reads::Never,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn send(&mut self, shared: &mut Shared<'_>) -> Option<Failure> {
        let (is_opening, total) = (self.answers.is_opening(), self.total(shared));
        let head_bytes = if is_opening { u64::MAX } else { shared.head.len() as u64 };
        while self.sent < total {
            let head = if is_opening { &shared.opening } else { &shared.head };
            let piece = match head.get(self.sent as usize..) {
                Some(rest) if !rest.is_empty() => rest,
                _ => &shared.filler[..shared.filler.len().min((total - self.sent) as usize)],
            };
            match self.stream.write(piece) {
                Ok(len) => {
                    if self.sent >= head_bytes {
                        shared.sent_bytes += len as u64;
                    }
                    self.sent += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(Failure::Closed),
            }
        }
        None
    }

    /// Bytes of what is sent: of the handshake, or of a request.
    fn total(&self, shared: &Shared<'_>) -> u64 {
        match self.answers.is_opening() {
            true => shared.opening.len() as u64,
            false => shared.head.len() as u64 + shared.plan.upload_bytes.unwrap_or(0),
        }
    }

    /// Whether the answer to what was asked is complete.
    fn read(&mut self, shared: &mut Shared<'_>, left: &mut usize) -> Result<bool, Failure> {
        let wanted = (u64::from(self.requests) + 1) * u64::from(shared.plan.pipelined);
        let was_opening = self.answers.is_opening();
        while *left > 0 {
            let room = (*left).min(shared.room.len());
            match self.stream.read(&mut shared.room[..room]) {
                Ok(0) => return Err(Failure::Closed),
                Ok(len) => {
                    *left -= len;
                    self.answers.feed(&shared.room[..len]).map_err(|_| Failure::Wrong)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(Failure::Closed),
            }
            if was_opening && !self.answers.is_opening() {
                (self.sent, self.asked) = (0, Instant::now());
                return Ok(true);
            }
            if self.answers.done() > wanted || (self.answers.done() == wanted && self.sent < self.total(shared)) {
                return Err(Failure::Wrong);
            }
            if self.answers.done() == wanted {
                self.requests += 1;
                self.sent = 0;
                let now = Instant::now();
                let took = now.duration_since(self.asked).as_micros();
                shared.latencies_us.push(u32::try_from(took).unwrap_or(u32::MAX));
                shared.requests += u64::from(shared.plan.pipelined);
                self.asked = now;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// 127.0.0.2 to 127.0.0.21.
const FIRST_CLIENT: u8 = 2;
pub(in crate::bench) const CLIENTS: usize = 20;
/// Ports that are tried for a connection.
const TRIES_MAX: u32 = 16;
const SMALL_BUFFER_BYTES: usize = 16 * 1024;
/// `EINPROGRESS`: the socket connects by itself.
const IN_PROGRESS: i32 = 115;
