//! HTTP/2 in the table: each event becomes a step of its connection, and what that says is done. Requests are begun
//! here: with their connection in its place in the table, where their handlers find it.

use std::rc::Rc;

use plimsoll_codec::h1::{FIELDS_CEILING, FieldSlot, RequestView};
use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Bytes;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::TableLine;
use crate::exchange::source::Source;
use crate::h1::active::Active;
use crate::h2::{Env, Http2, NewRequest, NextStream, REFUSAL, STREAM_BYTES, Step, Turn, Turned, Worker};
use crate::memory::lasting::ExchangeId;
use crate::memory::waits::Grant;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{Answered, NoRoom, Service};
use crate::worker::state::WorkerState;

impl<S: Service> Engine<S> {
    /// A connection that began with the preface goes on as one of HTTP/2.
    pub(crate) fn become_http2(&mut self, key: Key, active: PoolBox<Active>, source: Source) {
        let worker = Rc::clone(&self.worker);
        let born = active.born;
        drop(active);
        worker.put(key, Connection::LINGERING);
        match self.retried(key, |_| Http2::new(worker.env(), born)) {
            Ok(mut http2) => {
                http2.begin(worker.env(), key);
                self.drive_http2(key, http2, source);
            }
            Err(_) => {
                worker.counters().active(-1);
                // Its preface is answered with no more than that.
                worker.shed_for_room(Shed::Accept);
                let _gone_or_full = worker.table.borrow_mut().send_now(key, REFUSAL);
                self.linger_no_longer(key);
            }
        }
    }

