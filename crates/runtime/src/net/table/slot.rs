//! What a table keeps of a connection for its owner, with or without a transport that carries its bytes.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_pool::{Lease, PoolBox};
use plimsoll_reactor::{Instant, SendBytes};

use crate::net::transport::Carrier;

/// A connection's state, and how its bytes are carried.
pub(super) enum Slot<C> {
    /// As they are.
    Plain(C),
    Carried(PoolBox<Carried<C>>),
}

/// One that a transport carries.
pub(super) struct Carried<C> {
    pub(super) state: C,
    pub(super) carrier: Carrier,
    /// What was sealed and found no room to be sent, and of how much plaintext: what is sent next begins with that.
    pub(super) sealed: Option<(Lease, usize)>,
    /// What follows the records that are being sent.
    pub(super) rest: Option<SendBytes>,
    pub(super) sends: Sends,
    pub(super) ending: Ending,
    pub(super) partial: Option<PartialRecord>,
}

/// What the owner is told of when the records in flight are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// Nothing: they are the transport's own, or there are none.
    Nothing,
    /// That bytes of the owner's were sent.
    Owners,
    /// Nothing, as they are the transport's own; the owner's are sealed then.
    OwnersNext,
}

/// How far the end of what is sent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// Behind what is in flight.
    Asked,
    /// The transport's end is in flight.
    InFlight,
}

/// What is known of records that are not whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialRecord {
    /// Since when one is not; `None` while all are.
    pub(super) since: Option<Instant>,
    /// For how long it may be.
    pub(super) within: Option<Duration>,
    /// What the owner has [asked for](super::Table::schedule) meanwhile.
    pub(super) owners: Option<Instant>,
}

impl PartialRecord {
    pub(super) fn until(&self) -> Option<Instant> {
        Some(self.since? + self.within?)
    }
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

    pub(super) fn into_parts(self) -> (C, Option<Carrier>) {
        match self {
            Self::Plain(state) => (state, None),
            Self::Carried(carried) => {
                let Carried { state, carrier, .. } = carried.into_inner();
                (state, Some(carrier))
            }
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
    pub(super) fn new(state: C, carrier: Carrier) -> Self {
        Self { state, carrier, sealed: None, rest: None, sends: Sends::Nothing, ending: Ending::No, partial: None }
    }
}
