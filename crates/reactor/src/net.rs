//! What sockets can be asked for.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::os::fd::OwnedFd;

use crate::{Address, Errno};

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections the kernel holds for us before they are accepted, 1 to 65,535.
    pub backlog: u32,
    /// Several listeners of this process share the address (`SO_REUSEPORT`). A probe without it runs first, so that an
    /// address that another process uses is an error all the same; set `join` on the second and later listeners of the
    /// process.
    pub reuse_port: bool,
    /// This listener joins others of the same process: skip the probe.
    pub join: bool,
}

impl Default for ListenOptions {
    /// A backlog of 4,096, alone at its address.
    fn default() -> Self {
        Self { backlog: 4_096, reuse_port: false, join: false }
    }
}

/// The family of a stream socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// A stream within this host.
    Unix,
}

impl SocketKind {
    /// The one that connects to an address.
    pub const fn of(address: &Address) -> Self {
        match address {
            Address::Ip(ip) if ip.is_ipv4() => Self::Tcp4,
            Address::Ip(_) => Self::Tcp6,
            Address::Unix(_) => Self::Unix,
        }
    }
}

/// A listener for another thread's driver: connections of its one queue go to whoever accepts first. See
/// [`Driver::share`](crate::Driver::share).
#[derive(Debug)]
pub struct SharedListener(pub(crate) Shared);

#[derive(Debug)]
pub(crate) enum Shared {
    /// Another descriptor of the same socket.
    Real(OwnedFd),
    /// In a simulated kernel they are sockets at one address.
    Simulated { address: Address, backlog: u32 },
}

impl SharedListener {
    /// One more, on the same queue.
    ///
    /// # Errors
    ///
    /// What `fcntl(2)` says to `F_DUPFD_CLOEXEC`.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self(match &self.0 {
            Shared::Real(socket) => Shared::Real(socket.try_clone()?),
            Shared::Simulated { address, backlog } => Shared::Simulated { address: *address, backlog: *backlog },
        }))
    }
}

impl From<OwnedFd> for SharedListener {
    /// A socket that listens already, such as one that another process has handed over.
    fn from(socket: OwnedFd) -> Self {
        Self(Shared::Real(socket))
    }
}

/// A socket option. A Unix socket has none of those named `TCP_...`, and no keep-alive: `EOPNOTSUPP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `TCP_NODELAY`: small segments leave at once.
    NoDelay(bool),
    /// `SO_KEEPALIVE` with `TCP_KEEPIDLE`; `None` turns it off. Whole seconds, at least one.
    KeepAlive(Option<Duration>),
    /// `SO_LINGER`; zero resets the connection on close.
    Linger(Option<Duration>),
    /// `SO_RCVBUF` in bytes; turns the kernel's auto-tuning off.
    ReceiveBuffer(u32),
    /// `SO_SNDBUF` in bytes; turns the kernel's auto-tuning off.
    SendBuffer(u32),
    /// `TCP_NOTSENT_LOWAT` in bytes.
    NotSentLowWater(u32),
    /// `TCP_USER_TIMEOUT`.
    UserTimeout(Duration),
}

impl SocketOption {
    /// Whether Unix sockets do not have it.
    pub(crate) const fn is_of_tcp(self) -> bool {
        match self {
            Self::NoDelay(_) | Self::KeepAlive(Some(_)) | Self::NotSentLowWater(_) | Self::UserTimeout(_) => true,
            Self::KeepAlive(None) | Self::Linger(_) | Self::ReceiveBuffer(_) | Self::SendBuffer(_) => false,
        }
    }
}
