//! Members of hubs: WebSockets whose messages go to a hub, and that send what the hub has for them.
//!
//! ```text
//!  hub --> Link::hand_over --> nothing is on its way: sent as it is, without a buffer
//!      \-> its queue       <-- Group::first, at the end of each step that leaves nothing on its way
//! ```

use std::rc::{Rc, Weak};

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::{OverBudget, SendBytes, SharedBytes};
use plimsoll_slab::Key;

use super::end::WebSocketEnd;
use super::entry::Socket;
use super::group::{Group, Handed, Number};
use super::place::{Place, Port, Stream};
use super::wire::{Deadline, Phase, Wire};
use crate::exchange::line::Line;
use crate::memory::desk::Desk;

/// A WebSocket as its hub knows it, which does not keep it.
pub(crate) enum Link {
    Table(Weak<Port>, Key),
    Stream(Weak<Stream>),
}

impl Link {
    pub(super) fn of(place: &Place) -> Self {
        match place {
            Place::Table(port, key) => Self::Table(Rc::downgrade(port), *key),
            Place::Stream(stream) => Self::Stream(Rc::downgrade(stream)),
        }
    }

    fn place(&self) -> Option<Place> {
        Some(match self {
            Self::Table(port, key) => Place::Table(port.upgrade()?, *key),
            Self::Stream(stream) => Place::Stream(stream.upgrade()?),
        })
    }

    /// Sends bytes at once if nothing else is on its way. On a stream of HTTP/2 a task sends, so they always wait.
    pub(crate) fn hand_over(&self, bytes: SharedBytes) -> Handed {
        match self.place() {
            Some(Place::Table(port, key)) => port.hand_over(key, bytes),
            Some(Place::Stream(_)) => Handed::Waits,
            None => Handed::Closed,
        }
    }

    /// There is something for it: it looks, unless it does so anyway.
    pub(crate) fn look_again(&self) {
        if let Some(place) = self.place() {
            place.with(place.desk(), |_| ());
        }
    }

    /// Closes it behind what is on its way.
    pub(crate) fn close(&self, code: CloseCode) {
        if let Some(place) = self.place() {
            let desk = place.desk();
            place.with(desk, |socket| close(desk, &mut socket.wire, code));
        }
    }
}

/// Closes a member, as its hub wants it. What that sent just before, while nothing was on its way, still leaves.
pub(super) fn close(desk: &Desk, wire: &mut Wire, code: CloseCode) {
    if wire.is_open() {
        if let Some((group, member)) = wire.as_member()
            && let Some(bytes) = group.first(member)
            && let Ok(work) = wire.work(&desk.pool)
            && !work.output.has_tail()
            && work.output.append(&desk.pool, &bytes).is_ok()
        {
            group.begin_send(member);
            group.sent(member);
        }
        wire.note_end(WebSocketEnd::ByUs(code));
        wire.close(desk, Some(code), "", Phase::Closing);
    }
}

impl Wire {
    /// The members of hubs, and which of them this is.
    #[inline]
    pub(super) fn as_member(&self) -> Option<(Rc<dyn Group>, Number)> {
        let member = self.member?;
        Some((self.settings.group()?, member))
    }
}

impl Socket {
    /// Sends bytes of a hub at once, if nothing else is to be sent before.
    pub(crate) fn hand_over(&mut self, line: &mut impl Line, bytes: SharedBytes) -> Handed {
        let wire = &mut self.wire;
        if !wire.is_open() {
            return Handed::Closed;
        }
        if line.is_sending() || wire.has_output() || wire.flow.is_blocked() {
            return Handed::Waits;
        }
        if line.send(SendBytes::Shared(bytes)).is_err() {
            wire.flow.block_send();
            return Handed::NoRoom;
        }
        wire.get_on();
        wire.deadline = Deadline::Send;
        line.schedule(wire.settings.values.send_timeout);
        Handed::Sent
    }

    /// It does not take what is sent in the time for that.
    pub(super) fn count_overrun(&self) {
        if let Some((group, member)) = self.wire.as_member() {
            group.count_overrun(member);
        }
    }

    /// The socket has taken what was on its way.
    pub(super) fn note_sent(&self) {
        if let Some((group, member)) = self.wire.as_member() {
            group.sent(member);
        }
    }
}

/// Sends what a hub has next for its member, if nothing else is to be sent.
pub(super) fn send_next(line: &mut impl Line, wire: &mut Wire) -> Result<(), OverBudget> {
    let Some((group, member)) = wire.as_member() else { return Ok(()) };
    if !wire.is_open() {
        group.discard(member);
    } else if !line.is_sending()
        && !wire.has_output()
        && let Some(bytes) = group.first(member)
    {
        line.send(SendBytes::Shared(bytes))?;
        group.begin_send(member);
    }
    Ok(())
}
