//! The steps of handshakes: who makes one in a turn, who waits for the next, and what becomes of their connections. See
//! [`handshakes`](crate::worker::handshakes).

use std::rc::Rc;

use plimsoll_pool::{PlaceKey, Priority};
use plimsoll_runtime::net::Event;
use plimsoll_runtime::net::transport::{Handshake, HandshakeError, OpenError};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::handshakes::HandshakeFailure;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::handshakes::{AGAIN_AFTER, InProgress, Look, SPAN, TURN_MAX, WAITING_MAX};
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

impl WorkerState {
    fn handshake(&self, key: Key) -> Handshake {
        self.table.borrow().handshake(key)
    }
}

impl<S: Service> Engine<S> {
    /// Takes what an event says of a handshake; gives other events back.
    #[inline]
    pub(crate) fn take_handshake_event(&mut self, event: Event) -> Option<Event> {
        if self.handshakes.is_none() { Some(event) } else { self.on_handshake_event(event) }
    }

    fn on_handshake_event(&mut self, event: Event) -> Option<Event> {
        let key = match &event {
            Event::Accepted(_) | Event::TurnedAway => return Some(event),
            Event::Received(key, _)
            | Event::Sent(key, _)
            | Event::Readable(key)
            | Event::Due(key)
            | Event::Partial(key)
            | Event::Stalled(key)
            | Event::PeerClosed(key)
            | Event::Ended(key)
            | Event::Failed(key, _) => *key,
        };
        if self.worker.handshake(key) == Handshake::Over {
            self.handshakes.as_mut()?.note_others();
            return Some(event);
        }
        match event {
            Event::Readable(_) if !self.worker.peers.borrow().awaits_proxy(key) => self.readable_handshake(key),
            Event::Readable(_) => {
                let is_followed = self.read_proxy_header(key);
                if is_followed {
                    self.readable_handshake(key);
                }
            }
            Event::Due(_) => self.fail_handshake(key, HandshakeFailure::Timeout),
            _ => self.fail_handshake(key, HandshakeFailure::Gone),
        }
        None
    }

    /// Something has come.
    fn readable_handshake(&mut self, key: Key) {
        let host = self.worker.host_of(key);
        let is_begun = self.worker.handshake(key) == Handshake::Begun;
        let Some(handshakes) = &mut self.handshakes else { return };
        let is_its_turn = handshakes.waiting.is_empty() && !handshakes.has_left_out;
        let may_step = is_its_turn && handshakes.has_time(false) && (is_begun || handshakes.has_place(host));
        if may_step && self.step_handshake(key) == Stepped::Made {
            self.await_more(key);
        } else {
            self.have_wait(key, host);
        }
    }

