//! The engine's side of a WebSocket: steps through what came, sends what there is, arms what is waited for.

use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::OverBudget;
use plimsoll_runtime::net::{Bytes, Table};
use plimsoll_slab::Key;

use super::control::static_close;
use super::deadlines::Due;
use super::ends::go_away;
use super::handler::WebSocketEnd;
use super::place::Place;
use super::room::enqueue;
use super::socket::WebSocket;
use super::turn::{open, turn};
use super::wire::{Deadline, Dropped, Flags, Phase, Wire};
use super::{Consumer, Opening, Socket};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::h1::active::Active;
use crate::memory::desk::Desk;
use crate::memory::waits::Waits;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

impl<S: Service> Engine<S> {
    /// The 101 has left: the connection goes on as a WebSocket.
    pub(crate) fn become_websocket(&mut self, key: Key, mut active: PoolBox<Active>, opening: Opening) {
        let core = Rc::clone(&self.core);
        let kept = active.input.take();
        let Opening { mut socket, start } = opening;
        socket.wire.hear();
        let sort = socket.sort();
        core.put(key, Connection::WebSocket(socket));
        core.websocket_stays(key, sort);
        self.finish_active(active, ExchangeEnd::Finished);
        core.counters().websocket();
        let has_started = start.is_none_or(|start| start(WebSocket::new(Place::Table(Rc::clone(&core), key))));
        let Some(mut socket) = core.take_websocket(key) else { return };
        if !has_started {
            tracing::warn!("no room for the task of a WebSocket: its connection is closed");
            socket.wire.note_end(WebSocketEnd::NoRoom);
            socket.wire.phase = Phase::Open;
            socket.wire.close(&core, Some(CloseCode::TRY_LATER), "", Phase::Ending);
        } else if core.is_stopping() {
            go_away(&core, &mut socket.wire);
        }
        open(&Place::Table(Rc::clone(&core), key), &mut socket);
        self.go_on_websocket(key, socket, kept.map(Bytes::Owned));
    }

    /// Something changed on a connection: a task took a message, sent one, or let go.
    pub(crate) fn look_after_websocket(&mut self, key: Key) {
        let Some(socket) = self.core.take_websocket(key) else { return };
        if self.core.fed.get() == Some(key) && self.wants_to_receive(key, &socket.wire) {
            // Before others can take what was granted.
            return self.receive_websocket(key, socket);
        }
        self.go_on_websocket(key, socket, None);
    }

    /// The socket has taken everything that was handed to it: what follows has its own time.
    pub(crate) fn sent_websocket(&mut self, key: Key) {
        if let Some(mut socket) = self.core.take_websocket(key) {
            if socket.wire.deadline == Deadline::Send {
                socket.wire.deadline = Deadline::None;
            }
            self.go_on_websocket(key, socket, None);
        }
    }

