//! What a handler's calls can fail with.

use ::core::fmt;

use plimsoll_codec::{Error as CodecError, Fault};
use plimsoll_runtime::{ConfigError, OutOfRange, OverBudget};

use crate::base::misuse::Misuse;

/// An error of the HTTP server. As a handler's result it becomes a response: see [`IntoResponse`](crate::IntoResponse).
///
/// | whose fault | |
/// |---|---|
/// | the peer | [`Peer`](Self::Peer), [`BodyTooLarge`](Self::BodyTooLarge), `Data`, [`OriginRefused`](Self::OriginRefused), [`UpgradeRequired`](Self::UpgradeRequired), [`Unsupported`](Self::Unsupported) |
/// | the network, or a slow peer | [`Disconnected`](Self::Disconnected), [`TimedOut`](Self::TimedOut), [`OutputFull`](Self::OutputFull) |
/// | the program | [`Misuse`](Self::Misuse), [`Config`](Self::Config), [`TooSlow`](Self::TooSlow) |
/// | the load | [`OverBudget`](Self::OverBudget), [`HubFull`](Self::HubFull) |
/// | the system | [`Runtime`](Self::Runtime) |
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer broke the protocol or a limit, or asked for what the protocol has and this server has not.
    Peer(CodecError),
    /// The connection or the stream is over: its peer went away, or it was closed here, as at the stop of the server.
    Disconnected,
    /// A deadline passed: for a body, for the peer to take an answer, for the handler or for memory.
    TimedOut,
    /// The body is longer than the handler allowed, in bytes.
    BodyTooLarge {
        /// What was allowed.
        bytes_max: usize,
    },
    /// The path, the query or the body is not what the handler asked for.
    #[cfg(feature = "serde")]
    Data(Box<crate::base::data_error::DataError>),
    /// A page of another site asked for a WebSocket; see [`OriginCheck`](crate::OriginCheck).
    OriginRefused,
    /// So much waits for the peer already that this was not taken; see
    /// [`WebSocketRef::send`](crate::WebSocketRef::send).
    OutputFull,
    /// The client did not offer to speak this protocol; see [`Request::upgrade`](crate::Request::upgrade).
    UpgradeRequired(&'static str),
    /// The peer asked for something that is not there.
    Unsupported(&'static str),
    /// The memory line leaves no room.
    OverBudget(OverBudget),
    /// The hub has as many members as [`HubConfig::members_max`](crate::HubConfig::members_max) allows.
    HubFull,
    /// A [`Subscription`](crate::Subscription) was read too slowly, and its hub closes those.
    TooSlow,
    /// The handler used the call when it makes no sense: it has answered already, or wrote more or less than it
    /// announced.
    Misuse(Misuse),
    /// Nothing can be made of these settings.
    Config(ConfigError),
    /// The runtime failed.
    Runtime(plimsoll_runtime::Error),
}

// It is in the result of each handler, and moves through each layer.
const _: () = assert!(size_of::<Error>() <= 48);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => error.fmt(f),
            Self::Disconnected => f.write_str("the connection is over: the peer went away, or it was closed here"),
            Self::TimedOut => f.write_str("timed out: the peer, the handler or memory took too long"),
            Self::BodyTooLarge { bytes_max } => {
                write!(f, "the body is longer than {bytes_max} bytes: read it by chunks, or allow more")
            }
            #[cfg(feature = "serde")]
            Self::Data(error) => error.fmt(f),
            Self::OriginRefused => f.write_str("pages of this origin may not open a WebSocket here"),
            Self::OutputFull => {
                f.write_str("the peer does not take what was sent to it before: wait, or drop the message")
            }
            Self::UpgradeRequired(protocol) => write!(f, "ask with Upgrade: {protocol} and Connection: Upgrade"),
            Self::Unsupported(what) => write!(f, "{what} are not supported"),
            Self::OverBudget(over) => over.fmt(f),
            Self::HubFull => f.write_str("the hub has as many members as it may have: allow more, or try later"),
            Self::TooSlow => {
                f.write_str("messages came faster than they were read: read faster, or let the hub drop some")
            }
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Config(error) => error.fmt(f),
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl ::core::error::Error for Error {
    fn source(&self) -> Option<&(dyn ::core::error::Error + 'static)> {
        match self {
            Self::Peer(error) => Some(error),
            #[cfg(feature = "serde")]
            Self::Data(error) => Some(&**error),
            Self::OverBudget(over) => Some(over),
            Self::Misuse(misuse) => Some(misuse),
            Self::Config(error) => Some(error),
            Self::Runtime(error) => Some(error),
            Self::Disconnected
            | Self::TimedOut
            | Self::HubFull
            | Self::TooSlow
            | Self::BodyTooLarge { .. }
            | Self::OriginRefused
            | Self::OutputFull
            | Self::UpgradeRequired(_)
            | Self::Unsupported(_) => None,
        }
    }
}

#[cfg(feature = "serde")]
impl From<crate::base::data_error::DataError> for Error {
    fn from(error: crate::base::data_error::DataError) -> Self {
        Self::Data(Box::new(error))
    }
}

/// What the peer did is [`Error::Peer`], what the program did [`Error::Misuse`].
impl From<CodecError> for Error {
    fn from(error: CodecError) -> Self {
        match error.fault() {
            Fault::Peer | Fault::PeerUnsupported => Self::Peer(error),
            Fault::Caller => Self::Misuse(Misuse::Protocol(error)),
        }
    }
}

impl From<Misuse> for Error {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
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

impl From<OverBudget> for Error {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<plimsoll_runtime::Error> for Error {
    fn from(error: plimsoll_runtime::Error) -> Self {
        match error {
            plimsoll_runtime::Error::OverBudget(over) => Self::OverBudget(over),
            plimsoll_runtime::Error::Config(error) => Self::Config(error),
            plimsoll_runtime::Error::TimedOut => Self::TimedOut,
            other => Self::Runtime(other),
        }
    }
}

#[cfg(test)]
mod tests;
