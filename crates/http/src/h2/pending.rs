//! Frames that wait to be sent until there is room for them.

use plimsoll_runtime::Instant;

/// What is to be sent as soon as there is room.
#[derive(Clone, Copy, Default)]
pub(super) struct Pending {
    pub(super) windows: Windows,
    /// Window updates are held back, as memory is short.
    pub(super) holds_windows: bool,
    pub(super) goaway: Goaway,
    /// Handlers have informational responses to send.
    pub(super) interims: bool,
}

/// Whether window updates are to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Windows {
    #[default]
    Sent,
    /// When our SETTINGS are acknowledged: streams may wait for what their windows have become then.
    AfterSettings,
    Pending,
}

/// How far the peer was told to open no more streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Goaway {
    #[default]
    None,
    /// There was no room for it.
    Pending,
    /// Since then. Streams that are on their way are still served.
    Announced(Instant),
    /// The last stream was named.
    Final,
}

impl Goaway {
    /// When it was announced, until the last stream is named.
    pub(super) fn announced(self) -> Option<Instant> {
        match self {
            Self::Announced(since) => Some(since),
            Self::None | Self::Pending | Self::Final => None,
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    /// Closed as soon as the output has left.
    Closing,
    /// Closed, for want of room or time, when the send that is on its way has left; with a GOAWAY, if the socket takes
    /// that.
    Leaving,
}

impl Phase {
    pub(super) fn is_open(self) -> bool {
        self == Self::Open
    }

    /// Nothing more can be done but to send what is there.
    pub(super) fn close(&mut self) {
        if *self == Self::Open {
            *self = Self::Closing;
        }
    }

    /// The same where something has failed.
    pub(super) fn close_on<T, E>(&mut self, done: Result<T, E>) {
        if done.is_err() {
            self.close();
        }
    }
}
