//! All connections of a load, on one thread.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::connection::{Connection, Failure, Outcome, Shared};
use super::plan::{Plan, Reads, Then};
use super::{Event, Tally};

/// Does what the plan says: until it is done, or for some time if it has no end.
pub(super) fn run(
    plan: &Plan,
    server: SocketAddr,
    time: Option<Duration>,
    mut say: impl FnMut(&Event),
) -> io::Result<()> {
    let mut engine = Engine::new(plan, server)?;
    let limit = time.unwrap_or(LIMIT);
    if time.is_some() {
        engine.open_all()?;
        engine.drive(limit / 4)?;
        say(&Event::Begin(engine.tally()));
        engine.drive(limit * 3 / 4)?;
        say(&Event::End(engine.tally()));
        engine.drive(limit)?;
    } else {
        if let Reads::Slowly { piece_bytes, every, during } = plan.reads {
            engine.slowly(piece_bytes, every, during)?;
            say(&Event::Held(engine.tally()));
            engine.speed_up();
        }
        engine.drive(limit)?;
        if let Then::Hold(held) = plan.then {
            say(&Event::Held(engine.tally()));
            engine.hold(held)?;
        }
        engine.tally.unfinished = engine.open.iter().flatten().filter(|connection| !connection.is_done()).count()
            as u64
            + (plan.connections - engine.started) as u64;
    }
    engine.shared.latencies_us.sort_unstable();
    let (p50, p99) = (engine.percentile(50), engine.percentile(99));
    say(&Event::Done(Tally { p50_us: p50, p99_us: p99, ..engine.tally() }));
    Ok(())
}

