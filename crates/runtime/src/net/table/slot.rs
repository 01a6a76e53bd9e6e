//! What a table keeps of a connection for its owner, with or without a transport that carries its bytes.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_pool::{Lease, OverBudget, Pool, PoolBox};
use plimsoll_reactor::{Instant, SendBytes};

use crate::net::transport::{Carrier, OPENED_BYTES_MAX, OpenError, Packed, Plaintext, Stage, Transport};

/// A connection's state, and how its bytes are carried.
pub(super) enum Slot<C> {
    /// As they are.
    Plain(C),
    Carried(PoolBox<Carried<C>>),
}

/// One that a transport carries.
pub(super) struct Carried<C> {
    pub(super) state: C,
    pub(super) sends: Sends,
    pub(super) ending: Ending,
    carrying: Carrying,
}

/// What carries it.
enum Carrying {
    /// A transport at rest, and nothing that waits.
    Packed(Packed),
    Whole(Whole),
}

/// A transport in a box, and what waits beside it.
pub(super) struct Whole {
    pub(super) carrier: Carrier,
    /// What was sealed and found no room to be sent, and of how much plaintext: what is sent next begins with that.
    pub(super) sealed: Option<(Lease, usize)>,
    /// What follows the records that are being sent.
    pub(super) rest: Option<SendBytes>,
    /// What is known of records that are not whole.
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

    /// The parts of one that goes elsewhere, or nowhere: a transport that is packed stays behind, wiped.
    pub(super) fn into_parts(self) -> (C, Option<Carrier>) {
        match self {
            Self::Plain(state) => (state, None),
            Self::Carried(mut carried) => {
                if let Carrying::Packed(packed) = &mut carried.carrying {
                    packed.wipe();
                }
                let Carried { state, carrying, .. } = carried.into_inner();
                match carrying {
                    Carrying::Packed(_) => (state, None),
                    Carrying::Whole(whole) => (state, Some(whole.carrier)),
                }
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

impl Whole {
    fn new(carrier: Carrier) -> Self {
        Self { carrier, sealed: None, rest: None, partial: None }
    }

    /// Whether nothing waits beside the transport.
    fn is_alone(&self) -> bool {
        self.carrier.is_alone() && self.sealed.is_none() && self.rest.is_none()
    }
}

impl<C> Carried<C> {
    pub(super) fn new(state: C, carrier: Carrier) -> Self {
        let carrying = Carrying::Whole(Whole::new(carrier));
        Self { state, sends: Sends::Nothing, ending: Ending::No, carrying }
    }

    pub(super) fn stage(&self) -> Stage {
        match &self.carrying {
            Carrying::Packed(_) => Stage::Open,
            Carrying::Whole(whole) => whole.carrier.transport.stage(),
        }
    }

    /// What the transport has to say by itself.
    pub(super) fn output(&mut self) -> Option<Lease> {
        self.whole_now()?.carrier.transport.output()
    }

    /// What waits, unless nothing can.
    pub(super) fn whole_now(&mut self) -> Option<&mut Whole> {
        match &mut self.carrying {
            Carrying::Packed(_) => None,
            Carrying::Whole(whole) => Some(whole),
        }
    }

    pub(super) fn seen_whole(&self) -> Option<&Whole> {
        match &self.carrying {
            Carrying::Packed(_) => None,
            Carrying::Whole(whole) => Some(whole),
        }
    }

    /// Makes room for what has to wait.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for the transport's box; nothing has been done then.
    pub(super) fn whole(&mut self, pool: &Pool) -> Result<&mut Whole, OverBudget> {
        if let Carrying::Packed(packed) = &mut self.carrying {
            let carrier = Carrier::unpacked(pool, packed)?;
            self.carrying = Carrying::Whole(Whole::new(carrier));
        }
        Ok(self.whole_now().expect("made above"))
    }

    /// Uses the transport. One that was packed and is not at rest afterwards needs a box: without room for it the
    /// connection is good for nothing any more.
    pub(super) fn with<R>(&mut self, pool: &Pool, act: impl FnOnce(&mut dyn Transport) -> R) -> R {
        match &mut self.carrying {
            Carrying::Whole(whole) => act(&mut *whole.carrier.transport),
            Carrying::Packed(packed) => {
                let (mut act, mut done) = (Some(act), None);
                let unpacked = packed.with(&mut |transport| done = act.take().map(|act| act(transport)));
                if let Some(transport) = unpacked {
                    let carrier = Carrier::new(pool, transport).unwrap_or_else(|_over| Carrier::dead(pool));
                    self.carrying = Carrying::Whole(Whole::new(carrier));
                }
                done.expect("used once")
            }
        }
    }

    /// Opens what has come. What is not in the plaintext that it gives is kept.
    pub(super) fn open(&mut self, pool: &Pool, records: &mut [u8]) -> Result<Plaintext, OpenError> {
        if records.len() > OPENED_BYTES_MAX {
            // The plaintext of some has to wait.
            let _unpacked = self.whole(pool)?;
        }
        match &mut self.carrying {
            Carrying::Whole(whole) => whole.carrier.open_first(pool, records),
            Carrying::Packed(_) => self.with(pool, |transport| transport.open(pool, records)),
        }
    }

    /// What is known of records that are not whole: nothing of those of a transport at rest.
    pub(super) fn partial(&mut self) -> Option<&mut PartialRecord> {
        self.whole_now()?.partial.as_mut()
    }

    pub(super) fn forget_partial(&mut self) {
        if let Some(whole) = self.whole_now() {
            whole.partial = None;
        }
    }

    /// Whether the transport is at rest and nothing waits, so that it can be packed.
    pub(super) fn can_rest(&self) -> bool {
        self.seen_whole().is_some_and(|whole| whole.is_alone() && whole.carrier.transport.packing().is_some())
    }

    /// Packs the transport, if it can be.
    pub(super) fn rest(&mut self) {
        let Carrying::Whole(whole) = &mut self.carrying else { return };
        let Some(how) = whole.carrier.transport.packing().filter(|_| whole.is_alone()) else { return };
        debug_assert!(whole.partial.is_none(), "settled before");
        let before = core::mem::replace(&mut self.carrying, Carrying::Packed(Packed::place(how)));
        if let (Carrying::Packed(packed), Carrying::Whole(whole)) = (&mut self.carrying, before) {
            packed.fill(whole.carrier.transport);
        }
    }

    /// What was sealed is lost, and so is the connection.
    pub(super) fn fail(&mut self, pool: &Pool) {
        self.carrying = Carrying::Whole(Whole::new(Carrier::dead(pool)));
    }
}

// A transport that is packed shares the slot with what is there anyway.
const _: () = assert!(size_of::<Carried<[u64; 3]>>() <= 256, "the class of 256 bytes");
