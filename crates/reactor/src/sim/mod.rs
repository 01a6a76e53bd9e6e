//! The simulated kernel: a third backend, in which a seed decides everything.
//!
//! A [`World`] is one virtual clock, one network in memory, one file tree and one seed. Drivers made with
//! [`Driver::simulated`](crate::Driver::simulated) live in it and talk to each other through it, with Linux's answers:
//! bounded socket buffers, backlogs, half-closed streams, resets, the lowest free descriptor. Nothing in it looks at
//! the real world, so the same program in a world of the same seed does the same, to the nanosecond and the byte;
//! [`World::trace_hash`] shows it.
//!
//! What can go wrong does, as often as [`Faults`] says, and is counted in a [`Census`].
//!
//! # Client and server in one world
//!
//! ```
//! use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
//! use plimsoll_reactor::sim::{SimConfig, World};
//! use plimsoll_reactor::{Completion, Driver, DriverConfig, ListenOptions, Op, Payload, SendBytes, SocketKind};
//! use plimsoll_reactor::{Token, Wait};
//!
//! let pool = Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default())?;
//! let world = World::new(SimConfig::new(7));
//! let mut driver = Driver::simulated(&world, &DriverConfig::default(), &pool)?;
//! let reap = |driver: &mut Driver| -> Result<Completion, Box<dyn std::error::Error>> {
//!     loop {
//!         if let Some(completion) = driver.reap() { return Ok(completion); }
//!         driver.enter(Wait::Forever)?;
//!     }
//! };
//!
//! let listener = driver.listen("127.0.0.1:80".parse()?, &ListenOptions::default())?;
//! let client = driver.socket(SocketKind::Tcp4)?;
//! let address = driver.address("127.0.0.1:80".parse()?)?;
//! driver.submit(Op::Connect { fd: client.at(), address }, Token(1)).map_err(|(over, _)| over)?;
//! assert_eq!(reap(&mut driver)?.result, Ok(0));
//!
//! let server = driver.accept_now(listener.at())?.expect("the connection is in the queue");
//! let bytes = SendBytes::Static(b"hello");
//! driver.submit(Op::Send { fd: client.at(), bytes }, Token(2)).map_err(|(over, _)| over)?;
//! driver.submit(Op::Receive { fd: server.at() }, Token(3)).map_err(|(over, _)| over)?;
//! assert_eq!((reap(&mut driver)?.token, world.census().completed), (Token(2), 2));
//! let received = reap(&mut driver)?;
//! let Payload::Received(bytes) = received.payload else { panic!("a receive brings bytes") };
//! assert_eq!(&*bytes, b"hello");
//!
//! for fd in [client, server, listener] { driver.close_now(fd); }
//! assert!(world.descriptors().is_empty());
//! # drop(bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several drivers
//!
//! All drivers of a world live on one thread, and entering one never blocks the thread. With a single driver the clock
//! jumps inside [`enter`](crate::Driver::enter). With several, a driver that has to wait returns from `enter` with
//! nothing, and whoever runs them asks [`World::step`] what to do: run the driver that the seed chooses among those
//! that have something to do, or ask again because the clock has moved. A driver that waits twice while nobody else
//! does anything is not held up: the clock moves for it as if it were alone, which is what ends the shutdown of one
//! driver among several.
//!
//! ```
//! # use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
//! # use plimsoll_reactor::sim::{SimConfig, Step, World};
//! # use plimsoll_reactor::{Driver, DriverConfig, Wait};
//! # use core::time::Duration;
//! let world = World::new(SimConfig::new(7));
//! let start = world.now();
//! let mut drivers = Vec::new();
//! for _ in 0..2 {
//!     let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
//!     drivers.push(Driver::simulated(&world, &DriverConfig::default(), &pool)?);
//! }
//! let waits = [Wait::Forever, Wait::Until(start + Duration::from_secs(3))];
//! let mut turns = [0; 2];
//! while turns[1] < 2 {
//!     match world.step() {
//!         Step::Run(node) => {
//!             let at = drivers.iter().position(|driver| driver.node() == Some(node)).expect("it is one of ours");
//!             turns[at] += 1;
//!             drivers[at].enter(waits[at])?;
//!         }
//!         Step::Advanced(_) => {}
//!         Step::Stuck => panic!("one of them waits for a time"),
//!     }
//! }
//! assert_eq!(turns, [1, 2], "the first has nothing to wake up for");
//! assert_eq!(world.now() - start, Duration::from_secs(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When a test fails
//!
//! A world that is dropped by a panic prints its seed, its virtual time and its last events (see
//! [`SimConfig::trace_events_max`]). The same seed, faults and program do the same again.
//!
//! # What is left out
//!
//! Bandwidth (only windows and latency limit a stream), keep-alive probes, UDP, removing or renaming files through
//! operations. A file operation that was cancelled before a worker began it has no effect; the seed decides whether one
//! had.
//!
//! # When everybody waits for nothing
//!
//! A wait without a deadline in a world in which nothing will ever happen is an error, `EDEADLK` from `enter` or
//! [`Step::Stuck`], so that a test fails at once instead of hanging. The opposite, tasks that wake one another for ever
//! so that nobody waits and the clock stands still, is `ELOOP` from `enter` after a million turns at one instant.
#![forbid(unsafe_code)]

use core::cell::{Ref, RefCell, RefMut};
use core::fmt;
use core::time::Duration;
use std::rc::Rc;

