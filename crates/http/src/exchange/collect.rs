//! Bodies that are collected: the room for all of one is there before anything of it is read.
//!
//! ```text
//!              room for all of it
//!  length known ----------------> read --> collected, counted until its exchange is over
//!     | none                       |
//!     v                            | no length: a step more, or none
//!  waits, holding nothing          v
//!     | memory_timeout          OverBudget
//!     +--> OverBudget
//! ```
//!
//! Who waits here holds nothing of what it waits for, and who holds something of a body does not wait for more: so
//! nobody waits in a circle. The room is that of the line as everybody has it, not of the progress reserve, which lends
//! a piece for what is on its way at most.
//!
//! Who waits is woken when its room was granted, by what frees memory, and keeps what was granted. Long bodies are
//! patient ([`Reserve::charge`](plimsoll_pool::Reserve::charge)): whoever else waits passes them, and among themselves
//! they have turns over addresses, by bytes.

use ::core::future::poll_fn;
use ::core::pin::Pin;

use plimsoll_pool::{Charge, Footprint, Permit, PoolBox, Priority};
use plimsoll_runtime::memory::admission;
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool, now};

use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::exchange::handle::ExchangeHandle;
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;

/// A body up to so many bytes waits for no longer one.
const SHORT_BYTES: usize = 16 * 1_024;

/// The room of a body that is collected, or was, until its exchange is over.
pub(crate) struct Collected {
    room: Room,
    /// What its address is blamed for, while memory is short.
    share: Option<PeerShare>,
}

/// What stands for a body, which is on the heap: of a short one a lease, which a pool may find in what it has.
enum Room {
    Lease(Lease),
    Charge(Charge),
}

impl Room {
    /// From the pool, at once.
    fn of_pool(pool: &Pool, bytes: usize) -> Result<Self, OverBudget> {
        if bytes <= SHORT_BYTES {
            return pool.try_acquire(bytes, Kind::Buffers).map(Self::Lease);
        }
        pool.charge(Kind::Buffers, bytes as u64).map(Self::Charge)
    }

    /// What was granted.
    fn of_permit(permit: &mut Permit, bytes: usize) -> Option<Self> {
        permit.take_charge().map(Self::Charge).or_else(|| permit.take(bytes).map(Self::Lease))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Lease(lease) => lease.class().bytes(),
            Self::Charge(charge) => usize::try_from(charge.bytes()).unwrap_or(usize::MAX),
        }
    }
}

/// A handler waits for room: connections that stay are told to end for it, and others shed, as for all who wait.
pub(crate) struct Waits<'a>(&'a Desk);

impl<'a> Waits<'a> {
    pub(crate) fn begin(worker: &'a Desk) -> Self {
        worker.count_body_wait(1);
        Self(worker)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.count_body_wait(-1);
    }
}

impl ExchangeHandle {
    /// Keeps room for so many bytes of a body with the exchange, in the place of what was kept before.
    fn keep_room(&self, bytes: usize) -> Result<(), Error> {
        let pool = self.port().pool();
        let room = Room::of_pool(pool, bytes)?;
        self.keep(room, pool.try_acquire_class(PoolBox::<Collected>::CLASS, Kind::Codec)?)
    }

    fn keep(&self, room: Room, cell: Lease) -> Result<(), Error> {
        if self.with_collected(|_collected| ()).is_none() {
            return Err(Error::Disconnected);
        }
        let weighed = self.desk().filter(|desk| desk.is_weighed());
        let share = weighed.map(|desk| desk.peer_share_of(self.host(), room.bytes()));
        let collected = PoolBox::from_lease(cell, Collected { room, share });
        self.with_collected(|place| place.replace(collected)).map(drop).ok_or(Error::Disconnected)
    }

    /// Keeps room for a whole body; waits for it.
    pub(crate) async fn await_room(&self, bytes: usize) -> Result<(), Error> {
        let is_short = bytes <= SHORT_BYTES;
        if is_short {
            // Those who wait may wait for more than that.
            match self.keep_room(bytes) {
                Err(Error::OverBudget(_)) => {}
                done => return done,
            }
        }
        let cell = Footprint::new().head(PoolBox::<Collected>::CLASS.bytes());
        let (footprint, charge_bytes) = if is_short { (cell.body(bytes), 0) } else { (cell, bytes as u64) };
        let reserve = admission().reserve(footprint, Priority::Body, self.host()).charge(charge_bytes);
        let mut reserve = reserve.deadline((now() + self.config().memory_timeout).as_nanos());
        let mut waits = None;
        let granted = poll_fn(|cx| {
            let granted = Pin::new(&mut reserve).poll(cx);
            if granted.is_pending() {
                waits = waits.take().or_else(|| self.desk().map(Waits::begin));
            }
            granted
        });
        let granted = granted.await.ok();
        drop(waits);
        let room = granted.and_then(|mut permit| Some((Room::of_permit(&mut permit, bytes)?, permit.take(0)?)));
        let Some((room, cell)) = room else {
            self.count_shed();
            return Err(OverBudget::new(bytes as u64).into());
        };
        self.keep(room, cell)
    }

    /// Makes the room larger; without as much nothing has happened.
    pub(crate) fn grow_room(&self, more: usize) -> Result<(), Error> {
        let grown = self.with_collected(|place| {
            let Some(Collected { room: Room::Charge(charge), .. }) = place.as_deref_mut() else { return None };
            Some(charge.grow(more as u64).or_else(|_over| {
                // What the pool could give back is free for a charge now.
                drop(self.port().pool().charge(Kind::Buffers, more as u64)?);
                charge.grow(more as u64)
            }))
        });
        let grown = match grown {
            None => return Err(Error::Disconnected),
            Some(Some(grown)) => grown.map_err(Error::from),
            // The first steps have a lease: the next one has both for a moment.
            Some(None) => self.keep_room(self.room_bytes() + more),
        };
        grown.inspect_err(|_error| self.count_shed())?;
        let share = self.desk().and_then(|desk| desk.share_while_weighed(self.id.key(), self.room_bytes()));
        self.with_collected(|place| place.as_mut().map(|collected| ::core::mem::replace(&mut collected.share, share)));
        Ok(())
    }

    /// A body found no room.
    fn count_shed(&self) {
        if let Some(desk) = self.desk() {
            desk.shed_for_room(Shed::Body);
        }
    }

    fn room_bytes(&self) -> usize {
        self.with_collected(|place| place.as_ref().map_or(0, |collected| collected.room.bytes())).unwrap_or(0)
    }
}
