//! Connections that come from tasks instead of a listener.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, OverBudget};
use plimsoll_slab::{CHUNK_BYTES, Key};

use super::{Entry, Inbound, OPEN, Table, TableConfig};
use crate::Result;
use crate::net::TcpStream;
use crate::time::Link;
use crate::worker::Worker;

/// What a stream brought along into a table.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) key: Key,
    /// Bytes that were received, and that nobody has read.
    pub(crate) unread: Option<Lease>,
    /// The peer has sent all it will send.
    pub(crate) ended: bool,
}

impl<C: Default> Table<C> {
    /// A table of this worker's without a listener: connections are put in.
    pub(crate) fn detached(config: TableConfig) -> Result<Self> {
        Self::build(Worker::current(), None, config)
    }

    /// Makes room for so many more connections.
    pub(crate) fn reserve_entries(&mut self, count: usize) -> Result<(), OverBudget> {
        while self.entries.capacity() - self.entries.len() < count {
            let page = plimsoll_reactor::PoolPage::try_new(&self.worker.pool, plimsoll_pool::Kind::Slots)?;
            self.entries.grow(page).map_err(|_| OverBudget::new(CHUNK_BYTES as u64))?;
        }
        Ok(())
    }

    /// Takes in the connection of a stream on which no operation is in flight, into room that was made.
    pub(crate) fn adopt(&mut self, stream: TcpStream, state: C) -> Adopted {
        let parts = stream.into_parts();
        let entry = Entry { link: Link::default(), fd: parts.fd, inbound: Inbound::None, send: None, state };
        let key = self.entries.insert(entry).unwrap_or_else(|_| unreachable!("room was made"));
        Adopted { key, unread: parts.unread, ended: parts.ended }
    }

    /// Asks for the armed receive to end: it does as [`Event::Failed`](super::Event::Failed) with `ECANCELED`, or as it would have anyway.
    pub(crate) fn cancel_receive(&mut self, key: Key) {
        if let Inbound::Receive(op) = self.entries.get(key).expect(OPEN).inbound {
            self.worker.driver.borrow_mut().cancel(op);
        }
    }
}
