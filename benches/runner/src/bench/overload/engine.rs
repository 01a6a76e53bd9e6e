//! All clients of a load but the light one, on one thread.
//!
//! Requests begin when they are due, whatever has become of those before. What has no answer in time is given up.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use plimsoll_slab::{HeapChunk, Key, Slab};

use super::ask::{Ask, UPLOAD_EVERY, Work};
use super::ledger::{Ledger, Outcome, Tally};
use super::link::Link;
use super::schedule::Arrival;
use super::talk::{Attempt, Effects};

/// What the clients do.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) asks: Vec<Ask>,
    /// In order of time.
    pub(super) arrivals: Vec<Arrival>,
    /// When what counts as goodput begins and ends.
    pub(super) window: (Duration, Duration),
    /// So long a client waits beyond the time that its request takes.
    pub(super) late_after: Duration,
    /// Then all leave.
    pub(super) until: Duration,
}

/// Does what the plan says; what became of the requests of each ask.
pub(super) fn run(plan: &Plan, to: SocketAddr) -> io::Result<Vec<Tally>> {
    let mut engine = Engine::new(plan, to)?;
    engine.drive()?;
    Ok(engine.conclude())
}

struct Engine<'a> {
    plan: &'a Plan,
    to: SocketAddr,
    poll: Poll,
    start: Instant,
    /// Connections that are there. A token of [`Poll`] is the index of one.
    links: Slab<Box<Link>>,
    /// Connections that can take a request, by ask and address.
    listed: Vec<Vec<Vec<Key>>>,
    /// How many requests of each ask have begun: their addresses take turns.
    turns: Vec<usize>,
    ledgers: Vec<Ledger>,
    timers: BTreeMap<(Duration, u64), Timer>,
    next_timer: u64,
    next_attempt: u64,
    in_flight: u64,
    room: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The client has waited long enough for this attempt.
    Late(Key, u64),
    /// The next piece of a body.
    Piece(Key),
    /// A WebSocket leaves.
    Leave(Key),
    /// A client comes back.
    Again(usize, Attempt),
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan, to: SocketAddr) -> io::Result<Engine<'a>> {
        Ok(Engine {
            plan,
            to,
            poll: Poll::new()?,
            start: Instant::now(),
            links: Slab::new((CONNECTIONS_MAX as u32).div_ceil(Slab::<Box<Link>>::ENTRIES_PER_CHUNK)),
            listed: plan.asks.iter().map(|ask| vec![Vec::new(); ask.addresses]).collect(),
            turns: vec![0; plan.asks.len()],
            ledgers: plan.asks.iter().map(|_| Ledger::new(plan.window)).collect(),
            timers: BTreeMap::new(),
            next_timer: 0,
            next_attempt: 0,
            in_flight: 0,
            room: vec![0; ROOM_BYTES],
        })
    }

    fn drive(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut arrivals = self.plan.arrivals.iter().peekable();
        loop {
            let now = self.start.elapsed();
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.at <= now) {
                self.next_attempt += 1;
                let attempt = Attempt { id: self.next_attempt, due: arrival.at, returns: 0 };
                self.begin(arrival.ask, attempt)?;
            }
            while let Some(timer) = self.timers.first_entry().filter(|timer| timer.key().0 <= now) {
                let timer = timer.remove();
                self.fire(timer)?;
            }
            let is_over = arrivals.peek().is_none() && self.in_flight == 0 && !self.comes_back();
            if is_over || now >= self.plan.until {
                return Ok(());
            }
            let next = arrivals.peek().map_or(self.plan.until, |arrival| arrival.at);
            let next = self.timers.keys().next().map_or(next, |(at, _)| next.min(*at));
            match self.poll.poll(&mut events, Some(next.min(self.plan.until).saturating_sub(self.start.elapsed()))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => polled?,
            }
            for event in &events {
                if let Some(key) = self.links.key_at(event.token().0 as u32) {
                    self.look_after(key);
                }
            }
        }
    }

    /// Some client that was refused is still to come back.
    fn comes_back(&self) -> bool {
        self.timers.values().any(|timer| matches!(timer, Timer::Again(..)))
    }

    /// A request is sent on a connection of its address that has room, or on a new one.
    fn begin(&mut self, ask: usize, attempt: Attempt) -> io::Result<()> {
        let of = &self.plan.asks[ask];
        let address = self.turns[ask] % of.addresses;
        self.turns[ask] += 1;
        let free = match self.free(ask, address) {
            None => self.open(ask, address)?,
            free => free,
        };
        let Some(key) = free else {
            self.ledgers[ask].unsent();
            return Ok(());
        };
        let now = self.start.elapsed();
        self.ledgers[ask].sent(now.saturating_sub(attempt.due));
        self.in_flight += 1;
        let Some(link) = self.link(key) else { return Ok(()) };
        link.talk.begin(attempt, of, &mut link.out);
        link.flush();
        self.set(now + of.takes() + self.plan.late_after, Timer::Late(key, attempt.id));
        if of.work == Work::Upload {
            self.set(now + UPLOAD_EVERY, Timer::Piece(key));
        }
        // What has come meanwhile tells whether the connection is still there.
        self.look_after(key);
        Ok(())
    }

    /// A connection that is there and has room.
    fn free(&mut self, ask: usize, address: usize) -> Option<Key> {
        while let Some(&key) = self.listed[ask][address].last() {
            if let Some(link) = self.link(key) {
                if link.talk.has_room() {
                    return Some(key);
                }
                link.is_listed = false;
            }
            self.listed[ask][address].pop();
        }
        None
    }

    /// A new connection; none if this process has no more to give.
    fn open(&mut self, ask: usize, address: usize) -> io::Result<Option<Key>> {
        if self.links.len() >= CONNECTIONS_MAX {
            return Ok(None);
        }
        let Ok(mut link) = Link::open(&self.plan.asks, ask, address, self.to) else { return Ok(None) };
        if self.links.vacant().is_none() && self.links.grow(HeapChunk::new()).is_err() {
            return Ok(None);
        }
        let Some(vacant) = self.links.vacant() else { return Ok(None) };
        let token = Token(vacant.key().index() as usize);
        self.poll.registry().register(&mut link.stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let key = vacant.insert(Box::new(link));
        self.list(key);
        Ok(Some(key))
    }

    fn link(&mut self, key: Key) -> Option<&mut Link> {
        self.links.get_mut(key).map(|link| &mut **link)
    }

    /// A connection that has room can be found.
    fn list(&mut self, key: Key) {
        let Some(link) = self.link(key) else { return };
        if !link.is_listed && link.talk.has_room() {
            link.is_listed = true;
            let (ask, address) = (link.ask, link.address);
            self.listed[ask][address].push(key);
        }
    }

    fn look_after(&mut self, key: Key) {
        let (mut effects, mut room) = (Effects::default(), std::mem::take(&mut self.room));
        let is_there = self.link(key).map(|link| link.go_on(&mut room, &mut effects));
        self.room = room;
        if let Some(is_there) = is_there {
            self.apply(key, is_there, effects);
        }
    }

    /// What has happened on a connection is written down, and the connection closed if it is over.
    fn apply(&mut self, key: Key, is_there: bool, effects: Effects) {
        let now = self.start.elapsed();
        let Some(ask) = self.link(key).map(|link| link.ask) else { return };
        for (attempt, outcome) in effects.ended {
            self.ended(ask, attempt, outcome, now);
        }
        if !is_there || effects.closes {
            self.links.remove(key);
            return;
        }
        if effects.stays {
            self.set(now + self.plan.asks[ask].takes(), Timer::Leave(key));
        }
        self.list(key);
    }

    fn ended(&mut self, ask: usize, attempt: Attempt, outcome: Outcome, now: Duration) {
        self.in_flight -= 1;
        self.ledgers[ask].ended(outcome, attempt.due, now);
        if let Outcome::Refused(told) = outcome
            && let Some(after) = self.plan.asks[ask].comes_back(told, attempt.returns)
        {
            self.next_attempt += 1;
            let again = Attempt { id: self.next_attempt, due: now + after, returns: attempt.returns + 1 };
            self.set(again.due, Timer::Again(ask, again));
        }
    }

    fn set(&mut self, at: Duration, timer: Timer) {
        self.next_timer += 1;
        self.timers.insert((at, self.next_timer), timer);
    }

    fn fire(&mut self, timer: Timer) -> io::Result<()> {
        let mut effects = Effects::default();
        let key = match timer {
            Timer::Again(ask, attempt) => return self.begin(ask, attempt),
            Timer::Late(key, _) | Timer::Piece(key) | Timer::Leave(key) => key,
        };
        let Some(link) = self.link(key) else { return Ok(()) };
        let mut has_more = false;
        match timer {
            Timer::Late(_, id) => link.talk.give_up(id, &mut link.out, &mut effects),
            Timer::Piece(_) => has_more = link.talk.next_piece(&mut link.out),
            Timer::Leave(_) => link.talk.leave(&mut link.out),
            Timer::Again(..) => {}
        }
        link.flush();
        self.apply(key, true, effects);
        if has_more {
            self.set(self.start.elapsed() + UPLOAD_EVERY, Timer::Piece(key));
        }
        Ok(())
    }

    /// All leave; who still waits for an answer does not get it.
    fn conclude(mut self) -> Vec<Tally> {
        let now = self.start.elapsed();
        for index in 0..self.links.index_bound() {
            let Some(link) = self.links.get_at_mut(index) else { continue };
            let mut effects = Effects::default();
            link.talk.end(true, &mut effects);
            for (attempt, _) in effects.ended {
                self.ledgers[link.ask].ended(Outcome::Late, attempt.due, now);
            }
        }
        let tallies: Vec<Tally> = self.ledgers.into_iter().map(Ledger::tally).collect();
        assert!(tallies.iter().all(|tally| tally.offered == tally.ended()), "a request without an end: {tallies:?}");
        tallies
    }
}

/// Open at a time: with what else this program has open, fewer descriptors than 20,000.
const CONNECTIONS_MAX: usize = 19_000;
const EVENTS: usize = 1024;
const ROOM_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
