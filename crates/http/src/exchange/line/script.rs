//! A script that stands for the socket of a connection, for tests of steps alone.

use ::core::time::Duration;

use plimsoll_runtime::{Errno, Lease, OverBudget, Pool, SendBytes};

use super::Line;
use crate::exchange::output::Output;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    Nothing,
    Receive,
    /// A receive into a lease.
    Place,
    Readable,
    Watch,
}

/// A socket that takes everything, unless the peer takes nothing.
pub(crate) struct Script {
    pool: Pool,
    pub(crate) sent: Vec<u8>,
    pub(crate) takes: Takes,
    pub(crate) armed: Armed,
    pub(crate) due: Option<Duration>,
    pub(crate) is_shut: bool,
    /// What is there to be received: at the end of it the peer has ended its half.
    pub(crate) incoming: Option<Vec<u8>>,
}

/// What the peer takes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    All,
    /// What is handed over stays on its way.
    Nothing,
}

impl Script {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            sent: Vec::new(),
            takes: Takes::All,
            armed: Armed::Nothing,
            due: None,
            is_shut: false,
            incoming: None,
        }
    }
}

impl Line for Script {
    fn is_sending(&self) -> bool {
        self.takes == Takes::Nothing && !self.sent.is_empty()
    }

    fn is_receiving(&self) -> bool {
        self.armed == Armed::Receive
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

    fn receive_now(&mut self, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno> {
        let bytes = self.incoming.take().ok_or(Errno::AGAIN)?;
        assert!(bytes.len() <= bytes_max, "a script sends what has a place");
        Ok(leases[0].as_mut().map_or(0, |lease| lease.extend(&bytes)))
    }

    fn receive_into(&mut self, _lease: Lease) -> Result<(), OverBudget> {
        self.armed = Armed::Place;
        Ok(())
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

    fn is_gone(&self) -> bool {
        false
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
