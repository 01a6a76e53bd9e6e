//! What a handler's calls can fail with.

use ::core::fmt;

use plimsoll_runtime::OverBudget;

/// An error of the HTTP server. As a handler's result it becomes a response: see [`IntoResponse`](crate::IntoResponse).
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What the codec refuses; its [`fault`](plimsoll_codec::Error::fault) says whether the peer broke the protocol or
    /// the program did.
    Peer(plimsoll_codec::Error),
    /// The peer went away, or took too long.
    Gone,
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
    /// The handler used the call when it makes no sense: it has answered already, or wrote more or less than it
    /// announced.
    Misuse(&'static str),
    /// The runtime failed.
    Runtime(plimsoll_runtime::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => error.fmt(f),
            Self::Gone => f.write_str("the peer went away, or took too long"),
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
            Self::Misuse(what) => f.write_str(what),
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
            Self::Runtime(error) => Some(error),
            Self::Gone
            | Self::BodyTooLarge { .. }
            | Self::OriginRefused
            | Self::OutputFull
            | Self::UpgradeRequired(_)
            | Self::Unsupported(_)
            | Self::Misuse(_) => None,
        }
    }
}

#[cfg(feature = "serde")]
impl From<crate::base::data_error::DataError> for Error {
    fn from(error: crate::base::data_error::DataError) -> Self {
        Self::Data(Box::new(error))
    }
}

impl From<plimsoll_codec::Error> for Error {
    fn from(error: plimsoll_codec::Error) -> Self {
        Self::Peer(error)
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
            other => Self::Runtime(other),
        }
    }
}
