//! Where a stream socket listens or connects.
#![forbid(unsafe_code)]

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a Unix address at most, and of a path one less, for the NUL behind it: `sun_path` of unix(7).
const UNIX_BYTES_MAX: usize = 108;

/// The address of a stream socket.
///
/// As text: `127.0.0.1:80`, `[::1]:80`, `unix:/run/app.sock`, `unix:@name` for an abstract name, `unix:` for none.
///
/// ```
/// use plimsoll_reactor::Address;
///
/// let address: Address = "unix:/run/app.sock".parse()?;
/// assert_eq!(address.ip(), None);
/// assert_eq!(address.to_string(), "unix:/run/app.sock");
/// assert!("127.0.0.1:80".parse::<Address>()?.ip().is_some());
/// assert!("localhost".parse::<Address>().is_err(), "a name is looked up before");
/// # Ok::<(), plimsoll_reactor::InvalidAddress>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Address {
    /// An IP address and a port of TCP.
    Ip(SocketAddr),
    /// A socket of this host.
    Unix(UnixAddress),
}

/// The address of a Unix socket: a path, an abstract name, or none. See unix(7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixAddress {
    /// As in `sun_path`, without the NUL behind a path: an abstract name begins with a NUL. Zeros behind it.
    name: [u8; UNIX_BYTES_MAX],
    len: u8,
}

/// A text or a path that is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// Neither `IP:PORT` nor `unix:PATH`.
    Text,
    /// The path of a socket is empty.
    EmptyPath,
    /// The path of a socket has a NUL.
    NulInPath,
    /// A Unix address is longer than the system takes.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        bytes_max: usize,
    },
}

impl Address {
    /// The IP address and port, if it is one.
    pub const fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The address of a Unix socket, if it is one.
    pub const fn unix(&self) -> Option<UnixAddress> {
        match self {
            Self::Unix(address) => Some(*address),
            Self::Ip(_) => None,
        }
    }
}

impl UnixAddress {
    /// A socket that nobody has named, such as that of a client.
    pub const UNNAMED: Self = Self { name: [0; UNIX_BYTES_MAX], len: 0 };

    /// A socket in the file system.
    ///
    /// # Errors
    ///
    /// [`InvalidAddress`]: the path is empty, has a NUL, or more than 107 bytes.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, InvalidAddress> {
        let path = path.as_ref().as_os_str().as_bytes();
        if path.is_empty() {
            return Err(InvalidAddress::EmptyPath);
        }
        if path.contains(&0) {
            return Err(InvalidAddress::NulInPath);
        }
        Self::named(&[path], UNIX_BYTES_MAX - 1)
    }

    /// A name of Linux's abstract namespace: no file, and gone with its last socket.
    ///
    /// # Errors
    ///
    /// [`InvalidAddress::TooLong`]: more than 107 bytes.
    pub fn from_abstract_name(name: impl AsRef<[u8]>) -> Result<Self, InvalidAddress> {
        Self::named(&[&[0], name.as_ref()], UNIX_BYTES_MAX)
    }

    fn named(parts: &[&[u8]], bytes_max: usize) -> Result<Self, InvalidAddress> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if bytes > bytes_max {
            return Err(InvalidAddress::TooLong { bytes, bytes_max });
        }
        let mut address = Self { len: bytes as u8, ..Self::UNNAMED };
        for (to, from) in address.name.iter_mut().zip(parts.iter().copied().flatten()) {
            *to = *from;
        }
        Ok(address)
    }

    /// What the system says of a socket: `sun_path`, with the NUL behind a path or without.
    pub(crate) fn from_system(name: &[u8]) -> Option<Self> {
        let name = match name {
            [] | [0, ..] => name,
            path => path.split(|&byte| byte == 0).next()?,
        };
        Self::named(&[name], UNIX_BYTES_MAX).ok()
    }

    /// As in `sun_path`, without the NUL behind a path.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..usize::from(self.len)]
    }

    /// Its path, if it is in the file system.
    pub fn as_path(&self) -> Option<&Path> {
        match self.name() {
            [] | [0, ..] => None,
            path => Some(Path::new(OsStr::from_bytes(path))),
        }
    }

    /// Its abstract name, if it has one.
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        match self.name() {
            [0, name @ ..] => Some(name),
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<UnixAddress> for Address {
    fn from(address: UnixAddress) -> Self {
        Self::Unix(address)
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        match text.strip_prefix("unix:") {
            None => text.parse().map(Self::Ip).map_err(|_| InvalidAddress::Text),
            Some(name) => name.parse().map(Self::Unix),
        }
    }
}

impl FromStr for UnixAddress {
    type Err = InvalidAddress;

    /// A path, or `@` and an abstract name.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        match text.strip_prefix('@') {
            Some(name) => Self::from_abstract_name(name),
            None => Self::from_path(text),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(address) => write!(f, "unix:{address}"),
        }
    }
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.as_path(), self.as_abstract_name()) {
            (Some(path), _) => path.display().fmt(f),
            (None, Some(name)) => write!(f, "@{}", name.escape_ascii()),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnixAddress({self})")
    }
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("an address is `IP:PORT`, such as 127.0.0.1:8080 or [::1]:8080, or `unix:PATH`"),
            Self::EmptyPath => f.write_str("the path of a Unix socket is empty"),
            Self::NulInPath => f.write_str("the path of a Unix socket has a NUL"),
            Self::TooLong { bytes, bytes_max } => {
                write!(
                    f,
                    "the address of a Unix socket has {bytes} bytes, of at most {bytes_max}: choose a shorter path"
                )
            }
        }
    }
}

impl core::error::Error for InvalidAddress {}

#[cfg(test)]
mod tests;
