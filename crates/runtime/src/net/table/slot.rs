//! What a table keeps of a connection for its owner, with or without a transport that carries its bytes.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, PoolBox};
use plimsoll_reactor::SendBytes;

use crate::net::transport::Transport;

/// A connection's state, and how its bytes are carried.
pub(super) enum Slot<C> {
    /// As they are.
    Plain(C),
    Carried(PoolBox<Carried<C>>),
}

/// One that a transport carries.
pub(super) struct Carried<C> {
    pub(super) state: C,
    pub(super) transport: Box<dyn Transport>,
    /// Plaintext that nobody has taken yet.
    pub(super) opened: Option<Lease>,
    /// What was sealed and found no room to be sent, and of how much plaintext: what is sent next begins with that.
    pub(super) sealed: Option<(Lease, usize)>,
    /// What follows the records that are being sent.
    pub(super) rest: Option<SendBytes>,
}

impl<C> Slot<C> {
    #[inline(always)]
    pub(super) fn get(&self) -> &C {
        match self {
            Self::Plain(state) => state,
            Self::Carried(carried) => &carried.state,
        }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self) -> &mut C {
        match self {
            Self::Plain(state) => state,
            Self::Carried(carried) => &mut carried.state,
        }
    }

    pub(super) fn into_state(self) -> C {
        match self {
            Self::Plain(state) => state,
            Self::Carried(carried) => carried.into_inner().state,
        }
    }

    pub(super) fn carried(&mut self) -> Option<&mut Carried<C>> {
        match self {
            Self::Plain(_) => None,
            Self::Carried(carried) => Some(carried),
        }
    }
}

impl<C> Carried<C> {
    pub(super) fn has_opened(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| !opened.is_empty())
    }
}
