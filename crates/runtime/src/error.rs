//! What the runtime's calls can fail with.
#![forbid(unsafe_code)]

use core::fmt;
use std::io;

use plimsoll_pool::{Error as PoolError, LimitTooLow, OutOfRange, OverBudget, Shed};
use plimsoll_reactor::{Errno, Error as ReactorError};

use crate::config_error::{ConfigError, Misuse};
use crate::inbox::INBOX_JOBS_MAX;

/// An error of the runtime.
///
/// Its `Debug` is its `Display`, so that a `main` that returns it ends with a line that a person can read.
#[non_exhaustive]
pub enum Error {
    /// The memory line leaves no room; retry later, or give the process a higher line.
    OverBudget(OverBudget),
    /// Memory that was waited for was not given.
    Shed(Shed),
    /// The line is too low to start with so many workers.
    LineTooLow {
        /// What they need, in bytes.
        needed_bytes: u64,
        /// What was given, in bytes.
        line_bytes: u64,
        /// How many there should be.
        workers: usize,
        /// What each of them needs, in bytes; the first one less than the others, as it has the stack of its caller.
        worker_bytes: u64,
        /// How many the line carries; 0 when it is too low to start at all.
        workers_max: usize,
    },
    /// Nothing can be made of these settings.
    Config(ConfigError),
    /// The call makes no sense like this.
    Misuse(Misuse),
    /// What is to be served cannot be: routes that cannot be there together, for one. The source is the reason.
    Service(Box<dyn core::error::Error + Send + Sync>),
    /// The driver refused.
    Driver(ReactorError),
    /// The pool could not reserve its address space.
    Pool(PoolError),
    /// The system failed the operation.
    System(Errno),
    /// The peer ended the connection in the middle of the operation.
    ConnectionClosed,
    /// An earlier send on this connection was dropped midway, so nobody knows how much of it the peer has: only closing
    /// makes sense.
    SendInterrupted,
    /// The operation did not finish in time.
    TimedOut,
    /// The runtime is shutting down.
    ShuttingDown,
    /// The blocking pool's queue is full; retry later, or allow it more threads.
    BlockingQueueFull,
    /// 4,096 closures wait for the worker already: it is busy, or blocked. Send the next ones when some of them have
    /// run.
    InboxFull,
    /// The closure or task panicked.
    Panicked,
}

// It is in the result of many a future, which would all be larger.
const _: () = assert!(size_of::<Error>() <= 48);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverBudget(over) => over.fmt(f),
            Self::Shed(shed) => shed.fmt(f),
            &Self::LineTooLow { needed_bytes, line_bytes, workers, worker_bytes, workers_max } => {
                let (kib, plural) = (needed_bytes.div_ceil(1024), if workers == 1 { "" } else { "s" });
                write!(
                    f,
                    "a memory line of {line_bytes} bytes is too low for {workers} worker{plural}: at least {needed_bytes} bytes ({kib} KiB) are needed"
                )?;
                match workers_max {
                    0 => write!(f, ", {worker_bytes} for each: raise the line"),
                    max => write!(f, ", {worker_bytes} for each; it carries {max}: ask for no more, or raise the line"),
                }
            }
            Self::Config(error) => error.fmt(f),
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Service(error) => write!(f, "the service cannot be served: {error}"),
            Self::Driver(error) => error.fmt(f),
            Self::Pool(error) => error.fmt(f),
            Self::System(errno) => errno.fmt(f),
            Self::ConnectionClosed => f.write_str("the peer closed the connection"),
            Self::SendInterrupted => f.write_str("an earlier send was dropped midway: close the connection"),
            Self::TimedOut => f.write_str("timed out: try again, or allow more time"),
            Self::ShuttingDown => f.write_str("the runtime is shutting down"),
            Self::BlockingQueueFull => {
                f.write_str("the blocking pool's queue is full: await earlier calls, or make it longer")
            }
            Self::InboxFull => write!(
                f,
                "the worker has not taken the last {INBOX_JOBS_MAX} closures yet: await handles of earlier ones before more are sent"
            ),
            Self::Panicked => f.write_str("panicked"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OverBudget(over) => Some(over),
            Self::Shed(shed) => Some(shed),
            Self::Service(error) => Some(&**error),
            Self::Config(error) => Some(error),
            Self::Misuse(misuse) => Some(misuse),
            Self::Driver(error) => Some(error),
            Self::Pool(error) => Some(error),
            Self::System(errno) => Some(errno),
            Self::LineTooLow { .. }
            | Self::ConnectionClosed
            | Self::SendInterrupted
            | Self::TimedOut
            | Self::ShuttingDown
            | Self::BlockingQueueFull
            | Self::InboxFull
            | Self::Panicked => None,
        }
    }
}

impl From<OverBudget> for Error {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<OutOfRange> for Error {
    fn from(wrong: OutOfRange) -> Self {
        Self::Config(wrong.into())
    }
}

impl From<LimitTooLow> for Error {
    fn from(low: LimitTooLow) -> Self {
        Self::Config(ConfigError::LimitTooLow(low))
    }
}

impl From<Misuse> for Error {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl From<Shed> for Error {
    fn from(shed: Shed) -> Self {
        match shed {
            Shed::OverBudget(over) => Self::OverBudget(over),
            shed => Self::Shed(shed),
        }
    }
}

impl From<ReactorError> for Error {
    fn from(error: ReactorError) -> Self {
        match error {
            ReactorError::OverBudget(over) => Self::OverBudget(over),
            other => Self::Driver(other),
        }
    }
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::System(errno) => errno.into(),
            Error::OverBudget(_) | Error::Shed(_) | Error::LineTooLow { .. } => {
                Self::new(io::ErrorKind::OutOfMemory, error)
            }
            Error::ConnectionClosed => Self::new(io::ErrorKind::UnexpectedEof, error),
            Error::TimedOut => Self::new(io::ErrorKind::TimedOut, error),
            Error::Config(_) | Error::Misuse(_) => Self::new(io::ErrorKind::InvalidInput, error),
            other => Self::other(other),
        }
    }
}
