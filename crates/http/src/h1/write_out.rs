//! The end of each step: send what there is, arm what is waited for, set the deadline.

use ::core::cell::RefMut;
use std::rc::Rc;

use plimsoll_codec::h1::{Next, RequestState, ResponseState};
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::peers::PEER_LOOK;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::h1::active::{Active, Deadline};
use crate::memory::wait::MemoryWait;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

impl<S: Service> Engine<S> {
    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    pub(crate) fn settle(&mut self, key: Key, mut active: PoolBox<Active>) {
        let core = Rc::clone(&self.core);
        let mut borrowed = core.table.borrow_mut();
        let table = &mut *borrowed;
        if core.is_drawn()
            && !table.is_sending(key)
            && let Some(lease) = active.output.send_now(table, key)
        {
            core.reserve.put_back(lease);
        }
        let mut flushed = active.output.flush(&core.pool, table, key);
        if flushed.is_err() && active.output.flush_now(table, key) {
            // The socket has taken all of it at once: as after a send.
            flushed = Ok(());
            active.progressed(Deadline::Send);
            active.batch = 0;
            core.list(key, &mut active);
        }
        active.count_over(core.counters());
        if active.uncounted.is_some() && !active.output.may_take_back() {
            core.count_begun(&mut active);
        }
        let sending = table.is_sending(key);
        let is_empty = active.output.is_empty();
        active.answered.settle(sending, is_empty, core.counters());
        let next = active.exchange.next();
        let is_last = matches!(next, Next::Close { .. } | Next::Upgraded) && active.handler.is_none();
        let ends = active.closing || is_last;
        if !active.is_queued()
            && active.output.has_room(COPY_BYTES_MAX, core.config.output_bytes_max)
            && let Some(writer) = active.writer.take()
        {
            writer.wake();
        }
        if next == Next::ReadHead && active.is_parkable() && !ends && flushed.is_ok() {
            return self.park(key, active, borrowed);
        }
        // After a 101, or the head of an answer that another goes on with.
        let is_released = next == Next::Upgraded || active.exchange.response() == ResponseState::Body;
        let has_left = is_released && !active.closing && !sending && active.output.is_empty();
        if has_left
            && active.handler.is_none()
            && let Some(successor) = active.successor.take()
        {
            drop(borrowed);
            return self.succeed(key, active, successor);
        }
        let after = if ends && !sending && active.output.is_empty() {
            After::Close
        } else {
            match flushed.and_then(|()| arm(&core, table, key, &active, next)) {
                Ok(()) => After::Stay,
                Err(_) if active.is_queued() => After::Stay,
                Err(over) => After::Starve(over),
            }
        };
        schedule(&core, table, key, &mut active, sending || ends);
        *table.get_mut(key).expect("a live connection") = Connection::Active(active);
        drop(borrowed);
        match after {
            After::Stay => {}
            After::Close => self.close_gently(key),
            After::Starve(over) => {
                if !core.starve_in_table(key, Priority::Output, &over) {
                    self.shed(key, Shed::Output);
                }
            }
        }
    }

    /// Nothing is left to do but to wait for the next request.
    fn park(&mut self, key: Key, mut active: PoolBox<Active>, mut table: RefMut<'_, Table<Connection>>) {
        self.core.wait_no_longer(key, &mut active);
        let config = &self.core.config;
        let sending = table.is_sending(key);
        let Active { requests, born, score, answered, .. } = *active;
        let answered = answered.in_flight();
        let empty_lines = active.search.empty_lines();
        table.schedule(key, if sending { config.send_timeout } else { self.core.idle_timeout(born) });
        debug_assert!(!active.search.started(), "a head that began is kept");
        *table.get_mut(key).expect("a live connection") =
            Connection::Parked { requests, born, score, empty_lines, answered };
        let receiving = self.core.await_request(&mut table, key);
        drop(table);
        drop(active);
        self.core.counters().active(-1);
        if receiving.is_err() && sending {
            // Closed when the answer has left.
            self.core.shed_for_room(Shed::Parked);
            self.core.put(key, Connection::leaving(answered));
        } else if receiving.is_err() {
            self.core.shed_for_room(Shed::Parked);
            self.close(key);
        }
    }
}

/// Whether no further request may be begun before the socket has taken what was answered.
pub(crate) fn is_batch_full(core: &Core, active: &Active) -> bool {
    active.batch >= core.config.read_ahead_requests_max
}

