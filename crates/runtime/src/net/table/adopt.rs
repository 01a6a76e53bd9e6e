//! Connections that come from tasks instead of a listener.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, OverBudget};
use plimsoll_reactor::PoolPage;
use plimsoll_slab::Key;

use super::slot::Slot;
use super::{Entry, Inbound, Table, TableConfig};
use crate::Result;
use crate::net::Stream;
use crate::time::Link;
use crate::worker::Worker;

/// What a stream brought along into a table; see [`Table::adopt`].
#[derive(Debug)]
pub struct Adopted {
    /// Where the connection is.
    pub key: Key,
    /// Bytes that were received, and that nobody has read.
    pub unread: Option<Lease>,
    /// The peer has sent all it will send.
    pub ended: bool,
}

impl<C: Default> Table<C> {
    /// A table of this worker's without a listener: connections are put in, by [`adopt`](Self::adopt).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn detached(config: TableConfig) -> Result<Self> {
        Self::build(Worker::current(), None, config)
    }

    /// Makes room for so many more connections.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the memory line.
    pub fn reserve_entries(&mut self, count: usize) -> Result<(), OverBudget> {
        while self.entries.capacity() - self.entries.len() < count {
            PoolPage::add(&self.worker.pool, |page| self.entries.grow(page))?;
        }
        Ok(())
    }

    /// How many connections fit in without more memory for their entries.
    pub fn vacancies(&self) -> usize {
        self.entries.capacity() - self.entries.len()
    }

    /// Takes in the connection of a stream on which no operation is in flight, into room that was
    /// [made](Self::reserve_entries): one that has just come from [`release`](Self::release) of another table, or is
    /// [quiet](crate::net::SocketStream::quiesce).
    ///
    /// ```
    /// use plimsoll_runtime::net::{Event, Table, TableConfig, TcpListener, TcpStream};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()).await?;
    /// let (mut stream, _peer) = listener.accept().await?;
    ///
    /// let mut table = Table::detached(TableConfig::default())?;
    /// table.reserve_entries(1)?;
    /// stream.quiesce().await?;
    /// let adopted = table.adopt(stream, "waits for a word")?;
    /// table.receive(adopted.key)?;
    /// client.send_static(b"word").await?;
    /// table.ready().await;
    /// assert!(matches!(table.next(), Some(Event::Received(_, bytes)) if &bytes[..] == b"word"));
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for what keeps a stream that is [carried](Self::is_carried) in records; the
    /// connection is closed then. One that is not needs nothing.
    ///
    /// # Panics
    ///
    /// When no room was made, or an operation is in flight on the stream.
    pub fn adopt(&mut self, stream: impl Into<Stream>, state: C) -> Result<Adopted, OverBudget> {
        let parts = stream.into().into_parts();
        let entry = Entry {
            link: Link::default(),
            fd: parts.fd,
            inbound: Inbound::None,
            send: None,
            state: Slot::Plain(state),
        };
        let key = self.entries.insert(entry).unwrap_or_else(|_| panic!("room is made before"));
        if let Some(carrier) = parts.carrier {
            self.carries = true;
            if let Err(over) = self.carry(key, carrier) {
                drop(self.close(key));
                return Err(over);
            }
        }
        Ok(Adopted { key, unread: parts.unread, ended: parts.ended })
    }
}
