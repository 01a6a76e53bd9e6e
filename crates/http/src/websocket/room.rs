//! A WebSocket that found no room in memory, and waits for it.
//!
//! | what finds none | where it is meanwhile |
//! |---|---|
//! | a message of a task, or output | with its task, or in the output |
//! | an answer to a message, of a handler | the message waits before its handler |
//! | a message that begins: room for all that its frame says it brings; a pong | in what was received, decoded |
//! | what comes while memory is short | in the socket: room is made before it is received |
//! | what a receive brings that was armed before | in the spare memory of the queue, up to 1 KiB |
//!
//! Who has a part of a message and finds no room for its next frame does not wait, since others may hold parts and
//! wait, too: it is closed with 1013.
//!
//! All others, also on a stream of HTTP/2, wait in the line of memory, for
//! [`memory_timeout`](crate::Config::memory_timeout); then the connection is closed with 1013.

use ::core::time::Duration;

use plimsoll_pool::Priority;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Errno, Lease, OverBudget, Pool};
use plimsoll_slab::Key;

use super::end::WebSocketEnd;
use super::entry::{Consumer, Socket};
use super::flow::Flow;
use super::step::Step;
use super::wire::{Phase, Wire};
use crate::base::counters::Shed;
use crate::exchange::line::Line;
use crate::exchange::output::{self, Output};
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;
use crate::memory::waits::Waits;

/// When it is looked again for room that was not enough, or for which too many wait.
pub(super) const MEMORY_RETRY: Duration = Duration::from_millis(250);
/// Room for so much is waited for where something small found none.
const WANTED_BYTES_MIN: usize = 4 * 1_024;
/// What is received at a time while memory is short.
const RECEIVE_BYTES: usize = 4 * 1_024 - 256;

impl Socket {
    /// Makes room for what is there to be received, behind what was received before.
    pub(crate) fn room(&mut self, pool: &Pool) -> Result<Lease, OverBudget> {
        self.wire.work(pool)?.room_behind(pool, RECEIVE_BYTES)
    }

    /// Receives what is there into the room that was made; without room it stays where it is.
    pub(crate) fn receive(&mut self, desk: &Desk, line: &mut impl Line, room: Option<Lease>) -> Step {
        let wire = &mut self.wire;
        let Some(lease) = room else {
            wire.flow.block_receive();
            return Step::GoOn;
        };
        let (rest_bytes, mut places) = (lease.len(), [Some(lease)]);
        match line.receive_now(&mut places, RECEIVE_BYTES) {
            Ok(1..) => {
                let [lease] = places;
                debug_assert!(lease.as_ref().is_some_and(|lease| lease.len() > rest_bytes));
                wire.hear();
                wire.get_on();
                if let Some(work) = &mut wire.work {
                    work.input = lease.map(|lease| output::smaller(&desk.pool, lease));
                }
                Step::GoOn
            }
            Ok(0) => self.ended(),
            Err(Errno::AGAIN) => Step::GoOn,
            Err(_) => Step::Lost(WebSocketEnd::Disconnected),
        }
    }
}

/// Has a WebSocket that found no room wait for it, or wait no longer.
#[inline]
pub(super) fn enqueue(desk: &Desk, who: Waits, wire: &mut Wire) {
    if wire.flow != Flow::Free || wire.is_waiting() {
        change_wait(desk, who, wire);
    }
}

#[cold]
fn change_wait(desk: &Desk, who: Waits, wire: &mut Wire) {
    let is_over = matches!(wire.phase, Phase::Lingering(_) | Phase::Over);
    if wire.flow.is_blocked() && !is_over {
        let (mut memory, (want, bytes)) = (wire.memory, wire.wants());
        if desk.enqueue_once(who, &mut memory, want, bytes).is_err() {
            // One of too many looks again after a while, as one does that found no room several times.
            memory.lose_place();
        }
        wire.set_memory(memory);
    } else if is_over || wire.flow == Flow::Free {
        // One that looks again keeps its place until it has found room.
        wire.end_wait(desk, &who);
    }
}

