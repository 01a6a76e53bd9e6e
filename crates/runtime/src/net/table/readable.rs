//! Waits for bytes that hold no memory, receives of much at once into several leases, and receives that are taken back.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, OverBudget};
use plimsoll_reactor::{Errno, Interest, Op};
use plimsoll_slab::Key;

use super::{Inbound, OPEN, Table};
use crate::token::Purpose;

impl<C: Default> Table<C> {
    /// Asks to be told, by [`Event::Readable`](super::Event::Readable), when there is something for
    /// [`receive_now`](Self::receive_now), or the end of what the peer sends. Ends a [`watch`](Self::watch); a receive
    /// that is armed later ends this.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when the operation has no room.
    ///
    /// # Panics
    ///
    /// When a receive is armed, or the connection was closed.
    pub fn await_readable(&mut self, key: Key) -> Result<(), OverBudget> {
        assert!(!self.is_receiving(key), "one receive at a time");
        if matches!(self.entry(key).inbound, Inbound::Readable(_) | Inbound::ReadableOpened) {
            return Ok(());
        }
        if self.carries && self.arm_opened(key, Inbound::ReadableOpened) {
            return Ok(());
        }
        self.unwatch(key);
        let token = self.token(Purpose::Watch, key);
        let fd = self.fd(key);
        let submitted = self.worker.driver.borrow_mut().submit(Op::Poll { fd, interest: Interest::Readable }, token);
        self.entry(key).inbound = Inbound::Readable(submitted.map_err(|(over, _op)| over)?);
        Ok(())
    }

    /// Receives what is there, at most `bytes_max` bytes, into the spare rooms of at most
    /// [`RECEIVE_LEASES_MAX`](crate::net::RECEIVE_LEASES_MAX) leases: each is filled before the next one is begun. How
    /// many bytes there were; 0 when the peer has sent all it will send. It is one call of the system, however many
    /// leases there are.
    ///
    /// # Errors
    ///
    /// What `recvmsg(2)` says; `EAGAIN` when nothing is there now.
    ///
    /// # Panics
    ///
    /// When a receive is armed or the connection was closed, and when there is no room to fill.
    pub fn receive_now(&mut self, key: Key, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno> {
        assert!(!self.is_receiving(key), "one receive at a time");
        if self.has_transport(key) {
            return self.receive_opened(key, leases, bytes_max);
        }
        let fd = self.fd(key);
        self.worker.driver.borrow_mut().receive_now(fd, leases, bytes_max)
    }

    /// Copies the first of what has come, which stays in the socket: how many bytes; 0 when the peer has sent all it
    /// will send.
    ///
    /// # Errors
    ///
    /// What `recv(2)` says; `EAGAIN` when nothing is there now.
    ///
    /// # Panics
    ///
    /// When a receive is armed or the connection was closed, and when there is no room to fill.
    pub fn peek_now(&mut self, key: Key, room: &mut [u8]) -> Result<usize, Errno> {
        assert!(!self.is_receiving(key), "one receive at a time");
        if self.has_transport(key) {
            return self.peek_opened(key, room);
        }
        let fd = self.fd(key);
        self.worker.driver.borrow_mut().peek_now(fd, room)
    }

    /// Whether there is something to receive right now, or the end of what the peer sends. Asks the kernel.
    ///
    /// # Panics
    ///
    /// When the connection was closed.
    pub fn is_readable_now(&mut self, key: Key) -> bool {
        (self.carries && self.has_opened(key)) || self.worker.driver.borrow_mut().is_readable_now(self.fd(key))
    }

    /// Asks for the armed receive to end. It is still armed until it does: as [`Event::Failed`](super::Event::Failed)
    /// with `ECANCELED`, or as it would have anyway, so that no byte is lost. Does nothing when none is armed.
    ///
    /// ```
    /// use plimsoll_runtime::Errno;
    /// use plimsoll_runtime::net::{Event, Table, TableConfig, TcpListener, TcpStream};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let _client = TcpStream::connect(listener.local_addr()).await?;
    /// let mut table = Table::<()>::new(listener, TableConfig::default())?;
    /// table.ready().await;
    /// let Some(Event::Accepted(key)) = table.next() else { panic!("it has connected") };
    /// table.receive(key)?;
    /// table.cancel_receive(key);
    /// while table.is_receiving(key) {
    ///     table.ready().await;
    ///     assert!(matches!(table.next(), None | Some(Event::Failed(_, Errno::CANCELED))));
    /// }
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub fn cancel_receive(&mut self, key: Key) {
        if let Inbound::Receive(op) = self.entries.get(key).expect(OPEN).inbound {
            self.worker.driver.borrow_mut().cancel(op);
        }
    }
}
