//! A page of the pool as a chunk of a slab.
//!
//! **I-PAGE**: a lease of the 4 KiB class is 4,096 bytes of page-aligned memory that belong to the lease alone and do
//! not move while it lives; the wrapper neither reads nor writes them.

use core::ptr::NonNull;

use plimsoll_pool::{Kind, Lease, OverBudget, Pool};
use plimsoll_slab::{CHUNK_BYTES, Chunk};

/// A page of the pool, charged to it, that a [`Slab`](plimsoll_slab::Slab) can grow by.
#[derive(Debug)]
pub struct PoolPage(Lease);

impl PoolPage {
    /// A page charged as `kind`.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line.
    pub fn try_new(pool: &Pool, kind: Kind) -> Result<Self, OverBudget> {
        let lease = pool.try_acquire(CHUNK_BYTES, kind)?;
        assert_eq!(lease.capacity(), CHUNK_BYTES, "the page class is the chunk size");
        Ok(Self(lease))
    }
}

// SAFETY: I-PAGE: exclusive, CHUNK_BYTES long, page-aligned and immovable while owned.
unsafe impl Chunk for PoolPage {
    fn as_ptr(&self) -> NonNull<u8> {
        let start = NonNull::new(self.0.as_ptr()).expect("a lease is somewhere");
        debug_assert_eq!(start.as_ptr().addr() % CHUNK_BYTES, 0, "a page");
        start
    }
}