impl Wire {
    /// It waits no longer.
    pub(super) fn end_wait(&mut self, desk: &Desk, who: &Waits) {
        if self.memory.is_queued() {
            desk.leave_queue_as(who);
        }
        self.set_memory(MemoryWait::None);
    }

    /// What it waits for room for, and how much.
    fn wants(&self) -> (Priority, usize) {
        match &self.work {
            _ if self.flow.is_send_blocked() => (Priority::Output, WANTED_BYTES_MIN),
            // Which is new work, and nothing that the progress reserve helps on.
            Some(work) if work.waits_for_message() => {
                (Priority::Head, (work.wanted_bytes as usize).max(WANTED_BYTES_MIN))
            }
            Some(work) if !self.is_at_rest() => (Priority::Body, (work.wanted_bytes as usize).max(WANTED_BYTES_MIN)),
            // The work as well, which goes back if it is there.
            _ => (Priority::Head, 2 * WANTED_BYTES_MIN),
        }
    }

    /// Drops output that has waited for memory for too long; `false` when its peer has a part of it, and can be told
    /// nothing.
    pub(super) fn give_output_up(&mut self) -> bool {
        let Some(work) = self.work.as_mut().filter(|_| self.flow.is_send_blocked()) else { return true };
        if work.output.is_midway() {
            return false;
        }
        (work.output, work.pending_close) = (Output::default(), None);
        true
    }

    /// Counts that it ends as it has waited for too long.
    pub(super) fn count_timed_out(&self, desk: &Desk) {
        desk.shed_for_room(if self.flow.is_send_blocked() { Shed::Output } else { Shed::Body });
    }

    /// Whether what found no room can be looked at once more.
    pub(super) fn may_try_again(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.may_try_again())
    }

    /// Whether more may be received, as far as memory goes.
    pub(super) fn takes_more(&self, desk: &Desk) -> bool {
        !self.holds_message() && self.has_room(desk) && !self.flow.is_blocked()
    }

    /// There is room, perhaps.
    pub(super) fn resume(&mut self) {
        self.resume_receive();
        self.flow = Flow::Free;
    }

    /// There is room, perhaps, for what was received: it has its whole time from now on.
    pub(super) fn resume_receive(&mut self) {
        if self.flow.resume_receive() {
            self.note_heard();
            if let Some(work) = &mut self.work {
                (work.message_until, work.wanted_bytes) = (None, 0);
            }
        }
    }
}

/// Whether memory is so short that room is made before anything is received; for the rest of a message, which may be
/// long, a little earlier.
pub(super) fn receives_late(desk: &Desk, wire: &Wire) -> bool {
    let is_within = wire.work.as_ref().is_some_and(|work| work.is_within_message());
    desk.is_short() || desk.has_waiting() || (is_within && desk.holds_back())
}

/// Keeps what came on a WebSocket, for which there is no memory, in the spare memory of the queue; whether there was
/// some.
pub(super) fn spare_input(desk: &Desk, key: Key, wire: &mut Wire, fresh: Bytes) -> bool {
    if desk.spared(key, || wire.work(&desk.pool).map(drop)).is_none() {
        return false;
    }
    let Some(work) = &mut wire.work else { return false };
    let Err((_, fresh)) = work.take(&desk.pool, fresh) else { return true };
    let rest = work.input.as_deref().unwrap_or_default();
    let Some(mut lease) = desk.spare_lease(key, rest.len() + fresh.len()) else { return false };
    lease.extend(rest);
    lease.extend(&fresh);
    work.input = Some(lease);
    true
}

impl Socket {
    /// Whether it waits for memory.
    pub(crate) fn is_queued(&self) -> bool {
        self.wire.memory.is_queued()
    }

    /// There is some; whether its task waited for that.
    pub(crate) fn feed(&mut self) -> bool {
        let mut memory = self.wire.memory;
        memory.grant();
        self.wire.set_memory(memory);
        self.look_again()
    }

    /// Perhaps there is some; whether its task waited for that.
    pub(super) fn look_again(&mut self) -> bool {
        self.wire.resume();
        self.wire.flow.retry();
        match &mut self.consumer {
            Consumer::Task(Some(mailbox)) => mailbox.wake_writer(),
            Consumer::Task(None) | Consumer::Handler(_) => false,
        }
    }
}