    /// Goes on with a connection as far as it can, with what has just come.
    pub(crate) fn go_on_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, fresh: Option<Bytes>) {
        match http2.source(self.worker.env(), fresh) {
            Ok(source) => self.drive_http2(key, http2, source),
            Err(_) => self.end_http2(key, http2, Shed::Head),
        }
    }

    fn drive_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, mut source: Source) {
        let worker = Rc::clone(&self.worker);
        let (env, mut line) = (worker.env(), TableLine::new(&worker.table, key));
        let Ok(mut turn) = http2.begin_turn(env, self, key, source.rest()) else {
            let step = http2.stay(env, &mut line, key, (source, plimsoll_runtime::now()));
            return self.execute_http2(key, http2, step);
        };
        let is_part = loop {
            let Some(frame) = http2.next_frame(env, self, key, (&mut turn, source.rest())) else { break false };
            match http2.on_frame(env, self, key, (&mut turn, &mut source), frame) {
                Turned::On => {}
                Turned::Over => break false,
                Turned::Part => break true,
                Turned::Request(request) => match self.request_http2(key, http2, &turn, &mut source, request) {
                    Some(back) => http2 = back,
                    None => return turn.end(env),
                },
            }
        };
        match http2.end_turn(env, &mut line, key, turn, (source, is_part)) {
            // Nearly always, and without a call more.
            Step::Rest => worker.put(key, Connection::Http2(http2)),
            step => self.execute_http2(key, http2, step),
        }
    }

    /// Begins a request, behind which the source has what came, or has it wait, or refuses it. `None` when the
    /// connection was closed meanwhile.
    fn request_http2(
        &mut self,
        key: Key,
        mut http2: PoolBox<Http2>,
        turn: &Turn,
        source: &mut Source,
        request: NewRequest,
    ) -> Option<PoolBox<Http2>> {
        let worker = Rc::clone(&self.worker);
        let NewRequest { stream, next, .. } = request;
        let (view, slots) = turn.view();
        let slot = if next == NextStream::Begins { None } else { self.marked_slot(view.path()) };
        let is_marked = slot.is_some();
        if !http2.add_exchange(worker.env(), key, (request, &view), slot, source.rest()) {
            return Some(http2);
        }
        let may_begin = is_marked
            || match next {
                NextStream::Begins => true,
                NextStream::IsJudged => self.has_room(key),
                NextStream::Waits | NextStream::StaysUnread | NextStream::IsRefused(_) => false,
            };
        // What came with it is not lost when this takes the rest of the memory.
        let begins = may_begin && source.place(&worker).is_ok();
        let begun = if begins {
            self.begin_stream(key, http2, stream, (&view, slots, is_marked))
        } else {
            Some((http2, Err(NoRoom)))
        };
        let Some((mut http2, begun)) = begun else {
            worker.forget_client(key);
            return None;
        };
        if begun.is_err() {
            http2.wait_or_be_refused(worker.env(), key, stream, (&view, slots), next);
        }
        worker.forget_client(key);
        Some(http2)
    }

    /// Starts the handler of a stream whose exchange is there. `None` when the connection was closed meanwhile.
    // In each request: what it returns is not moved about.
    #[inline(always)]
    fn begin_stream(
        &mut self,
        key: Key,
        http2: PoolBox<Http2>,
        stream: StreamKey,
        (view, slots, is_marked): (&RequestView<'_>, &[FieldSlot], bool),
    ) -> Option<(PoolBox<Http2>, Result<(), NoRoom>)> {
        let worker = Rc::clone(&self.worker);
        worker.counters().request_http2(1);
        worker.turns.begun();
        worker.put(key, Connection::Http2(http2));
        let used_before = worker.used_before();
        let draws = is_marked && worker.draw_for_marked();
        let answered = self.start(view, slots, worker.handle(ExchangeId::new(key, 0, Some(stream))));
        worker.end_draw(draws);
        let share = if matches!(answered, Ok(Answered::Pending(_))) {
            worker.take_share(key, STREAM_BYTES, used_before)
        } else {
            None
        };
        let mut http2 = worker.take_http2(key)?;
        let begun = match answered {
            Ok(Answered::Ready) => Ok(()),
            Ok(Answered::Pending(handler)) => {
                http2.started(stream, handler, share);
                Ok(())
            }
            Err(no_room) => {
                worker.counters().request_http2(-1);
                Err(no_room)
            }
        };
        Some((http2, begun))
    }

    /// Begins a stream that has waited, if that may be now. One that was granted room waits on without, another is
    /// refused. `None` when the connection was closed meanwhile.
    #[inline(never)]
    fn begin_waiting(
        &mut self,
        key: Key,
        mut http2: PoolBox<Http2>,
        stream: StreamKey,
        is_granted: bool,
    ) -> Option<PoolBox<Http2>> {
        let worker = Rc::clone(&self.worker);
        let Some(waiting) = http2.take_waiting(&worker, key, stream) else { return Some(http2) };
        let may_begin = match is_granted {
            true => !worker.has_all_handlers() && worker.may_hold_more(key),
            false => self.has_room(key),
        };
        if may_begin {
            http2.resume(stream);
            let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
            let (view, slots) = waiting.head(&mut slots);
            let (back, begun) = self.begin_stream(key, http2, stream, (&view, slots, false))?;
            http2 = back;
            if begun.is_ok() {
                worker.forget_client(key);
                return Some(http2);
            }
        }
        http2.wait_on(worker.env(), key, stream, (waiting, is_granted));
        Some(http2)
    }

    /// There is room for a stream that waited.
    pub(crate) fn feed_stream(&mut self, key: Key, stream: u32, mut grant: Grant) {
        let Some(mut http2) = self.worker.take_http2(key) else { return };
        let Some(stream) = http2.grant_stream(stream) else {
            return self.worker.put(key, Connection::Http2(http2));
        };
        // Free for this one, and granted to the next only when it has taken its part.
        grant.release();
        let begun = self.begin_waiting(key, http2, stream, true);
        drop(grant);
        if let Some(http2) = begun {
            self.go_on_http2(key, http2, None);
        }
    }

    /// Begins or refuses the streams that have waited for as long as they may, and ends what takes too long.
    fn end_waits_http2(&mut self, key: Key, mut http2: PoolBox<Http2>) {
        let now = plimsoll_runtime::now();
        while let Some(stream) = http2.find_overdue(now) {
            let Some(back) = self.begin_waiting(key, http2, stream, false) else { return };
            http2 = back;
        }
        http2.end_overdue(self.worker.env(), now);
        self.go_on_http2(key, http2, None);
    }

    /// Has a step of a connection made, if it is one of HTTP/2, and does what that says.
    fn step_http2(
        &mut self,
        key: Key,
        step: impl FnOnce(&mut Http2, Env<'_>, &mut TableLine<'_, Connection>, &mut Self) -> Step,
    ) {
        let worker = Rc::clone(&self.worker);
        let Some(mut http2) = worker.take_http2(key) else { return };
        let step = step(&mut http2, worker.env(), &mut TableLine::new(&worker.table, key), self);
        self.execute_http2(key, http2, step);
    }

    fn execute_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, step: Step) {
        let worker = Rc::clone(&self.worker);
        match step {
            Step::Rest => worker.put(key, Connection::Http2(http2)),
            Step::GoOn => self.go_on_http2(key, http2, None),
            Step::Received(bytes) => {
                self.overload.pace.came(key, bytes);
                self.go_on_http2(key, http2, None);
            }
            Step::Receive => {
                let step = http2.receive(worker.env(), self, &mut TableLine::new(&worker.table, key), key);
                self.execute_http2(key, http2, step);
            }
            Step::EndWaits => self.end_waits_http2(key, http2),
            Step::Linger => self.linger_http2(key, http2, ExchangeEnd::Peer),
            Step::Leave => {
                worker.put(key, Connection::Http2(http2));
                self.linger_no_longer(key);
            }
            // All is said: the transport says that, too.
            Step::Close(why) if !http2.has_exchanges() && self.can_say_end(key) => self.linger_http2(key, http2, why),
            Step::Close(why) => {
                worker.put(key, Connection::Http2(http2));
                self.close_for(key, why);
            }
            Step::Failed(errno) => {
                worker.put(key, Connection::Http2(http2));
                self.failed(key, errno);
            }
        }
    }

    fn linger_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, why: ExchangeEnd) {
        http2.finish(&self.worker, why);
        drop(http2);
        self.worker.put(key, Connection::LINGERING);
        self.linger(key);
    }

    /// Something changed on a connection: a handler answered, wrote, or wants to read.
    pub(crate) fn look_after_http2(&mut self, key: Key) {
        if let Some(http2) = self.worker.take_http2(key) {
            self.go_on_http2(key, http2, None);
        }
    }

    /// The socket has taken everything that was handed to it.
    pub(crate) fn sent_http2(&mut self, key: Key) {
        if let Some(mut http2) = self.worker.take_http2(key) {
            http2.sent(&self.worker);
            self.go_on_http2(key, http2, None);
        }
    }

    /// The server stops: the peer is told in two steps.
    pub(crate) fn stop_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, env, _, _| {
            http2.send_goaway(env);
            Step::GoOn
        });
    }

    /// A deadline has come.
    pub(crate) fn due_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, env, line, _| http2.due(env, line, key));
    }

    /// The peer has sent all it will send.
    pub(crate) fn ended_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, _, line, _| http2.ended(line));
    }

    /// The peer has ended its half while nothing is received from it, or has gone away.
    pub(crate) fn peer_closed_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, env, line, _| http2.peer_closed(env, line, key));
    }

    /// There is something to receive, or the end of it.
    pub(crate) fn readable_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, env, line, engine| http2.receive(env, engine, line, key));
    }

    /// The receive of a connection was taken back.
    pub(crate) fn recalled_http2(&mut self, key: Key) {
        self.step_http2(key, |http2, env, line, _| http2.settle(env, line, key, plimsoll_runtime::now()));
    }

    /// Ends a connection for which there is no room, or whose room others need.
    pub(crate) fn end_http2(&mut self, key: Key, mut http2: PoolBox<Http2>, reason: Shed) {
        let worker = Rc::clone(&self.worker);
        let mut line = TableLine::new(&worker.table, key);
        let step = http2.end_without_room(worker.env(), &mut line, key, (reason, plimsoll_runtime::now()));
        self.execute_http2(key, http2, step);
    }

    /// Sheds streams of a connection that may go, until so many bytes are free; how many are.
    pub(crate) fn give_up_streams(&mut self, key: Key, mut http2: PoolBox<Http2>, wanted: u64) -> u64 {
        let (worker, now) = (Rc::clone(&self.worker), plimsoll_runtime::now());
        let ends_soon = |stream| worker.gives_way(key, Some(stream), now);
        let freed = http2.give_up_streams(worker.env(), wanted, ends_soon);
        self.go_on_http2(key, http2, None);
        freed
    }
}

