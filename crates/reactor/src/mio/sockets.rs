//! What is done at once: sockets made, accepted, closed, named and set.
#![forbid(unsafe_code)]

use plimsoll_pool::Lease;

use super::Mio;
use super::table::{Entry, Flags};
use crate::fd::Number;
use crate::net::{ListenOptions, SocketKind};
use crate::op::Errno;
use crate::slots::Slots;
use crate::{Address, Error, sys};

impl Mio {
    pub(crate) fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Number, Error> {
        let fd = sys::listen(address, options, true)?;
        self.watch.forget(fd);
        Ok(fd)
    }

    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Number, Errno> {
        let fd = sys::socket(kind, true)?;
        self.watch.forget(fd);
        Ok(fd)
    }

    pub(crate) fn accept_now(&mut self, listener: Number) -> Result<Option<Number>, Errno> {
        let accepted = sys::accept(listener, true)?;
        match accepted {
            Some(fd) => self.watch.forget(fd),
            None => self.watch.used_up(listener),
        }
        Ok(accepted)
    }

    /// Receives what is there into leases.
    pub(crate) fn receive_now(
        &mut self,
        fd: Number,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        let room = leases.iter().flatten().map(Lease::spare_capacity).sum::<usize>().min(bytes_max);
        let received = sys::receive_scattered(fd, leases, bytes_max);
        self.watch.tried(fd, received, room);
        received
    }

    /// The same into a buffer.
    pub(crate) fn read_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        let received = sys::receive(fd, room);
        self.watch.tried(fd, received, room.len());
        received
    }

    /// Closes a descriptor, now or, if the blocking pool still works on it, as soon as that has ended.
    pub(crate) fn close_now(&mut self, fd: Number, slots: &mut Slots) {
        self.watch.closes(slots, fd);
        let entry = self.watch.table.get(fd);
        if entry.jobs > 0 {
            self.watch.table.set(fd, Entry { flags: entry.flags.with(Flags::CLOSING), ..entry });
            return;
        }
        self.watch.forget(fd);
        let closed = sys::close(fd);
        debug_assert!(closed != Err(Errno(libc::EBADF)), "closed twice, or never open");
    }
}
