//! The simulated kernel: the life of operations in it, and what its events do.
//!
//! It is one state machine. What it is made of (`nodes`, `objects`, `descriptors`, `network`, `files`, `flight`) knows
//! nothing of it; what happens (`clock`, `dial`, `transmit`, `listeners`, `sockets`, `workers`) are methods of it, by
//! what they are about.
//!
//! **Absence**: nothing in here reads a clock, starts a thread, or iterates over anything whose order is not a function
//! of the seed and the calls made. A change of state never tries waiting operations on the spot: it schedules
//! [`Event::Progress`], so that no operation is tried while another one is.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use plimsoll_slab::Key;

use super::census::{Census, OpKind};
use super::config::{NodeId, SimConfig, nanos};
use super::descriptors::Descriptors;
use super::events::{Event, Events};
use super::faults::Fault;
use super::files::{self, Files};
use super::flight::{FileCall, Flight, Outcome, Pause, Stage, Verb, Wish, Worker};
use super::network::Network;
use super::nodes::Nodes;
use super::objects::Object;
use super::rng::Rng;
use super::trace::{Entry, Trace, bytes_hash};
use crate::fd::Number;
use crate::{Errno, Instant, Op};

/// Everything there is in a world.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) config: SimConfig,
    pub(crate) rng: Rng,
    /// Nanoseconds.
    pub(crate) now: u64,
    pub(crate) trace: Trace,
    pub(crate) census: Census,
    pub(crate) events: Events,
    pub(crate) nodes: Nodes,
    pub(crate) descriptors: Descriptors,
    pub(crate) network: Network,
    pub(crate) files: Files,
    pub(super) flights: BTreeMap<u64, Box<Flight>>,
    /// The descriptor whose waiting operations are being tried.
    trying: Option<Number>,
    flights_total: u64,
}

/// A delay that is not zero and that nobody notices.
pub(super) const MOMENT_NS: u64 = 1_000;

impl Kernel {
    pub(crate) fn new(config: SimConfig) -> Self {
        config.check();
        Self {
            rng: Rng::new(config.seed),
            now: config.start.as_nanos(),
            trace: Trace::new(config.seed, config.trace_events_max),
            census: Census::default(),
            events: Events::default(),
            nodes: Nodes::default(),
            descriptors: Descriptors::new(config.descriptors_max),
            network: Network::default(),
            files: Files::new(config.file_bytes_max),
            flights: BTreeMap::new(),
            trying: None,
            flights_total: 0,
            config,
        }
    }

    /// Whether a fault happens here and now; counts it.
    pub(crate) fn fault(&mut self, fault: Fault) -> bool {
        let chance = self.config.faults.chance(fault);
        if chance == 0 || !self.rng.per_million(chance) {
            return false;
        }
        self.census.count_fault(fault);
        self.record(Entry::Fault(fault));
        true
    }

    /// How to see the same again.
    pub(crate) fn replay_note(&self) -> String {
        let mut note = format!(
            "simulated world of seed {}, at {:?}, trace hash {:#018x}: replay it with SimConfig::new({}) and the same faults",
            self.config.seed,
            Instant::from_nanos(self.now),
            self.trace.hash(),
            self.config.seed,
        );
        for line in self.trace.lines() {
            note.push_str("\n  ");
            note.push_str(&line);
        }
        note
    }

    pub(crate) fn record(&mut self, entry: Entry) {
        self.trace.record(self.now, entry);
    }

    /// A delay as long as a fault makes it.
    fn fault_delay(&mut self) -> u64 {
        let delay_max = nanos(self.config.faults.delay_max).max(MOMENT_NS);
        self.rng.between(MOMENT_NS, delay_max)
    }

    /// Operations in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Takes an operation on; it begins when its driver enters.
    pub(crate) fn start(&mut self, node: NodeId, key: Key, op: &Op<'static>) -> u64 {
        self.flights_total += 1;
        let id = self.flights_total;
        let kind = OpKind::of(op);
        let (verb, fd) = Verb::of(op);
        self.census.count_op(kind);
        self.record(Entry::Started { op: id, node: node.0, kind, fd, bytes: bytes_hash(verb.bytes()) });
        let flight =
            Flight { node, key, kind, fd, verb, stage: Stage::Submitted, pause: Pause::Never, wish: Wish::GoOn };
        self.flights.insert(id, Box::new(flight));
        self.nodes.get_mut(node).submitted.push(id);
        id
    }

    /// Begins everything that a driver has started since it last entered.
    pub(crate) fn begin_submitted(&mut self, node: NodeId) {
        for id in core::mem::take(&mut self.nodes.get_mut(node).submitted) {
            let Some(mut flight) = self.flights.remove(&id) else { continue };
            if matches!(flight.stage, Stage::Submitted) {
                self.begin(id, &mut flight);
            }
            self.flights.insert(id, flight);
        }
        self.run_due();
    }

