//! What can go wrong when a driver is made or asked for a socket.
#![forbid(unsafe_code)]

use core::fmt;

use plimsoll_pool::OverBudget;

use crate::{Address, DriverKind, Errno};

/// Why a driver could not do what it was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller forced a driver that this system does not offer.
    DriverUnavailable {
        /// Which one.
        driver: DriverKind,
        /// The step that failed.
        step: &'static str,
        /// How it failed.
        errno: Errno,
    },
    /// The memory line leaves no room.
    OverBudget(OverBudget),
    /// Another socket listens at the address.
    AddressInUse(Box<Address>),
    /// The process may not listen at the address: ports below 1,024 need a capability, sockets in the file system the
    /// right to write to their directory.
    AddressForbidden(Box<Address>),
    /// The address is not one of this host, or in no directory.
    AddressNotAvailable(Box<Address>),
    /// The system refused something else.
    System {
        /// What was asked for.
        step: &'static str,
        /// How it failed.
        errno: Errno,
    },
}

// It is in the result of many a future, which would all be larger.
const _: () = assert!(size_of::<Error>() <= 40);

impl Error {
    /// A failed step of the system.
    pub(crate) const fn system(step: &'static str, errno: Errno) -> Self {
        Self::System { step, errno }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DriverUnavailable { driver, step, errno } => {
                write!(f, "the {driver} driver is not available here ({step}: {errno}); choose `auto` to fall back")
            }
            Self::OverBudget(over) => over.fmt(f),
            Self::AddressInUse(address) if address.unix().is_some() => write!(
                f,
                "cannot listen on {address}: another server listens there, or it is a file and no socket; choose another path"
            ),
            Self::AddressInUse(address) => {
                write!(
                    f,
                    "cannot listen on {address}: the address is in use; stop the other server or choose another port"
                )
            }
            Self::AddressForbidden(address) if address.unix().is_some() => {
                write!(f, "cannot listen on {address}: no permission to make a socket in this directory")
            }
            Self::AddressForbidden(address) => {
                write!(
                    f,
                    "cannot listen on {address}: no permission for this port; choose a port from 1024 up or grant CAP_NET_BIND_SERVICE"
                )
            }
            Self::AddressNotAvailable(address) if address.unix().is_some() => {
                write!(f, "cannot listen on {address}: there is no such directory")
            }
            Self::AddressNotAvailable(address) => {
                write!(f, "cannot listen on {address}: this host does not have that address")
            }
            Self::System { step, errno } => write!(f, "{step}: {errno}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::DriverUnavailable { errno, .. } | Self::System { errno, .. } => Some(errno),
            Self::OverBudget(over) => Some(over),
            Self::AddressInUse(_) | Self::AddressForbidden(_) | Self::AddressNotAvailable(_) => None,
        }
    }
}

impl From<OverBudget> for Error {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}
