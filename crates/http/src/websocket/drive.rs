//! The steps of a WebSocket: what came is taken in, its handler or task gets it, what there is to send is sent, and
//! what is waited for is armed. A step works on its own socket alone, and says what becomes of the connection.

use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{OverBudget, Pool};
use plimsoll_slab::Key;

use super::control::static_close;
use super::deadlines::Due;
use super::end::WebSocketEnd;
use super::ends::go_away;
use super::entry::{Consumer, Socket};
use super::member::send_next;
use super::opening::{self, Opening, Start, Started};
use super::place::{Place, Port};
use super::room::{enqueue, receives_late, spare_input};
use super::step::Step;
use super::turn::{open, turn};
use super::wire::{Deadline, Dropped, Flags, Phase, Wire};
use crate::base::counters::Shed;
use crate::exchange::line::Line;
use crate::memory::desk::Desk;
use crate::memory::waits::Waits;

impl Opening {
    /// The 101 has left.
    pub(crate) fn begin(self) -> (PoolBox<Socket>, Option<Start>) {
        let Self { mut socket, start } = self;
        socket.wire.hear();
        (socket, start)
    }
}

/// Begins what a WebSocket in the table is for.
pub(crate) fn start(start: Option<Start>, port: &Rc<Port>, key: Key) -> Started {
    opening::begin(start, Place::Table(Rc::clone(port), key))
}

impl Socket {
    /// What it is for was begun, or could not be: it is open, or ends.
    pub(crate) fn open(&mut self, port: &Rc<Port>, key: Key, started: Started) {
        let place = Place::Table(Rc::clone(port), key);
        let desk = place.desk();
        self.note_started(desk, started);
        if desk.is_stopping() {
            go_away(desk, &mut self.wire);
        }
        open(&place, self);
    }

    /// Its task was started, or it has joined its hub; or there was no room for that, and it ends.
    pub(super) fn note_started(&mut self, desk: &Desk, started: Started) {
        match started {
            Started::Nothing => {}
            Started::Member(member) => self.wire.member = Some(member),
            Started::Failed => {
                tracing::warn!("no room for the task of a WebSocket, or in its hub: its connection is closed");
                let wire = &mut self.wire;
                wire.note_end(WebSocketEnd::NoRoom);
                wire.phase = Phase::Open;
                wire.close(desk, Some(CloseCode::TRY_LATER), "", Phase::Ending);
            }
        }
    }

    /// Begins a step.
    pub(crate) fn begin_step(&mut self) {
        self.wire.flags.put(Flags::LISTED, false);
        self.wire.flags.put(Flags::DELIVERED, false);
    }

    /// The socket has taken everything that was handed to it: what follows has its own time.
    pub(crate) fn sent(&mut self) {
        if self.wire.deadline == Deadline::Send {
            self.wire.deadline = Deadline::None;
        }
        if self.wire.member.is_some() {
            self.note_sent();
        }
    }

    /// Bytes came; whether they are to be [taken in](Self::take_in).
    pub(crate) fn hear(&mut self, desk: &Desk, bytes: &Bytes) -> bool {
        let wire = &mut self.wire;
        wire.hear();
        if let Phase::Lingering(dropped) = &mut wire.phase {
            dropped.add(bytes.len());
        }
        if !wire.is_listening() {
            return false;
        }
        match wire.pass(desk, bytes) {
            Ok(is_passed) => !is_passed,
            Err(error) => {
                desk.counters().shed(Shed::Misbehaviour);
                wire.fail(desk, &error);
                false
            }
        }
    }

    /// Takes in what came; without room it is left where it is.
    pub(crate) fn take_in(&mut self, pool: &Pool, fresh: &mut Option<Bytes>) -> Result<(), OverBudget> {
        self.wire.take_in(pool, fresh)
    }

    /// What came found no room; whether it is kept in the spare memory for those that wait.
    pub(crate) fn spare(&mut self, desk: &Desk, key: Key, fresh: Option<Bytes>, over: OverBudget) -> bool {
        let wire = &mut self.wire;
        if fresh.is_some_and(|bytes| spare_input(desk, key, wire, bytes)) {
            return true;
        }
        // It cannot be put back into the socket.
        desk.shed_for_room(Shed::Body);
        wire.fail(desk, &over.into());
        false
    }

    /// Reads on in what was taken in, where that has room, or only in the spare memory.
    pub(crate) fn turn(&mut self, port: &Rc<Port>, key: Key, is_spared: bool) {
        turn(&Place::Table(Rc::clone(port), key), self);
        if is_spared && !self.wire.is_at_rest() {
            // What it still holds of the spare memory, it holds as one of those in the queue.
            self.wire.flow.block_receive();
        }
    }

