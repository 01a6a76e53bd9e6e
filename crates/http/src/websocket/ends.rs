//! The ends of a WebSocket: its peer's, ours, and a connection that broke.

use ::core::time::Duration;

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::OverBudget;

use super::control::static_close;
use super::end::WebSocketEnd;
use super::entry::{Consumer, Socket};
use super::handler::WebSocketHandler;
use super::step::Step;
use super::turn::run;
use super::wire::{Deadline, Flags, Phase, Wire};
use crate::base::counters::Shed;
use crate::exchange::line::Line;
use crate::memory::desk::Desk;
use crate::memory::lasting::Sort;
use crate::memory::waits::Waits;

impl Socket {
    /// As what it is counted.
    pub(crate) fn sort(&self) -> Sort {
        match self.consumer {
            Consumer::Handler(_) => Sort::Called,
            Consumer::Task(_) if self.wire.settings.is_of_hub() => Sort::Member,
            Consumer::Task(_) => Sort::Awaited,
        }
    }

    /// Whether neither side has said that it closes.
    pub(crate) fn is_open(&self) -> bool {
        self.wire.is_open()
    }

    /// The peer has ended its half while nothing was received from it. What came before that is still to be received
    /// and taken: then a receive tells the end.
    pub(crate) fn peer_closed(&mut self) -> Step {
        self.wire.flags.put(Flags::ENDED, true);
        Step::GoOn
    }

    /// Tells the peer that there is no room, in static bytes, if nothing is on its way to it.
    pub(super) fn tell_no_room(&self, line: &mut impl Line) {
        let is_midway = self.wire.work.as_ref().is_some_and(|work| work.output.is_midway());
        if !is_midway && !line.is_sending() && self.wire.is_open() {
            let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
            let _gone_or_full = line.send_now(frame);
        }
    }

    /// Others need its memory: its peer is told, and has the usual time to close. One that takes nothing for so long
    /// has none.
    pub(crate) fn shed(&mut self, desk: &Desk, line: &mut impl Line, stalled_after: Duration) -> Step {
        desk.shed_for_room(Shed::Lasting);
        let left = line.scheduled_in().filter(|_| line.is_sending());
        let is_stalled = left.is_some_and(|left| self.is_stalled(left, stalled_after));
        if is_stalled || !self.wire.is_open() {
            self.tell_no_room(line);
            return Step::Lost(WebSocketEnd::NoRoom);
        }
        give_way(desk, &mut self.wire);
        Step::GoOn
    }

    /// The peer has sent all it will send: what is on its way to it still leaves.
    pub(crate) fn ended(&mut self) -> Step {
        if matches!(self.wire.phase, Phase::Lingering(_) | Phase::Over) {
            return Step::Lost(WebSocketEnd::Disconnected);
        }
        self.wire.note_end(WebSocketEnd::Disconnected);
        self.wire.phase = Phase::Ending;
        Step::GoOn
    }

    /// The server stops: the peer is told.
    pub(crate) fn stop(&mut self, desk: &Desk) -> Step {
        go_away(desk, &mut self.wire);
        Step::GoOn
    }

    /// Nothing can go on. Whether a task has the socket still, which is told: then the connection is closed when that
    /// has let go.
    pub(crate) fn lose(&mut self, desk: &Desk, who: &Waits, end: WebSocketEnd) -> bool {
        self.wire.note_end(end);
        self.wire.end_wait(desk, who);
        let Consumer::Task(Some(mailbox)) = &mut self.consumer else { return false };
        mailbox.wake_reader();
        mailbox.wake_writer();
        (self.wire.phase, self.wire.deadline) = (Phase::Over, Deadline::None);
        // A message that came before the end is still for the task to take.
        self.wire.work.take_if(|work| work.ready.is_none());
        true
    }

    /// The end of a connection that is not in the table any more.
    pub(crate) fn finish(self, desk: &Desk) {
        let Self { consumer, wire } = self;
        if wire.flags.has(Flags::COUNTED) {
            desk.counters().active(-1);
        }
        match consumer {
            Consumer::Handler(handler) => tell_closed(handler, wire.end.unwrap_or(WebSocketEnd::Disconnected)),
            Consumer::Task(Some(mut mailbox)) => {
                mailbox.wake_reader();
                mailbox.wake_writer();
            }
            Consumer::Task(None) => wire.as_member().into_iter().for_each(|(group, member)| group.left(member)),
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
pub(super) fn give_way(desk: &Desk, wire: &mut Wire) {
    if wire.is_open() {
        wire.resume();
        wire.fail(desk, &OverBudget::new(0).into());
    }
}

pub(super) fn go_away(desk: &Desk, wire: &mut Wire) {
    if wire.is_open() {
        wire.note_end(WebSocketEnd::ByUs(CloseCode::GOING_AWAY));
        wire.close(desk, Some(CloseCode::GOING_AWAY), "", Phase::Closing);
    }
}
