//! A socket for steps of a protocol that are tested alone: without a table, a worker or a connection.

use ::core::time::Duration;

use plimsoll_runtime::{Errno, Lease, OverBudget, Pool, SendBytes};

use super::Line;
use crate::exchange::output::Output;

/// What was armed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    Nothing,
    Receive,
    Readable,
    Watch,
}

/// How much of what is sent the peer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Everything,
    /// What is handed over stays on its way.
    Nothing,
}

/// See the module.
pub(crate) struct Script {
    pool: Pool,
    /// All that was handed over.
    pub(crate) sent: Vec<u8>,
    pub(crate) takes: Takes,
    pub(crate) armed: Armed,
    pub(crate) due: Option<Duration>,
    pub(crate) is_shut: bool,
}

impl Script {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, sent: Vec::new(), takes: Takes::Everything, armed: Armed::Nothing, due: None, is_shut: false }
    }
}

impl Line for Script {
    fn is_sending(&self) -> bool {
        self.takes == Takes::Nothing && !self.sent.is_empty()
    }

    fn is_receiving(&self) -> bool {
        self.armed == Armed::Receive
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn send(&mut self, bytes: SendBytes) -> Result<(), OverBudget> {
        assert!(!self.is_sending(), "one send at a time");
        self.sent.extend_from_slice(bytes.as_slice());
        Ok(())
    }

    fn send_now(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self, _pool: &Pool, output: &mut Output) -> Result<(), OverBudget> {
        if self.is_sending() {
            return Ok(());
        }
        match output.next_piece(&self.pool)? {
            Some(piece) => self.send(piece),
            None => Ok(()),
        }
    }

    fn flush_now(&mut self, output: &mut Output) -> bool {
        if self.takes == Takes::Nothing {
            return false;
        }
        while let Ok(Some(piece)) = output.next_piece(&self.pool) {
            self.sent.extend_from_slice(piece.as_slice());
        }
        true
    }

    fn send_lent(&mut self, _output: &mut Output) -> Option<Lease> {
        None
    }

    fn receive(&mut self) -> Result<(), OverBudget> {
        self.armed = Armed::Receive;
        Ok(())
    }

    fn receive_into(&mut self, _lease: Lease) -> Result<(), OverBudget> {
        self.receive()
    }

    fn receive_now(&mut self, _leases: &mut [Option<Lease>], _bytes_max: usize) -> Result<usize, Errno> {
        Err(Errno::AGAIN)
    }

    fn await_readable(&mut self) -> Result<(), OverBudget> {
        self.armed = Armed::Readable;
        Ok(())
    }

    fn watch(&mut self) -> Result<(), OverBudget> {
        self.armed = Armed::Watch;
        Ok(())
    }

    fn unwatch(&mut self) {
        self.armed = Armed::Nothing;
    }

    fn shutdown_write(&mut self) {
        self.is_shut = true;
    }

    fn schedule(&mut self, after: Duration) {
        self.due = Some(after);
    }

    fn unschedule(&mut self) {
        self.due = None;
    }

    fn scheduled_in(&self) -> Option<Duration> {
        self.due
    }
}
