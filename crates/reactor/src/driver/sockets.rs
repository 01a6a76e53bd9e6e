//! What is done at once, without waiting: sockets made, accepted, closed, named and set, and what needs no memory for
//! an operation.
#![forbid(unsafe_code)]

use std::io::IoSlice;

use plimsoll_pool::{Kind, Lease, OverBudget};

use super::Driver;
use crate::fd::Number;
use crate::net::{ListenOptions, Shared, SharedListener, SocketKind, SocketOption};
use crate::op::{Errno, Op, Shutdown, Token};
use crate::{Address, Error, Fd, FdRef, RECEIVE_LEASES_MAX, SEND_SLICES_MAX, sys};

impl Driver {
    /// Binds and listens.
    ///
    /// A Unix socket's path is made. A socket that is there already, and at which nobody listens any more, makes way.
    /// The file stays when the listener is closed. `reuse_port` and `join` are for IP addresses:
    /// [`share`](Self::share) the listener instead.
    ///
    /// # Errors
    ///
    /// [`Error::AddressInUse`] (also when another process shares the port with `SO_REUSEPORT`),
    /// [`Error::AddressForbidden`], [`Error::AddressNotAvailable`], else [`Error::System`].
    pub fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Fd, Error> {
        Ok(self.backend_mut().listen(address, options)?.owned())
    }

    /// Another listener on the queue of this one, for another thread's driver to [join](Self::join).
    ///
    /// # Errors
    ///
    /// What `fcntl(2)` says to `F_DUPFD_CLOEXEC`.
    pub fn share(&mut self, listener: FdRef<'_>) -> Result<SharedListener, Errno> {
        self.backend_mut().share(listener.detached()).map(SharedListener)
    }

    /// Listens at a socket that listens already: one that was [shared](Self::share), or another process's.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: it is not a listening stream socket, or it is one of another kind of driver.
    pub fn join(&mut self, listener: SharedListener) -> Result<Fd, Error> {
        let refused = |errno| Error::system("join a listener", errno);
        match listener.0 {
            Shared::Simulated { address, backlog } => {
                if self.is_real {
                    return Err(refused(Errno(libc::ENOTSOCK)));
                }
                self.listen(address, &ListenOptions { backlog, reuse_port: true, join: true })
            }
            Shared::Real(socket) => {
                if !self.is_real {
                    return Err(refused(Errno(libc::ENOTSOCK)));
                }
                sys::check_listens(&socket).map_err(refused)?;
                Ok(Fd::from(socket))
            }
        }
    }

    /// A fresh stream socket, to be connected.
    ///
    /// # Errors
    ///
    /// What `socket(2)` says.
    pub fn socket(&mut self, kind: SocketKind) -> Result<Fd, Errno> {
        Ok(self.backend_mut().socket(kind)?.owned())
    }

    /// A connection that waits on a listener already, without waiting for one.
    ///
    /// # Errors
    ///
    /// What `accept4(2)` says; see [`Errno::is_transient_accept`].
    pub fn accept_now(&mut self, listener: FdRef<'_>) -> Result<Option<Fd>, Errno> {
        Ok(self.backend_mut().accept_now(listener.detached())?.map(Number::owned))
    }

    /// Closes a descriptor through the kernel's queue, or at once if there is no room for the operation.
    ///
    /// After the driver's shutdown, too: what owns a descriptor may be dropped late. Those of a simulated kernel are
    /// forgotten then.
    pub fn close(&mut self, fd: Fd) {
        if self.is_shut_down() {
            return self.close_now(fd);
        }
        match self.submit(Op::Close { fd }, Token(u32::MAX)) {
            Ok(key) => self.orphan(key),
            Err((_, Op::Close { fd })) => self.close_now(fd),
            Err((_, op)) => unreachable!("a refused close comes back as it was, not as {op:?}"),
        }
    }