    /// What has come waits in the socket until its turn comes.
    fn have_wait(&mut self, key: Key, host: u64) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        let priority = priority_of(table.handshake(key));
        let Some(handshakes) = &mut self.handshakes else { return };
        let mut left_out = None;
        if handshakes.waiting.is_full() && handshakes.waiting.make_room().is_err() {
            let displaced = handshakes.waiting.displaced_by(host, priority).map(|place| place.key());
            left_out = displaced.and_then(|place| handshakes.waiting.remove(place));
        }
        if handshakes.waiting.add(host, priority, 1, key).is_err() {
            left_out = Some(key);
        }
        handshakes.look = Look::Now;
        handshakes.has_left_out |= left_out.is_some();
        worker.counters().handshakes.waiting(handshakes.waiting.len());
        if let Some(left_out) = left_out
            && table.watch(left_out).is_err()
        {
            drop(table);
            self.fail_handshake(left_out, HandshakeFailure::Memory);
        }
    }

    /// Makes steps for as long as there is time.
    #[inline]
    pub(crate) fn shake_hands(&mut self) {
        if self.handshakes.as_ref().is_some_and(|handshakes| !matches!(handshakes.look, Look::AtEvents)) {
            self.shake_hands_now();
        }
    }

    fn shake_hands_now(&mut self) {
        let worker = Rc::clone(&self.worker);
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.look = Look::AtEvents;
        }
        loop {
            self.look_for_left_out();
            let Some(handshakes) = &mut self.handshakes else { return };
            let is_alone = !handshakes.has_others;
            if handshakes.waiting.is_empty() {
                break;
            }
            if !handshakes.has_time(is_alone) {
                let is_turn_over = handshakes.in_turn >= TURN_MAX;
                let (from, _) = handshakes.span;
                if is_turn_over {
                    handshakes.look = Look::Now
                } else {
                    handshakes.look_at(from + SPAN)
                }
                break;
            }
            let Some((place, key)) = self.next_handshake() else { break };
            if !self.step_waiting(key, place) {
                if let Some(handshakes) = &mut self.handshakes {
                    handshakes.look_at(plimsoll_runtime::now() + AGAIN_AFTER);
                }
                break;
            }
        }
        if let Some(handshakes) = &self.handshakes {
            worker.counters().handshakes.waiting(handshakes.waiting.len());
        }
    }

    /// Makes a step of one that waits; `false` when there was no room for it, and it goes on waiting.
    fn step_waiting(&mut self, key: Key, place: PlaceKey) -> bool {
        if self.step_handshake(key) == Stepped::NoRoom {
            return false;
        }
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.waiting.serve(place);
        }
        self.await_more(key);
        true
    }

    /// A step was made: if it was not the last, more is waited for.
    fn await_more(&mut self, key: Key) {
        let mut table = self.worker.table.borrow_mut();
        if table.handshake(key) != Handshake::Over && table.await_readable(key).is_err() {
            drop(table);
            self.fail_handshake(key, HandshakeFailure::Memory);
        }
    }

    /// Whose turn it is of those that may go on. Those that are gone meanwhile are forgotten.
    fn next_handshake(&mut self) -> Option<(PlaceKey, Key)> {
        let worker = Rc::clone(&self.worker);
        loop {
            let handshakes = self.handshakes.as_mut()?;
            if let Some((place, key)) = handshakes.first() {
                if worker.handshake(key) != Handshake::Over {
                    return Some((place, key));
                }
                handshakes.waiting.remove(place);
                continue;
            }
            // Nobody may begin: who has waited for its client for long gives way.
            let (key, at) = handshakes.gives_way()?;
            if plimsoll_runtime::now() < at {
                handshakes.look_at(at);
                return None;
            }
            self.fail_handshake(key, HandshakeFailure::Timeout);
        }
    }

    /// Those that are left out wait again, as far as there are places.
    fn look_for_left_out(&mut self) {
        let Some(handshakes) = &mut self.handshakes else { return };
        if !handshakes.has_left_out || handshakes.waiting.len() > WAITING_MAX / 2 {
            return;
        }
        let worker = Rc::clone(&self.worker);
        handshakes.has_left_out = false;
        let places = worker.table.borrow().places();
        for place in 0..places {
            let found = {
                let table = worker.table.borrow();
                let key = table.key_at(place).filter(|key| table.handshake(*key) != Handshake::Over);
                key.filter(|key| table.is_watching(*key)).map(|key| (key, priority_of(table.handshake(key))))
            };
            let Some((key, priority)) = found else { continue };
            if handshakes.waiting.add(worker.host_of(key), priority, 1, key).is_err() {
                handshakes.has_left_out = true;
                break;
            }
            worker.table.borrow_mut().unwatch(key);
        }
    }

    /// Begins a handshake if that was not done, and goes on with it. What it took is counted.
    fn step_handshake(&mut self, key: Key) -> Stepped {
        let began_at = plimsoll_runtime::clock();
        let mut stepped = Stepped::Made;
        self.as_newcomer(key, |engine| stepped = engine.make_step(key));
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.took(plimsoll_runtime::clock().since(began_at));
        }
        stepped
    }

    fn make_step(&mut self, key: Key) -> Stepped {
        let worker = Rc::clone(&self.worker);
        if worker.handshake(key) == Handshake::Awaited {
            if self.retried(key, |engine| engine.worker.table.borrow_mut().begin_handshake(key)).is_err() {
                return Stepped::NoRoom;
            }
            let (host, since) = (worker.host_of(key), plimsoll_runtime::now());
            worker.counters().handshakes.begun();
            if let Some(handshakes) = &mut self.handshakes {
                handshakes.in_progress.push(InProgress { key, host, since });
            }
        }
        let stepped = worker.table.borrow_mut().step_handshake(key);
        let why = match stepped {
            Ok(Handshake::Over) => {
                self.shaken(key);
                return Stepped::Made;
            }
            Ok(_) => return Stepped::Made,
            Err(HandshakeError::NoPlace(_)) => return Stepped::NoRoom,
            Err(HandshakeError::Gone) => HandshakeFailure::Gone,
            Err(HandshakeError::Failed(error)) => match error {
                OpenError::OverBudget(_) => HandshakeFailure::Memory,
                OpenError::Malformed => HandshakeFailure::Malformed,
                OpenError::Incompatible => HandshakeFailure::Incompatible,
                OpenError::Untrusted => HandshakeFailure::ClientCertificate,
                OpenError::GivenUp => HandshakeFailure::Alert,
                OpenError::PlainHttp => HandshakeFailure::PlainHttp,
            },
        };
        self.fail_handshake(key, why);
        Stepped::Made
    }

    /// It is over: the connection waits for a request as others do.
    fn shaken(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        let is_resumed = table.with_transport(key, |transport| transport.is_resumed()) == Some(true);
        worker.counters().handshakes.completed(is_resumed);
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.remove(key);
        }
        let Some(Connection::Parked { born, .. }) = table.get(key) else { return };
        let timeout = worker.idle_timeout(*born);
        table.schedule(key, timeout);
        if worker.await_request(&mut table, key).is_err() {
            drop(table);
            self.shed(key, Shed::Accept);
        }
    }

    /// Closes a connection whose handshake is not over.
    pub(crate) fn fail_handshake(&mut self, key: Key, why: HandshakeFailure) {
        let was_begun = self.handshakes.as_mut().is_some_and(|handshakes| handshakes.remove(key));
        self.worker.counters().handshakes.failed(why, was_begun);
        match why {
            HandshakeFailure::Memory => self.worker.shed_for_room(Shed::Accept),
            HandshakeFailure::Timeout => self.worker.counters().shed(Shed::Timeout),
            _ => {}
        }
        // What it was told last is not overtaken by a reset.
        self.close_unread(key);
    }

    /// A connection is closed for what is no concern of its handshake: one that was begun has failed.
    pub(crate) fn count_handshake_closed(&mut self, key: Key, why: ExchangeEnd) {
        if self.handshakes.is_some() && self.worker.handshake(key) != Handshake::Over {
            let was_begun = self.handshakes.as_mut().is_some_and(|handshakes| handshakes.remove(key));
            if was_begun {
                let why = if why == ExchangeEnd::Stop { HandshakeFailure::Gone } else { HandshakeFailure::Memory };
                self.worker.counters().handshakes.failed(why, true);
            }
        }
    }
}

/// What was begun goes before what is new.
fn priority_of(handshake: Handshake) -> Priority {
    if handshake == Handshake::Begun { Priority::Output } else { Priority::Head }
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepped {
    Made,
    /// There was no memory.
    NoRoom,
}
