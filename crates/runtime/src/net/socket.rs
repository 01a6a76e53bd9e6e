//! What a worker keeps of a stream.
#![forbid(unsafe_code)]

use core::ops::{Deref, DerefMut};

use plimsoll_pool::{Lease, PoolBox};
use plimsoll_reactor::{Fd, Received};
use plimsoll_slab::Key;

use super::transport::Carrier;

/// A socket and how its bytes are carried: one entry for both halves.
pub(crate) enum Entry {
    /// As they are.
    Plain(Socket),
    /// `None` only until the socket is put in.
    Carried(PoolBox<Option<Carried>>),
}

// A stream that nothing carries pays nothing for those that are.
const _: () = assert!(size_of::<Entry>() == size_of::<Socket>(), "the box is a niche");

/// A socket whose bytes a transport carries.
pub(crate) struct Carried {
    pub(super) socket: Socket,
    pub(super) carrier: Carrier,
    /// Records that the socket has not taken yet.
    pub(super) unsent: Option<Lease>,
    pub(super) sends: Sends,
}

/// Whether what is sealed is whole for who gave it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sends {
    Whole,
    /// An owned send is under way, or was dropped midway.
    Midway,
}

/// Why it is there.
const FILLED: &str = "a socket is put in when the room for it is there";

impl Entry {
    pub(super) fn carried(&mut self) -> Option<&mut Carried> {
        match self {
            Self::Plain(_) => None,
            Self::Carried(carried) => carried.as_mut(),
        }
    }

    pub(super) fn into_parts(self) -> (Socket, Option<Carrier>) {
        match self {
            Self::Plain(socket) => (socket, None),
            Self::Carried(carried) => {
                let Carried { socket, carrier, .. } = carried.into_inner().expect(FILLED);
                (socket, Some(carrier))
            }
        }
    }
}

impl Deref for Entry {
    type Target = Socket;

    #[inline(always)]
    fn deref(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Carried(carried) => &(**carried).as_ref().expect(FILLED).socket,
        }
    }
}

impl DerefMut for Entry {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Carried(carried) => &mut (**carried).as_mut().expect(FILLED).socket,
        }
    }
}

/// A socket.
pub(crate) struct Socket {
    pub(super) fd: Fd,
    pub(super) receiving: Receiving,
    /// Bytes received that a smaller read left over.
    pub(super) rest: Option<Lease>,
    pub(super) sending: Sending,
    /// The last receive filled what it had.
    pub(super) bulk: bool,
    pub(super) halves: u8,
    /// Calls that were done at once since the last wait.
    pub(super) calls: u8,
}

/// The receive of a stream. It belongs to the stream, not to the future that waits for it.
pub(super) enum Receiving {
    Idle,
    /// In flight, or answered and not yet taken.
    Armed {
        waiter: Key,
        op: Key,
    },
    /// Nothing is received: a wait until there is something, which holds no buffer.
    Awaited {
        waiter: Key,
        op: Key,
    },
    /// Received, but there was no room under the line to copy it to.
    Held(Received),
    /// Received, but dropped, because there was no room and too many buffers were held, or a receive waited for one
    /// that nobody looked at: there is a hole in the stream.
    Lost,
    /// The peer has sent all it will send.
    Ended,
}

impl Receiving {
    pub(super) fn waiter(&self) -> Option<Key> {
        match self {
            Self::Armed { waiter, .. } | Self::Awaited { waiter, .. } => Some(*waiter),
            Self::Idle | Self::Held(_) | Self::Lost | Self::Ended => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Ready,
    /// A wait until the socket takes bytes: none are on their way.
    Awaited {
        waiter: Key,
        op: Key,
    },
    /// A send is in flight, or was dropped midway.
    Interrupted,
}