    /// Closes a descriptor at once; after the driver's shutdown, too.
    ///
    /// As [`Op::Close`] says, accepts and receives on it must have been cancelled before.
    pub fn close_now(&mut self, fd: Fd) {
        let fd = fd.number();
        self.closes(fd);
        match &mut self.backend {
            Some(backend) => backend.close_now(fd, &mut self.slots),
            None if self.is_real => _ = sys::close(fd),
            None => {}
        }
    }

    /// Sends as much as the socket takes at once, without an operation: it needs no memory, so it tells a peer that
    /// there is none. What the peer gets is in order only when no send is in flight on the socket.
    ///
    /// # Errors
    ///
    /// What `send(2)` says; `EAGAIN` when the socket takes nothing now.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
    /// use plimsoll_reactor::sim::{SimConfig, World};
    /// use plimsoll_reactor::{Driver, DriverConfig, Errno, ListenOptions, Op, Shutdown, SocketKind, Token, Wait};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default())?;
    /// let world = World::new(SimConfig::new(7));
    /// let mut driver = Driver::simulated(&world, &DriverConfig::default(), &pool)?;
    /// let listener = driver.listen("127.0.0.1:80".parse()?, &ListenOptions::default())?;
    /// let client = driver.socket(SocketKind::Tcp4)?;
    /// assert!(!driver.is_readable_now(listener.at()), "nobody waits to be accepted");
    /// let address = driver.address("127.0.0.1:80".parse()?)?;
    /// driver.submit(Op::Connect { fd: client.at(), address }, Token(1)).map_err(|(over, _)| over)?;
    /// while driver.reap().is_none() {
    ///     driver.enter(Wait::Forever)?;
    /// }
    /// assert!(driver.is_readable_now(listener.at()));
    /// let server = driver.accept_now(listener.at())?.expect("it is in the queue");
    /// assert_eq!(driver.send_now(server.at(), b"no room"), Ok(7));
    /// driver.shutdown_now(server.at(), Shutdown::Write)?;
    /// assert_eq!(driver.discard_now(server.at(), 1_000), Err(Errno::AGAIN), "the client has sent nothing");
    /// for fd in [client, server, listener] { driver.close_now(fd); }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_now(&mut self, fd: FdRef<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        self.backend_mut().send_now(fd.detached(), bytes)
    }

    /// The same as [`send_now`](Self::send_now) from several slices, in their order: as many bytes as the socket takes
    /// at once, of at most the first [`SEND_SLICES_MAX`] slices.
    ///
    /// # Errors
    ///
    /// What `sendmsg(2)` says; `EAGAIN` when the socket takes nothing now.
    pub fn send_vectored_now(&mut self, fd: FdRef<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let slices = &slices[..slices.len().min(SEND_SLICES_MAX)];
        self.backend_mut().send_vectored_now(fd.detached(), slices)
    }

    /// Ends a half of a connection, or both, without an operation: for when there is no room for one. No send may be in
    /// flight.
    ///
    /// # Errors
    ///
    /// What `shutdown(2)` says.
    pub fn shutdown_now(&mut self, fd: FdRef<'_>, how: Shutdown) -> Result<(), Errno> {
        self.backend_mut().shutdown_now(fd.detached(), how)
    }

    /// Drops at most `bytes_max` received bytes that nobody has read, without a buffer; how many there were, 0 at the
    /// end of the stream. A socket that is closed with unread bytes resets the connection, and the peer may lose what
    /// it was sent. No receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recv(2)` says; `EAGAIN` when nothing is there.
    pub fn discard_now(&mut self, fd: FdRef<'_>, bytes_max: usize) -> Result<usize, Errno> {
        self.backend_mut().discard_now(fd.detached(), bytes_max)
    }

    /// Receives what is there into the spare rooms of leases, without an operation: each is filled before the next one
    /// is begun, with at most `bytes_max` bytes in all; places without a lease count for nothing. How many bytes there
    /// were, by which the leases are longer; 0 at the end of the stream. A peer that sends much is received from with
    /// far fewer calls than by one lease at a time. No receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recvmsg(2)` says; `EAGAIN` when nothing is there: wait for that with [`Op::Poll`].
    ///
    /// # Panics
    ///
    /// When there are more places than [`RECEIVE_LEASES_MAX`], and when there is no room to fill.
    pub fn receive_now(
        &mut self,
        fd: FdRef<'_>,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        assert!(leases.len() <= RECEIVE_LEASES_MAX, "at most so many leases at a time");
        let is_room = |lease: &Lease| lease.spare_capacity() > 0;
        assert!(bytes_max > 0 && leases.iter().flatten().any(is_room), "no room to fill");
        self.backend_mut().receive_now(fd.detached(), leases, bytes_max)
    }

    /// Receives what is there into a buffer of the caller's, without an operation: how many bytes; 0 at the end of the
    /// stream. No receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recv(2)` says; `EAGAIN` when nothing is there: wait for that with [`Op::Poll`].
    ///
    /// # Panics
    ///
    /// When there is no room to fill.
    pub fn read_now(&mut self, fd: FdRef<'_>, room: &mut [u8]) -> Result<usize, Errno> {
        assert!(!room.is_empty(), "no room to fill");
        self.backend_mut().read_now(fd.detached(), room)
    }

    /// Copies the first of what is there, which stays in the socket: how many bytes; 0 at the end of the stream. No
    /// receive may be in flight.
    ///
    /// # Errors
    ///
    /// What `recv(2)` says; `EAGAIN` when nothing is there.
    ///
    /// # Panics
    ///
    /// When there is no room to fill.
    pub fn peek_now(&mut self, fd: FdRef<'_>, room: &mut [u8]) -> Result<usize, Errno> {
        assert!(!room.is_empty(), "no room to fill");
        self.backend_mut().peek_now(fd.detached(), room)
    }

    /// Has a listener take no new connections, for the time before it is closed: closed with connections in its queue
    /// it would reset them. Those whose handshake has begun still come, and can be accepted. A new one is not answered:
    /// its client tries again after a second.
    ///
    /// # Errors
    ///
    /// What `setsockopt(2)` says to `SO_ATTACH_FILTER`; the listener goes on as before then.
    pub fn refuse_connects(&mut self, listener: FdRef<'_>) -> Result<(), Errno> {
        self.backend_mut().refuse_connects(listener.detached())
    }

    /// Whether there is something to receive, or to accept, right now.
    pub fn is_readable_now(&mut self, fd: FdRef<'_>) -> bool {
        self.backend_mut().is_readable_now(fd.detached())
    }

    /// Whether a connection was reset or has failed, or both its halves have ended: told without an operation, and
    /// without using an error up. A peer that has only ended its half, or was closed in silence, is still there.
    pub fn is_gone_now(&mut self, fd: FdRef<'_>) -> bool {
        self.backend_mut().is_gone_now(fd.detached())
    }

    /// The address a socket is bound to.
    ///
    /// # Errors
    ///
    /// What `getsockname(2)` says.
    pub fn local_address(&self, fd: FdRef<'_>) -> Result<Address, Errno> {
        self.backend().local_address(fd.detached())
    }

    /// The address of a socket's peer.
    ///
    /// # Errors
    ///
    /// What `getpeername(2)` says.
    pub fn peer_address(&self, fd: FdRef<'_>) -> Result<Address, Errno> {
        self.backend().peer_address(fd.detached())
    }

    /// Sets a socket option.
    ///
    /// # Errors
    ///
    /// What `setsockopt(2)` says.
    pub fn set_option(&mut self, fd: FdRef<'_>, option: SocketOption) -> Result<(), Errno> {
        self.backend_mut().set_option(fd.detached(), option)
    }

    /// A socket address in the system's form, for [`Op::Connect`].
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line.
    pub fn address(&self, address: Address) -> Result<Lease, OverBudget> {
        sys::with_sockaddr(address, |bytes| self.pool.try_copy(bytes, Kind::Slots))
    }
}
