//! What sockets can be asked for.
#![forbid(unsafe_code)]

use core::time::Duration;

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
}

/// A socket option.
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
