//! WebSockets in the table: each event becomes a step of its socket, and what that says is done.

use std::rc::Rc;

use plimsoll_pool::PoolBox;
use plimsoll_runtime::SharedBytes;
use plimsoll_runtime::net::Bytes;
use plimsoll_slab::Key;

use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::TableLine;
use crate::exchange::output::STALLED_AFTER;
use crate::h1::active::Active;
use crate::memory::desk::Desk;
use crate::memory::waits::Waits;
use crate::websocket::{self, Handed, Opening, Socket, Sockets, Step, WebSocketEnd};
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

impl<S: Service> Engine<S> {
    /// The 101 has left: the connection goes on as a WebSocket.
    pub(crate) fn become_websocket(&mut self, key: Key, mut active: PoolBox<Active>, opening: Opening) {
        let worker = Rc::clone(&self.worker);
        let kept = active.input.take();
        let (socket, begins) = opening.begin();
        let sort = socket.sort();
        worker.put(key, Connection::WebSocket(socket));
        worker.websocket_stays(key, sort);
        self.finish_active(active, ExchangeEnd::Finished);
        worker.counters().websocket();
        let started = websocket::start(begins, &self.sockets, key);
        let Some(mut socket) = worker.take_websocket(key) else { return };
        socket.open(&self.sockets, key, started);
        self.go_on_websocket(key, socket, kept.map(Bytes::Owned));
    }

    /// Something changed on a connection: a task took a message, sent one, or let go.
    pub(crate) fn look_after_websocket(&mut self, key: Key) {
        let Some(socket) = self.worker.take_websocket(key) else { return };
        let worker = &self.worker;
        if worker.fed.get() == Some(key) && socket.wants_to_receive(worker, &TableLine::new(&worker.table, key)) {
            // Before others can take what was granted.
            return self.receive_websocket(key, socket);
        }
        self.go_on_websocket(key, socket, None);
    }

    /// There is something to receive, as was waited for while memory is short.
    pub(crate) fn readable_websocket(&mut self, key: Key) {
        let Some(socket) = self.worker.take_websocket(key) else { return };
        self.receive_websocket(key, socket);
    }

    fn receive_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>) {
        let worker = Rc::clone(&self.worker);
        let room = self.retried(key, |_| socket.room(&worker.pool)).ok();
        let step = socket.receive(&worker, &mut TableLine::new(&worker.table, key), room);
        self.execute_websocket(key, socket, step);
    }

    /// The socket has taken everything that was handed to it.
    pub(crate) fn sent_websocket(&mut self, key: Key) {
        if let Some(mut socket) = self.worker.take_websocket(key) {
            socket.sent();
            self.go_on_websocket(key, socket, None);
        }
    }

    /// Goes on with a connection as far as it can, with what has just come.
    pub(crate) fn go_on_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>, fresh: Option<Bytes>) {
        socket.begin_step();
        let is_spared = fresh.is_some_and(|bytes| self.take_in_websocket(key, &mut socket, bytes));
        socket.turn(&self.sockets, key, is_spared);
        let worker = &self.worker;
        match socket.settle(worker, &mut TableLine::new(&worker.table, key), key) {
            // Nearly always, and without a call more.
            Step::Rest => worker.put(key, Connection::WebSocket(socket)),
            step => self.execute_websocket(key, socket, step),
        }
    }

    /// Takes in what has come; whether only the spare memory had room for it.
    fn take_in_websocket(&mut self, key: Key, socket: &mut Socket, bytes: Bytes) -> bool {
        if !socket.hear(&self.worker, &bytes) {
            return false;
        }
        let mut bytes = Some(bytes);
        let taken = self.retried(key, |engine| socket.take_in(&engine.worker.pool, &mut bytes));
        taken.is_err_and(|over| socket.spare(&self.worker, key, bytes, over))
    }

    /// Has a step of a WebSocket made, and does what that says.
    fn step_websocket(&mut self, key: Key, step: impl FnOnce(&mut Socket, &WorkerState) -> Step) {
        let Some(mut socket) = self.worker.take_websocket(key) else { return };
        let step = step(&mut socket, &self.worker);
        self.execute_websocket(key, socket, step);
    }

    fn execute_websocket(&mut self, key: Key, socket: PoolBox<Socket>, step: Step) {
        match step {
            Step::GoOn => self.go_on_websocket(key, socket, None),
            Step::Rest => self.worker.put(key, Connection::WebSocket(socket)),
            Step::Lost(end) => self.lose_websocket(key, socket, end),
            Step::Close => {
                self.worker.put(key, Connection::WebSocket(socket));
                self.close(key);
            }
        }
    }

    /// A deadline has come.
    pub(crate) fn due_websocket(&mut self, key: Key) {
        self.step_websocket(key, |socket, worker| socket.due(worker, &mut TableLine::new(&worker.table, key), key));
    }

    /// The peer has ended its half while nothing was received from it.
    pub(crate) fn peer_closed_websocket(&mut self, key: Key) {
        self.step_websocket(key, |socket, _| socket.peer_closed());
    }

    /// The peer has sent all it will send.
    pub(crate) fn ended_websocket(&mut self, key: Key) {
        self.step_websocket(key, |socket, _| socket.ended());
    }

    /// Sheds a connection, as others need its memory.
    pub(crate) fn shed_websocket(&mut self, key: Key) {
        self.step_websocket(key, |socket, worker| {
            socket.shed(worker, &mut TableLine::new(&worker.table, key), STALLED_AFTER)
        });
    }

    /// The server stops.
    pub(crate) fn stop_websocket(&mut self, key: Key) {
        self.step_websocket(key, |socket, worker| socket.stop(worker));
    }

    /// The connection broke.
    pub(crate) fn lost_websocket(&mut self, key: Key) {
        self.step_websocket(key, |_, _| Step::Lost(WebSocketEnd::Disconnected));
    }

    /// Nothing can go on. A task that has the socket still is told before the connection is closed.
    fn lose_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>, end: WebSocketEnd) {
        let is_held = socket.lose(&self.worker, &Waits::new(key, None), end);
        if is_held {
            let mut table = self.worker.table.borrow_mut();
            table.unwatch(key);
            table.unschedule(key);
        }
        self.worker.put(key, Connection::WebSocket(socket));
        if !is_held {
            self.close(key);
        }
    }
}

impl WorkerState {
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

impl Sockets for WorkerState {
    fn desk(&self) -> &Desk {
        self
    }

    fn on_socket(&self, key: Key, act: &mut dyn FnMut(&mut Socket)) {
        if let Some(Connection::WebSocket(socket)) = self.table.borrow_mut().get_mut(key) {
            act(socket);
        }
    }

    fn hand_over(&self, key: Key, bytes: SharedBytes) -> Handed {
        let Some(mut socket) = self.take_websocket(key) else {
            // While it is worked on, it asks itself at the end of that.
            return Handed::Waits;
        };
        let handed = socket.hand_over(&mut TableLine::new(&self.table, key), bytes);
        if handed == Handed::NoRoom && socket.enlist() {
            self.enlist(key);
        }
        self.put(key, Connection::WebSocket(socket));
        handed
    }
}
