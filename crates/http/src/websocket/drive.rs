//! The engine's side of a WebSocket: steps through what came, sends what there is, keeps the deadlines.

use ::core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::{Bytes, Table};
use plimsoll_runtime::{Instant, Kind, OverBudget, SendBytes};
use plimsoll_slab::Key;

use super::handler::{WebSocketEnd, WebSocketHandler, WebSocketRef};
use super::message::Message;
use super::place::Place;
use super::socket::{Mailbox, WebSocket};
use super::wire::{Deadline, Flags, PING, Phase, QUARTER_MS, Step, Wire, quarters, static_close};
use super::{Consumer, Opening, Socket, Start};
use crate::Error;
use crate::connection::{Active, Connection};
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::hungry::Want;
use crate::server::Service;

/// What a peer may still send after the end.
const DROPPED_KIB_MAX: u16 = 4_096;
/// When it is looked again for room that was not enough, or for which too many wait.
const STARVED_RETRY: Duration = Duration::from_millis(250);
/// Room for so much is waited for.
const STARVED_BYTES: usize = 4 * 1_024;

impl<S: Service> Engine<S> {
    /// The 101 has left: the connection goes on as a WebSocket.
    pub(crate) fn become_websocket(&mut self, key: Key, mut active: PoolBox<Active>, opening: Opening) {
        let core = Rc::clone(&self.core);
        let kept = active.input.take();
        core.put(key, Connection::LINGERING);
        self.finish_active(active);
        core.counters().websocket();
        let Opening { settings, start } = opening;
        let room = |engine: &mut Self| engine.core.pool.try_acquire(size_of::<Socket>(), Kind::Codec).map(drop);
        let (consumer, start) = match (self.retried(key, room), start) {
            (Err(_), _) => return self.turn_away_websocket(key),
            (Ok(()), Start::Handler(handler)) => (Consumer::Handler(handler), None),
            (Ok(()), Start::Task(start)) => match core.pool.try_boxed(Mailbox::default(), Kind::Tasks) {
                Ok(mailbox) => (Consumer::Task(Some(mailbox)), Some(start)),
                Err(_) => return self.turn_away_websocket(key),
            },
        };
        let socket = Socket { consumer, wire: Wire::new(settings) };
        let Ok(socket) = core.pool.try_boxed(socket, Kind::Slots) else { return self.turn_away_websocket(key) };
        core.put(key, Connection::WebSocket(socket));
        let has_started = start.is_none_or(|start| start(WebSocket::new(Place::Table(Rc::clone(&core), key))));
        let Some(mut socket) = core.take_websocket(key) else { return };
        if !has_started {
            tracing::warn!("no room for the task of a WebSocket: its connection is closed");
            socket.wire.note_end(WebSocketEnd::NoRoom);
            socket.wire.phase = Phase::Open;
            socket.wire.close(&core, Some(CloseCode::TRY_LATER), "", Phase::Ending);
        } else if core.is_stopping() {
            go_away(&core, &mut socket.wire);
        } else if let Some(kept) = kept {
            match socket.wire.work(&core.pool) {
                Ok(work) => work.begin_with(Some(kept)),
                Err(over) => socket.wire.fail(&core, &over.into()),
            }
        }
        open(&Place::Table(Rc::clone(&core), key), &mut socket);
        self.go_on_websocket(key, socket, None);
    }

    /// Without room for a WebSocket, the peer is told to try later in static bytes.
    fn turn_away_websocket(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        core.counters().shed(Shed::Accept);
        core.put(key, Connection::LINGERING);
        let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
        let mut table = core.table.borrow_mut();
        table.schedule(key, core.config.linger_timeout);
        let told = !table.is_sending(key) && table.send(key, SendBytes::Static(frame)).is_ok();
        drop(table);
        if !told {
            self.close(key);
        }
    }

    /// Something changed on a connection: a task took a message, sent one, or let go.
    pub(crate) fn look_after_websocket(&mut self, key: Key) {
        if let Some(socket) = self.core.take_websocket(key) {
            self.go_on_websocket(key, socket, None);
        }
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
        if let Some(bytes) = fresh {
            self.take_in(key, &mut socket, bytes);
        }
        turn(&Place::Table(Rc::clone(&core), key), &mut socket);
        self.settle_websocket(key, socket);
    }

