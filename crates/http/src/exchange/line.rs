//! The socket of one connection as a protocol uses it: it sees nothing of the table that the connection is in, nor any
//! other connection.

use ::core::cell::RefCell;
use ::core::time::Duration;

use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Errno, Lease, OverBudget, Pool, SendBytes};
use plimsoll_slab::Key;

use crate::exchange::output::Output;

/// What a step may ask of its socket, and of its connection's timer. Nothing is borrowed between two calls.
pub(crate) trait Line {
    fn is_sending(&self) -> bool;

    fn is_receiving(&self) -> bool;

    /// Hands bytes over, while no others are on their way.
    fn send(&mut self, bytes: SendBytes) -> Result<(), OverBudget>;

    /// As many bytes as the socket takes at once.
    fn send_now(&mut self, bytes: &[u8]) -> Result<usize, Errno>;

    /// Hands the next piece of output over, unless one is on its way.
    fn flush(&mut self, pool: &Pool, output: &mut Output) -> Result<(), OverBudget>;

    /// As much of it as the socket takes at once; whether nothing is left.
    fn flush_now(&mut self, output: &mut Output) -> bool;

    /// Hands over what was gathered in a lease that was lent. Gives that back when the socket has taken all of it.
    fn send_lent(&mut self, output: &mut Output) -> Option<Lease>;

    /// Arms a receive.
    fn receive(&mut self) -> Result<(), OverBudget>;

    /// Receives what is there.
    fn receive_now(&mut self, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno>;

    /// Arms a receive into a lease.
    fn receive_into(&mut self, lease: Lease) -> Result<(), OverBudget>;

    /// Has it told when there is something to receive.
    fn await_readable(&mut self) -> Result<(), OverBudget>;

    /// Receives nothing, but is told when the peer goes away.
    fn watch(&mut self) -> Result<(), OverBudget>;

    fn unwatch(&mut self);

    /// Whether the peer has gone away, as far as the socket knows.
    fn is_gone(&self) -> bool;

    fn shutdown_write(&mut self);

    fn schedule(&mut self, after: Duration);

    fn unschedule(&mut self);

    /// What is left of the time that was set.
    fn scheduled_in(&self) -> Option<Duration>;
}

/// That of a connection in a table.
pub(crate) struct TableLine<'a, T: Default> {
    table: &'a RefCell<Table<T>>,
    key: Key,
}

impl<'a, T: Default> TableLine<'a, T> {
    pub(crate) fn new(table: &'a RefCell<Table<T>>, key: Key) -> Self {
        Self { table, key }
    }
}

impl<T: Default> Line for TableLine<'_, T> {
    fn is_sending(&self) -> bool {
        self.table.borrow().is_sending(self.key)
    }

    fn is_receiving(&self) -> bool {
        self.table.borrow().is_receiving(self.key)
    }

    fn send(&mut self, bytes: SendBytes) -> Result<(), OverBudget> {
        self.table.borrow_mut().send(self.key, bytes).map_err(|(over, _)| over)
    }

    fn send_now(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.table.borrow_mut().send_now(self.key, bytes)
    }

    fn flush(&mut self, pool: &Pool, output: &mut Output) -> Result<(), OverBudget> {
        output.flush(pool, &mut self.table.borrow_mut(), self.key)
    }

    fn flush_now(&mut self, output: &mut Output) -> bool {
        output.flush_now(&mut self.table.borrow_mut(), self.key)
    }

    fn send_lent(&mut self, output: &mut Output) -> Option<Lease> {
        output.send_now(&mut self.table.borrow_mut(), self.key)
    }

    fn receive(&mut self) -> Result<(), OverBudget> {
        self.table.borrow_mut().receive(self.key)
    }

    fn receive_now(&mut self, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno> {
        self.table.borrow_mut().receive_now(self.key, leases, bytes_max)
    }

    fn receive_into(&mut self, lease: Lease) -> Result<(), OverBudget> {
        self.table.borrow_mut().receive_into(self.key, lease)
    }

    fn await_readable(&mut self) -> Result<(), OverBudget> {
        self.table.borrow_mut().await_readable(self.key)
    }

    fn watch(&mut self) -> Result<(), OverBudget> {
        self.table.borrow_mut().watch(self.key)
    }

    fn unwatch(&mut self) {
        self.table.borrow_mut().unwatch(self.key);
    }

    fn is_gone(&self) -> bool {
        self.table.borrow().is_gone(self.key)
    }

    fn shutdown_write(&mut self) {
        self.table.borrow_mut().shutdown_write(self.key);
    }

    fn schedule(&mut self, after: Duration) {
        self.table.borrow_mut().schedule(self.key, after);
    }

    fn unschedule(&mut self) {
        self.table.borrow_mut().unschedule(self.key);
    }

    fn scheduled_in(&self) -> Option<Duration> {
        self.table.borrow().scheduled_in(self.key)
    }
}

#[cfg(test)]
pub(crate) mod script;
