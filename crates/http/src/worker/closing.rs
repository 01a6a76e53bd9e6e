//! The ends of a connection: closed gently, shed, cut off; and the stop of the server.

use std::rc::Rc;

use http::{Method, StatusCode};
use plimsoll_codec::h1::{self, RequestState, ResponseState};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::{Errno, SendBytes};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::min_rate;
use crate::h1::active::{Active, Deadline, Phase};
use crate::worker::connection::{Connection, Rest};
use crate::worker::engine::Engine;
use crate::worker::service::Service;

impl<S: Service> Engine<S> {
    /// Closes a connection whose answer has been sent, so that the peer sees the answer.
    pub(crate) fn close_gently(&mut self, key: Key) {
        let Some(active) = self.worker.take(key) else { return self.close(key) };
        let rest = if active.exchange.request() == RequestState::Body { Rest::Body } else { Rest::Nothing };
        self.worker.put(key, Connection::lingering(rest));
        self.finish_active(active, ExchangeEnd::Peer);
        self.linger(key);
    }

    /// Shuts our half down, and reads on until the peer has closed its own, or for a while: bytes that nobody read
    /// would make the kernel answer with a reset, which can overtake what we sent. Without room to read, it only waits
    /// for that while.
    pub(crate) fn linger(&mut self, key: Key) {
        let mut table = self.worker.table.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, self.worker.config.linger_timeout);
        let _no_room = table.receive(key);
    }

    /// The time of a connection that lingers is over: it is closed, unless the rest of its request still comes, and no
    /// more slowly than it must.
    pub(crate) fn linger_no_longer(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        let (time, rate) = (worker.config.linger_timeout, worker.config.body_bytes_per_second_min);
        let mut table = worker.table.borrow_mut();
        if let Some(Connection::Lingering { dropped_bytes, dropped_before, rest: Rest::Body, .. }) = table.get_mut(key)
            && !worker.is_stopping()
            && min_rate::earns((*dropped_bytes - *dropped_before) as usize, rate, time)
        {
            *dropped_before = *dropped_bytes;
            return table.schedule(key, time);
        }
        drop(table);
        self.close_unread(key);
    }

    /// Closes a connection with what has come so far dropped, so that the close is no reset.
    pub(crate) fn close_unread(&mut self, key: Key) {
        self.worker.table.borrow_mut().discard_now(key, UNREAD_BYTES_MAX);
        self.close(key);
    }

    /// Sheds a connection for which there is no room: with a 503 from static bytes, which needs none, or if an
    /// answer is on its way, after that.
    pub(crate) fn shed(&mut self, key: Key, reason: Shed) {
        self.worker.shed_for_room(reason);
        let mut table = self.worker.table.borrow_mut();
        let sending = table.is_sending(key);
        let Some(place) = table.get_mut(key) else { return };
        let answered = place.take_answered();
        let connection = ::core::mem::replace(place, Connection::leaving(answered));
        drop(table);
        let mut answer = h1::error_response(&Method::GET, StatusCode::SERVICE_UNAVAILABLE);
        if let Connection::Active(mut active) = connection {
            active.count_over(self.worker.counters());
            // At the line an answer may have left at once, within the step that finds no room now.
            let has_left = active.output.is_empty();
            active.answered.settle(sending, has_left, self.worker.counters());
            active.course.note(ExchangeEnd::Overstay);
            if sending || has_begun(&active) {
                return self.shed_midway(key, active);
            }
            answer = h1::error_response(&active.method, StatusCode::SERVICE_UNAVAILABLE);
            self.finish_active(active, ExchangeEnd::Overstay);
        }
        if !sending {
            self.turn_away(key, answer, if self.worker.lacks_places() { Told::AndClosed } else { Told::AndWaited });
        }
    }

    /// Sheds a connection that is one too many: with a 503 from static bytes. When so many are told already that
    /// to wait for them would be the attack, it is closed at once.
    pub(crate) fn refuse(&mut self, key: Key) {
        let worker = Rc::clone(&self.worker);
        worker.counters().shed(Shed::Accept);
        worker.counters().refused();
        let are_too_many = worker.refused(1) > REFUSED_MAX;
        worker.put(key, Connection::lingering(Rest::Refused));
        let answer = h1::error_response(&Method::GET, StatusCode::SERVICE_UNAVAILABLE);
        self.turn_away(key, answer, if are_too_many { Told::AndClosed } else { Told::AndWaited });
    }

    /// Says from static bytes that there is no room, to a peer that nothing is on its way to, and ends the connection.
    fn turn_away(&mut self, key: Key, answer: &'static [u8], told: Told) {
        let mut table = self.worker.table.borrow_mut();
        let rest = match table.send_now(key, answer) {
            Ok(sent) => &answer[sent..],
            Err(Errno::AGAIN) => answer,
            Err(_) => {
                drop(table);
                return self.close(key);
            }
        };
        // The socket is full of what the peer has not taken: it is told after that, if there is room to wait.
        let waits = !rest.is_empty() && table.send(key, SendBytes::Static(rest)).is_ok();
        if waits {
            table.schedule(key, self.worker.config.linger_timeout);
        }
        drop(table);
        if waits || rest.is_empty() {
            self.worker.counters().response(StatusCode::SERVICE_UNAVAILABLE.as_u16());
        }
        match told {
            _ if waits => {}
            Told::AndWaited if rest.is_empty() => self.linger(key),
            Told::AndWaited | Told::AndClosed => self.close_unread(key),
        }
    }

    /// What was answered already still leaves. Where there is no room to wait for the socket, the answer of a handler
    /// that is over waits for room, and other output leaves as far as the socket takes it now.
    fn shed_midway(&mut self, key: Key, mut active: PoolBox<Active>) {
        let is_whole = active.handler.is_none();
        let handler = active.take_handler();
        active.phase = Phase::Closing;
        (active.input, active.decoded_bytes, active.parts) = (None, 0, None);
        let mut table = self.worker.table.borrow_mut();
        let flushed = active.output.flush(&self.worker.pool, &mut table, key);
        let has_left = flushed.is_err() && active.output.flush_now(&mut table, key);
        let leaves = flushed.is_ok() && table.is_sending(key);
        let is_empty = active.output.is_empty();
        active.answered.settle(table.is_sending(key), is_empty, self.worker.counters());
        table.schedule(key, self.worker.config.send_timeout);
        active.deadline = Deadline::Send;
        if let Some(place) = table.get_mut(key) {
            *place = Connection::Active(active);
        }
        drop(table);
        if let Some(handler) = handler {
            handler.abort();
        }
        match flushed {
            _ if has_left => self.close_gently(key),
            Err(over) if is_whole && self.worker.enqueue_in_table(key, Priority::Output, &over) => {}
            _ if leaves => {}
            _ => self.close_for(key, ExchangeEnd::Overstay),
        }
    }

    /// The end of a connection that was worked on, and why: what of its exchanges has not ended yet ends so.
    pub(crate) fn finish_active(&self, mut active: PoolBox<Active>, why: ExchangeEnd) {
        self.worker.counters().active(-1);
        active.course.end(why, self.worker.counters());
        active.answered.end(why, self.worker.counters());
        active.log_streamed(&self.worker);
        let handler = active.take_handler();
        if active.must_finish > 0 {
            // What it waits for on this connection never comes: it is told so.
            [active.writer.take(), active.reader.take()].into_iter().flatten().for_each(|waker| waker.wake());
        }
        drop(active);
        if let Some(handler) = handler {
            handler.abort();
        }
    }

    /// Closes a connection at once, as its peer has gone. A handler that still runs is dropped.
    pub(crate) fn close(&mut self, key: Key) {
        self.close_for(key, ExchangeEnd::Peer);
    }

    /// The same for another reason.
    pub(crate) fn close_for(&mut self, key: Key, why: ExchangeEnd) {
        let table = self.worker.table.borrow();
        if table.get(key).is_none() {
            return;
        }
        drop(table);
        self.count_handshake_closed(key, why);
        let mut table = self.worker.table.borrow_mut();
        let mut connection = table.close(key);
        drop(table);
        self.worker.counters().exchanges_ended(why, connection.take_answered().into());
        if self.worker.has_waiting() {
            self.worker.leave_queue(key);
        }
        self.worker.peers.borrow_mut().closed(key);
        match connection {
            // Was taken out of the count before.
            Connection::Lingering { rest: Rest::Refused, .. } => {
                self.worker.refused(-1);
            }
            Connection::Active(active) => {
                self.worker.counters().closed();
                self.finish_active(active, why);
            }
            Connection::Http2(mut http2) => {
                self.worker.counters().closed();
                http2.finish(&self.worker, why);
            }
            Connection::WebSocket(socket) => {
                self.worker.counters().closed();
                self.worker.websocket_left(key, socket.sort());
                socket.into_inner().finish(&self.worker);
            }
            _ => self.worker.counters().closed(),
        }
    }

    /// The stop: no new connections, and those that there are end with their next answer, or when none is asked for in
    /// the time for that.
    pub(crate) fn begin_stop(&mut self) {
        let (mut http2, mut websockets) = (Vec::new(), Vec::new());
        let mut table = self.worker.table.borrow_mut();
        table.refuse_connects();
        let keys: Vec<Key> = table.keys().collect();
        for key in keys {
            let sending = table.is_sending(key);
            match table.get_mut(key) {
                // An answer that has begun may have said that the connection stays: the next one says otherwise.
                Some(Connection::Active(active)) if !is_answered(active) => active.exchange.close_after(),
                Some(Connection::Parked { .. }) if !sending => table.schedule(key, self.worker.stop_idle()),
                Some(Connection::Http2(_)) => http2.push(key),
                Some(Connection::WebSocket(_)) => websockets.push(key),
                _ => {}
            }
        }
        drop(table);
        for key in http2 {
            self.stop_http2(key);
        }
        for key in websockets {
            self.stop_websocket(key);
        }
    }

    /// The receive of a parked connection has ended and brought nothing, as the stop asked for it: our half ends,
    /// unless something came after all.
    pub(crate) fn unarmed(&mut self, key: Key) {
        let mut table = self.worker.table.borrow_mut();
        if table.is_readable_now(key) && table.receive(key).is_ok() {
            return;
        }
        if let Some(place) = table.get_mut(key) {
            *place = Connection::LINGERING;
        }
        drop(table);
        self.linger(key);
    }

    pub(crate) fn has_connections(&self) -> bool {
        !self.worker.table.borrow().is_empty()
    }

    pub(crate) fn is_drained(&self) -> bool {
        let table = self.worker.table.borrow();
        table.is_empty() && !table.is_accepting() && self.worker.is_finished()
    }

    /// Closes everything at once.
    pub(crate) fn close_all(&mut self) {
        let mut table = self.worker.table.borrow_mut();
        table.refuse();
        let keys: Vec<Key> = table.keys().collect();
        drop(table);
        for key in keys {
            self.close_for(key, ExchangeEnd::Stop);
        }
    }
}

/// Whether the head of the answer was written, with what it says about the connection.
fn is_answered(active: &Active) -> bool {
    !matches!(active.exchange.response(), ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue)
}

/// Whether something of an answer was written that the peer has not got yet, or has got a part of.
fn has_begun(active: &Active) -> bool {
    !active.output.is_empty() || !matches!(active.exchange.response(), ResponseState::Idle | ResponseState::Head)
}

/// What becomes of a connection that was told that there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It lingers until the peer has heard it.
    AndWaited,
    /// It is closed, with what has come so far dropped so that the close is no reset.
    AndClosed,
}

/// Connections of a worker that are being told that they are too many, and linger; more are told and closed.
const REFUSED_MAX: u32 = 256;

/// Unread bytes that are dropped before a close.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
