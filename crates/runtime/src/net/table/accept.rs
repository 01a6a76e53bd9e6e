//! How a table takes connections in: many in a row while they wait. One for which there is no room is accepted and
//! closed at once, so that nobody waits unheard in the kernel's queue, and not for a while when no descriptor is free.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_reactor::{Completion, Fd, Instant, Op, Payload, PoolPage, SocketOption};
use plimsoll_slab::Key;

use super::slot::Slot;
use super::{Entry, Event, Inbound, Table};
use crate::net::listener::needs_pause;
use crate::net::{Listener, kernel};
use crate::time::Link;
use crate::token::{Purpose, Target};

/// Connections accepted in one turn at most.
const ACCEPTS_MAX: u32 = 256;
/// How long accepting pauses for want of descriptors, or of room for the accept itself, if nothing becomes free before.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Unread bytes that are dropped before a close.
const UNREAD_BYTES_MAX: usize = 64 * 1_024;

/// Whether connections are accepted, and how the next one is waited for.
pub(super) enum Accepting {
    /// Never again.
    Off,
    /// Nothing armed; to be tried at the next look.
    Idle,
    /// An accept is in flight.
    Armed(Key),
    /// More connections may wait; so many are taken at once still.
    Burst(u32),
    /// Nothing was free: until this instant, or until a descriptor was closed.
    Paused { until: Instant, closed: u64 },
    /// What the kernel holds already, and then never again.
    Last,
}

impl<C: Default> Table<C> {
    /// Stops accepting for good. Connections that the kernel holds already are still taken: they come as events.
    pub fn stop_accepting(&mut self) {
        if let Accepting::Armed(key) = self.accepting {
            self.worker.driver.borrow_mut().cancel(key);
        }
        self.accepting = if self.listener.is_some() { Accepting::Last } else { Accepting::Off };
    }

    /// Has the listener take no new connections, while those that are on their way are still accepted: for the time
    /// before [`stop_accepting`](Self::stop_accepting), which would reset one that comes while it closes the listener.
    /// Nothing is done to a socket that others may accept from, such as the next process: they take what comes.
    pub fn refuse_connects(&mut self) {
        if let Some(listener) = self.listener.as_ref().filter(|listener| !listener.is_shared()).map(Listener::fd) {
            // Where there are no filters, connects race the close.
            let _goes_on_as_before = self.worker.driver.borrow_mut().refuse_connects(listener);
        }
    }

    /// Stops accepting at once: connections that the kernel holds are refused with the listener.
    pub fn refuse(&mut self) {
        if let Accepting::Armed(key) = self.accepting {
            self.worker.driver.borrow_mut().orphan(key);
        }
        self.accepting = Accepting::Off;
        self.listener = None;
        self.uncharge_next();
    }

    /// Whether connections may still be accepted.
    pub fn is_accepting(&self) -> bool {
        !matches!(self.accepting, Accepting::Off)
    }

    /// Makes room for one more connection, under the line and beside it.
    pub(super) fn reserve(&mut self) -> bool {
        if self.entries.len() >= self.config.connections_max as usize {
            return false;
        }
        if !self.is_next_charged && kernel::charge(&self.worker).is_err() {
            return false;
        }
        self.is_next_charged = true;
        if self.entries.vacant().is_some() {
            return true;
        }
        PoolPage::add(&self.worker.pool, |page| self.entries.grow(page)).is_ok()
    }

    /// Arms an accept. Room for what it brings is made before, if there is any.
    pub(super) fn try_accept(&mut self) {
        if let Accepting::Paused { until, closed } = self.accepting
            && (self.worker.now() >= until || self.worker.fds_closed() != closed)
        {
            self.accepting = Accepting::Idle;
        }
        let Accepting::Idle = self.accepting else { return };
        if self.listener.is_some() {
            // What finds no room is accepted all the same, and closed.
            let _has_room = self.reserve();
        }
        let Some(listener) = self.listener.as_ref().map(Listener::fd) else { return };
        let token = Target::Table { table: self.id, purpose: Purpose::Accept, index: 0 }.token();
        let submitted = self.worker.driver.borrow_mut().submit(Op::Accept { listener }, token);
        match submitted {
            Ok(key) => self.accepting = Accepting::Armed(key),
            Err(_) => self.pause_accepting(),
        }
    }

