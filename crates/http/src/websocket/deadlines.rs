//! What there is a limited time for on a WebSocket, and what is done when that is over.

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::SendBytes;
use plimsoll_slab::Key;

use super::Socket;
use super::control::PING;
use super::handler::WebSocketEnd;
use super::room::MEMORY_RETRY;
use super::wire::{Deadline, Phase, Wire};
use crate::base::counters::Shed;
use crate::memory::desk::Desk;
use crate::worker::engine::Engine;
use crate::worker::service::Service;

impl<S: Service> Engine<S> {
    /// A deadline has come.
    pub(crate) fn due_websocket(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let Some(mut socket) = core.take_websocket(key) else { return };
        let wire = &mut socket.wire;
        let is_sending = core.table.borrow().is_sending(key);
        let is_parked = wire.deadline == Deadline::Idle && wire.phase == Phase::Open && wire.work.is_none();
        let is_unread = wire.deadline == Deadline::Idle && wire.holds_message();
        if is_parked && !is_sending {
            // A ping costs a parked connection no buffer.
            wire.phase = Phase::Asked;
            wire.deadline = Deadline::None;
            // Without room for it, the peer has some more time to say something itself.
            let _no_room_is_no_end = core.table.borrow_mut().send(key, SendBytes::Static(PING));
        } else if is_unread && !is_sending {
            wire.hear();
            let _no_room_is_no_end = core.table.borrow_mut().send(key, SendBytes::Static(PING));
        } else if wire.is_waiting() && !is_sending && !wire.flow.is_blocked() {
            // Nothing failed for a whole tick: it waits no longer.
            wire.resume();
        } else if wire.is_waiting() && !is_sending {
            if wire.has_waited() >= core.config.memory_timeout {
                wire.count_timed_out(&core);
                self.tell_no_room(key, &socket);
                return self.lose_websocket(key, socket, WebSocketEnd::NoRoom);
            }
            // Perhaps there is room now, for something small. It keeps its place in line, if it has one.
            if !core.is_in_queue(key) {
                wire.lose_place();
            }
            socket.look_again();
        } else if is_sending && wire.memory.is_queued() && !core.is_in_queue(key) {
            // Another took its place among those that wait: that does not end what is on its way.
            wire.lose_place();
            wire.deadline = Deadline::None;
        } else if !overdue(&core, wire) {
            return self.lose_websocket(key, socket, WebSocketEnd::Gone);
        }
        self.go_on_websocket(key, socket, None);
    }
}

/// Does what is to be done when a time is up; `false` when nothing can go on.
pub(super) fn overdue(core: &Desk, wire: &mut Wire) -> bool {
    match ::core::mem::replace(&mut wire.deadline, Deadline::None) {
        Deadline::None => {}
        Deadline::Idle if wire.holds_message() => {
            wire.hear();
            let _no_room_is_no_end = wire.put_ping(core, &[]);
        }
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

/// When to look again.
pub(super) enum Due {
    In(Duration),
    Never,
    AsBefore,
}

impl Wire {
    /// What there is a limited time for now, and how long.
    pub(super) fn due_in(&mut self, core: &Desk, is_sending: bool) -> Due {
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