    fn take_in(&mut self, key: Key, socket: &mut Socket, bytes: Bytes) {
        let core = Rc::clone(&self.core);
        let wire = &mut socket.wire;
        wire.heard = quarters(plimsoll_runtime::now());
        match &mut wire.phase {
            Phase::Lingering { dropped_kib } => {
                *dropped_kib = dropped_kib.saturating_add(bytes.len().div_ceil(1_024) as u16);
            }
            Phase::Ending | Phase::Over => {}
            phase @ (Phase::Open | Phase::Asked | Phase::Closing) => {
                if *phase == Phase::Asked {
                    *phase = Phase::Open;
                }
                let len = bytes.len();
                match wire.pass(&core, &bytes) {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(error) => {
                        core.counters().shed(Shed::Misbehaviour);
                        return wire.fail(&core, &error);
                    }
                }
                let mut taken = wire.work(&core.pool).and_then(|work| work.take(&core.pool, bytes));
                // Room is made for the next ones: what came just now is lost, and with it the connection.
                if taken.is_err() {
                    let _made = self.retried(key, |engine| engine.core.pool.try_acquire(len, Kind::Buffers).map(drop));
                    core.counters().shed(Shed::Body);
                }
                if let Err(over) = taken.as_mut() {
                    wire.fail(&core, &(*over).into());
                }
            }
        }
    }

    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    fn settle_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let Socket { consumer, wire } = &mut *socket;
        let flushed = flush(&core, &mut table, key, wire);
        let is_sending = table.is_sending(key);
        // What a peer is told for want of memory needs none.
        let is_untold = wire.phase == Phase::Ending && wire.work.is_none() && wire.end == Some(WebSocketEnd::NoRoom);
        if !is_sending && is_untold {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = table.send_now(key, frame);
        }
        wire.flags.put(Flags::STARVED, flushed.is_err() || wire.flags.has(Flags::STARVED));
        if is_sending {
            wire.flags.put(Flags::RETRIES, false);
        }
        if wire.phase == Phase::Ending && !is_sending && !wire.has_output() {
            wire.phase = Phase::Lingering { dropped_kib: 0 };
            // A message that came before the end is still for the task to take.
            wire.work.take_if(|work| work.ready.is_none());
            table.shutdown_write(key);
        }
        if let Consumer::Task(Some(mailbox)) = consumer {
            if !wire.is_open() {
                mailbox.wake_reader();
            }
            if !wire.is_open() || (wire.has_room(&core) && !wire.flags.has(Flags::STARVED)) {
                mailbox.wake_writer();
            }
        }
        let is_flooded = matches!(wire.phase, Phase::Lingering { dropped_kib } if dropped_kib > DROPPED_KIB_MAX);
        let is_waiting = wire.holds_message();
        let armed = match wire.phase {
            // What would come may want an answer.
            Phase::Open | Phase::Asked if wire.flags.has(Flags::STARVED) && !wire.flags.has(Flags::ENDED) => {
                table.watch(key)
            }
            Phase::Open | Phase::Asked | Phase::Closing
                if !is_waiting && wire.has_room(&core) && !wire.flags.has(Flags::STARVED) =>
            {
                table.receive(key)
            }
            Phase::Lingering { .. } if !is_flooded => table.receive(key),
            // Most likely its task takes the message at once; if it does not, the next look finds that out.
            Phase::Open | Phase::Asked if is_waiting && wire.flags.has(Flags::FED) => Ok(()),
            Phase::Open | Phase::Asked if is_waiting && !wire.flags.has(Flags::ENDED) => table.watch(key),
            _ => {
                table.unwatch(key);
                Ok(())
            }
        };
        wire.flags.put(Flags::STARVED, armed.is_err() || wire.flags.has(Flags::STARVED));
        drop(table);
        starve(&core, key, wire);
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

    /// The peer has ended its half while nothing was received from it. What came before that is still to be received and taken: then a receive tells
    /// the end.
    pub(crate) fn peer_closed_websocket(&mut self, key: Key) {
        let Some(mut socket) = self.core.take_websocket(key) else { return };
        socket.wire.flags.put(Flags::ENDED, true);
        self.go_on_websocket(key, socket, None);
    }

    /// Tells the peer that there is no room, in static bytes, if nothing is on its way to it.
    fn tell_no_room(&self, key: Key, socket: &Socket) {
        let mut table = self.core.table.borrow_mut();
        let is_midway = socket.wire.work.as_ref().is_some_and(|work| work.output.is_midway());
        if !is_midway && !table.is_sending(key) && socket.wire.is_open() {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = table.send_now(key, frame);
        }
    }

