//! What can go wrong, and whose fault it is.
#![forbid(unsafe_code)]

use core::fmt;

/// The line does not allow it, or nothing of that size exists.
///
/// Not a fault of the system's: the caller waits, sheds something, or passes the error on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    wanted_bytes: u64,
    cause: Shortage,
}

/// Why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// They would cross the line.
    Line,
    /// One piece of that size does not exist: more than the largest class.
    TooLarge,
    /// The system did not open the memory, although the line allows it; the number is its `errno`.
    System(i32),
    /// The class has used up its addresses: 4 GiB of it are live in one pool.
    Addresses,
    /// The kernel's part of a connection would cross what the container leaves for it.
    Container,
}

impl OverBudget {
    /// A refusal of `wanted_bytes` bytes at the line.
    #[must_use]
    pub const fn new(wanted_bytes: u64) -> Self {
        Self { wanted_bytes, cause: Shortage::Line }
    }

    /// A refusal of `wanted_bytes` bytes in one piece, which is more than the largest class has.
    #[must_use]
    pub const fn too_large(wanted_bytes: u64) -> Self {
        Self { wanted_bytes, cause: Shortage::TooLarge }
    }

    pub(crate) const fn in_container(wanted_bytes: u64) -> Self {
        Self { wanted_bytes, cause: Shortage::Container }
    }

    pub(crate) const fn because(wanted_bytes: u64, cause: Shortage) -> Self {
        Self { wanted_bytes, cause }
    }

    /// How many bytes were asked for.
    #[must_use]
    pub const fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
    }

    /// Why they were refused.
    #[must_use]
    pub const fn cause(&self) -> Shortage {
        self.cause
    }

    /// Whether it helps to wait until something is given back.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        !matches!(self.cause, Shortage::TooLarge)
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.wanted_bytes;
        match self.cause {
            Shortage::Line if bytes == 0 => {
                f.write_str("the memory line leaves no room: give something back, or raise the line")
            }
            Shortage::Line => {
                write!(f, "{bytes} more bytes would cross the memory line: give something back, or raise the line")
            }
            Shortage::TooLarge => {
                write!(f, "{bytes} bytes in one piece are more than the largest size class has: use several pieces")
            }
            Shortage::System(errno) => {
                write!(
                    f,
                    "the system refused memory for {bytes} bytes that the line allows (errno {errno}): free memory elsewhere"
                )
            }
            Shortage::Container => {
                write!(
                    f,
                    "{bytes} more bytes in the kernel would cross 80 % of the container's limit: close connections, or raise the limit"
                )
            }
            Shortage::Addresses => {
                write!(
                    f,
                    "no addresses are left for {bytes} bytes in their size class: a pool has 4 GiB for each, use more workers"
                )
            }
        }
    }
}

impl core::error::Error for OverBudget {}

/// Why a pool could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The pool's fixed part does not fit under the line.
    OverBudget(OverBudget),
    /// The system does not give the addresses that a pool reserves (addresses, not memory).
    Reserve {
        /// How many bytes of addresses were asked for.
        bytes: u64,
        /// The system's error number.
        errno: i32,
    },
    /// The system refused the first page or an advice on the reservation.
    System {
        /// The system's error number.
        errno: i32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverBudget(over) => write!(f, "the memory line is too low for a pool: {over}"),
            Self::Reserve { bytes, errno } => write!(
                f,
                "the system refused to reserve {} GiB of addresses (errno {errno}): lift the limit on address space (ulimit -v, RLIMIT_AS)",
                bytes >> 30
            ),
            Self::System { errno } => write!(f, "the system refused to set up a pool (errno {errno})"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OverBudget(over) => Some(over),
            Self::Reserve { .. } | Self::System { .. } => None,
        }
    }
}

impl From<OverBudget> for Error {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

#[cfg(test)]
mod tests;
