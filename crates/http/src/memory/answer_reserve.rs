//! The answer reserve: room for the output of exchanges that find none in the pool, kept from the start.
//!
//! A head, or a small piece of a body, that finds no room is written into one of these leases and handed to the socket
//! at once. Nearly always the socket takes all of it, and the lease serves the next answer. What the socket does not
//! take stays in its lease until the peer reads, or is closed for not reading; the reserve is filled again from the
//! pool.
//!
//! ```text
//!            take                    the socket took all
//!   kept ----------> written, sent ----------------------> kept
//!     ^                    |
//!     | restock            | it did not: the lease stays with the connection's output
//!     +------ pool <-------+
//! ```

use ::core::cell::RefCell;

use plimsoll_pool::{Charge, Class, Kind, Lease, OverBudget, Pool};

/// Output up to this many bytes needs no memory of the pool.
const CLASS: Class = Class::K4;
/// Bytes of a reserve: this part of a worker's share of the line,
const SHARE_PART: u64 = 64;
/// at least so many,
const RESERVE_BYTES_MIN: u64 = 64 * 1_024;
/// at most so many under a high line,
const RESERVE_BYTES_MAX: u64 = 1 << 20;
/// and never more than this part of a low one.
const LOW_SHARE_PART: u64 = 8;

/// The progress reserve: one large lease, which is given to the pool when an answer or a body that was begun waits, and
/// nothing comes free. It is made whole again before the next. It is
/// [`progress_reserve_bytes`](crate::Config::progress_reserve_bytes) long, and half of that below this share of a
/// worker, in bytes.
const LOW_SHARE: u64 = 2 << 20;

/// Bytes of the progress reserve of a worker with this share of the line, where a server asks for so many.
pub(crate) fn progress_bytes(line_share: u64, wanted: u32) -> u64 {
    u64::from(wanted) / if line_share < LOW_SHARE { 2 } else { 1 }
}

/// Bytes of the reserve of a worker with this share of the line.
pub(crate) fn bytes(line_share: u64) -> u64 {
    (line_share / SHARE_PART).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).min(line_share / LOW_SHARE_PART)
}

/// Bytes of the list of a reserve's leases.
pub(crate) fn list_bytes(line_share: u64) -> u64 {
    bytes(line_share) / CLASS.bytes() as u64 * size_of::<Lease>() as u64
}

/// See the module.
pub(crate) struct AnswerReserve {
    pool: Pool,
    /// What is kept for newcomers at the start.
    newcomers_bytes: u64,
    progress_class: Option<Class>,
    progress: RefCell<Option<Lease>>,
    /// Never longer than its capacity.
    leases: RefCell<Vec<Lease>>,
    _charge: Option<Charge>,
}

impl AnswerReserve {
    /// A reserve for a worker with this share of the line, in bytes. Filled as far as there is memory.
    pub(crate) fn new(pool: &Pool, line_share: u64, progress_bytes: u32) -> Self {
        let count = bytes(line_share) as usize / CLASS.bytes();
        let charge = pool.charge(Kind::Fixed, list_bytes(line_share)).ok();
        let leases = Vec::with_capacity(if charge.is_some() { count } else { 0 });
        let progress_bytes = self::progress_bytes(line_share, progress_bytes) as usize;
        let progress_class = Some(progress_bytes).filter(|bytes| *bytes > 0).and_then(Class::for_len);
        let reserve = Self {
            pool: pool.clone(),
            newcomers_bytes: pool.kept_for_newcomers(),
            progress_class,
            progress: RefCell::default(),
            leases: RefCell::new(leases),
            _charge: charge,
        };
        reserve.restock();
        reserve
    }

    pub(crate) fn is_full(&self) -> bool {
        self.has_all_leases() && (self.has_progress() || self.progress_class.is_none())
    }

    fn has_all_leases(&self) -> bool {
        let leases = self.leases.borrow();
        leases.len() == leases.capacity()
    }

    /// Whether the progress reserve is whole.
    pub(crate) fn has_progress(&self) -> bool {
        self.progress.borrow().is_some()
    }

    /// Lends the progress reserve.
    pub(crate) fn lend_progress(&self) -> Option<Lease> {
        self.progress.borrow_mut().take()
    }

    /// Takes it back: nobody needed it.
    pub(crate) fn repay_progress(&self, lease: Lease) {
        *self.progress.borrow_mut() = Some(lease);
    }

    /// Puts back what was taken, as far as there is memory.
    pub(crate) fn restock(&self) {
        while !self.has_all_leases() {
            let Ok(lease) = self.acquire(CLASS) else { return };
            self.leases.borrow_mut().push(lease);
        }
        if !self.has_progress()
            && let Some(class) = self.progress_class
        {
            *self.progress.borrow_mut() = self.acquire(class).ok();
        }
    }

    /// Also of what is kept for newcomers, if half of that is left then.
    fn acquire(&self, class: Class) -> Result<Lease, OverBudget> {
        let act = || self.pool.try_acquire_class(class, Kind::Fixed);
        let left = self.pool.kept_for_newcomers().saturating_sub(class.bytes() as u64);
        if 2 * left >= self.newcomers_bytes { self.pool.for_newcomer(act) } else { act() }
    }

    /// Runs `act`, which may draw on what is kept for newcomers while more than half of that is left.
    pub(crate) fn draw<R>(&self, act: impl FnOnce() -> R) -> R {
        if 2 * self.pool.kept_for_newcomers() > self.newcomers_bytes { self.pool.for_newcomer(act) } else { act() }
    }

    /// Does what needs a little room and found none: with what is kept for newcomers, or else in the place of leases,
    /// of two at most.
    pub(crate) fn spare<T, E>(&self, mut act: impl FnMut() -> Result<T, E>) -> Option<T> {
        for _ in 0..2 {
            if let Ok(done) = self.draw(&mut act) {
                return Some(done);
            }
            drop(self.take_spare()?);
        }
        act().ok()
    }

    /// A lease that is not for an answer: half of them stay for those.
    pub(crate) fn take_spare(&self) -> Option<Lease> {
        let mut leases = self.leases.borrow_mut();
        if 2 * leases.len() > leases.capacity() { leases.pop() } else { None }
    }

    /// An empty lease of 4 KiB; `None` while all are with peers that do not read.
    pub(crate) fn take(&self) -> Option<Lease> {
        self.leases.borrow_mut().pop()
    }

    /// The same for so many bytes.
    pub(crate) fn take_for(&self, bytes: usize) -> Option<Lease> {
        if bytes <= CLASS.bytes() { self.take() } else { None }
    }

    /// Takes a lease back.
    pub(crate) fn put_back(&self, mut lease: Lease) {
        if lease.class() != CLASS || self.has_all_leases() {
            return;
        }
        lease.clear();
        self.leases.borrow_mut().push(lease);
    }
}

#[cfg(test)]
mod tests;
