//! What the cases stand on: a driver, answers by ticket, and the counts that must come out even.
#![forbid(unsafe_code)]

use core::cell::Cell;
use core::time::Duration;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_pool::{Budget, Kind, Lease, MemoryLimit, OverBudget, Pool, PoolConfig};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_reactor::{
    Address, Blocking, BlockingConfig, Completion, Driver, DriverConfig, DriverKind, Errno, Error, Fd, Instant,
    ListenOptions, Op, Payload, Selected, SendBytes, SocketKind, Token, UnixAddress, Wait,
};
use plimsoll_slab::Key;

/// Makes a driver in the bench's world.
type Make = Box<dyn Fn(&Pool) -> Result<Driver, Error>>;

/// A driver and what a case needs around it.
pub(crate) struct Bench {
    pub(crate) driver: Driver,
    pub(crate) pool: Pool,
    make: Make,
    world: Option<World>,
    pub(crate) family: Family,
    answers: HashMap<u32, Answer>,
    tickets: u32,
    /// Of a real bench.
    outside: Option<Outside>,
    asked: Cell<Asked>,
}

/// What the sockets of a bench are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

/// Whether the case has asked for something that io_uring may do on a thread of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    ForSockets,
    ForFiles,
}

/// What a bench has in the real world.
struct Outside {
    directory: PathBuf,
    blocking: Arc<Blocking>,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The last job of a thread holds its driver's bell until it is done: a descriptor that the next bench would
        // count.
        self.blocking.shutdown(Instant::from_nanos(u64::MAX));
        let _removed = std::fs::remove_dir_all(&self.directory);
    }
}

/// An operation that was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) key: Key,
    token: Token,
}

/// A completion, its bytes copied.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) result: Result<u32, Errno>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) lease: Option<Lease>,
    pub(crate) rest: Option<SendBytes>,
    pub(crate) fd: Option<Fd>,
}

impl Answer {
    pub(crate) fn ok(self) -> Self {
        assert!(self.result.is_ok(), "{:?}", self.result);
        self
    }

    pub(crate) fn errno(&self) -> i32 {
        self.result.expect_err("an error was expected").0
    }

    pub(crate) fn descriptor(self) -> Fd {
        self.ok().fd.expect("a descriptor")
    }
}

impl From<Completion> for Answer {
    fn from(completion: Completion) -> Self {
        let mut answer = Self { result: completion.result, bytes: Vec::new(), lease: None, rest: None, fd: None };
        match completion.payload {
            Payload::None => {}
            Payload::Received(received) => answer.bytes = received.to_vec(),
            Payload::Lease(lease) => answer.lease = Some(lease),
            Payload::Sent(rest) => answer.rest = Some(rest),
            Payload::Fd(fd) => answer.fd = Some(fd),
        }
        answer
    }
}

/// What must be the same after a case as before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    in_flight: usize,
    /// By what they are, sorted: `socket`, `anon_inode`, or a path.
    descriptors: Vec<String>,
    leases: u64,
}

