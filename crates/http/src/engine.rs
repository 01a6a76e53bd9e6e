//! The server of one worker: takes the table's events and steps each connection's state.
//!
//! Nothing waits in here. A step ends when the connection needs something that is not there: more bytes, room in the socket, or its handler. Each
//! of these comes back as an event of the table, or as an entry in the list that handlers write to.

use ::core::future::{Future, poll_fn};
use ::core::task::Poll;
use std::rc::Rc;

use http::StatusCode;
use plimsoll_codec::h1::RequestState;
use plimsoll_runtime::net::{Bytes, Event};
use plimsoll_runtime::{Kind, SendBytes, signal, sleep_until};
use plimsoll_slab::Key;

use crate::connection::{Active, Connection, Deadline};
use crate::core::Core;
use crate::counters::Shed;
use crate::output::compacted;
use crate::server::Service;

/// Runs the server until the runtime is asked to stop and its connections have ended.
pub(crate) async fn run<S: Service>(core: Rc<Core>, service: S) {
    let mut engine = Engine { core, service };
    let mut stopped = ::core::pin::pin!(signal::stopped());
    while !engine.turn_until(stopped.as_mut()).await {}
    engine.begin_stop();
    let deadline = plimsoll_runtime::now() + engine.core.config.drain_timeout;
    let mut out_of_time = sleep_until(deadline);
    while !engine.is_drained() {
        if engine.turn_until(&mut out_of_time).await {
            break;
        }
    }
}

pub(crate) struct Engine<S: Service> {
    pub(crate) core: Rc<Core>,
    pub(crate) service: S,
}

/// A handler that still runs keeps the table alive, so connections are not closed by dropping that: nobody would take its events any more.
impl<S: Service> Drop for Engine<S> {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl<S: Service> Engine<S> {
    /// One turn; `true` when `end` came.
    async fn turn_until(&mut self, end: impl Future<Output = ()>) -> bool {
        let mut end = ::core::pin::pin!(end);
        let core = Rc::clone(&self.core);
        let ended = poll_fn(|cx| {
            if end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            let listed = core.poll_listed(cx).is_ready();
            let ready = core.table.borrow_mut().poll_ready(cx).is_ready();
            if listed || ready { Poll::Ready(false) } else { Poll::Pending }
        })
        .await;
        core.tick();
        loop {
            let event = core.table.borrow_mut().next();
            let Some(event) = event else { break };
            self.step(event);
        }
        while let Some(key) = core.next_listed() {
            self.look_after(key);
        }
        ended
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Accepted(key) => self.accepted(key),
            Event::Received(key, bytes) => self.received(key, bytes),
            Event::Sent(key, rest) => self.sent(key, rest),
            Event::Ended(key) => self.ended(key),
            Event::PeerClosed(key) | Event::Failed(key, _) => self.close(key),
            Event::Due(key) => self.due(key),
        }
    }

    fn accepted(&mut self, key: Key) {
        self.core.counters().accepted();
        let config = &self.core.config;
        let mut table = self.core.table.borrow_mut();
        // Taken in from a stopped listener: its request is there already, or is not waited for.
        table.schedule(key, if self.core.is_stopping() { config.linger_timeout } else { config.keep_alive_timeout });
        if table.receive(key).is_err() {
            drop(table);
            self.shed(key, Shed::Accept);
        }
    }

    fn received(&mut self, key: Key, bytes: Bytes) {
        let taken = {
            let mut table = self.core.table.borrow_mut();
            table.get_mut(key).map(|connection| ::core::mem::replace(connection, Connection::Taken))
        };
        match taken {
            Some(Connection::Parked { requests, search }) => {
                let config = &self.core.config;
                let active = Active { search, ..Active::new(requests, &config.limits, config.body_receive) };
                match self.core.pool.try_boxed(active, Kind::Codec) {
                    Ok(active) => {
                        self.core.counters().active(1);
                        self.drive(key, active, Some(bytes));
                    }
                    Err(_) => self.shed(key, Shed::Head),
                }
            }
            Some(Connection::Active(mut active)) => {
                if active.exchange.request() == RequestState::Body {
                    let left = active.decoder.remaining().map(|left| left.saturating_sub(bytes.len() as u64));
                    active.receive.received(&bytes, left, plimsoll_runtime::now());
                }
                active.progressed(Deadline::Body);
                self.drive(key, active, Some(bytes));
            }
            Some(Connection::Lingering { dropped_bytes }) => self.linger_on(key, dropped_bytes, bytes),
            Some(Connection::Taken) | None => debug_assert!(false, "a connection is put back before its next event"),
        }
    }

    fn linger_on(&mut self, key: Key, dropped_bytes: u32, bytes: Bytes) {
        let dropped_bytes = dropped_bytes.saturating_add(bytes.len() as u32);
        drop(bytes);
        self.core.put(key, Connection::Lingering { dropped_bytes });
        let too_many = dropped_bytes > self.core.config.drain_bytes_max;
        if too_many || self.core.table.borrow_mut().receive(key).is_err() {
            self.close(key);
        }
    }

    fn sent(&mut self, key: Key, rest: SendBytes) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        if !rest.is_empty() {
            table.schedule(key, core.config.send_timeout);
            let sent = table.send(key, compacted(&core.pool, rest));
            drop(table);
            if sent.is_err() {
                core.counters().shed(Shed::Output);
                self.close(key);
            }
            return;
        }
        match table.get_mut(key) {
            Some(Connection::Parked { .. }) if !self.core.is_stopping() => {
                table.schedule(key, core.config.keep_alive_timeout)
            }
            Some(Connection::Active(active)) => {
                active.progressed(Deadline::Send);
                drop(table);
                self.look_after(key);
            }
            Some(Connection::Lingering { .. }) => {
                drop(table);
                self.linger(key);
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// The peer has sent all it will send.
    fn ended(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let sending = table.is_sending(key);
        match table.get_mut(key) {
            Some(connection @ Connection::Parked { .. }) if sending => {
                *connection = Connection::Lingering { dropped_bytes: 0 };
            }
            Some(Connection::Lingering { .. }) if sending => {}
            Some(Connection::Active(active)) => {
                active.exchange.peer_closed();
                active.decoder.peer_closed();
                if let Some(reader) = active.reader.take() {
                    reader.wake();
                }
                if active.handler.is_none() && active.exchange.request() == RequestState::Error {
                    active.closing = true;
                }
                drop(table);
                self.look_after(key);
            }
            _ => {
                drop(table);
                self.close(key);
            }
        }
    }

    /// A deadline has come.
    fn due(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let mut table = core.table.borrow_mut();
        let sending = table.is_sending(key);
        let reason = match table.get_mut(key) {
            _ if sending => Shed::Output,
            Some(Connection::Active(active)) if !active.closing && active.handler.is_none() => {
                // A head that never ends.
                let _failed_before = active.exchange.request_failed();
                core.fail(active, StatusCode::REQUEST_TIMEOUT);
                core.counters().shed(Shed::Timeout);
                drop(table);
                return self.look_after(key);
            }
            Some(Connection::Active(active)) if active.reader.is_some() => {
                // A body that never ends: the handler answers as it likes, then the connection is closed.
                let _failed_before = active.exchange.request_failed();
                if let Some(reader) = active.reader.take() {
                    reader.wake();
                }
                active.deadline = Deadline::None;
                core.counters().shed(Shed::Timeout);
                return;
            }
            _ => {
                drop(table);
                return self.close(key);
            }
        };
        drop(table);
        core.counters().shed(reason);
        self.close(key);
    }
}