    /// Goes on with a connection as far as it can, with what has just come.
    pub(crate) fn go_on_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>, fresh: Option<Bytes>) {
        let core = Rc::clone(&self.core);
        socket.wire.flags.put(Flags::LISTED, false);
        socket.wire.flags.put(Flags::FED, false);
        let is_spared = fresh.is_some_and(|bytes| self.take_in(key, &mut socket, bytes));
        turn(&Place::Table(Rc::clone(&core), key), &mut socket);
        if is_spared && !socket.wire.is_at_rest() {
            // What it still has of what is spared, it has as one of those in line.
            socket.wire.flow.block_receive();
        }
        self.settle_websocket(key, socket);
    }

    /// Takes in what has come; whether only what is spared had room for it.
    fn take_in(&mut self, key: Key, socket: &mut Socket, bytes: Bytes) -> bool {
        let core = Rc::clone(&self.core);
        let wire = &mut socket.wire;
        wire.hear();
        if let Phase::Lingering(dropped) = &mut wire.phase {
            dropped.add(bytes.len());
        }
        if !wire.is_listening() {
            return false;
        }
        match wire.pass(&core, &bytes) {
            Ok(true) => return false,
            Ok(false) => {}
            Err(error) => {
                core.counters().shed(Shed::Misbehaviour);
                wire.fail(&core, &error);
                return false;
            }
        }
        let mut bytes = Some(bytes);
        let taken = self.retried(key, |_| wire.take_in(&core.pool, &mut bytes));
        let Err(over) = taken else { return false };
        if bytes.is_some_and(|bytes| core.spare_input(key, wire, bytes)) {
            return true;
        }
        // It cannot be put back into the socket.
        core.shed_for_room(Shed::Body);
        wire.fail(&core, &over.into());
        false
    }

    /// Whether more can be received at once. What can be sent goes first: it may be that for which there was no room.
    fn wants_to_receive(&self, key: Key, wire: &Wire) -> bool {
        let table = self.core.table.borrow();
        let is_free = wire.takes_more(&self.core) && !wire.may_try_again();
        let can_send = wire.has_output() && !table.is_sending(key);
        wire.is_listening() && is_free && !can_send && !table.is_receiving(key)
    }

    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    fn settle_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let Socket { consumer, wire } = &mut *socket;
        let flushed = flush(&core, &mut table, key, wire);
        let is_sending = table.is_sending(key);
        // What a peer is told for want of memory needs none.
        if !is_sending && wire.is_untold() {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = table.send_now(key, frame);
        }
        if flushed.is_err() {
            wire.flow.block_send();
        }
        if is_sending {
            wire.get_on();
        }
        if wire.phase == Phase::Ending && !is_sending && !wire.has_output() {
            wire.phase = Phase::Lingering(Dropped::default());
            // A message that came before the end is still for the task to take.
            wire.work.take_if(|work| work.ready.is_none());
            table.shutdown_write(key);
        }
        if let Consumer::Task(Some(mailbox)) = consumer {
            if !wire.is_open() {
                mailbox.wake_reader();
            }
            if !wire.is_open() || (wire.has_room(&core) && !wire.flow.is_send_blocked()) {
                mailbox.wake_writer();
            }
        }
        let is_flooded = matches!(wire.phase, Phase::Lingering(dropped) if dropped.is_too_much());
        let is_waiting = wire.holds_message();
        let armed = match wire.phase {
            // What would come may want an answer.
            Phase::Open | Phase::Asked if wire.flow.is_blocked() && !wire.flags.has(Flags::ENDED) => table.watch(key),
            Phase::Open | Phase::Asked | Phase::Closing if wire.takes_more(&core) => {
                let is_late = core.receives_late(wire) && !table.is_receiving(key);
                if is_late { table.await_readable(key) } else { table.receive(key) }
            }
            Phase::Lingering(_) if !is_flooded => table.receive(key),
            // Most likely its task takes the message at once; if it does not, the next look finds that out.
            Phase::Open | Phase::Asked if is_waiting && wire.flags.has(Flags::FED) => Ok(()),
            Phase::Open | Phase::Asked if is_waiting && !wire.flags.has(Flags::ENDED) => table.watch(key),
            _ => {
                table.unwatch(key);
                Ok(())
            }
        };
        if armed.is_err() {
            wire.flow.block_send();
        }
        drop(table);
        enqueue(&core, Waits::new(key, None), wire);
        let mut table = core.table.borrow_mut();
        match wire.due_in(&core, is_sending) {
            Due::In(after) => table.schedule(key, after),
            Due::Never => table.unschedule(key),
            Due::AsBefore => {}
        }
        drop(table);
        wire.rest(&core);
        let is_counted = wire.work.is_some();
        if is_counted != wire.flags.put(Flags::COUNTED, is_counted) {
            core.counters().active(if is_counted { 1 } else { -1 });
        }
        if is_flooded {
            return self.lose_websocket(key, socket, WebSocketEnd::NoRoom);
        }
        if wire.phase == Phase::Over && matches!(consumer, Consumer::Task(None)) {
            core.put(key, Connection::WebSocket(socket));
            return self.close(key);
        }
        core.put(key, Connection::WebSocket(socket));
    }
}

/// Hands output to the socket, and what waits to go behind it.
fn flush(core: &Desk, table: &mut Table<Connection>, key: Key, wire: &mut Wire) -> Result<(), OverBudget> {
    let placed = wire.put_last_words(&core.pool);
    let Some(work) = &mut wire.work else { return Ok(()) };
    // A socket has room for what is short, nearly always: one call, and no operation that has to be looked after.
    let is_short = work.output.is_short() && !table.is_sending(key);
    let has_left = is_short && work.output.flush_now(table, key);
    let flushed = if has_left { Ok(()) } else { work.output.flush(&core.pool, table, key) };
    if has_left || (flushed.is_err() && work.output.flush_now(table, key)) {
        let has_more = work.input.is_some() || work.last_words.is_some();
        wire.get_on();
        // All of it: there may be more behind it.
        if has_more && !wire.flags.put(Flags::LISTED, true) {
            core.enlist(key);
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

impl Core {
    /// Whether a connection is a WebSocket.
    pub(crate) fn is_websocket(&self, key: Key) -> bool {
        matches!(self.table.borrow().get(key), Some(Connection::WebSocket(_)))
    }

    /// Takes a WebSocket out of the table.
    pub(crate) fn take_websocket(&self, key: Key) -> Option<PoolBox<Socket>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::WebSocket(socket) => Some(socket),
            other => {
                *connection = other;
                None
            }
        }
    }
}