    fn pause_accepting(&mut self) {
        let until = self.worker.now() + ACCEPT_PAUSE;
        self.accepting = Accepting::Paused { until, closed: self.worker.fds_closed() };
    }

    /// The armed accept has been answered.
    pub(super) fn accepted(&mut self, completion: Completion) -> Option<Event> {
        let is_ours = match self.accepting {
            Accepting::Armed(key) => key == completion.key,
            Accepting::Last | Accepting::Off => true,
            Accepting::Idle | Accepting::Burst(_) | Accepting::Paused { .. } => false,
        };
        if !is_ours {
            // Of a table that had this one's number before.
            self.worker.dispose(completion);
            return None;
        }
        match (completion.result, completion.payload) {
            (Ok(_), Payload::Fd(fd)) => {
                if let Accepting::Armed(_) = self.accepting {
                    self.accepting = Accepting::Burst(ACCEPTS_MAX - 1);
                }
                return Some(self.add(fd));
            }
            (Err(errno), _) if needs_pause(errno) && matches!(self.accepting, Accepting::Armed(_)) => {
                self.pause_accepting()
            }
            _ => {
                if let Accepting::Armed(_) = self.accepting {
                    self.accepting = Accepting::Idle;
                }
            }
        }
        None
    }

    /// Another connection that waits already, while a burst lasts.
    // In each turn: without a frame of its own.
    #[inline(always)]
    pub(super) fn next_accepted(&mut self) -> Option<Event> {
        loop {
            let left = match self.accepting {
                Accepting::Burst(0) => {
                    self.accepting = Accepting::Idle;
                    return None;
                }
                Accepting::Burst(left) => left,
                Accepting::Last => u32::MAX,
                _ => return None,
            };
            let listener = self.listener.as_ref().map(Listener::fd)?;
            let next = self.worker.driver.borrow_mut().accept_now(listener);
            match next {
                Ok(Some(fd)) => {
                    if let Accepting::Burst(_) = self.accepting {
                        self.accepting = Accepting::Burst(left - 1);
                    }
                    return Some(self.add(fd));
                }
                Err(errno) if errno.is_transient_accept() && !needs_pause(errno) => {}
                Ok(None) | Err(_) if matches!(self.accepting, Accepting::Last) => {
                    self.accepting = Accepting::Off;
                    self.listener = None;
                }
                Ok(None) => self.accepting = Accepting::Idle,
                Err(_) => self.pause_accepting(),
            }
        }
    }

    /// Ends the charge for a connection that does not come.
    pub(super) fn uncharge_next(&mut self) {
        if core::mem::take(&mut self.is_next_charged) {
            kernel::uncharge(&self.worker);
        }
    }

    /// Says why, as far as that goes without memory, and closes. What has come already is dropped before, so that the
    /// close is no reset.
    fn turn_away(&self, fd: Fd) {
        if !self.config.turned_away.is_empty() && self.make_transport.is_none() {
            let mut driver = self.worker.driver.borrow_mut();
            let _peer_is_gone = driver.send_now(fd.at(), self.config.turned_away);
            let _nothing_there = driver.discard_now(fd.at(), UNREAD_BYTES_MAX);
        }
        self.worker.close(fd);
    }

    /// Takes a connection in, or closes it when there is no room.
    fn add(&mut self, fd: Fd) -> Event {
        self.worker.opened();
        self.accepted_total += 1;
        let link = Link::default();
        let entry = Entry { link, fd, inbound: Inbound::None, send: None, state: Slot::Plain(C::default()) };
        let added = if self.reserve() { self.entries.insert(entry) } else { Err(entry) }.map_err(|entry| entry.fd);
        self.note_spare_pages();
        let key = match added {
            Ok(key) => key,
            Err(fd) => {
                self.turn_away(fd);
                return Event::TurnedAway;
            }
        };
        // Handed to the connection.
        self.is_next_charged = false;
        if self.config.no_delay {
            // A connection that is gone already fails this; its first receive tells.
            let _told_later = self.worker.driver.borrow_mut().set_option(self.fd(key), SocketOption::NoDelay(true));
        }
        Event::Accepted(key)
    }
}