use crate::fd::Number;
use crate::{Errno, Instant};

mod census;
mod clock;
mod config;
mod descriptors;
mod dial;
mod events;
mod faults;
mod files;
mod flight;
mod kernel;
mod listeners;
mod network;
mod node;
mod nodes;
mod objects;
mod pipe;
mod rng;
mod sockets;
mod sweep;
#[cfg(test)]
mod tests;
mod trace;
mod transmit;
mod workers;

pub use census::{Census, OpKind};
use config::nanos;
pub use config::{NodeId, SimConfig, Step};
pub use faults::{Fault, Faults};
use kernel::Kernel;
pub(crate) use node::Sim;
pub use sweep::{FailedSeed, Sweep};

/// A simulated world: one virtual clock, one network, one seed. Cheap to clone; all clones are the same world.
#[derive(Clone)]
pub struct World(Rc<RefCell<Kernel>>);

impl World {
    /// A new world.
    ///
    /// # Panics
    ///
    /// When the configuration makes no sense: an empty buffer, no descriptors, a shortest latency over the longest.
    pub fn new(config: SimConfig) -> Self {
        Self(Rc::new(RefCell::new(Kernel::new(config))))
    }

    fn kernel(&self) -> Ref<'_, Kernel> {
        self.0.borrow()
    }

    fn kernel_mut(&self) -> RefMut<'_, Kernel> {
        self.0.borrow_mut()
    }

    /// The seed that decides everything.
    pub fn seed(&self) -> u64 {
        self.kernel().config.seed
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.kernel().now)
    }

    /// A hash over everything that has happened so far: operations started and ended, with their results, bytes and
    /// times, and every fault. Two runs of the same program with the same seed have the same at the same point.
    pub fn trace_hash(&self) -> u64 {
        self.kernel().trace.hash()
    }

    /// The last events as text, oldest first, as many as [`SimConfig::trace_events_max`] asks for.
    pub fn trace(&self) -> Vec<String> {
        self.kernel().trace.lines()
    }

    /// What has happened how often.
    pub fn census(&self) -> Census {
        self.kernel().census.clone()
    }

    /// Open descriptors, lowest first. A program that closes what it opens ends with none.
    pub fn descriptors(&self) -> Vec<Number> {
        self.kernel().descriptors.all()
    }

    /// Connections that some end still has.
    pub fn connections(&self) -> usize {
        self.kernel().network.len()
    }

    /// Operations of all drivers whose completions were not taken yet.
    pub fn in_flight(&self) -> usize {
        self.kernel().in_flight()
    }

    /// The drivers of the world, oldest first.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.kernel().nodes.all()
    }

    /// Whether nothing will happen unless a driver does something: no event is to come, no completion waits to be
    /// taken.
    pub fn is_idle(&self) -> bool {
        let kernel = self.kernel();
        kernel.events.next_at().is_none() && !kernel.nodes.any_done()
    }

    /// When something happens by itself, or a waiting driver's deadline comes; `None` if never.
    pub fn next_event(&self) -> Option<Instant> {
        self.kernel().next_at().map(Instant::from_nanos)
    }

    /// What to do next with the drivers of this world, when there are several; see the [module](self). Among several
    /// that have something to do, the seed chooses.
    ///
    /// A driver has something to do when it has not entered with a wait since it last found something, when a
    /// completion waits for it, when its doorbell was rung, and when its deadline has come.
    pub fn step(&self) -> Step {
        self.kernel_mut().step()
    }

    /// Moves the clock by `duration`, whoever waits for what. What happens on the way happens in order; drivers find it
    /// when they enter.
    pub fn advance(&self, duration: Duration) {
        let mut kernel = self.kernel_mut();
        let until = kernel.now.saturating_add(nanos(duration));
        kernel.advance_to(until);
    }

    /// Puts a file at a path, and the directories above it; replaces a file that was there. Relative paths start at
    /// `/`.
    ///
    /// # Errors
    ///
    /// `EISDIR` when the path is a directory, `ENOTDIR` when a file is above it.
    ///
    /// ```
    /// use plimsoll_reactor::sim::{SimConfig, World};
    ///
    /// let world = World::new(SimConfig::new(1));
    /// world.place_file("/etc/motd", b"hello".to_vec())?;
    /// assert_eq!(world.file("/etc/../etc/motd").as_deref(), Some(&b"hello"[..]));
    /// assert!(world.remove_file("/etc/motd"));
    /// assert_eq!(world.file("/etc/motd"), None);
    /// # Ok::<(), plimsoll_reactor::Errno>(())
    /// ```
    pub fn place_file(&self, path: &str, bytes: Vec<u8>) -> Result<(), Errno> {
        let mut kernel = self.kernel_mut();
        let now = kernel.now;
        kernel.files.place(path, bytes, now)
    }

    /// The bytes of the file at a path.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.kernel().files.bytes(path)
    }

    /// Takes the file at a path away; who has it open keeps it. Whether one was there.
    pub fn remove_file(&self, path: &str) -> bool {
        self.kernel_mut().files.remove(path)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel();
        f.debug_struct("World")
            .field("seed", &kernel.config.seed)
            .field("now", &Instant::from_nanos(kernel.now))
            .field("trace_hash", &format_args!("{:#018x}", kernel.trace.hash()))
            .finish_non_exhaustive()
    }
}
