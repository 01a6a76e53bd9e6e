//! What happens on a connection beside the bytes of a request: the socket has taken what was sent, more of a body is
//! there, the peer ends its half or goes away, a deadline has come.

use ::core::time::Duration;

use http::StatusCode;
use plimsoll_codec::h1::RequestState;
use plimsoll_pool::Priority;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::failure::Failure;
use crate::exchange::line::Line;
use crate::h1::active::{Active, Deadline, Phase};
use crate::h1::bulk_receive::{Came, receive};
use crate::h1::step::Step;
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;

impl Active {
    /// The socket has taken everything that was handed to it.
    pub(crate) fn sent(&mut self, desk: &Desk, key: Key) -> Step {
        self.progressed(Deadline::Send);
        let is_empty = self.output.is_empty();
        self.answered.settle(false, is_empty, desk.counters());
        if is_empty {
            self.batch = 0;
        }
        if self.input.is_some() {
            // In its turn among those that have read ahead.
            self.list(desk, key);
            return Step::Rest;
        }
        Step::GoOn
    }

    /// How long the peer has for the rest of what was handed to the socket; `None` when the time that is set stands.
    pub(crate) fn sent_a_part(&self, desk: &Desk) -> Option<Duration> {
        // The time that is set is for memory.
        (!self.is_queued()).then(|| self.due_after(desk.config.send_timeout, plimsoll_runtime::now(), &desk.config))
    }

    /// More of a body is there, as was waited for.
    pub(crate) fn readable(&mut self, desk: &Desk, line: &mut impl Line, key: Key) -> Step {
        match receive(desk, line, self) {
            Came::Bytes(received) => {
                self.came(received, &desk.config);
                if self.wake_reader(desk, key) { Step::GiveWay } else { Step::GoOn }
            }
            Came::Nothing => Step::GoOn,
            Came::NoRoom(bytes) => {
                if self.enqueue(desk, key, Priority::Body, bytes).is_err() {
                    self.course.note(ExchangeEnd::Overstay);
                    desk.counters().shed(Shed::Body);
                    let _failed_before = self.exchange.request_failed();
                    if let Some(reader) = self.reader.take() {
                        reader.wake();
                    }
                }
                Step::GoOn
            }
            Came::End => self.ended(desk),
            Came::Failed => Step::End(ExchangeEnd::Peer),
        }
    }

    /// The peer has ended its half while a handler runs, or has gone away.
    pub(crate) fn peer_closed(&mut self, desk: &Desk, line: &impl Line) -> Step {
        if self.outlasts_half_close(desk) {
            self.half_close();
            return Step::GoOn;
        }
        if !line.is_sending() && self.output.is_empty() {
            return Step::End(ExchangeEnd::Peer);
        }
        // Answers to requests before this one are on their way.
        self.phase = Phase::Closing;
        self.course.note(ExchangeEnd::Peer);
        self.stop_handler()
    }

    /// The peer has sent all it will send.
    pub(crate) fn ended(&mut self, desk: &Desk) -> Step {
        if self.outlasts_half_close(desk) {
            self.half_close();
        }
        self.exchange.peer_closed();
        if self.exchange.request() == RequestState::Error {
            self.course.note(ExchangeEnd::Peer);
        }
        self.decoder.peer_closed();
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        if self.handler.is_none() && self.exchange.request() == RequestState::Error {
            self.phase = Phase::Closing;
        }
        Step::GoOn
    }

    /// A deadline has come.
    pub(crate) fn due(&mut self, desk: &Desk, line: &impl Line, key: Key) -> Step {
        if self.is_overdue(plimsoll_runtime::now(), &desk.config) {
            desk.counters().shed(Shed::Timeout);
            self.course.note(ExchangeEnd::Timeout);
            self.fail(desk, Failure::OVERDUE);
            (self.deadline, self.begun_at) = (Deadline::None, None);
            self.wait_no_longer(desk, key);
            return self.stop_handler();
        }
        if self.deadline == Deadline::Peer {
            self.deadline = Deadline::None;
            return if line.is_gone() { Step::End(ExchangeEnd::Peer) } else { Step::GoOn };
        }
        if self.is_queued() {
            return self.waited_in_vain(desk, key);
        }
        if line.is_sending() {
            desk.counters().shed(Shed::Output);
            return Step::End(ExchangeEnd::Timeout);
        }
        if self.phase == Phase::AwaitsProxy {
            // Nobody is answered before it is known who that is.
            desk.counters().shed(Shed::Timeout);
            return Step::End(ExchangeEnd::Timeout);
        }
        if !self.is_closing() && self.handler.is_none() {
            // A head that never ends.
            let _failed_before = self.exchange.request_failed();
            self.fail(desk, StatusCode::REQUEST_TIMEOUT);
            desk.counters().shed(Shed::Timeout);
            return Step::GoOn;
        }
        if self.reader.is_some() {
            self.give_up_body();
            desk.counters().shed(Shed::Timeout);
            return Step::Rest;
        }
        Step::End(ExchangeEnd::Timeout)
    }

    /// The time to wait for room is over: 503 if nothing of an answer was begun, else a close.
    fn waited_in_vain(&mut self, desk: &Desk, key: Key) -> Step {
        desk.leave_queue(key);
        // The next one waits for a time of its own.
        self.deadline = Deadline::None;
        if self.waits_to_begin() {
            self.memory = MemoryWait::TimedOut;
            return Step::GoOn;
        }
        self.memory = MemoryWait::None;
        self.course.note(ExchangeEnd::Timeout);
        desk.shed_for_room(if self.handler.is_some() { Shed::Output } else { Shed::Body });
        if self.handler.is_none() && !self.output.is_empty() {
            // It has its answers, but for the end of them.
            return Step::End(ExchangeEnd::Timeout);
        }
        let _failed_before = self.exchange.request_failed();
        self.fail(desk, Failure::NO_ROOM);
        self.begun_at = None;
        [self.writer.take(), self.reader.take()].into_iter().flatten().for_each(|waker| waker.wake());
        self.stop_handler()
    }

    /// Nobody needs its handler any more, and it goes on without one.
    fn stop_handler(&mut self) -> Step {
        self.take_handler().map_or(Step::GoOn, Step::Abort)
    }
}