impl Bench {
    pub(crate) fn real(selected: &Selected, family: Family) -> Self {
        let budget = Budget::new(MemoryLimit::mib(128));
        let blocking = Blocking::new(BlockingConfig::default(), &budget);
        let selected = *selected;
        let name =
            format!("plimsoll-conformance-{}-{}", std::process::id(), DIRECTORIES.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a place for files");
        let outside = Outside { directory, blocking: Arc::clone(&blocking) };
        let make = move |pool: &Pool| Driver::new(&selected, &config(), pool, &blocking);
        Self { outside: Some(outside), ..Self::new(&budget, Box::new(make), family) }
    }

    pub(crate) fn simulated(config: SimConfig, family: Family) -> Self {
        let budget = Budget::new(MemoryLimit::mib(128));
        let world = World::new(config);
        let inside = world.clone();
        let make = move |pool: &Pool| Driver::simulated(&inside, &self::config(), pool);
        Self { world: Some(world), ..Self::new(&budget, Box::new(make), family) }
    }

    fn new(budget: &Arc<Budget>, make: Make, family: Family) -> Self {
        let pool = Pool::new(budget, PoolConfig::default()).expect("the line is wide");
        let driver = make(&pool).expect("the line is wide");
        Self {
            driver,
            pool,
            make,
            world: None,
            family,
            answers: HashMap::new(),
            tickets: 0,
            outside: None,
            asked: Cell::new(Asked::ForSockets),
        }
    }

    /// One more driver of the same kind, in the same world.
    pub(crate) fn another_driver(&self) -> Driver {
        (self.make)(&self.pool).expect("the line is wide")
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.driver.kind() == DriverKind::Sim
    }

    /// Starts an operation.
    pub(crate) fn start(&mut self, op: Op<'_>) -> Ticket {
        self.tickets += 1;
        let token = Token(self.tickets);
        let key = self.driver.submit(op, token).map_err(|(over, _)| over).expect("the line is wide");
        Ticket { key, token }
    }

    /// Its answer, when it comes.
    pub(crate) fn answer(&mut self, ticket: Ticket) -> Answer {
        let deadline = self.driver.now() + TIMEOUT;
        loop {
            // Also when it is there: one that the deadline has brought to light was forgotten before.
            assert!(self.driver.now() < deadline, "no completion of {ticket:?} in {TIMEOUT:?}");
            self.reap();
            if let Some(answer) = self.answers.remove(&ticket.token.0) {
                return answer;
            }
            self.driver.enter(Wait::Until(deadline)).expect("a wait");
        }
    }

    /// Starts an operation and waits for its answer.
    pub(crate) fn run(&mut self, op: Op<'_>) -> Answer {
        let ticket = self.start(op);
        self.answer(ticket)
    }

    /// Lets happen what happens by itself in a short while.
    pub(crate) fn settle(&mut self) {
        self.reap();
        let deadline = self.driver.now() + SHORT_WHILE;
        let mut rounds = 0;
        // Also after a pause of this thread there are some turns.
        while self.driver.now() < deadline || rounds < 3 {
            rounds += 1;
            self.driver.enter(Wait::Until(deadline)).expect("a wait");
            self.reap();
        }
    }

    /// Until nothing is in flight.
    pub(crate) fn until_idle(&mut self) {
        let deadline = self.driver.now() + TIMEOUT;
        self.reap();
        while self.driver.in_flight() > 0 {
            assert!(self.driver.now() < deadline, "{} operations do not end", self.driver.in_flight());
            let soon = self.driver.now() + SHORT_WHILE;
            self.driver.enter(Wait::Until(soon)).expect("a wait");
            self.reap();
        }
    }

    /// One turn, which waits for something to happen.
    pub(crate) fn turn(&mut self) {
        let deadline = self.driver.now() + TIMEOUT;
        self.driver.enter(Wait::Until(deadline)).expect("a wait");
        self.reap();
        assert!(self.driver.now() < deadline, "nothing happens for {TIMEOUT:?}");
    }

    /// Worker threads that the kernel has made for the rings of this thread: it names them after the thread.
    pub(crate) fn kernel_threads(&self) -> usize {
        let this = std::fs::read_link("/proc/thread-self").expect("proc is mounted");
        let name = format!("iou-wrk-{}", this.file_name().expect("the thread's number").display());
        let threads = std::fs::read_dir("/proc/self/task").expect("proc is mounted").flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|other| other.trim_end() == name).count()
    }

