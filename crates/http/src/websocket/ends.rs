//! The ends of a WebSocket: its peer's, ours, and a connection that broke.

use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use super::control::static_close;
use super::handler::{WebSocketEnd, WebSocketHandler};
use super::turn::run;
use super::wire::{Deadline, Flags, Phase, Wire};
use super::{Consumer, Socket};
use crate::base::counters::Shed;
use crate::memory::desk::Desk;
use crate::memory::lasting::Sort;
use crate::memory::waits::Waits;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::pressure::STALLED_AFTER;
use crate::worker::service::Service;

impl Socket {
    /// As what it is counted.
    pub(crate) fn sort(&self) -> Sort {
        match self.consumer {
            Consumer::Handler(_) => Sort::Called,
            Consumer::Task(_) => Sort::Awaited,
        }
    }

    /// Whether neither side has said that it closes.
    pub(crate) fn is_open(&self) -> bool {
        self.wire.is_open()
    }
}

impl<S: Service> Engine<S> {
    /// The peer has ended its half while nothing was received from it. What came before that is still to be received
    /// and taken: then a receive tells the end.
    pub(crate) fn peer_closed_websocket(&mut self, key: Key) {
        let Some(mut socket) = self.core.take_websocket(key) else { return };
        socket.wire.flags.put(Flags::ENDED, true);
        self.go_on_websocket(key, socket, None);
    }

    /// Tells the peer that there is no room, in static bytes, if nothing is on its way to it.
    pub(super) fn tell_no_room(&self, key: Key, socket: &Socket) {
        let mut table = self.core.table.borrow_mut();
        let is_midway = socket.wire.work.as_ref().is_some_and(|work| work.output.is_midway());
        if !is_midway && !table.is_sending(key) && socket.wire.is_open() {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = table.send_now(key, frame);
        }
    }

    /// Lets go of a connection, as others need its memory: its peer is told, and has the usual time to close. One that
    /// takes nothing has none.
    pub(crate) fn shed_websocket(&mut self, key: Key) {
        let Some(mut socket) = self.core.take_websocket(key) else { return };
        self.core.shed_for_room(Shed::Lasting);
        let left = {
            let table = self.core.table.borrow();
            table.scheduled_in(key).filter(|_| table.is_sending(key))
        };
        let is_stalled = left.is_some_and(|left| socket.is_stalled(left, STALLED_AFTER));
        if is_stalled || !socket.wire.is_open() {
            self.tell_no_room(key, &socket);
            return self.lose_websocket(key, socket, WebSocketEnd::NoRoom);
        }
        give_way(&self.core, &mut socket.wire);
        self.go_on_websocket(key, socket, None);
    }

    /// The peer has sent all it will send: what is on its way to it still leaves.
    pub(crate) fn ended_websocket(&mut self, key: Key) {
        let Some(mut socket) = self.core.take_websocket(key) else { return };
        if matches!(socket.wire.phase, Phase::Lingering(_) | Phase::Over) {
            return self.lose_websocket(key, socket, WebSocketEnd::Gone);
        }
        socket.wire.note_end(WebSocketEnd::Gone);
        socket.wire.phase = Phase::Ending;
        self.go_on_websocket(key, socket, None);
    }

    /// The connection broke.
    pub(crate) fn lost_websocket(&mut self, key: Key) {
        let Some(socket) = self.core.take_websocket(key) else { return };
        self.lose_websocket(key, socket, WebSocketEnd::Gone);
    }

    /// Nothing can go on. A task that has the socket still is told before the connection is closed.
    pub(super) fn lose_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>, end: WebSocketEnd) {
        let core = Rc::clone(&self.core);
        socket.wire.note_end(end);
        socket.wire.end_wait(&core, &Waits::new(key, None));
        let Consumer::Task(Some(mailbox)) = &mut socket.consumer else {
            core.put(key, Connection::WebSocket(socket));
            return self.close(key);
        };
        mailbox.wake_reader();
        mailbox.wake_writer();
        (socket.wire.phase, socket.wire.deadline) = (Phase::Over, Deadline::None);
        // A message that came before the end is still for the task to take.
        socket.wire.work.take_if(|work| work.ready.is_none());
        let mut table = core.table.borrow_mut();
        table.unwatch(key);
        table.unschedule(key);
        drop(table);
        core.put(key, Connection::WebSocket(socket));
    }

    /// The server stops: the peer is told.
    pub(crate) fn stop_websocket(&mut self, key: Key) {
        if let Some(mut socket) = self.core.take_websocket(key) {
            go_away(&self.core, &mut socket.wire);
            self.go_on_websocket(key, socket, None);
        }
    }

    /// The end of a connection that is not in the table any more.
    pub(crate) fn finish_websocket(&self, socket: PoolBox<Socket>) {
        if socket.wire.flags.has(Flags::COUNTED) {
            self.core.counters().active(-1);
        }
        let Socket { consumer, wire } = socket.into_inner();
        match consumer {
            Consumer::Handler(handler) => tell_closed(handler, wire.end.unwrap_or(WebSocketEnd::Gone)),
            Consumer::Task(Some(mut mailbox)) => {
                mailbox.wake_reader();
                mailbox.wake_writer();
            }
            Consumer::Task(None) => {}
        }
    }
}

/// Tells a handler that its connection is over.
pub(super) fn tell_closed(mut handler: Box<dyn WebSocketHandler>, end: WebSocketEnd) {
    // A panic was told; there is nothing left to close.
    let _over = run(|| {
        handler.closed(end);
        drop(handler);
        Ok(())
    });
}

/// Others need its memory. What it waited for itself it does without.
pub(super) fn give_way(core: &Desk, wire: &mut Wire) {
    if wire.is_open() {
        wire.resume();
        wire.fail(core, &OverBudget::new(0).into());
    }
}

pub(super) fn go_away(core: &Desk, wire: &mut Wire) {
    if wire.is_open() {
        wire.note_end(WebSocketEnd::ByUs(CloseCode::GOING_AWAY));
        wire.close(core, Some(CloseCode::GOING_AWAY), "", Phase::Closing);
    }
}
