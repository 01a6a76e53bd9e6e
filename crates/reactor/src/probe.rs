//! Whether io_uring works here, found out by using it.
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};

use crate::fd::Number;
use crate::uring::kernel_release;
use crate::{
    Blocking, BlockingConfig, Driver, DriverConfig, DriverKind, Errno, Error, Fd, Instant, ListenOptions, Op, Payload,
    ReceiveMode, Selected, SendBytes, SocketKind, Token, Wait, sys,
};

/// The step that failed, and how.
type Failure = (&'static str, Errno);

/// Finds out, by doing it, whether io_uring works here and how it receives: a ring of full size, and connections to
/// ourselves.
///
/// # Errors
///
/// The step that failed first, and how.
pub(crate) fn probe() -> Result<ReceiveMode, Failure> {
    let release = kernel_release();
    if release < RELEASE_MIN {
        return Err(("kernel too old: io_uring is used from Linux 6.1 on", Errno(libc::ENOSYS)));
    }
    let mut first_failure = None;
    for mode in [ReceiveMode::Poll, ReceiveMode::Incremental, ReceiveMode::Classic] {
        if mode == ReceiveMode::Incremental && release < RELEASE_INCREMENTAL {
            continue;
        }
        match attempt(mode) {
            Ok(()) => return Ok(mode),
            Err(failure @ (SET_UP, _)) => return Err(failure),
            Err(failure) => _ = first_failure.get_or_insert(failure),
        }
    }
    Err(first_failure.unwrap_or((SET_UP, Errno(libc::ENOSYS))))
}

/// Runs a driver through the life of two connections.
pub(crate) fn attempt(mode: ReceiveMode) -> Result<(), Failure> {
    let budget = Budget::new(MemoryLimit::mib(BUDGET_MIB));
    let pool = Pool::new(&budget, PoolConfig::default()).map_err(|_| ("pool", Errno(libc::ENOMEM)))?;
    let blocking = Blocking::new(BlockingConfig::default(), &budget);
    let selected = Selected { kind: DriverKind::Uring, receive: mode, reason: None };
    let driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).map_err(failure)?;
    let deadline = driver.now() + TIMEOUT;
    let mut trial = Trial { driver, deadline, open: Vec::new() };
    let connections = trial.connect()?;
    trial.receive(connections, mode)?;
    trial.send(connections[0])
}

fn failure(error: Error) -> Failure {
    match error {
        Error::System { step, errno } => (step, errno),
        Error::OverBudget(_) => ("memory", Errno(libc::ENOMEM)),
        _ => ("loopback", Errno(libc::EADDRNOTAVAIL)),
    }
}

/// A connection to ourselves.
#[derive(Clone, Copy)]
struct Connection {
    client: Number,
    server: Number,
}

/// A driver on trial, and what has to be closed afterwards.
struct Trial {
    driver: Driver,
    deadline: Instant,
    open: Vec<Number>,
}