    fn begin(&mut self, id: u64, flight: &mut Flight) {
        if let Some(fd) = flight.fd
            && self.descriptors.get(fd).is_none()
        {
            return self.complete(id, flight, Outcome::error(libc::EBADF));
        }
        if flight.kind != OpKind::Close && self.fault(Fault::Interrupted) {
            flight.pause = Pause::Until(self.now + self.fault_delay());
        }
        match &mut flight.verb {
            Verb::Close => {
                let fd = flight.fd.expect("a close names its descriptor");
                let result = self.close(fd).map(|()| 0);
                self.complete(id, flight, Outcome::new(result));
            }
            Verb::Open { .. } => self.begin_file(id, flight),
            Verb::File { file, call } => {
                let fd = flight.fd.expect("a file operation names its descriptor");
                let descriptor = self.descriptors.get(fd).expect("checked above");
                match (&descriptor.object, call) {
                    (Object::File(open), _) => {
                        *file = Some(open.clone());
                        self.begin_file(id, flight);
                    }
                    (_, FileCall::Stat) => {
                        self.complete(id, flight, Outcome::brings(files::statx_of_socket().to_vec()));
                    }
                    (_, FileCall::Fsync) => self.complete(id, flight, Outcome::error(libc::EINVAL)),
                    _ => self.complete(id, flight, Outcome::error(libc::ESPIPE)),
                }
            }
            _ => {
                let fd = flight.fd.expect("a socket operation names its descriptor");
                flight.stage = Stage::Waiting;
                self.descriptors.get_mut(fd).expect("checked above").waiting.push(id);
                if let Pause::Until(at) = flight.pause {
                    self.events.add(at, Event::Progress(fd));
                }
                self.wake(fd);
            }
        }
    }

    /// Something has changed for a descriptor: operations that wait on it will be tried again.
    pub(crate) fn wake(&mut self, fd: Number) {
        let waits = self.descriptors.get(fd).is_some_and(|descriptor| !descriptor.waiting.is_empty());
        if waits || self.trying == Some(fd) {
            self.events.add(self.now, Event::Progress(fd));
        }
    }

    /// Tries the operations that wait on a descriptor, in order; within a direction none overtakes another.
    fn progress(&mut self, fd: Number) {
        let Some(descriptor) = self.descriptors.get_mut(fd) else { return };
        let waiting = core::mem::take(&mut descriptor.waiting);
        self.trying = Some(fd);
        let mut held_up = [false; 2];
        let mut still = Vec::new();
        for id in waiting {
            let Some(mut flight) = self.flights.remove(&id) else { continue };
            if matches!(flight.stage, Stage::Waiting) && flight.fd == Some(fd) {
                let direction = flight.verb.direction().map(|direction| direction as usize);
                let tried = if direction.is_some_and(|at| held_up[at]) { None } else { self.attempt(fd, &mut flight) };
                match (tried, direction) {
                    (Some(outcome), _) => self.complete(id, &mut flight, outcome),
                    (None, direction) => {
                        still.push(id);
                        if let Some(at) = direction {
                            held_up[at] = true;
                        }
                    }
                }
            }
            self.flights.insert(id, flight);
        }
        self.trying = None;
        let descriptor = self.descriptors.get_mut(fd).expect("attempts do not close descriptors");
        debug_assert!(descriptor.waiting.is_empty(), "attempts do not add waiting operations");
        descriptor.waiting = still;
    }

    /// Holds an operation up for a while, unless that has happened to it already.
    pub(crate) fn pause(&mut self, fd: Number, flight: &mut Flight) -> bool {
        if flight.pause != Pause::Never {
            return false;
        }
        let at = self.now + self.fault_delay();
        flight.pause = Pause::Until(at);
        self.events.add(at, Event::Progress(fd));
        true
    }

    /// An operation has ended; its driver sees it now, or later if a fault wants it so.
    pub(super) fn complete(&mut self, id: u64, flight: &mut Flight, outcome: Outcome) {
        debug_assert!(!matches!(flight.stage, Stage::Done(_)), "an operation ends once");
        if flight.wish == Wish::End && outcome.result.is_ok() {
            self.census.cancels_lost += 1;
        }
        flight.stage = Stage::Done(outcome);
        let mut at = self.now;
        if self.fault(Fault::Delayed) {
            at += self.fault_delay();
        } else if self.fault(Fault::Reordered) {
            at += self.rng.between(1, MOMENT_NS);
        }
        if let (Some(fd), Some(direction)) = (flight.fd, flight.verb.direction())
            && let Some(descriptor) = self.descriptors.get_mut(fd)
        {
            let visible_at = &mut descriptor.visible_at[direction as usize];
            at = at.max(*visible_at);
            *visible_at = at;
        }
        if at > self.now {
            self.events.add(at, Event::Deliver(id));
        } else {
            self.nodes.get_mut(flight.node).done.push_back(id);
        }
    }

