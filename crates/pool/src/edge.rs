//! Leases as [`Bytes`], for code that speaks that type: other libraries, other threads.
//!
//! A lease owns its slot alone and shows nothing but the bytes that were received into it, so nobody writes to what a
//! `Bytes` of it sees: not the kernel, and not the driver. Received bytes that are only borrowed from a driver's shared
//! buffers have no such conversion; they are copied into a lease first.
#![forbid(unsafe_code)]

use bytes::Bytes;

use crate::lease::Lease;

impl From<Lease> for Bytes {
    /// The view of the lease, without a copy. The slot stays live, and charged to the pool that it came from, until the
    /// last clone or slice of the `Bytes` is dropped, on whichever thread, also when its pool and its runtime are gone
    /// by then.
    ///
    /// Costs one small allocation from the heap, which no budget sees. A few bytes in a large class keep all of its
    /// slot: copy those instead.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let mut lease = pool.try_copy(b"name: value", Kind::Buffers)?;
    /// lease.consume(6);
    /// let bytes = Bytes::from(lease);
    /// let value = std::thread::spawn(move || bytes.slice(..3)).join().expect("no panic");
    /// assert_eq!(&value[..], b"val");
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    fn from(lease: Lease) -> Self {
        // An empty view needs no slot.
        if lease.is_empty() { Self::new() } else { Self::from_owner(lease) }
    }
}

#[cfg(test)]
mod tests;
