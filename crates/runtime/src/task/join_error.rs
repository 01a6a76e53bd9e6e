//! Why a task that was joined has no output.
#![forbid(unsafe_code)]

use core::any::Any;
use core::fmt;

/// Why a task has no output.
pub enum JoinError {
    /// It panicked; this is what the panic carried, as [`std::panic::catch_unwind`] gives it.
    Panicked(Box<dyn Any + Send + 'static>),
    /// It was aborted, or its worker ended.
    Cancelled,
}

impl JoinError {
    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// Whether the task was aborted, or its worker ended.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// The panic's message, if it is a text.
    fn message(&self) -> Option<&str> {
        let Self::Panicked(payload) = self else { return None };
        payload.downcast_ref::<&'static str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.message()) {
            (Self::Cancelled, _) => f.write_str("the task was cancelled: it was aborted, or its worker ended"),
            (Self::Panicked(_), Some(message)) => write!(f, "the task panicked, a bug in it: {message}"),
            (Self::Panicked(_), None) => f.write_str("the task panicked, a bug in it"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(_) => f.debug_tuple("Panicked").field(&self.message().unwrap_or("..")).finish(),
            Self::Cancelled => f.write_str("Cancelled"),
        }
    }
}

impl core::error::Error for JoinError {}
