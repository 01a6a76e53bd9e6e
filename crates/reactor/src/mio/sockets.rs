//! What is done at once: sockets made, accepted, closed, named and set.
#![forbid(unsafe_code)]

use core::net::SocketAddr;

use super::Mio;
use super::table::{Entry, Flags};
use crate::net::{ListenOptions, SocketKind};
use crate::op::{Errno, Fd};
use crate::slots::Slots;
use crate::{Error, sys};

impl Mio {
    pub(crate) fn listen(&mut self, address: SocketAddr, options: &ListenOptions) -> Result<Fd, Error> {
        let fd = sys::listen(address, options, true)?;
        self.watch.forget(fd);
        Ok(fd)
    }

    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Fd, Errno> {
        let fd = sys::socket(kind, true)?;
        self.watch.forget(fd);
        Ok(fd)
    }

    pub(crate) fn accept_now(&mut self, listener: Fd) -> Result<Option<Fd>, Errno> {
        let accepted = sys::accept(listener, true)?;
        match accepted {
            Some(fd) => self.watch.forget(fd),
            None => self.watch.used_up(listener),
        }
        Ok(accepted)
    }

    /// Closes a descriptor, now or, if the blocking pool still works on it, as soon as that has ended.
    pub(crate) fn close_now(&mut self, fd: Fd, slots: &mut Slots) {
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