    /// Asks for an operation to end.
    pub(crate) fn cancel(&mut self, id: u64) {
        let Some(mut flight) = self.flights.remove(&id) else { return };
        self.record(Entry::Cancelled { op: id });
        flight.wish = Wish::End;
        match flight.stage {
            Stage::Done(_) | Stage::Working(Worker::Busy) => {}
            Stage::Working(Worker::Queued(done)) => {
                self.events.remove(done);
                self.complete(id, &mut flight, Outcome::error(libc::ECANCELED));
            }
            Stage::Submitted | Stage::Waiting if flight.kind == OpKind::Close => {}
            Stage::Submitted | Stage::Waiting => {
                if self.fault(Fault::LateCancel) {
                    let at = self.now + self.fault_delay();
                    self.events.add(at, Event::Cancel(id));
                } else {
                    self.end_canceled(id, &mut flight);
                }
            }
        }
        self.flights.insert(id, flight);
    }

    fn cancel_late(&mut self, id: u64) {
        let Some(mut flight) = self.flights.remove(&id) else { return };
        match flight.stage {
            Stage::Submitted | Stage::Waiting => self.end_canceled(id, &mut flight),
            Stage::Working(_) | Stage::Done(_) => {}
        }
        self.flights.insert(id, flight);
    }

    /// Ends an operation that has not begun or waits; what waits behind it may go on.
    fn end_canceled(&mut self, id: u64, flight: &mut Flight) {
        self.complete(id, flight, Outcome::error(libc::ECANCELED));
        if let Some(fd) = flight.fd {
            self.wake(fd);
        }
    }

    /// Ends operations that wait on a descriptor that is no more.
    pub(crate) fn end_all(&mut self, waiting: Vec<u64>) {
        for id in waiting {
            let Some(mut flight) = self.flights.remove(&id) else { continue };
            if matches!(flight.stage, Stage::Waiting) {
                self.complete(id, &mut flight, Outcome::error(libc::ECANCELED));
            }
            self.flights.insert(id, flight);
        }
    }

    /// The operation behind a completion that its driver has not taken.
    pub(crate) fn ended(&self, id: u64) -> (&Flight, &Outcome) {
        let flight = self.flights.get(&id).expect("an operation is known until its completion is taken");
        match &flight.stage {
            Stage::Done(outcome) => (flight, outcome),
            stage => unreachable!("an operation that has ended is done, not {stage:?}"),
        }
    }

    /// Hands a completion out; the operation is forgotten.
    pub(crate) fn take(&mut self, id: u64) -> (Key, Outcome) {
        let flight = self.flights.remove(&id).expect("an operation is known until its completion is taken");
        let Stage::Done(outcome) = flight.stage else { unreachable!("only what has ended is taken") };
        self.census.completed += 1;
        if outcome.result == Err(Errno::CANCELED) {
            self.census.canceled += 1;
        }
        self.record(Entry::Completed {
            op: id,
            node: flight.node.0,
            kind: flight.kind,
            result: outcome.result,
            bytes: bytes_hash(&outcome.bytes),
        });
        (flight.key, outcome)
    }

    /// Forgets a node with everything it had in flight; descriptors that nobody has seen are closed.
    pub(crate) fn retire(&mut self, node: NodeId) {
        self.nodes.remove(node);
        let gone: Vec<u64> = self.flights.iter().filter(|(_, flight)| flight.node == node).map(|(&id, _)| id).collect();
        let mut unseen = Vec::new();
        for id in gone {
            let flight = self.flights.remove(&id).expect("collected above");
            if let (Stage::Done(Outcome { result: Ok(raw), .. }), OpKind::Accept | OpKind::Open) =
                (flight.stage, flight.kind)
            {
                unseen.push(Number::from_raw(raw as i32));
            }
        }
        for fd in unseen {
            let closed = self.close(fd);
            debug_assert!(closed.is_ok(), "nobody else could close it");
        }
    }

    /// Lets everything happen that is due now.
    pub(crate) fn run_due(&mut self) {
        while let Some(event) = self.events.pop_due(self.now) {
            match event {
                Event::Progress(fd) => self.progress(fd),
                Event::Deliver(id) => {
                    if let Some(flight) = self.flights.get(&id) {
                        self.nodes.get_mut(flight.node).done.push_back(id);
                    }
                }
                Event::Cancel(id) => self.cancel_late(id),
                Event::FileDone(id) => self.file_done(id),
                Event::Syn(conn) => self.syn_arrives(conn),
                Event::SynAck(conn) => self.connected(conn),
                Event::Refused(conn) => self.dial_failed(conn, libc::ECONNREFUSED),
                Event::DialTimeout(conn) => self.dial_failed(conn, libc::ETIMEDOUT),
                Event::Segment { conn, side, len } => self.segment_arrives(conn, side, len),
                Event::Finish { conn, side } => self.finish_arrives(conn, side),
                Event::Reset { conn, side } => self.reset_arrives(conn, side),
                Event::LinkUp(conn) => self.link_up(conn),
                Event::Timeout { conn, side } => self.kill(conn, side, libc::ETIMEDOUT),
            }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failing test shows its seed where it shows its panic")]
            {
                eprintln!("{}", self.replay_note());
            }
        }
    }
}
