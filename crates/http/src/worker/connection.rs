//! What the server keeps of a connection.
//!
//! ```text
//!             bytes                      all answered, nothing read ahead
//!  Parked ----------------> Active ----------------------------------------> Parked
//!    |                        |  close after the answer
//!    | idle, end of file      +---------------------------> Lingering --+
//!    v                        v  error, stall                           v
//!  closed                   closed                                    closed
//! ```
//!
//! While memory is short, a parked connection whose next request finds no room is `Unread` until there is some, or
//! until it is refused: the request stays in the socket ([`unread`](crate::worker::unread)).

use plimsoll_runtime::PoolBox;
use plimsoll_runtime::net::Table;

use crate::exchange::misbehaviour::Score;
use crate::h1::active::Active;
use crate::h2::Http2;
use crate::websocket::Socket;

/// What may still come on a connection that lingers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing that is worth a wait.
    Nothing,
    /// The rest of a body, behind which the client looks for its answer.
    Body,
    /// Nothing either: it was refused as it came, and is not counted as a connection.
    Refused,
}

/// The server's part of a connection's entry in the table.
pub(crate) enum Connection {
    /// Between requests: a receive is armed, the last answer may still be on its way out.
    /// Empty lines that came already count for the next head.
    /// So many exchanges have their answers in the send that is in flight.
    Parked { requests: u32, born: u32, score: Score, empty_lines: u8, answered: u16 },
    /// The same, and bytes are there that have no place: they stay in the socket, and it waits in line.
    Unread { requests: u32, born: u32, score: Score, empty_lines: u8 },
    /// A request is being read, worked on or answered.
    Active(PoolBox<Active>),
    /// Speaks HTTP/2, parked or not.
    Http2(PoolBox<Http2>),
    /// Is a WebSocket, parked or not.
    WebSocket(PoolBox<Socket>),
    /// Answered and shut down on our side; what still comes is dropped. One that was refused as it came is not counted
    /// as a connection. How much had been dropped when its time began shows whether the peer still sends. So many
    /// exchanges have their answers in the send that is in flight, as for one that is parked.
    Lingering { dropped_bytes: u32, dropped_before: u32, rest: Rest, answered: u16 },
    /// Taken out for a moment by the one who works on it.
    Taken,
}

impl Connection {
    /// Answered, and shut down next.
    pub(crate) const LINGERING: Self = Self::lingering(Rest::Nothing);

    /// Answered, and shut down when the answers of so many exchanges have left.
    pub(crate) const fn leaving(answered: u16) -> Self {
        Self::Lingering { dropped_bytes: 0, dropped_before: 0, rest: Rest::Nothing, answered }
    }

    /// Exchanges whose answers are in the send that is in flight, of one on which nothing else is worked.
    pub(crate) fn take_answered(&mut self) -> u16 {
        match self {
            Self::Parked { answered, .. } | Self::Lingering { answered, .. } => ::core::mem::take(answered),
            _ => 0,
        }
    }

    /// Answered, and shut down next, with this to come.
    pub(crate) const fn lingering(rest: Rest) -> Self {
        Self::Lingering { dropped_bytes: 0, dropped_before: 0, rest, answered: 0 }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::Parked { requests: 0, born: 0, score: Score::default(), empty_lines: 0, answered: 0 }
    }
}

/// Bytes of a parked connection in the table. The operation that is armed for it and the descriptor's readiness
/// (8 bytes, on epoll 12) come on top.
pub const CONNECTION_BYTES: usize = Table::<Connection>::ENTRY_BYTES;

// Also with a transport beneath it: whether there is one is no further byte.
const _: () = assert!(CONNECTION_BYTES == 60, "a parked connection is a cache line, with its operation");
