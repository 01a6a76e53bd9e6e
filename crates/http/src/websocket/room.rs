//! A WebSocket that found no room in memory, and waits for it.
//!
//! | what finds none | where it is meanwhile |
//! |---|---|
//! | a message of a task, or output | with its task, or in the output |
//! | an answer to a message, of a handler | the message waits before its handler |
//! | a message that begins: room for all that its frame says it brings; a pong | in what was received, decoded |
//! | what comes while memory is short | in the socket: room is made before it is received |
//! | what a receive brings that was armed before | in what is spared for those in line, up to 1 KiB |
//!
//! Who has a part of a message and finds no room for its next frame does not wait, since others may hold parts and
//! wait, too: it is closed with 1013.
//!
//! All others wait in the line of [`relief`](crate::relief). What is received waits for
//! [`memory_timeout`](crate::Config::memory_timeout), what is sent for the send timeout; then the connection is closed
//! with 1013.

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::Errno;
use plimsoll_runtime::net::Bytes;
use plimsoll_slab::Key;

use super::handler::WebSocketEnd;
use super::wire::{Flags, Phase, QUARTER_MS, Wire, quarters};
use super::{Consumer, Socket};
use crate::connection::Connection;
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::memory_wait::MemoryWait;
use crate::output;
use crate::server::Service;

/// When it is looked again for room that was not enough, or for which too many wait.
pub(super) const STARVED_RETRY: Duration = Duration::from_millis(250);
/// Room for so much is waited for where something small found none.
const STARVED_BYTES: usize = 4 * 1_024;
/// What is received at a time while memory is short.
const RECEIVE_BYTES: usize = 4 * 1_024 - 256;

impl<S: Service> Engine<S> {
    /// There is something to receive, as was waited for while memory is short.
    pub(crate) fn readable_websocket(&mut self, key: Key) {
        let Some(socket) = self.core.take_websocket(key) else { return };
        self.receive_websocket(key, socket);
    }

    /// Makes room and receives what is there; without room it stays where it is.
    pub(super) fn receive_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>) {
        let core = Rc::clone(&self.core);
        let wire = &mut socket.wire;
        let room = self.retried(key, |_| wire.work(&core.pool)?.room_behind(&core.pool, RECEIVE_BYTES));
        let Ok(lease) = room else {
            wire.flags.put(Flags::THIRSTY, true);
            return self.go_on_websocket(key, socket, None);
        };
        let (rest_bytes, mut places) = (lease.len(), [Some(lease)]);
        let received = core.table.borrow_mut().receive_now(key, &mut places, RECEIVE_BYTES);
        match received {
            Ok(1..) => {
                let [lease] = places;
                debug_assert!(lease.as_ref().is_some_and(|lease| lease.len() > rest_bytes));
                wire.hear();
                wire.flags.put(Flags::RETRIES, false);
                if let Some(work) = &mut wire.work {
                    work.input = lease.map(|lease| output::smaller(&core.pool, lease));
                }
            }
            Ok(0) => {
                core.put(key, Connection::WebSocket(socket));
                return self.ended_websocket(key);
            }
            Err(Errno::AGAIN) => {}
            Err(_) => return self.lose_websocket(key, socket, WebSocketEnd::Gone),
        }
        self.go_on_websocket(key, socket, None);
    }
}

/// Has a WebSocket that found no room wait for it, or wait no longer.
pub(super) fn starve(core: &Core, key: Key, wire: &mut Wire) {
    let is_over = matches!(wire.phase, Phase::Lingering { .. } | Phase::Over);
    if wire.finds_no_room() && !is_over {
        if wire.starved_at == 0 {
            wire.starved_at = (quarters(plimsoll_runtime::now()) as u16).max(1);
        }
        // One of too many looks again after a while, as one does that found no room in its turn, however much was free
        // then.
        let (mut wait, (want, bytes)) = (wire.memory_wait(), wire.wants());
        if core.starve_as(key, &mut wait, want, bytes).is_ok() {
            wire.flags.put(Flags::HUNGRY, wait.is_queued());
        }
        return;
    }
    // One that looks again keeps its place until it has found room.
    if is_over || !wire.flags.has(Flags::RETRIES) {
        wire.wait_no_longer();
        if wire.flags.put(Flags::HUNGRY, false) {
            core.sate(key);
        }
    }
}

impl Wire {
    /// Whether something that is to be sent, or was received, has no room.
    pub(super) fn finds_no_room(&self) -> bool {
        self.flags.has(Flags::STARVED) || self.flags.has(Flags::THIRSTY)
    }

    /// What it waits for room for, and how much.
    fn wants(&self) -> (Priority, usize) {
        match &self.work {
            _ if self.flags.has(Flags::STARVED) => (Priority::Output, STARVED_BYTES),
            // Which is new work, and nothing that the progress reserve helps on.
            Some(work) if work.waits_for_message() => (Priority::Head, (work.wanted_bytes as usize).max(STARVED_BYTES)),
            Some(work) if !self.is_at_rest() => (Priority::Body, (work.wanted_bytes as usize).max(STARVED_BYTES)),
            // The work as well, which goes back if it is there.
            _ => (Priority::Head, 2 * STARVED_BYTES),
        }
    }

