//! Listening sockets: who may listen where, and how connections leave their queues.
#![forbid(unsafe_code)]

use core::net::SocketAddr;
use std::collections::VecDeque;

use super::faults::Fault;
use super::kernel::Kernel;
use super::network::Holder;
use super::objects::{Listener, Object, Socket, SocketState};
use crate::fd::Number;
use crate::{Errno, Error, ListenOptions, SocketKind};

impl Kernel {
    pub(crate) fn listen(&mut self, address: SocketAddr, options: &ListenOptions) -> Result<Number, Error> {
        assert!((1..=65_535).contains(&options.backlog), "a backlog is 1 to 65,535");
        if !address.ip().is_unspecified() && !self.config.has_address(address.ip()) {
            return Err(Error::AddressNotAvailable(address));
        }
        let mut address = address;
        if address.port() == 0 {
            let port = self.network.free_port(address.ip(), None).ok_or(Error::AddressInUse(address))?;
            address.set_port(port);
        }
        for (&other, listeners) in &self.network.listeners {
            let shares = options.join && options.reuse_port && other == address && self.all_share(listeners);
            if overlap(other, address) && !shares {
                return Err(Error::AddressInUse(address));
            }
        }
        let (backlog, reuse_port) = (options.backlog, options.reuse_port);
        let listener = Listener { address, backlog, reuse_port, refuses: false, queue: VecDeque::new() };
        let fd = self.open(Object::Listener(listener)).map_err(|errno| Error::system("socket", errno))?;
        self.network.listeners.entry(address).or_default().push(fd);
        Ok(fd)
    }

    fn all_share(&self, listeners: &[Number]) -> bool {
        listeners.iter().all(|&fd| match self.descriptors.get(fd).map(|found| &found.object) {
            Some(Object::Listener(listener)) => listener.reuse_port,
            _ => false,
        })
    }

    /// Has a listener not answer those who connect.
    pub(crate) fn refuse_connects(&mut self, fd: Number) -> Result<(), Errno> {
        let descriptor = self.descriptors.get_mut(fd).ok_or(Errno(libc::EBADF))?;
        let Object::Listener(listener) = &mut descriptor.object else { return Err(Errno(libc::EINVAL)) };
        listener.refuses = true;
        Ok(())
    }

    /// A connection from a listener's queue, `None` if there is none.
    pub(crate) fn accept(&mut self, fd: Number) -> Result<Option<Number>, Errno> {
        let descriptor = self.descriptors.get(fd).ok_or(Errno(libc::EBADF))?;
        let listener = match &descriptor.object {
            Object::Listener(listener) => listener,
            Object::Socket(_) => return Err(Errno(libc::EINVAL)),
            Object::File(_) => return Err(Errno(libc::ENOTSOCK)),
        };
        let Some(&conn) = listener.queue.front() else { return Ok(None) };
        let kind = if listener.address.is_ipv4() { SocketKind::Tcp4 } else { SocketKind::Tcp6 };
        for (fault, errno) in [
            (Fault::AcceptNoMemory, libc::ENOMEM),
            (Fault::AcceptNoDescriptors, libc::EMFILE),
            (Fault::AcceptTableFull, libc::ENFILE),
        ] {
            if self.fault(fault) {
                return Err(Errno(errno));
            }
        }
        self.descriptors.check_room()?;
        let Some(Object::Listener(listener)) = self.descriptors.get_mut(fd).map(|found| &mut found.object) else {
            unreachable!("looked up above")
        };
        listener.queue.pop_front();
        if self.fault(Fault::AcceptAborted) {
            self.close_end(conn, 1, true);
            return Err(Errno(libc::ECONNABORTED));
        }
        let state = SocketState::Connected { conn, side: 1 };
        let accepted = self.open(Object::Socket(Socket::new(kind, state)))?;
        let conn = self.network.conn_mut(conn).expect("a queued connection is there");
        conn.ends[1].holder = Holder::Socket(accepted);
        Ok(Some(accepted))
    }
}

/// Whether two listeners would stand in each other's way.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let wild = |address: SocketAddr| address.ip().is_unspecified();
    let dual = |address: SocketAddr| address.is_ipv6() && wild(address);
    one.port() == other.port()
        && (one.ip() == other.ip()
            || (one.is_ipv4() == other.is_ipv4() && (wild(one) || wild(other)))
            || dual(one)
            || dual(other))
}
