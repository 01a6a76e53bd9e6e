//! The pool of one worker, as its owner sees it.
#![forbid(unsafe_code)]

use std::rc::Rc;
use std::sync::Arc;

use crate::boxed::PoolBox;
use crate::budget::{Budget, Charge};
use crate::class::Class;
use crate::credit::{Credit, Source};
use crate::error::{Error, OverBudget};
use crate::kind::Kind;
use crate::lease::Lease;
use crate::local::{Local, fixed_bytes};
use crate::pages::PageChoice;
use crate::segments::Goal;

mod decay;

pub use decay::{Decay, DecayConfig, DecaySpeed};

/// How a [`Pool`] is made.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    workers: u32,
    pages: PageChoice,
}

impl Default for PoolConfig {
    /// One worker, pages from the system.
    fn default() -> Self {
        Self { workers: 1, pages: PageChoice::System }
    }
}

impl PoolConfig {
    /// How many pools will share the budget: the more, the less credit each fetches at a time. At least 1 is assumed.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Where pages come from.
    #[must_use]
    pub fn pages(mut self, pages: PageChoice) -> Self {
        self.pages = pages;
        self
    }
}

/// The memory of one worker: leases of twelve size classes, charged to a [`Budget`] before they are touched.
///
/// A pool belongs to the thread that made it; clones are handles of the same pool. Leases may go anywhere: dropped on
/// another thread, a lease comes back with the owner's next [`drain_remote`](Self::drain_remote). When the last handle
/// goes while leases are elsewhere, their arena stays charged and mapped until the last of them is dropped
/// ([`adopted_arenas`](crate::adopted_arenas)).
///
/// Free memory stays resident and charged until [`release_free`](Self::release_free), or until the line is reached and
/// a class needs what another has free. At most 4 GiB of each class can be live in one pool. A forked child has none of
/// this memory.
///
/// ```
/// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
///
/// let budget = Budget::new(MemoryLimit::kib(256));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
///
/// let mut lease = pool.try_acquire(5000, Kind::Buffers)?;
/// assert_eq!(lease.capacity(), 8192);
/// assert_eq!(lease.extend(b"hello"), 5);
/// assert_eq!(&lease[..], b"hello");
///
/// let refused = (0..64).map(|_| pool.try_acquire(8192, Kind::Buffers)).collect::<Result<Vec<_>, _>>();
/// assert!(refused.is_err(), "512 KiB are more than the line");
/// assert!(budget.peak() <= 256 << 10);
///
/// drop((lease, refused));
/// assert!(pool.release_free(u64::MAX) > 200 << 10, "free memory is kept until it is given back");
/// assert_eq!(budget.charged_by(Kind::Buffers), 0);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    local: Rc<Local>,
}

impl Pool {
    /// A pool of the calling thread, with 64 GiB of addresses of its own and no memory but its header page.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when the fixed part, a page and less than 4 KiB, crosses the line; [`Error::Reserve`] when
    /// the system does not give the addresses; [`Error::System`] when it does not give the first page.
    pub fn new(budget: &Arc<Budget>, config: PoolConfig) -> Result<Self, Error> {
        let local = Local::open(budget, config.workers, config.pages)?;
        Ok(Self { local })
    }

    /// The budget that the pool charges.
    #[must_use]
    #[inline]
    pub fn budget(&self) -> &Arc<Budget> {
        self.local.credit().budget()
    }

    /// An empty lease of the smallest class with at least `len` bytes.
    ///
    /// Never blocks. A free resident slot is taken if there is one, the lowest but for a few at hand; else memory is
    /// charged, after taking back what other threads dropped. At the line, free memory of all classes of this pool is
    /// given back first.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line, for more than 131,072 bytes, or when the system refuses to open memory; see
    /// [`cause`](OverBudget::cause).
    #[inline]
    pub fn try_acquire(&self, len: usize, kind: Kind) -> Result<Lease, OverBudget> {
        match Class::for_len(len) {
            Some(class) => self.try_acquire_class(class, kind),
            None => Err(OverBudget::too_large(len as u64)),
        }
    }