    /// Lets go of a connection: others need its memory.
    pub(crate) fn shed_websocket(&mut self, key: Key) {
        let Some(socket) = self.core.take_websocket(key) else { return };
        self.core.counters().shed(Shed::Output);
        self.tell_no_room(key, &socket);
        self.lose_websocket(key, socket, WebSocketEnd::NoRoom);
    }

    /// The peer has sent all it will send: what is on its way to it still leaves.
    pub(crate) fn ended_websocket(&mut self, key: Key) {
        let Some(mut socket) = self.core.take_websocket(key) else { return };
        if matches!(socket.wire.phase, Phase::Lingering { .. } | Phase::Over) {
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
    fn lose_websocket(&mut self, key: Key, mut socket: PoolBox<Socket>, end: WebSocketEnd) {
        let core = Rc::clone(&self.core);
        socket.wire.note_end(end);
        if socket.wire.flags.put(Flags::HUNGRY, false) {
            core.sate(key);
        }
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

    /// A deadline has come.
    pub(crate) fn due_websocket(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let Some(mut socket) = core.take_websocket(key) else { return };
        let wire = &mut socket.wire;
        let is_sending = core.table.borrow().is_sending(key);
        let is_parked = wire.deadline == Deadline::Idle && wire.phase == Phase::Open && wire.work.is_none();
        if is_parked && !is_sending {
            // A ping costs a parked connection no buffer.
            wire.phase = Phase::Asked;
            wire.deadline = Deadline::None;
            // Without room for it, the peer has some more time to say something itself.
            let _no_room_is_no_end = core.table.borrow_mut().send(key, SendBytes::Static(PING));
        } else if wire.starved_at > 0 && !is_sending && !wire.flags.has(Flags::STARVED) {
            // Nothing failed for a whole tick: it waits no longer.
            wire.flags.put(Flags::RETRIES, false);
            wire.starved_at = 0;
        } else if wire.starved_at > 0 && !is_sending {
            if wire.has_starved() {
                core.counters().shed(Shed::Output);
                self.tell_no_room(key, &socket);
                return self.lose_websocket(key, socket, WebSocketEnd::NoRoom);
            }
            // Perhaps there is room now.
            if wire.flags.put(Flags::HUNGRY, false) {
                core.sate(key);
            }
            socket.feed();
        } else if is_sending && wire.flags.has(Flags::HUNGRY) && !core.has_place(key) {
            // Another took its place among those that wait: that does not end what is on its way.
            wire.flags.put(Flags::HUNGRY, false);
            wire.deadline = Deadline::None;
        } else if !overdue(&core, wire) {
            return self.lose_websocket(key, socket, WebSocketEnd::Gone);
        }
        self.go_on_websocket(key, socket, None);
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

/// Hands output to the socket, and what waits to go behind it.
fn flush(core: &Core, table: &mut Table<Connection>, key: Key, wire: &mut Wire) -> Result<(), OverBudget> {
    let placed = wire.put_last_words(&core.pool);
    let Some(work) = &mut wire.work else { return Ok(()) };
    let flushed = work.output.flush(&core.pool, table, key);
    if flushed.is_err() && work.output.flush_now(table, key) {
        // The socket has taken all of it at once: there may be more behind it.
        if !wire.flags.put(Flags::LISTED, true) {
            core.enlist(key);
        }
        return placed;
    }
    flushed.and(placed)
}

/// Has a WebSocket that found no room wait for it, or wait no longer.
fn starve(core: &Core, key: Key, wire: &mut Wire) {
    let is_over = matches!(wire.phase, Phase::Lingering { .. } | Phase::Over);
    if wire.flags.has(Flags::STARVED) && !is_over {
        if wire.starved_at == 0 {
            wire.starved_at = (quarters(plimsoll_runtime::now()) as u16).max(1);
        }
        // One of too many looks again after a while, as one does that found no room in its turn.
        let mut waits = wire.flags.has(Flags::HUNGRY);
        if !wire.flags.has(Flags::RETRIES) && core.starve_as(key, &mut waits, 0, Want::Output, STARVED_BYTES).is_ok() {
            wire.flags.put(Flags::HUNGRY, waits);
        }
        return;
    }
    if wire.flags.put(Flags::HUNGRY, false) {
        core.sate(key);
    }
    if is_over || !wire.flags.has(Flags::RETRIES) {
        wire.starved_at = 0;
    }
}

/// Tells a handler that its connection is over.
pub(super) fn tell_closed(mut handler: Box<dyn WebSocketHandler>, end: WebSocketEnd) {
    // A panic was told; there is nothing left to close.
    let _over = contained(|| {
        handler.closed(end);
        drop(handler);
        Ok(())
    });
}

/// Does what is to be done when a time is up; `false` when nothing can go on.
pub(super) fn overdue(core: &Core, wire: &mut Wire) -> bool {
    match ::core::mem::replace(&mut wire.deadline, Deadline::None) {
        Deadline::None => {}
        Deadline::Idle if wire.phase == Phase::Open => {
            // Without room for it, the peer has some more time to say something itself.
            let _no_room_is_no_end = wire.put_ping(core, &[]);
            wire.phase = Phase::Asked;
        }
        Deadline::Idle | Deadline::Message => {
            core.counters().shed(Shed::Timeout);
            wire.note_end(WebSocketEnd::Gone);
            wire.close(core, Some(CloseCode::POLICY), "too slow", Phase::Ending);
            if let Some(work) = &mut wire.work {
                work.forget();
            }
        }
        // The peer does not close: so be it.
        Deadline::Close => {
            wire.phase = Phase::Ending;
            wire.work = None;
        }
        Deadline::Send => {
            core.counters().shed(Shed::Output);
            return false;
        }
        Deadline::Linger => return false,
    }
    true
}

/// Reads on as long as there is room for what it leads to.
pub(super) fn turn(place: &Place, socket: &mut Socket) {
    let core = place.core();
    loop {
        let Socket { consumer, wire } = socket;
        if matches!(consumer, Consumer::Handler(_))
            && !wire.flags.has(Flags::STARVED)
            && let Some(message) = wire.take_ready()
            && wire.is_open()
        {
            deliver(place, consumer, wire, message);
            continue;
        }
        let reads = matches!(wire.phase, Phase::Open | Phase::Asked | Phase::Closing);
        let is_waiting = wire.work.as_ref().is_none_or(|work| work.ready.is_some());
        if !reads || is_waiting || !wire.has_room(core) {
            return;
        }
        match wire.step(core) {
            Ok(Step::NeedMore) => return,
            Ok(Step::On) => {}
            Ok(Step::Message(message)) if wire.is_open() => deliver(place, consumer, wire, message),
            Ok(Step::Message(_)) => {}
            Ok(Step::Close(code)) => {
                wire.note_end(WebSocketEnd::ByPeer(code));
                // What we answer to a close frame without a code has none either.
                wire.close(core, code, "", Phase::Ending);
                wire.phase = Phase::Ending;
            }
            Err(error) => {
                core.counters().shed(if matches!(error, Error::Peer(_)) { Shed::Misbehaviour } else { Shed::Body });
                wire.fail(core, &error);
            }
        }
    }
}

/// Gives a message to whom it is for.
fn deliver(place: &Place, consumer: &mut Consumer, wire: &mut Wire, message: Message) {
    match consumer {
        Consumer::Handler(handler) => {
            // While memory is short, room for an answer is made first: it cannot wait for that itself.
            if place.core().holds_back() && wire.make_room(&place.core().pool, message.as_bytes().len()).is_err() {
                wire.flags.put(Flags::STARVED, true);
                if let Some(work) = &mut wire.work {
                    work.ready = Some(message);
                }
                return;
            }
            call(place.core(), wire, |wire| handler.message(&mut WebSocketRef { place, wire }, message));
        }
        Consumer::Task(Some(mailbox)) => {
            if let Some(work) = &mut wire.work {
                work.ready = Some(message);
            }
            mailbox.wake_reader();
            wire.flags.put(Flags::FED, true);
            place.list_later(wire);
        }
        Consumer::Task(None) => {}
    }
}

/// Tells the handler that its connection is there.
pub(super) fn open(place: &Place, socket: &mut Socket) {
    let Socket { consumer, wire } = socket;
    if let Consumer::Handler(handler) = consumer
        && wire.is_open()
    {
        call(place.core(), wire, |wire| handler.opened(&mut WebSocketRef { place, wire }));
    }
}

/// Calls a handler. What it fails with closes its connection.
fn call(core: &Rc<Core>, wire: &mut Wire, act: impl FnOnce(&mut Wire) -> Result<(), Error>) {
    let Err(failed) = contained(|| act(wire)) else { return };
    let code = match failed {
        Some(Error::OverBudget(_)) => CloseCode::TRY_LATER,
        Some(error) => {
            tracing::warn!(%error, "a WebSocket's handler failed");
            CloseCode::UNEXPECTED
        }
        None => CloseCode::UNEXPECTED,
    };
    wire.note_end(if code == CloseCode::TRY_LATER { WebSocketEnd::NoRoom } else { WebSocketEnd::ByUs(code) });
    wire.close(core, Some(code), "", Phase::Closing);
}

/// Runs what a user wrote. `Err(None)` after a panic.
fn contained(act: impl FnOnce() -> Result<(), Error>) -> Result<(), Option<Error>> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done.map_err(Some),
        Err(_panic) => {
            tracing::error!("a WebSocket's handler panicked");
            Err(None)
        }
    }
}

pub(super) fn go_away(core: &Core, wire: &mut Wire) {
    if wire.is_open() {
        wire.note_end(WebSocketEnd::ByUs(CloseCode::GOING_AWAY));
        wire.close(core, Some(CloseCode::GOING_AWAY), "", Phase::Closing);
    }
}

/// When to look again.
pub(super) enum Due {
    In(Duration),
    Never,
    AsBefore,
}

impl Wire {
    /// What there is a limited time for now, and how long.
    pub(super) fn due_in(&mut self, core: &Core, is_sending: bool) -> Due {
        let now = plimsoll_runtime::now();
        let values = self.settings.values;
        let is_within = self.work.as_ref().is_some_and(|work| work.is_within_message());
        let deadline = match self.phase {
            Phase::Lingering { .. } => Deadline::Linger,
            Phase::Over => Deadline::None,
            _ if is_sending || self.has_output() || self.starved_at > 0 => Deadline::Send,
            Phase::Closing | Phase::Ending => Deadline::Close,
            // Nothing is read while a message waits for its task: what the peer says is not heard.
            Phase::Open | Phase::Asked if self.holds_message() => Deadline::None,
            Phase::Open | Phase::Asked if is_within => Deadline::Message,
            Phase::Open | Phase::Asked => Deadline::Idle,
        };
        let before = ::core::mem::replace(&mut self.deadline, deadline);
        let after = match deadline {
            Deadline::None => return Due::Never,
            Deadline::Send if self.starved_at > 0 && !is_sending => {
                // What finds room has the whole time of a send then, not the rest of this.
                self.deadline = Deadline::None;
                STARVED_RETRY
            }
            Deadline::Send | Deadline::Close | Deadline::Linger if before == deadline => return Due::AsBefore,
            Deadline::Send => values.send_timeout,
            Deadline::Close => values.close_timeout,
            Deadline::Linger => core.config.linger_timeout,
            Deadline::Message => self.work.as_mut().map_or(values.message_timeout, |work| {
                let until = *work.message_until.get_or_insert(now + values.message_timeout);
                until.since(now)
            }),
            Deadline::Idle => match values.ping_interval {
                None => return Due::Never,
                // One more for the answer to a ping.
                Some(interval) if self.phase == Phase::Asked => 2 * interval,
                Some(interval) => interval,
            }
            .saturating_sub(silence(self.heard, now)),
        };
        Due::In(after)
    }
}

/// How long a peer has been silent, to a quarter of a second.
fn silence(heard: u32, now: Instant) -> Duration {
    Duration::from_millis(u64::from(quarters(now).wrapping_sub(heard)) * QUARTER_MS)
}

impl Socket {
    /// Whether the peer has had the time to take something of the output and did not.
    pub(crate) fn is_stalled(&self, left: Duration, after: Duration) -> bool {
        self.wire.deadline == Deadline::Send && self.send_timeout().saturating_sub(left) >= after
    }

    pub(crate) fn send_timeout(&self) -> Duration {
        self.wire.settings.values.send_timeout
    }

    /// Whether it waits for memory.
    pub(crate) fn is_hungry(&self) -> bool {
        self.wire.flags.has(Flags::HUNGRY)
    }

    pub(super) fn is_starved(&self) -> bool {
        self.wire.flags.has(Flags::STARVED)
    }

    /// There is some; whether its task waited for that.
    pub(crate) fn feed(&mut self) -> bool {
        self.wire.flags.put(Flags::HUNGRY, false);
        self.wire.flags.put(Flags::STARVED, false);
        self.wire.flags.put(Flags::RETRIES, true);
        match &mut self.consumer {
            Consumer::Task(Some(mailbox)) => mailbox.wake_writer(),
            Consumer::Task(None) | Consumer::Handler(_) => false,
        }
    }

    /// A task that waits for room looks again.
    pub(super) fn wake_writer(&mut self) {
        if let Consumer::Task(Some(mailbox)) = &mut self.consumer {
            mailbox.wake_writer();
        }
    }

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