    /// Whether more can be received at once. What can be sent goes first: it may be that for which there was no room.
    pub(crate) fn wants_to_receive(&self, desk: &Desk, line: &impl Line) -> bool {
        let wire = &self.wire;
        let is_free = wire.takes_more(desk) && !wire.may_try_again();
        let can_send = wire.has_output() && !line.is_sending();
        wire.is_listening() && is_free && !can_send && !line.is_receiving()
    }

    /// Sends what there is to send, and arms what there is to wait for.
    pub(crate) fn settle(&mut self, desk: &Desk, line: &mut impl Line, key: Key) -> Step {
        let Socket { consumer, wire } = self;
        let was_sending = line.is_sending();
        let flushed = flush(desk, line, key, wire);
        let flushed = if wire.member.is_some() { flushed.and(send_next(line, wire)) } else { flushed };
        let is_sending = line.is_sending();
        // What a peer is told for want of memory needs none.
        if !is_sending && wire.has_unsent_close() {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = line.send_now(frame);
        }
        if flushed.is_err() {
            wire.flow.block_send();
        }
        // One that was under way before says nothing of whether there is room.
        if is_sending && !was_sending {
            wire.get_on();
        }
        if wire.phase == Phase::Ending && !is_sending && !wire.has_output() {
            wire.phase = Phase::Lingering(Dropped::default());
            // A message that came before the end is still for the task to take.
            wire.work.take_if(|work| work.ready.is_none());
            line.shutdown_write();
        }
        if let Consumer::Task(Some(mailbox)) = consumer {
            if !wire.is_open() {
                mailbox.wake_reader();
            }
            if !wire.is_open() || (wire.has_room(desk) && !wire.flow.is_send_blocked()) {
                mailbox.wake_writer();
            }
        }
        let is_flooded = matches!(wire.phase, Phase::Lingering(dropped) if dropped.is_too_much());
        let is_waiting = wire.holds_message();
        let armed = match wire.phase {
            // What would come may want an answer.
            Phase::Open | Phase::Asked if wire.flow.is_blocked() && !wire.flags.has(Flags::ENDED) => line.watch(),
            Phase::Open | Phase::Asked | Phase::Closing if wire.takes_more(desk) => {
                let is_late = receives_late(desk, wire) && !line.is_receiving();
                if is_late { line.await_readable() } else { line.receive() }
            }
            Phase::Lingering(_) if !is_flooded => line.receive(),
            // Most likely its task takes the message at once; if it does not, the next look finds that out.
            Phase::Open | Phase::Asked if is_waiting && wire.flags.has(Flags::DELIVERED) => Ok(()),
            Phase::Open | Phase::Asked if is_waiting && !wire.flags.has(Flags::ENDED) => line.watch(),
            _ => {
                line.unwatch();
                Ok(())
            }
        };
        if armed.is_err() {
            wire.flow.block_send();
        }
        enqueue(desk, Waits::new(key, None), wire);
        match wire.due_in(desk, is_sending) {
            Due::In(after) => line.schedule(after),
            Due::Never => line.unschedule(),
            Due::AsBefore => {}
        }
        wire.rest(desk);
        let is_counted = wire.work.is_some();
        if is_counted != wire.flags.put(Flags::COUNTED, is_counted) {
            desk.counters().active(if is_counted { 1 } else { -1 });
        }
        match wire.phase {
            _ if is_flooded => Step::Lost(WebSocketEnd::NoRoom),
            Phase::Over if matches!(consumer, Consumer::Task(None)) => Step::Close,
            _ => Step::Rest,
        }
    }
}

/// Hands output to the socket, and what waits to go behind it.
fn flush(desk: &Desk, line: &mut impl Line, key: Key, wire: &mut Wire) -> Result<(), OverBudget> {
    let placed = wire.put_pending_close(&desk.pool);
    let Some(work) = &mut wire.work else { return Ok(()) };
    // A socket has room for what is short, nearly always: one call, and no operation that has to be looked after.
    let is_short = work.output.is_short() && !line.is_sending();
    let has_left = is_short && line.flush_now(&mut work.output);
    let flushed = if has_left { Ok(()) } else { line.flush(&desk.pool, &mut work.output) };
    if has_left || (flushed.is_err() && line.flush_now(&mut work.output)) {
        let has_more = work.input.is_some() || work.pending_close.is_some();
        wire.get_on();
        // All of it: there may be more behind it.
        if has_more && !wire.flags.put(Flags::LISTED, true) {
            desk.enlist(key);
        }
        return placed;
    }
    flushed.and(placed)
}

impl Wire {
    /// Whether nothing is left of what was received.
    pub(super) fn is_at_rest(&self) -> bool {
        self.work.as_ref().is_none_or(|work| work.is_between_messages() && work.ready.is_none())
    }
}

impl Socket {
    /// To be looked after; `false` when it is anyway.
    pub(crate) fn enlist(&mut self) -> bool {
        !self.wire.flags.put(Flags::LISTED, true)
    }
}

#[cfg(test)]
mod tests;
