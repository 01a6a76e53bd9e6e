//! Connections that leave for a task.
#![forbid(unsafe_code)]

use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use super::{OPEN, Table};
use crate::net::Stream;
use crate::net::stream::carried_room;
use crate::{Error, Result};

impl<C: Default> Table<C> {
    /// Takes a connection out of the table, as a stream of the task that asks. `unread` is what was received and
    /// belongs to the stream: its first receive gives it.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when the stream has no room, [`Error::SendInterrupted`] while a receive is armed or a send
    /// is in flight. The connection then stays where it is, and `unread` is lost.
    ///
    /// # Panics
    ///
    /// When the connection was closed.
    pub fn release(&mut self, key: Key, unread: Option<Lease>) -> Result<(C, Stream)> {
        if self.is_receiving(key) || self.entries.get(key).expect(OPEN).send.is_some() {
            return Err(Error::SendInterrupted);
        }
        crate::net::stream::reserve(&self.worker)?;
        let room = if self.has_transport(key) { Some(carried_room(&self.worker)?) } else { None };
        if room.is_some() {
            let pool = self.worker.pool.clone();
            let _unpacked = self.carried(key).whole(&pool)?;
        }
        self.unwatch(key);
        self.timers.cancel(&mut self.entries, key.index());
        let entry = self.entries.remove(key).expect(OPEN);
        self.note_spare_pages();
        let (state, carrier) = entry.state.into_parts();
        let carried = room.zip(carrier);
        Ok((state, Stream::with_unread(&self.worker, entry.fd, unread, carried)))
    }
}