    /// Lets time pass without a look at the driver, so that a good deal is ready at its next turn.
    pub(crate) fn pass_time(&mut self) {
        match &self.world {
            Some(world) => world.advance(Duration::from_millis(5)),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Whether the operation has not ended so far.
    pub(crate) fn is_waiting(&self, ticket: Ticket) -> bool {
        !self.answers.contains_key(&ticket.token.0)
    }

    /// Takes the completions that are there.
    pub(crate) fn reap(&mut self) {
        while let Some(completion) = self.driver.reap() {
            let token = completion.token.0;
            assert!((1..=self.tickets).contains(&token), "a completion of nothing that was started");
            let second = self.answers.insert(token, completion.into());
            assert!(second.is_none(), "two completions of one operation");
        }
    }

    pub(crate) fn listen(&mut self) -> (Fd, Address) {
        self.listen_with(&ListenOptions::default())
    }

    pub(crate) fn listen_with(&mut self, options: &ListenOptions) -> (Fd, Address) {
        let listener = self.driver.listen(self.fresh_address(), options).expect("it is free");
        let address = self.driver.local_address(listener.at()).expect("bound");
        assert_ne!(address.ip().map(|address| address.port()), Some(0));
        (listener, address)
    }

    /// Where nobody listens. A simulated one is a name like others.
    pub(crate) fn fresh_address(&self) -> Address {
        match self.family {
            Family::Tcp => "127.0.0.1:0".parse().expect("an address"),
            Family::Unix => {
                let name = format!("{}.sock", DIRECTORIES.fetch_add(1, Ordering::Relaxed));
                let outside = self.outside.as_ref().map(|outside| outside.directory.join(&name));
                let path = outside.unwrap_or_else(|| PathBuf::from(name));
                UnixAddress::from_path(path).expect("a short path").into()
            }
        }
    }

    /// Starts to connect a fresh socket.
    pub(crate) fn start_connect(&mut self, to: Address) -> (Fd, Ticket) {
        let fd = self.driver.socket(SocketKind::of(&to)).expect("a socket");
        let address = self.driver.address(to).expect("the line is wide");
        let ticket = self.start(Op::Connect { fd: fd.at(), address });
        (fd, ticket)
    }

    /// A connection: the client's end and the server's.
    pub(crate) fn pair(&mut self) -> (Fd, Fd) {
        let (listener, address) = self.listen();
        let pair = self.pair_through(&listener, address);
        self.close(listener);
        pair
    }

    pub(crate) fn pair_through(&mut self, listener: &Fd, address: Address) -> (Fd, Fd) {
        let accept = self.start(Op::Accept { listener: listener.at() });
        let (client, connect) = self.start_connect(address);
        let server = self.answer(accept).descriptor();
        assert_eq!(self.answer(connect).result, Ok(0));
        (client, server)
    }

    pub(crate) fn close(&mut self, fd: Fd) {
        assert_eq!(self.run(Op::Close { fd }).result, Ok(0));
    }

    /// Room for `len` bytes.
    pub(crate) fn room(&self, len: usize) -> Lease {
        self.pool.try_acquire(len, Kind::Buffers).expect("the line is wide")
    }

    pub(crate) fn lease(&self, bytes: &[u8]) -> Lease {
        self.pool.try_copy(bytes, Kind::Buffers).expect("the line is wide")
    }

    pub(crate) fn start_send(&mut self, fd: &Fd, bytes: &[u8]) -> Ticket {
        let bytes = SendBytes::Lease(self.lease(bytes));
        self.start(Op::Send { fd: fd.at(), bytes })
    }

    /// Sends all of a few bytes.
    pub(crate) fn send_all(&mut self, fd: &Fd, bytes: &[u8]) {
        let mut bytes = SendBytes::Lease(self.lease(bytes));
        while !bytes.is_empty() {
            bytes = self.run(Op::Send { fd: fd.at(), bytes }).ok().rest.expect("a send gives the rest back");
        }
    }

    /// Receives exactly so many bytes.
    pub(crate) fn receive_exactly(&mut self, fd: &Fd, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let answer = self.run(Op::Receive { fd: fd.at() }).ok();
            assert!(!answer.bytes.is_empty(), "the end after {} of {len} bytes", bytes.len());
            bytes.extend_from_slice(&answer.bytes);
        }
        assert_eq!(bytes.len(), len, "no more than was sent");
        bytes
    }

    /// Sends until the socket takes no more; the send that waits, and all that was handed over.
    pub(crate) fn fill(&mut self, fd: &Fd) -> Ticket {
        let block = vec![0x5a; 128 * 1024];
        for _ in 0..1_000 {
            let send = self.start_send(fd, &block);
            self.settle();
            if self.is_waiting(send) {
                return send;
            }
            self.answer(send).ok();
        }
        panic!("a socket that takes 128 MiB");
    }

    /// A path for a file, with its NUL.
    pub(crate) fn path(&self, name: &str) -> Lease {
        self.asked.set(Asked::ForFiles);
        let mut path = match &self.outside {
            Some(outside) => outside.directory.join(name).into_os_string().into_encoded_bytes(),
            None => format!("/{name}").into_bytes(),
        };
        path.push(0);
        self.lease(&path)
    }

    /// Whether the path exists, and what is in it.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        match (&self.outside, &self.world) {
            (Some(outside), _) => std::fs::read(outside.directory.join(name)).ok(),
            (None, Some(world)) => world.file(&format!("/{name}")),
            (None, None) => unreachable!("a real bench has a directory"),
        }
    }

    /// Has the driver make the tables that it keeps.
    pub(crate) fn warm_up(&mut self) {
        let (client, server) = self.pair();
        self.close(client);
        self.close(server);
    }

    pub(crate) fn tally(&mut self) -> Tally {
        self.driver.release_pages();
        self.pool.drain_remote();
        Tally { in_flight: self.driver.in_flight(), descriptors: self.descriptors(), leases: live_leases(&self.pool) }
    }

    fn descriptors(&self) -> Vec<String> {
        if let Some(world) = &self.world {
            return world.descriptors().iter().map(|fd| format!("{fd:?}")).collect();
        }
        let entries = std::fs::read_dir("/proc/self/fd").expect("proc is mounted").flatten();
        let name = |entry: std::fs::DirEntry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default().to_string_lossy().into_owned();
            // Sockets are numbered: which one it is does not matter.
            target.strip_prefix("socket:").map_or(target.clone(), |_| "socket".to_owned())
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort_unstable();
        names
    }

    /// Asserts that everything is as it was, at once or a little later (a peer's reset takes its time).
    pub(crate) fn assert_settled(&mut self, before: &Tally) {
        for _ in 0..50 {
            self.answers.clear();
            if self.tally() == *before {
                break;
            }
            self.settle();
        }
        assert_eq!(self.tally(), *before, "something was left behind");
        let threads_max = match self.asked.get() {
            Asked::ForSockets => 0,
            Asked::ForFiles => FILE_THREADS_MAX,
        };
        let threads = self.kernel_threads();
        assert!(threads <= threads_max, "{threads} worker threads of the kernel");
    }
}

/// A pattern in which every place is recognised.
pub(crate) fn pattern(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// An error of the budget would be a mistake of the case.
pub(crate) fn refused((over, op): (OverBudget, Op<'_>)) -> ! {
    panic!("{} refused: {over}", op.name())
}

fn config() -> DriverConfig {
    DriverConfig { drop_deadline: Duration::from_secs(5), ..DriverConfig::default() }
}

fn live_leases(pool: &Pool) -> u64 {
    pool.stats().classes.iter().map(|class| class.live).sum()
}

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// Threads of the kernel for files, and one for all else that the kernel knows no lower limit for.
const FILE_THREADS_MAX: usize = 5;

/// Nothing takes longer, except on a machine that stands still.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Long enough for a loopback, and for a retransmission in the simulation.
const SHORT_WHILE: Duration = Duration::from_millis(20);
