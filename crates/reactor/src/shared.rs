//! Bytes that many sends read at the same time.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use plimsoll_pool::{Budget, Charge, Kind, Lease, OverBudget};

/// The bytes of a lease, shared: clones read the same memory, on any thread, and it goes back to the pool with the last
/// of them.
///
/// 16 bytes. Charged once: the lease, and the few bytes that count its clones.
///
/// ```
/// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
/// use plimsoll_reactor::SharedBytes;
///
/// let budget = Budget::new(MemoryLimit::mib(1));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
/// let bytes = SharedBytes::new(pool.try_copy(b"to all of you", Kind::Buffers)?, &budget).map_err(|(over, _)| over)?;
/// let of_one = bytes.slice(3..6);
/// assert_eq!((&of_one[..], bytes.len()), (&b"all"[..], 13));
/// assert_eq!(of_one.as_ptr(), bytes[3..].as_ptr(), "no copy");
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<Owner>,
    /// Inside the view of the lease, as is the end; not behind it.
    start: u32,
    end: u32,
}

struct Owner {
    lease: Lease,
    _charge: Charge,
}

impl SharedBytes {
    /// What the counting costs beside the lease.
    pub const OVERHEAD_BYTES: usize = size_of::<Owner>() + 2 * size_of::<usize>();

    /// Shares the bytes of a lease.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] with the lease, when there is no room to count its clones.
    pub fn new(lease: Lease, budget: &Arc<Budget>) -> Result<Self, (OverBudget, Lease)> {
        match budget.charge(Kind::Buffers, Self::OVERHEAD_BYTES as u64) {
            Ok(charge) => {
                let end = lease.len() as u32;
                Ok(Self { owner: Arc::new(Owner { lease, _charge: charge }), start: 0, end })
            }
            Err(over) => Err((over, lease)),
        }
    }

    /// A part of the bytes, which keeps all of them.
    ///
    /// # Panics
    ///
    /// When the range is not inside.
    #[must_use]
    pub fn slice(&self, range: core::ops::Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a part is inside");
        let start = self.start + range.start as u32;
        Self { owner: Arc::clone(&self.owner), start, end: start + range.len() as u32 }
    }

    /// What all clones together keep: their common address, and the bytes of the lease's class and of the counting.
    pub(crate) fn kept(&self) -> (usize, u64) {
        let bytes = self.owner.lease.class().bytes() + Self::OVERHEAD_BYTES;
        (Arc::as_ptr(&self.owner).addr(), bytes as u64)
    }

    /// Drops the first `count` bytes from this view.
    ///
    /// # Panics
    ///
    /// When it has fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "no more is consumed than there is");
        self.start += count as u32;
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner.lease[self.start as usize..self.end as usize]
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SharedBytes {
    /// Not the bytes: they may be secret, and many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} bytes)", self.len())
    }
}

const _: () = assert!(size_of::<SharedBytes>() == 16);