    /// An empty lease of this class.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_class(&self, class: Class, kind: Kind) -> Result<Lease, OverBudget> {
        Lease::acquire(&self.local, class, kind)
    }

    /// A lease of the smallest class for these bytes, filled with them.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_copy(&self, bytes: &[u8], kind: Kind) -> Result<Lease, OverBudget> {
        let mut lease = self.try_acquire(bytes.len(), kind)?;
        let taken = lease.extend(bytes);
        debug_assert_eq!(taken, bytes.len(), "the class was chosen for them");
        Ok(lease)
    }

    /// Makes room for `more` bytes behind the view of a lease: as it is, at the start of its slot, or in a lease of the
    /// smallest class for all of them, which takes its place. Classes double, so a lease that grows bit by bit is
    /// copied once for each class.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); the lease is then as before.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let mut lease = pool.try_copy(b"a head", Kind::Buffers)?;
    /// pool.try_grow(&mut lease, 100)?;
    /// assert_eq!((&lease[..], lease.capacity()), (&b"a head"[..], 128));
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    pub fn try_grow(&self, lease: &mut Lease, more: usize) -> Result<(), OverBudget> {
        if lease.make_room(more) {
            return Ok(());
        }
        lease.move_to(self.try_acquire(lease.len().saturating_add(more), lease.kind())?);
        Ok(())
    }

    /// A value in a slot of the smallest class for it.
    ///
    /// Types of more than 131,072 bytes or an alignment above 4,096 do not compile.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); the value comes back with the refusal.
    pub fn try_boxed<T>(&self, value: T, kind: Kind) -> Result<PoolBox<T>, (OverBudget, T)> {
        match self.try_acquire_class(PoolBox::<T>::CLASS, kind) {
            Ok(lease) => Ok(PoolBox::from_lease(lease, value)),
            Err(over) => Err((over, value)),
        }
    }

    /// Charges memory that is not the pool's, as [`Budget::charge`]; at the line, the pool first gives back what it can
    /// spare.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when that is not enough.
    pub fn charge(&self, kind: Kind, bytes: u64) -> Result<Charge, OverBudget> {
        let local = &*self.local;
        if let Ok(charge) = self.budget().charge(kind, bytes) {
            return Ok(charge);
        }
        local.credit().trim();
        if let Ok(charge) = self.budget().charge(kind, bytes) {
            return Ok(charge);
        }
        local.spare(Goal::AtLeast(bytes));
        local.credit().trim();
        self.budget().charge(kind, bytes)
    }

    /// Takes back the leases that were dropped on other threads; how many there were. For once a turn: costs one load
    /// if there are none.
    #[inline]
    pub fn drain_remote(&self) -> usize {
        self.local.drain_remote()
    }

    /// Gives free resident memory back to the system, at most `bytes_max` bytes, and uncharges what is gone. Returns
    /// its bytes.
    ///
    /// The highest addresses go first, so that what stays gathers at the low end. A page in use is never touched, and a
    /// unit larger than what is left of `bytes_max` is not split.
    pub fn release_free(&self, bytes_max: u64) -> u64 {
        self.local.spare(Goal::AtMost(bytes_max))
    }

    /// Gives unused credit back to the budget, for other workers; not while somebody here waits longest for memory, who
    /// gathers it.
    pub fn trim_credit(&self) {
        if !self.credit().gathers() {
            self.credit().trim();
        }
    }

    /// Sets what is called when a lease comes back while the doorbell is [armed](Self::arm_doorbell). It runs on the
    /// thread that dropped the lease, must neither block nor panic, and replaces the one set before.
    pub fn set_doorbell(&self, ring: Box<dyn Fn() + Send + Sync>) {
        self.local.arena().set_doorbell(ring);
    }

    /// Says whether the next lease that comes back from another thread rings the doorbell; takes back those that came
    /// before.
    ///
    /// Once it has rung, it is not armed any more. Returns how many leases were taken back: with 0, the owner may
    /// sleep, and misses none.
    pub fn arm_doorbell(&self, armed: bool) -> usize {
        self.local.arm_doorbell(armed)
    }

    /// What the pool holds, class by class.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let segments = self.local.segments();
        let classes = Class::ALL.map(|class| {
            let (count, division) = (segments.of(class).count(), segments.of(class).division());
            let (slot_bytes, unit_bytes) = (class.bytes() as u64, u64::from(division.unit_bytes));
            let resident_bytes = u64::from(count.resident_units) * unit_bytes;
            let at_hand = if division.slots_per_unit == 1 { count.magazine_slots } else { 0 };
            ClassStats {
                class,
                live: u64::from(count.live),
                resident_bytes,
                free_bytes: resident_bytes - u64::from(count.live) * slot_bytes,
                releasable_bytes: u64::from(count.empty_units + at_hand) * unit_bytes,
            }
        });
        PoolStats {
            classes,
            charged_bytes: self.credit().account().charged(),
            credit_bytes: self.credit().credit(),
            fixed_bytes: fixed_bytes() + segments.metadata_bytes(),
            released_bytes: segments.released_bytes(),
        }
    }

    /// Bytes of this pool that are in somebody's hands, by size class: leases, boxes and pages.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let account = self.credit().account();
        Kind::ALL.iter().map(|kind| account.used(*kind)).sum()
    }

    /// Runs `act`, which may also draw on what is [kept for newcomers](crate::AdmissionConfig::reserve_bytes).
    pub fn for_newcomer<R>(&self, act: impl FnOnce() -> R) -> R {
        self.credit().on_behalf(Source::Reserve, act)
    }

    /// Runs `act` as outside of [`for_newcomer`](Self::for_newcomer).
    pub fn for_anybody<R>(&self, act: impl FnOnce() -> R) -> R {
        self.credit().on_behalf(Source::Free, act)
    }

    /// Bytes that are kept for newcomers and not drawn yet.
    #[must_use]
    pub fn kept_for_newcomers(&self) -> u64 {
        self.credit().reserve_left()
    }

    /// The worker's side of the ledger.
    #[inline]
    pub(crate) fn credit(&self) -> &Credit {
        self.local.credit()
    }

    /// Gives free resident memory back to the system until it is so much.
    pub(crate) fn release_at_least(&self, bytes: u64) -> u64 {
        self.local.spare(Goal::AtLeast(bytes))
    }

    /// Bytes that a release would give back, or a little less.
    pub(crate) fn releasable_bytes(&self) -> u64 {
        self.local.segments().releasable_bytes()
    }

    /// Lets go of this handle. Whether the arena ended, is adopted, or is still some other handle's.
    pub fn close(self) -> Closed {
        if Rc::strong_count(&self.local) > 1 {
            return Closed::Shared;
        }
        // It stays where it is until it is dropped: I-OWNER of the arena points there.
        let live = self.local.close();
        drop(self);
        if live == 0 { Closed::Ended } else { Closed::Adopted { leases: live } }
    }
}

