//! What there is a limited time for on a WebSocket, and what is done when that is over.

use ::core::time::Duration;

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::SendBytes;
use plimsoll_slab::Key;

use super::control::PING;
use super::end::WebSocketEnd;
use super::entry::Socket;
use super::room::MEMORY_RETRY;
use super::step::Step;
use super::wire::{Deadline, Phase, Wire};
use crate::base::counters::Shed;
use crate::exchange::line::Line;
use crate::memory::desk::Desk;

impl Socket {
    /// A deadline has come.
    pub(crate) fn due(&mut self, desk: &Desk, line: &mut impl Line, key: Key) -> Step {
        let wire = &mut self.wire;
        let is_sending = line.is_sending();
        let is_parked = wire.deadline == Deadline::Idle && wire.phase == Phase::Open && wire.work.is_none();
        let is_unread = wire.deadline == Deadline::Idle && wire.holds_message();
        if is_parked && !is_sending {
            // A ping costs a parked connection no buffer.
            wire.phase = Phase::Asked;
            wire.deadline = Deadline::None;
            // Without room for it, the peer has some more time to say something itself.
            let _no_room_is_no_end = line.send(SendBytes::Static(PING));
        } else if is_unread && !is_sending {
            wire.hear();
            let _no_room_is_no_end = line.send(SendBytes::Static(PING));
        } else if wire.is_waiting() && !is_sending && !wire.flow.is_blocked() {
            // Nothing failed for a whole tick: it waits no longer.
            wire.resume();
        } else if wire.is_waiting() && !is_sending {
            if wire.has_waited() >= desk.config.memory_timeout {
                wire.count_timed_out(desk);
                self.count_overrun();
                self.tell_no_room(line);
                return Step::Lost(WebSocketEnd::NoRoom);
            }
            // Perhaps there is room now, for something small. It keeps its place in line, if it has one.
            if !desk.is_in_queue(key) {
                wire.lose_place();
            }
            self.look_again();
        } else if is_sending && wire.memory.is_queued() && !desk.is_in_queue(key) {
            // Another took its place among those that wait: that does not end what is on its way.
            wire.lose_place();
            wire.deadline = Deadline::None;
        } else {
            let is_late = wire.deadline == Deadline::Send;
            if !overdue(desk, wire) {
                if is_late {
                    self.count_overrun();
                }
                return Step::Lost(WebSocketEnd::TimedOut);
            }
        }
        Step::GoOn
    }
}

/// Does what is to be done when a time is up; `false` when nothing can go on.
pub(super) fn overdue(desk: &Desk, wire: &mut Wire) -> bool {
    match ::core::mem::replace(&mut wire.deadline, Deadline::None) {
        Deadline::None => {}
        Deadline::Idle if wire.holds_message() => {
            wire.hear();
            let _no_room_is_no_end = wire.put_ping(desk, &[]);
        }
        Deadline::Idle if wire.phase == Phase::Open => {
            // Without room for it, the peer has some more time to say something itself.
            let _no_room_is_no_end = wire.put_ping(desk, &[]);
            wire.phase = Phase::Asked;
        }
        Deadline::Idle | Deadline::Message => {
            desk.counters().shed(Shed::Timeout);
            wire.note_end(WebSocketEnd::TimedOut);
            wire.close(desk, Some(CloseCode::POLICY), "too slow", Phase::Ending);
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
            desk.counters().shed(Shed::Output);
            return false;
        }
        Deadline::Linger => return false,
    }
    true
}

/// When to look again.
pub(super) enum Due {
    In(Duration),
    Never,
    AsBefore,
}

impl Wire {
    /// What there is a limited time for now, and how long.
    pub(super) fn due_in(&mut self, desk: &Desk, is_sending: bool) -> Due {
        let now = plimsoll_runtime::now();
        let values = self.settings.values;
        let is_within = self.work.as_ref().is_some_and(|work| work.is_within_message());
        let deadline = match self.phase {
            Phase::Lingering(_) => Deadline::Linger,
            Phase::Over => Deadline::None,
            _ if is_sending || self.has_output() || self.is_waiting() => Deadline::Send,
            Phase::Closing | Phase::Ending => Deadline::Close,
            // Nothing is read while a message waits for its task: the peer is asked, so that the system finds out
            // whether it takes that, and its answer is not waited for.
            Phase::Open | Phase::Asked if self.holds_message() => Deadline::Idle,
            Phase::Open | Phase::Asked if is_within => Deadline::Message,
            Phase::Open | Phase::Asked => Deadline::Idle,
        };
        let before = ::core::mem::replace(&mut self.deadline, deadline);
        let after = match deadline {
            Deadline::None => return Due::Never,
            Deadline::Send if self.is_waiting() && !is_sending => {
                // What finds room has the whole time of a send then, not the rest of this.
                self.deadline = Deadline::None;
                MEMORY_RETRY
            }
            Deadline::Send | Deadline::Close | Deadline::Linger if before == deadline => return Due::AsBefore,
            Deadline::Send => values.send_timeout,
            Deadline::Close => values.close_timeout,
            Deadline::Linger => desk.config.linger_timeout,
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
            .saturating_sub(self.silence(now)),
        };
        Due::In(after)
    }
}

impl Socket {
    /// Whether the peer has had the time to take something of the output and did not.
    pub(crate) fn is_stalled(&self, left: Duration, after: Duration) -> bool {
        self.wire.deadline == Deadline::Send && self.send_timeout().saturating_sub(left) >= after
    }

    pub(crate) fn send_timeout(&self) -> Duration {
        self.wire.settings.values.send_timeout
    }
}
