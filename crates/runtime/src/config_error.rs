//! What is wrong with the settings that something is made of, and with how a call is used.
#![forbid(unsafe_code)]

use core::fmt;

use plimsoll_pool::{LimitTooLow, OutOfRange};

/// Why nothing can be made of these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value is out of its range.
    OutOfRange(OutOfRange),
    /// A memory line that is set while the runtime runs is too low for what runs.
    LimitTooLow(LimitTooLow),
    /// A text is no address to listen at, or no such socket's.
    Address {
        /// What an address is here, with an example.
        expected: &'static str,
    },
    /// A socket that was to be joined is one of another family.
    SocketFamily {
        /// What an address of the wanted family is, with an example.
        expected: &'static str,
    },
    /// A simulation was to have a context of tokio.
    TokioInSimulation,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(wrong) => wrong.fmt(f),
            Self::LimitTooLow(low) => low.fmt(f),
            Self::Address { expected } => f.write_str(expected),
            Self::SocketFamily { expected } => write!(f, "the socket is one of another family: {expected}"),
            Self::TokioInSimulation => {
                f.write_str("a simulation has no context of tokio: its time and its sockets are the world's")
            }
        }
    }
}

impl core::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OutOfRange(wrong) => Some(wrong),
            Self::LimitTooLow(low) => Some(low),
            Self::Address { .. } | Self::SocketFamily { .. } | Self::TokioInSimulation => None,
        }
    }
}

impl From<OutOfRange> for ConfigError {
    fn from(wrong: OutOfRange) -> Self {
        Self::OutOfRange(wrong)
    }
}

/// How a call was used when it makes no sense. The program is to be changed: trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// [`spawn_on`](crate::spawn_on) a worker that does not exist.
    NoSuchWorker,
    /// More connection tables on a worker than it serves.
    TooManyTables,
    /// More runtimes in a process that take its signals than may at a time.
    TooManySignalTakers,
    /// A file that is opened neither for reading nor for writing.
    FileAccess,
    /// A path with a NUL byte.
    PathHasNul,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchWorker => "no worker has this number: they are counted from 0, and `workers()` says how many",
            Self::TooManyTables => "a worker serves at most 16 connection tables: drop one first",
            Self::TooManySignalTakers => {
                "too many runtimes of this process have the signals: at most 16 at a time, end one first"
            }
            Self::FileAccess => "open a file for reading, writing or both",
            Self::PathHasNul => "a path cannot hold a NUL byte",
        })
    }
}

impl core::error::Error for Misuse {}
