//! The end of each step: send what there is, arm what is waited for, set the deadline.

use ::core::cell::RefMut;
use std::rc::Rc;

use plimsoll_codec::h1::{Next, RequestState};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Kind, OverBudget, signal};
use plimsoll_slab::Key;

use crate::connection::{Active, Connection, Deadline};
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::server::Service;

/// The size of a receive buffer of its own, for bodies that come faster than small receives bring them.
const BULK_BYTES: usize = 64 * 1024;

impl<S: Service> Engine<S> {
    /// Sends what there is to send, arms what there is to wait for, and puts the connection back.
    fn settle(&mut self, key: Key, mut active: PoolBox<Active>) {
        let core = Rc::clone(&self.core);
        let mut borrowed = core.table.borrow_mut();
        let table = &mut *borrowed;
        let flushed = active.output.flush(&core.pool, table, key);
        let sending = table.is_sending(key);
        let next = active.exchange.next();
        let ends = active.closing || matches!(next, Next::Close { .. } | Next::Upgraded);
        if !active.output.has_tail()
            && active.output.gathered_bytes() <= core.config.output_bytes_max / 2
            && let Some(writer) = active.writer.take()
        {
            writer.wake();
        }
        if next == Next::ReadHead && active.is_parkable() && !ends && flushed.is_ok() {
            return self.park(key, active, borrowed);
        }
        let after = if ends && !sending && active.output.is_empty() {
            After::Close
        } else {
            match flushed.and_then(|()| arm(&core, table, key, &active, next)) {
                Ok(()) => After::Stay,
                Err(_) => After::Shed,
            }
        };
        schedule(&core, table, key, &active, sending || ends);
        *table.get_mut(key).expect("a live connection") = Connection::Active(active);
        drop(borrowed);
        match after {
            After::Stay => {}
            After::Close => self.close_gently(key),
            After::Shed => self.shed(key, Shed::Output),
        }
    }

    /// Nothing is left to do but to wait for the next request.
    fn park(&mut self, key: Key, active: PoolBox<Active>, mut table: RefMut<'_, Table<Connection>>) {
        let config = &self.core.config;
        let sending = table.is_sending(key);
        table.schedule(key, if sending { config.send_timeout } else { config.keep_alive_timeout });
        *table.get_mut(key).expect("a live connection") = Connection::Parked { requests: active.requests };
        let receiving = table.receive(key);
        drop(table);
        drop(active);
        self.core.counters().active(-1);
        if receiving.is_err() {
            self.core.counters().shed(Shed::Parked);
            self.close(key);
        } else if signal::is_stopping() && !sending {
            self.close(key);
        }
    }
}

enum After {
    Stay,
    Close,
    Shed,
}

/// Arms what the exchange waits for.
fn arm(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active, next: Next) -> Result<(), OverBudget> {
    match next {
        // Output that the peer does not take stops further reads from it.
        Next::ReadHead if !active.output.is_empty() || active.closing => Ok(()),
        Next::ReadHead | Next::Drain => table.receive(key),
        Next::ReadBody if active.reader.is_some() && active.bulk && !table.is_receiving(key) => {
            match core.pool.try_acquire(BULK_BYTES, Kind::Buffers) {
                Ok(lease) => table.receive_into(key, lease),
                Err(_) => table.receive(key),
            }
        }
        Next::ReadBody if active.reader.is_some() => table.receive(key),
        Next::ReadBody | Next::Answer => table.watch(key),
        Next::AnswerError | Next::Reset | Next::Close { .. } | Next::Upgraded => Ok(()),
    }
}

/// Sets the deadline that fits what the connection waits for.
fn schedule(core: &Core, table: &mut Table<Connection>, key: Key, active: &Active, sends: bool) {
    if sends {
        table.schedule(key, core.config.send_timeout);
    } else if active.reader.is_some() {
        table.schedule(key, core.config.body_timeout);
    } else if active.handler.is_some() {
        table.unschedule(key);
    } else if active.exchange.request() != RequestState::Head {
        table.schedule(key, core.config.body_timeout);
    }
}