impl<S: Service> Worker for Engine<S> {
    fn retried<T, E>(&mut self, key: Key, mut act: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        self.retried(key, |_| act())
    }

    fn has_room(&mut self, key: Key) -> bool {
        self.has_room(key)
    }

    fn is_turn_free(&self) -> bool {
        self.worker.turns.is_free()
    }

    fn waits_for_turn(&mut self, key: Key) -> bool {
        self.worker.waits_for_turn(key)
    }
}

impl WorkerState {
    /// What a step of HTTP/2 may use.
    pub(crate) fn env(&self) -> Env<'_> {
        Env::new(self, &self.http2)
    }

    /// Takes an HTTP/2 connection out of the table.
    pub(crate) fn take_http2(&self, key: Key) -> Option<PoolBox<Http2>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Http2(http2) => Some(http2),
            other => {
                *connection = other;
                None
            }
        }
    }

    /// For whom an exchange is: the client that a trusted proxy names, or the peer.
    pub(crate) fn host_of_exchange(&self, key: Key, stream: Option<StreamKey>) -> u64 {
        let Some(stream) = stream else { return self.host_of(key) };
        let client = match self.table.borrow_mut().get_mut(key) {
            Some(Connection::Http2(http2)) => http2.client_of(stream),
            _ => None,
        };
        client.unwrap_or_else(|| self.peer_host(key))
    }
}

#[cfg(test)]
mod tests;
