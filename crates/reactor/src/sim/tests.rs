//! What the tests of the simulated kernel share: a world with one driver, and short words for using it.
#![forbid(unsafe_code)]

mod chaos;
mod clock;
mod files;
mod pipe;
mod sockets;
mod transfer;

use core::time::Duration;
use std::sync::Arc;

use plimsoll_pool::{Budget, Kind, Lease, MemoryLimit, Pool, PoolConfig};
use plimsoll_slab::Key;

use super::{SimConfig, World};
use crate::fd::Number;
use crate::*;

const LATENCY: Duration = Duration::from_micros(100);

/// A world with one driver.
struct Bench {
    world: World,
    budget: Arc<Budget>,
    pool: Pool,
    driver: Driver,
}

/// What a completion brought, copied.
#[derive(PartialEq)]
struct Done {
    token: u32,
    result: Result<u32, i32>,
    bytes: Vec<u8>,
    fd: Option<Number>,
}

impl core::fmt::Debug for Done {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {:?}, {} bytes, {:?}", self.token, self.result, self.bytes.len(), self.fd)
    }
}

impl Bench {
    /// A clean world in which every connection has the same latency.
    fn clean() -> Self {
        Self::with(SimConfig { latency_min: LATENCY, latency_max: LATENCY, ..SimConfig::new(1) })
    }

    fn with(config: SimConfig) -> Self {
        let budget = Budget::new(MemoryLimit::mib(64));
        let pool = Pool::new(&budget, PoolConfig::default()).expect("a pool");
        let world = World::new(config);
        let driver = Driver::simulated(&world, &DriverConfig::default(), &pool).expect("a driver");
        Self { world, budget, pool, driver }
    }

    fn submit(&mut self, token: u32, op: Op) -> Key {
        self.driver.submit(op, Token(token)).map_err(|(over, _)| over).expect("below the line")
    }

    fn lease(&self, len: usize) -> Lease {
        self.pool.try_acquire(len, Kind::Buffers).expect("below the line")
    }

    fn bytes(&self, bytes: &[u8]) -> Lease {
        self.pool.try_copy(bytes, Kind::Buffers).expect("below the line")
    }

    fn address(&self, address: &str) -> Lease {
        self.driver.address(address.parse().expect("an address")).expect("below the line")
    }

    /// Everything that is there, in order.
    fn reap(&mut self) -> Vec<Done> {
        let mut all = Vec::new();
        while let Some(completion) = self.driver.reap() {
            let (bytes, fd) = match completion.payload {
                Payload::Received(received) => (received.to_vec(), None),
                Payload::Lease(lease) => (lease.to_vec(), None),
                Payload::Sent(rest) => (rest.as_slice().to_vec(), None),
                Payload::Fd(fd) => (Vec::new(), Some(fd.number())),
                Payload::None => (Vec::new(), None),
            };
            let result = completion.result.map_err(|errno| errno.0);
            all.push(Done { token: completion.token.0, result, bytes, fd });
        }
        all
    }

    /// Waits for completions that somebody wants.
    fn wait(&mut self) -> Vec<Done> {
        loop {
            self.driver.enter(Wait::Forever).expect("something happens");
            let all = self.reap();
            if !all.is_empty() {
                return all;
            }
        }
    }

    /// The one completion that comes next.
    fn one(&mut self) -> Done {
        let mut all = self.wait();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn run(&mut self, op: Op) -> Done {
        self.submit(0, op);
        self.one()
    }

    fn send(&mut self, fd: Number, bytes: &[u8]) -> Result<u32, i32> {
        let bytes = SendBytes::Lease(self.bytes(bytes));
        self.run(Op::Send { fd, bytes }).result
    }

    fn receive(&mut self, fd: Number) -> Result<Vec<u8>, i32> {
        let done = self.run(Op::Receive { fd });
        done.result.map(|_| done.bytes)
    }

    fn listen(&mut self, address: &str) -> Number {
        let address = address.parse().expect("an address");
        self.driver.listen(address, &ListenOptions::default()).expect("a free address").number()
    }

    /// A connected pair: the client's and the server's socket.
    fn pair(&mut self) -> (Number, Number) {
        let listener = self.listen("127.0.0.1:80");
        let client = self.driver.socket(SocketKind::Tcp4).expect("a socket").number();
        let address = self.address("127.0.0.1:80");
        assert_eq!(self.run(Op::Connect { fd: client, address }).result, Ok(0));
        let server = self.driver.accept_now(listener).expect("accept works").expect("it is in the queue");
        self.driver.close_now(listener.owned());
        (client, server.number())
    }

    fn elapse(&mut self, duration: Duration) -> Vec<Done> {
        let until = self.world.now() + duration;
        self.driver.enter(Wait::Until(until)).expect("waiting for a time works");
        self.reap()
    }
}

/// A path as an open wants it.
fn path(bench: &Bench, path: &str) -> Lease {
    bench.bytes(&[path.as_bytes(), b"\0"].concat())
}
