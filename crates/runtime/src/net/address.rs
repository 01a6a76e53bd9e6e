//! Which addresses a socket has, by type.
#![forbid(unsafe_code)]

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use std::path::Path;

use plimsoll_reactor::{Address, InvalidAddress, UnixAddress};

/// The addresses of a kind of sockets: [`SocketAddr`] for TCP, [`UnixAddress`], or [`Address`] for both. Nobody else's
/// type can be one.
pub trait SocketAddress: Copy + Send + fmt::Debug + FromStr + Into<Address> + sealed::Sealed + 'static {
    #[doc(hidden)]
    const STREAM: &'static str;
    #[doc(hidden)]
    const LISTENER: &'static str;
    #[doc(hidden)]
    const EXPECTED: &'static str;

    /// The address, if it is one of this kind.
    fn of(address: Address) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for SocketAddr {}
impl sealed::Sealed for UnixAddress {}
impl sealed::Sealed for Address {}

impl SocketAddress for SocketAddr {
    const STREAM: &'static str = "TcpStream";
    const LISTENER: &'static str = "TcpListener";
    const EXPECTED: &'static str = "a listen address is `IP:PORT`, such as 127.0.0.1:8080 or [::1]:8080";

    fn of(address: Address) -> Option<Self> {
        address.ip()
    }
}

impl SocketAddress for UnixAddress {
    const STREAM: &'static str = "UnixStream";
    const LISTENER: &'static str = "UnixListener";
    const EXPECTED: &'static str = "a Unix socket is a path of at most 107 bytes, or `@` and an abstract name";

    fn of(address: Address) -> Option<Self> {
        address.unix()
    }
}

impl SocketAddress for Address {
    const STREAM: &'static str = "Stream";
    const LISTENER: &'static str = "Listener";
    const EXPECTED: &'static str =
        "a listen address is `IP:PORT`, such as 127.0.0.1:8080 or [::1]:8080, or `unix:PATH`";

    fn of(address: Address) -> Option<Self> {
        Some(address)
    }
}

/// Where to listen: an address, or its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress<A = SocketAddr>(pub(super) A);

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl From<UnixAddress> for ListenAddress<UnixAddress> {
    fn from(address: UnixAddress) -> Self {
        Self(address)
    }
}

impl From<Address> for ListenAddress<Address> {
    fn from(address: Address) -> Self {
        Self(address)
    }
}

impl From<SocketAddr> for ListenAddress<Address> {
    fn from(address: SocketAddr) -> Self {
        Self(address.into())
    }
}

impl From<UnixAddress> for ListenAddress<Address> {
    fn from(address: UnixAddress) -> Self {
        Self(address.into())
    }
}

impl<A: SocketAddress> TryFrom<&str> for ListenAddress<A> {
    type Error = A::Err;

    fn try_from(text: &str) -> Result<Self, A::Err> {
        text.parse().map(Self)
    }
}

impl<A: SocketAddress> TryFrom<&String> for ListenAddress<A> {
    type Error = A::Err;

    fn try_from(text: &String) -> Result<Self, A::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<&Path> for ListenAddress<UnixAddress> {
    type Error = InvalidAddress;

    fn try_from(path: &Path) -> Result<Self, InvalidAddress> {
        UnixAddress::from_path(path).map(Self)
    }
}
