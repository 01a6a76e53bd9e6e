//! What was received becomes messages, and those go to their handler or task.

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::catch_panic;

use super::end::WebSocketEnd;
use super::entry::{Consumer, Socket};
use super::handler::WebSocketRef;
use super::member;
use super::message::Message;
use super::place::Place;
use super::wire::{Flags, Phase, Wire};
use super::work::Step;
use crate::Error;
use crate::base::counters::Shed;
use crate::memory::desk::Desk;

/// Reads on as long as there is room for what it leads to.
pub(super) fn turn(place: &Place, socket: &mut Socket) {
    let desk = place.desk();
    loop {
        let Socket { consumer, wire } = socket;
        if matches!(consumer, Consumer::Handler(_))
            && !wire.flow.is_send_blocked()
            && let Some(message) = wire.take_ready()
            && wire.is_open()
        {
            deliver((place, desk), consumer, wire, message);
            continue;
        }
        let is_waiting = wire.work.as_ref().is_none_or(|work| work.ready.is_some());
        if !wire.is_listening() || is_waiting || !wire.has_room(desk) {
            return;
        }
        match wire.step(desk) {
            Ok(Step::NeedMore) => return,
            Ok(Step::On) => {}
            Ok(Step::Message(message)) if wire.is_open() => deliver((place, desk), consumer, wire, message),
            Ok(Step::Message(_)) => {}
            Ok(Step::Close(code)) => {
                wire.note_end(WebSocketEnd::ByPeer(code));
                // What we answer to a close frame without a code has none either.
                wire.close(desk, code, "", Phase::Ending);
                wire.phase = Phase::Ending;
            }
            Err(Error::OverBudget(_)) if wire.may_try_again() => {
                wire.flow.block_receive();
                return;
            }
            Err(error) => {
                match error {
                    Error::Peer(_) => desk.counters().shed(Shed::Misbehaviour),
                    _ => desk.shed_for_room(Shed::Body),
                }
                wire.fail(desk, &error);
            }
        }
    }
}

/// Gives a message to whom it is for.
fn deliver((place, desk): (&Place, &Desk), consumer: &mut Consumer, wire: &mut Wire, message: Message) {
    match consumer {
        Consumer::Handler(handler) => {
            // While memory is short, room for an answer is made first: it cannot wait for that itself.
            if desk.holds_back() && wire.make_room(&desk.pool, message.as_bytes().len()).is_err() {
                wire.flow.block_send();
                if let Some(work) = &mut wire.work {
                    work.ready = Some(message);
                }
                return;
            }
            call(desk, wire, |wire| handler.message(&mut WebSocketRef { place, desk, wire }, message));
        }
        Consumer::Task(Some(mailbox)) => {
            if let Some(work) = &mut wire.work {
                work.ready = Some(message);
            }
            mailbox.wake_reader();
            wire.flags.put(Flags::DELIVERED, true);
            place.list_later(desk, wire);
        }
        Consumer::Task(None) => {
            if let Some((group, number)) = wire.as_member()
                && let Some(code) = group.message(number, &message)
            {
                member::close(desk, wire, code);
            }
        }
    }
}

/// Tells the handler, or the hub, that its connection is there.
pub(super) fn open(place: &Place, socket: &mut Socket) {
    let desk = place.desk();
    let Socket { consumer, wire } = socket;
    if !wire.is_open() {
        return;
    }
    if let Consumer::Handler(handler) = consumer {
        call(desk, wire, |wire| handler.opened(&mut WebSocketRef { place, desk, wire }));
    } else if let Some((group, number)) = wire.as_member()
        && let Some(code) = group.joined(number)
    {
        member::close(desk, wire, code);
    }
}

/// Calls a handler. What it fails with closes its connection.
fn call(desk: &Desk, wire: &mut Wire, act: impl FnOnce(&mut Wire) -> Result<(), Error>) {
    let Err(failed) = run(|| act(wire)) else { return };
    let code = match failed {
        Some(Error::OverBudget(_)) => CloseCode::TRY_LATER,
        Some(error) => {
            tracing::warn!(%error, "a WebSocket's handler failed");
            CloseCode::UNEXPECTED
        }
        None => CloseCode::UNEXPECTED,
    };
    wire.note_end(if code == CloseCode::TRY_LATER { WebSocketEnd::NoRoom } else { WebSocketEnd::ByUs(code) });
    wire.close(desk, Some(code), "", Phase::Closing);
}

/// Runs what a user wrote. `Err(None)` after a panic.
pub(super) fn run(act: impl FnOnce() -> Result<(), Error>) -> Result<(), Option<Error>> {
    match catch_panic(act) {
        Some(done) => done.map_err(Some),
        None => {
            tracing::error!("a WebSocket's handler panicked");
            Err(None)
        }
    }
}