    /// How it waits: kept in two flags, as a parked WebSocket has no byte to spare.
    fn memory_wait(&self) -> MemoryWait {
        let grants = self.grants();
        if self.flags.has(Flags::HUNGRY) { MemoryWait::Queued { grants } } else { MemoryWait::Granted { grants } }
    }

    /// How often it was granted room, and found too little. Only a part of a message has a place to count that in; what
    /// else finds too little in its turn does not ask for another.
    fn grants(&self) -> u8 {
        match &self.work {
            _ if !self.flags.has(Flags::RETRIES) => 0,
            Some(work) if work.may_try_again() && !self.flags.has(Flags::STARVED) => work.grants,
            _ => u8::MAX,
        }
    }

    /// The wait is over, and the next begins anew.
    pub(super) fn wait_no_longer(&mut self) {
        self.starved_at = 0;
        if let Some(work) = &mut self.work {
            work.grants = 0;
        }
    }

    /// How long it may wait for room.
    pub(super) fn starves_for(&self, core: &Core) -> Duration {
        let send_timeout = self.settings.values.send_timeout;
        if self.flags.has(Flags::STARVED) { send_timeout } else { core.config.memory_timeout }
    }

    /// Whether it has waited for memory for too long.
    pub(super) fn has_starved(&self, core: &Core) -> bool {
        let waited = (quarters(plimsoll_runtime::now()) as u16).wrapping_sub(self.starved_at);
        let waited = Duration::from_millis(u64::from(waited) * QUARTER_MS);
        self.starved_at > 0 && waited >= self.starves_for(core)
    }

    /// Counts that it ends as it has waited for too long.
    pub(super) fn count_starved(&self, core: &Core) {
        core.shed_for_room(if self.flags.has(Flags::STARVED) { Shed::Output } else { Shed::Body });
    }

    /// Whether what found no room can be looked at once more.
    pub(super) fn may_try_again(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.may_try_again())
    }

    /// Whether more may be received, as far as memory goes.
    pub(super) fn takes_more(&self, core: &Core) -> bool {
        !self.holds_message() && self.has_room(core) && !self.finds_no_room()
    }

    /// There is room, perhaps.
    pub(super) fn quench(&mut self) {
        self.flags.put(Flags::STARVED, false);
        self.slake();
    }

    /// There is room, perhaps, for what was received: it has its whole time from now on.
    pub(super) fn slake(&mut self) {
        if self.flags.put(Flags::THIRSTY, false) {
            self.heard = quarters(plimsoll_runtime::now());
            if let Some(work) = &mut self.work {
                (work.message_until, work.wanted_bytes) = (None, 0);
            }
        }
    }
}

impl Core {
    /// Whether memory is so short that room is made before anything is received; for the rest of a message, which may
    /// be long, a little earlier.
    pub(super) fn receives_late(&self, wire: &Wire) -> bool {
        let is_within = wire.work.as_ref().is_some_and(|work| work.is_within_message());
        self.is_short() || self.is_starving() || (is_within && self.holds_back())
    }

    /// Keeps what came on a WebSocket, for which there is no memory, in what is spared for those that wait in line;
    /// whether there was some.
    pub(super) fn spare_input(&self, key: Key, wire: &mut Wire, fresh: Bytes) -> bool {
        if self.spared(key, || wire.work(&self.pool).map(drop)).is_none() {
            return false;
        }
        let Some(work) = &mut wire.work else { return false };
        let Err((_, fresh)) = work.take(&self.pool, fresh) else { return true };
        let rest = work.input.as_deref().unwrap_or_default();
        let Some(mut lease) = self.spare_lease(key, rest.len() + fresh.len()) else { return false };
        lease.extend(rest);
        lease.extend(&fresh);
        work.input = Some(lease);
        true
    }
}

impl Socket {
    /// Whether it waits for memory.
    pub(crate) fn is_hungry(&self) -> bool {
        self.wire.flags.has(Flags::HUNGRY)
    }

    /// There is some; whether its task waited for that.
    pub(crate) fn feed(&mut self) -> bool {
        self.wire.flags.put(Flags::HUNGRY, false);
        if let Some(work) = &mut self.wire.work {
            work.grants = work.grants.saturating_add(1);
        }
        self.look_again()
    }

    /// Perhaps there is some; whether its task waited for that.
    pub(super) fn look_again(&mut self) -> bool {
        self.wire.quench();
        self.wire.flags.put(Flags::RETRIES, true);
        match &mut self.consumer {
            Consumer::Task(Some(mailbox)) => mailbox.wake_writer(),
            Consumer::Task(None) | Consumer::Handler(_) => false,
        }
    }
}