struct Engine<'a> {
    poll: Poll,
    events: Events,
    server: SocketAddr,
    start: Instant,
    open: Vec<Option<Connection>>,
    /// Connections that were begun, without those that replace another one.
    started: usize,
    /// Those that are not done.
    active: usize,
    tally: Tally,
    shared: Shared<'a>,
    /// How much a connection reads when its socket is ready.
    read_bytes_max: usize,
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan, server: SocketAddr) -> io::Result<Engine<'a>> {
        let shared = Shared {
            plan,
            opening: plan.opening(),
            head: plan.head(),
            filler: vec![b'x'; if plan.upload_bytes.is_some() { PIECE_BYTES } else { 0 }],
            room: vec![0; PIECE_BYTES],
            sent_bytes: 0,
            requests: 0,
            latencies_us: Vec::new(),
        };
        Ok(Engine {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            server,
            start: Instant::now(),
            open: (0..plan.connections).map(|_| None).collect(),
            started: 0,
            active: 0,
            tally: Tally::default(),
            shared,
            read_bytes_max: usize::MAX,
        })
    }

    fn tally(&self) -> Tally {
        Tally {
            seconds: self.start.elapsed().as_secs_f64(),
            requests: self.shared.requests,
            sent_bytes: self.shared.sent_bytes,
            ..self.tally
        }
    }

    /// None without an answer; the latencies are sorted.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let latencies = &self.shared.latencies_us;
        latencies.get((latencies.len() * percent / 100).min(latencies.len().saturating_sub(1))).map(|&us| us.into())
    }

    /// Until all connections are open, or for a while: thousands of them take longer than the time of a round. It
    /// counts from here on.
    fn open_all(&mut self) -> io::Result<()> {
        let connections = self.open.len() as u64;
        while self.start.elapsed() < OPENING_MAX && self.tally.opened + self.tally.errors() < connections {
            self.begin()?;
            self.turn(TURN)?;
        }
        self.shared.latencies_us.clear();
        self.start = Instant::now();
        Ok(())
    }

    /// Until nothing is left to do, or so long after the start.
    fn drive(&mut self, until: Duration) -> io::Result<()> {
        while self.start.elapsed() < until && self.tally.errors() < ERRORS_MAX {
            self.begin()?;
            if self.active == 0 {
                return Ok(());
            }
            self.turn(until.saturating_sub(self.start.elapsed()).min(TURN))?;
        }
        Ok(())
    }

    /// Opens as many as may be opened now.
    fn begin(&mut self) -> io::Result<()> {
        while self.started < self.open.len() && self.active < self.shared.plan.opening_max {
            self.started += 1;
            self.open_at(self.started - 1)?;
        }
        Ok(())
    }

    fn open_at(&mut self, index: usize) -> io::Result<()> {
        let Ok(mut connection) = Connection::open(self.port_seed(index), self.server, self.shared.plan) else {
            self.tally.refused += 1;
            return Ok(());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, Token(index), interest)?;
        self.open[index] = Some(connection);
        self.active += 1;
        Ok(())
    }

    /// Connections that replace others take turns among the addresses too.
    fn port_seed(&self, index: usize) -> usize {
        index + self.tally.opened as usize
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        ready.into_iter().try_for_each(|index| self.look_after(index, self.read_bytes_max))
    }

    fn look_after(&mut self, index: usize, read_bytes_max: usize) -> io::Result<()> {
        let Some(connection) = self.open[index].as_mut().filter(|connection| !connection.is_done()) else {
            return Ok(());
        };
        let was_connected = connection.is_connected();
        let outcome = connection.go_on(&mut self.shared, read_bytes_max);
        self.tally.opened += u64::from(!was_connected && connection.is_connected());
        match (outcome, self.shared.plan.then) {
            (Outcome::Waits, _) => return Ok(()),
            (Outcome::Done, Then::Hold(_)) => {}
            (Outcome::Done, _) => self.open[index] = None,
            (Outcome::Failed(failure), _) => {
                self.open[index] = None;
                match failure {
                    Failure::Refused => self.tally.refused += 1,
                    Failure::Closed => self.tally.closed += 1,
                    Failure::Wrong => self.tally.wrong += 1,
                }
            }
        }
        self.active -= 1;
        if self.shared.plan.then == Then::Reopen { self.open_at(index) } else { Ok(()) }
    }

    /// All connections read a piece every so often.
    fn slowly(&mut self, piece_bytes: usize, every: Duration, during: Duration) -> io::Result<()> {
        self.read_bytes_max = 0;
        let mut next = every;
        while self.start.elapsed() < during {
            self.begin()?;
            self.turn(next.saturating_sub(self.start.elapsed()))?;
            if self.start.elapsed() >= next {
                next += every;
                (0..self.open.len()).try_for_each(|index| self.look_after(index, piece_bytes))?;
            }
        }
        Ok(())
    }

    fn speed_up(&mut self) {
        self.read_bytes_max = usize::MAX;
        for index in 0..self.open.len() {
            // What does not go on now does when the socket is ready.
            let _ready = self.look_after(index, usize::MAX);
        }
    }

    /// All stay for so long; those that did not are counted.
    fn hold(&mut self, time: Duration) -> io::Result<()> {
        let until = self.start.elapsed() + time;
        while self.start.elapsed() < until {
            self.poll.poll(&mut self.events, Some(until.saturating_sub(self.start.elapsed())))?;
        }
        let plan = self.shared.plan;
        let held = self.open.iter().flatten().filter(|connection| connection.is_done());
        self.tally.closed += held.filter(|connection| !connection.is_quiet(plan)).count() as u64;
        Ok(())
    }
}

/// Connections of a load that goes on for some time are opened in so long.
const OPENING_MAX: Duration = Duration::from_secs(5);
/// A plan that has an end is given up after so long.
const LIMIT: Duration = Duration::from_secs(20);
/// After so many failed connections the rest is not tried.
const ERRORS_MAX: u64 = 20_000;
/// The longest wait before the clock is looked at.
const TURN: Duration = Duration::from_millis(100);
const EVENTS: usize = 1024;
const PIECE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