impl Trial {
    fn connect(&mut self) -> Result<[Connection; 2], Failure> {
        let step = |errno| ("loopback", errno);
        let listener = self
            .driver
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), &ListenOptions::default())
            .map_err(failure)?;
        let listener = self.keep(listener);
        let address = self.driver.local_address(listener).map_err(step)?;
        let mut connect = |token| -> Result<Connection, Failure> {
            let client = self.driver.socket(SocketKind::Tcp4).map_err(step)?;
            let client = self.keep(client);
            let address = self.driver.address(address).map_err(|_| ("memory", Errno(libc::ENOMEM)))?;
            self.submit(Op::Connect { fd: client, address }, token)?;
            let (_, Payload::None) = self.completion("loopback")? else { return Err(("loopback", WRONG)) };
            self.submit(Op::Accept { listener }, token)?;
            let (_, Payload::Fd(server)) = self.completion("accept")? else { return Err(("accept", WRONG)) };
            let server = self.keep(server);
            Ok(Connection { client, server })
        };
        Ok([connect(Token(0))?, connect(Token(1))?])
    }

    /// Its number, until it is closed at the end.
    fn keep(&mut self, fd: Fd) -> Number {
        let number = fd.number();
        self.open.push(number);
        number
    }

    /// Two small messages, of which incremental buffers put one right behind the other.
    fn receive(&mut self, connections: [Connection; 2], mode: ReceiveMode) -> Result<(), Failure> {
        let failed = ("receive", WRONG);
        for (token, connection) in connections.iter().enumerate() {
            self.submit(Op::Receive { fd: connection.server }, Token(token as u32))?;
        }
        self.driver.enter(Wait::No).map_err(|errno| ("io_uring_enter", errno))?;
        for (connection, message) in connections.iter().zip(MESSAGES) {
            let sent = sys::send(connection.client, message).map_err(|errno| ("loopback", errno))?;
            if sent != message.len() {
                return Err(("loopback", WRONG));
            }
        }
        let (first_token, Payload::Received(first)) = self.completion("receive")? else { return Err(failed) };
        let (second_token, Payload::Received(second)) = self.completion("receive")? else { return Err(failed) };
        let right =
            |token: Token, bytes: &[u8]| MESSAGES.get(token.0 as usize).is_some_and(|message| *message == bytes);
        let adjacent = first.as_ptr_range().end == second.as_ptr();
        let shared = adjacent || mode != ReceiveMode::Incremental;
        if first_token != second_token && right(first_token, &first) && right(second_token, &second) && shared {
            Ok(())
        } else {
            Err(failed)
        }
    }

    fn send(&mut self, connection: Connection) -> Result<(), Failure> {
        self.submit(Op::Send { fd: connection.server, bytes: SendBytes::Static(MESSAGES[0]) }, Token(0))?;
        let (_, Payload::Sent(rest)) = self.completion("send")? else { return Err(("send", WRONG)) };
        let lease = self
            .driver
            .pool()
            .try_acquire(MESSAGES[0].len(), Kind::Buffers)
            .map_err(|_| ("memory", Errno(libc::ENOMEM)))?;
        self.submit(Op::ReceiveInto { fd: connection.client, lease }, Token(1))?;
        let (_, Payload::Lease(echo)) = self.completion("receive")? else { return Err(("receive", WRONG)) };
        if rest.is_empty() && *echo == *MESSAGES[0] { Ok(()) } else { Err(("send", WRONG)) }
    }

    fn submit(&mut self, op: Op<'_>, token: Token) -> Result<(), Failure> {
        self.driver.submit(op, token).map(|_| ()).map_err(|_| ("memory", Errno(libc::ENOMEM)))
    }

    /// The next completion, if it comes in time and is none of an error.
    fn completion(&mut self, step: &'static str) -> Result<(Token, Payload), Failure> {
        while self.driver.now() < self.deadline {
            if let Some(completion) = self.driver.reap() {
                return match completion.result {
                    Ok(_) => Ok((completion.token, completion.payload)),
                    Err(errno) => Err((step, errno)),
                };
            }
            self.driver.enter(Wait::Until(self.deadline)).map_err(|errno| ("io_uring_enter", errno))?;
        }
        Err((step, Errno(libc::ETIMEDOUT)))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.driver.shutdown(self.deadline + TIMEOUT);
        for fd in self.open.drain(..) {
            let _closed = sys::close(fd);
        }
    }
}

const SET_UP: &str = "io_uring_setup";
/// The first kernel whose completions can be deferred until we ask for them.
const RELEASE_MIN: (u32, u32) = (6, 1);
/// Incremental buffers have races before, which no probe finds.
const RELEASE_INCREMENTAL: (u32, u32) = (6, 16);
const BUDGET_MIB: u64 = 16;
const TIMEOUT: Duration = Duration::from_secs(1);
const MESSAGES: [&[u8]; 2] = [b"first message", b"the second"];
/// It answered, and wrongly.
const WRONG: Errno = Errno(libc::EIO);