/// What became of a pool's arena when a handle of it was [closed](Pool::close).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// There are other handles of the pool.
    Shared,
    /// Its memory is back with the system and uncharged.
    Ended,
    /// Leases are elsewhere. The arena ends with the last one.
    Adopted {
        /// How many there were.
        leases: u64,
    },
}

/// What a pool holds. See [`Pool::stats`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// One entry for each of [`Class::ALL`], in its order.
    pub classes: [ClassStats; Class::COUNT],
    /// Resident pages and metadata.
    pub charged_bytes: u64,
    /// What the budget has handed out to this pool; at least what is charged.
    pub credit_bytes: u64,
    /// Metadata: header, bitmaps, directories. Part of what is charged.
    pub fixed_bytes: u64,
    /// Bytes of pages given back to the system since the pool was made.
    pub released_bytes: u64,
}

impl PoolStats {
    /// Resident bytes that no lease has.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.free_bytes).sum()
    }

    /// Bytes that [`Pool::release_free`] would give back, or a little less.
    #[must_use]
    pub fn releasable_bytes(&self) -> u64 {
        self.classes.iter().map(|class| class.releasable_bytes).sum()
    }
}

/// What a pool holds of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Which class.
    pub class: Class,
    /// Leases and boxes that were not given back.
    pub live: u64,
    /// Bytes that may be resident, and are charged.
    pub resident_bytes: u64,
    /// Of these, bytes that nobody holds.
    pub free_bytes: u64,
    /// Of these, bytes in units without a live slot, as far as it is known without looking into the slots at hand.
    pub releasable_bytes: u64,
}

#[cfg(test)]
mod tests;