/// Whether something was read ahead that was not looked at yet: it is no part of a head.
fn is_ahead(active: &Active) -> bool {
    active.input.is_some() && active.exchange.request() == RequestState::Idle
}

enum After {
    Stay,
    Close,
    /// Something that has to be done finds no room.
    Starve(OverBudget),
}

/// Arms what the exchange waits for.
fn arm(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active, next: Next) -> Result<(), OverBudget> {
    match next {
        // Only output is waited for. A peer that has closed its half meanwhile gets it all the same.
        _ if active.closing => {
            table.unwatch(key);
            Ok(())
        }
        // What would come has no place. One that goes away meanwhile makes way for others.
        _ if active.is_queued() && !active.half_closed => table.watch(key),
        _ if active.is_queued() => {
            table.unwatch(key);
            Ok(())
        }
        // Output that the peer does not take stops further reads from it; and what came before is looked at before the
        // end that may be behind it.
        Next::ReadHead if !active.output.is_empty() || is_ahead(active) && table.is_sending(key) => {
            table.unwatch(key);
            Ok(())
        }
        // So do requests that were read ahead and may not be begun yet.
        Next::ReadHead if is_batch_full(core, active) && table.is_sending(key) => {
            table.unwatch(key);
            Ok(())
        }
        // And so do those whose turn is over for now.
        Next::ReadHead if active.listed && active.input.is_some() => {
            table.unwatch(key);
            Ok(())
        }
        Next::ReadHead => core.await_request(table, key),
        Next::Drain if active.handler.is_none() => table.receive(key),
        Next::Close { .. } if active.handler.is_none() && active.exchange.request() == RequestState::Body => {
            table.receive(key)
        }
        Next::ReadBody | Next::Drain if active.reader.is_some() => receive_body(core, table, key, active),
        // Most likely it asks for more at once; if it does not, the next look finds that out.
        _ if active.fed => Ok(()),
        _ if active.handler.is_some() && !active.half_closed => table.watch(key),
        _ => {
            table.unwatch(key);
            Ok(())
        }
    }
}

/// Arms a receive for a body: into a lease where many bytes are likely to be there.
fn receive_body(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active) -> Result<(), OverBudget> {
    if table.is_receiving(key) {
        return Ok(());
    }
    if core.is_filling() {
        // What has no room stays in the socket.
        return table.await_readable(key);
    }
    if core.several_for(active).is_some() {
        return table.await_readable(key);
    }
    let class = active.receive.next(active.decoder.remaining(), core.body_cap());
    match class.and_then(|class| core.pool.try_acquire_class(class, Kind::Buffers).ok()) {
        Some(lease) => table.receive_into(key, lease),
        None => table.receive(key),
    }
}

/// Sets the deadline that fits what the connection waits for. One that is set already stands: bytes that come are no
/// reason to wait longer for others.
fn schedule(core: &Core, table: &mut Table<Connection>, key: Key, active: &mut Active, sends: bool) {
    let deadline = match active.exchange.request() {
        _ if active.is_queued() => Deadline::Room,
        _ if sends => Deadline::Send,
        _ if active.awaits_proxy => Deadline::Proxy,
        _ if active.reader.is_some() => Deadline::Body,
        _ if active.handler.is_some() && active.half_closed => Deadline::Peer,
        _ if active.handler.is_some() => Deadline::None,
        RequestState::Head => Deadline::Head,
        // Its turn comes.
        RequestState::Idle if active.listed => Deadline::None,
        _ => Deadline::Body,
    };
    if deadline == active.deadline && deadline != Deadline::None {
        return;
    }
    let now = plimsoll_runtime::now();
    if active.deadline == Deadline::Body {
        active.patience.pause(now);
    }
    active.deadline = deadline;
    let config = &core.config;
    let after = match deadline {
        Deadline::None => None,
        Deadline::Head => Some(config.head_timeout),
        Deadline::Body => Some(active.patience.wait(now)),
        Deadline::Proxy => Some(config.proxy_header_timeout),
        Deadline::Send => Some(config.send_timeout),
        Deadline::Room if active.waits_to_begin() => {
            Some(config.wait_to_begin(matches!(active.memory, MemoryWait::QueuedUpload { .. })))
        }
        Deadline::Room => Some(config.memory_timeout),
        Deadline::Peer => Some(PEER_LOOK),
    };
    match after.map(|after| active.due_after(after, now, config)).or_else(|| active.handler_left(now, config)) {
        Some(after) => table.schedule(key, after),
        None => table.unschedule(key),
    }
}
