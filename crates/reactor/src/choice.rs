//! Which drivers there are, which one the user asks for, and which one it became.
#![forbid(unsafe_code)]

use core::fmt;
use core::str::FromStr;

use crate::op::Errno;

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// io_uring where it works, else mio, and say why.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// mio (epoll).
    Mio,
}

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        match name {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "mio" => Ok(Self::Mio),
            _ => Err(UnknownDriver),
        }
    }
}

/// A driver name that is not `auto`, `uring` or `mio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDriver;

impl fmt::Display for UnknownDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown driver: say `auto`, `uring` or `mio`")
    }
}

impl core::error::Error for UnknownDriver {}

/// The drivers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// io_uring.
    Uring,
    /// epoll through mio.
    Mio,
    /// The simulation.
    Sim,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "uring",
            Self::Mio => "mio",
            Self::Sim => "sim",
        })
    }
}

/// How bytes are received on parked connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMode {
    /// A provided-buffer ring whose buffers are shared by many receives (Linux 6.16 and later).
    Incremental,
    /// A provided-buffer ring with one receive per buffer.
    Classic,
    /// The kernel watches a connection from its first receive to its close and says when bytes are there; they are
    /// received into one scratch buffer. What [`select`](crate::select) takes where it works: of the three it costs
    /// least per message, and no message waits in a shared buffer.
    Poll,
}

impl fmt::Display for ReceiveMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incremental => "incremental",
            Self::Classic => "classic",
            Self::Poll => "poll",
        })
    }
}

/// The outcome of [`select`](crate::select).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The driver.
    pub kind: DriverKind,
    /// How it receives.
    pub receive: ReceiveMode,
    /// Why io_uring was not taken: the step that failed and its error. `None` when it was taken or not wanted.
    pub reason: Option<(&'static str, Errno)>,
}
