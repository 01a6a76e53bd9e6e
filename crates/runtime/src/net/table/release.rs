//! Connections that leave for a task.
#![forbid(unsafe_code)]

use plimsoll_pool::Lease;
use plimsoll_reactor::Errno;
use plimsoll_slab::Key;

use super::{OPEN, Table};
use crate::net::Stream;
use crate::{Error, Result};

impl<C: Default> Table<C> {
    /// Takes a connection out of the table, as a stream of the task that asks. `unread` is what was received and
    /// belongs to the stream: its first receive gives it.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when the stream has no room, [`Error::SendInterrupted`] while a receive is armed or a send
    /// is in flight, [`Error::System`] with `EOPNOTSUPP` where a transport carries the bytes. The connection then stays
    /// where it is, and `unread` is lost.
    ///
    /// # Panics
    ///
    /// When the connection was closed.
    pub fn release(&mut self, key: Key, unread: Option<Lease>) -> Result<(C, Stream)> {
        if self.is_receiving(key) || self.is_sending(key) {
            return Err(Error::SendInterrupted);
        }
        if self.carries() {
            return Err(Error::System(Errno::OPNOTSUPP));
        }
        crate::net::stream::reserve(&self.worker)?;
        self.unwatch(key);
        self.timers.cancel(&mut self.entries, key.index());
        let entry = self.entries.remove(key).expect(OPEN);
        self.note_spare_pages();
        let stream = Stream::with_unread(&self.worker, entry.fd, unread);
        Ok((entry.state.into_state(), stream))
    }
}
