//! Listening sockets: who may listen where, and how connections leave their queues.
#![forbid(unsafe_code)]

use core::net::SocketAddr;
use std::collections::VecDeque;

use super::faults::Fault;
use super::kernel::Kernel;
use super::network::Holder;
use super::objects::{Listener, Object, Socket, SocketState};
use crate::fd::Number;
use crate::net::Shared;
use crate::{Address, Errno, Error, ListenOptions, SocketKind};

impl Kernel {
    pub(crate) fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Number, Error> {
        assert!((1..=65_535).contains(&options.backlog), "a backlog is 1 to 65,535");
        let address = match address {
            Address::Ip(at) => self.bind_internet(at)?,
            Address::Unix(_) => address,
        };
        for (&other, listeners) in &self.network.listeners {
            let shares = options.join && options.reuse_port && other == address && self.all_share(listeners);
            if overlap(other, address) && !shares {
                return Err(Error::AddressInUse(Box::new(address)));
            }
        }
        // Unix sockets share none but what was shared.
        let is_shared = options.reuse_port && (address.ip().is_some() || options.join);
        let (backlog, reuse_port) = (options.backlog, is_shared);
        let listener = Listener { address, backlog, reuse_port, refuses: false, queue: VecDeque::new() };
        let fd = self.open(Object::Listener(listener)).map_err(|errno| Error::system("socket", errno))?;
        self.network.listeners.entry(address).or_default().push(fd);
        let file = address.unix().filter(|at| at.as_path().is_some());
        self.network.socket_files.extend(file);
        Ok(fd)
    }

    fn bind_internet(&mut self, mut address: SocketAddr) -> Result<Address, Error> {
        if !address.ip().is_unspecified() && !self.config.has_address(address.ip()) {
            return Err(Error::AddressNotAvailable(Box::new(address.into())));
        }
        if address.port() == 0 {
            let port =
                self.network.free_port(address.ip(), None).ok_or(Error::AddressInUse(Box::new(address.into())))?;
            address.set_port(port);
        }
        Ok(address.into())
    }

    /// Lets another listener join this one.
    pub(crate) fn share(&mut self, fd: Number) -> Result<Shared, Errno> {
        let descriptor = self.descriptors.get_mut(fd).ok_or(Errno(libc::EBADF))?;
        let Object::Listener(listener) = &mut descriptor.object else { return Err(Errno(libc::EINVAL)) };
        listener.reuse_port = true;
        Ok(Shared::Simulated { address: listener.address, backlog: listener.backlog })
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
        if listener.address.unix().is_some() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
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
        let kind = SocketKind::of(&listener.address);
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
fn overlap(one: Address, other: Address) -> bool {
    let (Address::Ip(one), Address::Ip(other)) = (one, other) else { return one == other };
    let wild = |address: SocketAddr| address.ip().is_unspecified();
    let dual = |address: SocketAddr| address.is_ipv6() && wild(address);
    one.port() == other.port()
        && (one.ip() == other.ip()
            || (one.is_ipv4() == other.is_ipv4() && (wild(one) || wild(other)))
            || dual(one)
            || dual(other))
}
