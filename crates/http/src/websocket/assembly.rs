//! Parts of a message that are put together, in room that was made before.

use plimsoll_pool::{Charge, Class};
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool};

use crate::Body;

/// Bytes that grow: in the pool as long as a class takes them, on the heap beyond. What they need is charged before:
/// what a frame says that it brings, or for what is inflated, at most twice what there is.
#[derive(Debug, Default)]
pub(super) struct Assembly(Bytes);

#[derive(Debug, Default)]
enum Bytes {
    #[default]
    None,
    Pooled(Lease),
    Heap(Charged),
}

/// Bytes on the heap, with what they are charged with.
#[derive(Debug)]
struct Charged {
    bytes: Vec<u8>,
    charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Assembly {
    /// Whether nothing was put in.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.0, Bytes::None)
    }

    /// Bytes of the pool, and of the heap that is charged to it.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.0 {
            Bytes::None => 0,
            Bytes::Pooled(lease) => lease.class().bytes(),
            Bytes::Heap(charged) => usize::try_from(charged.charge.bytes()).unwrap_or(usize::MAX),
        }
    }

    /// Takes the first part as it is.
    pub(super) fn set(&mut self, part: Lease) {
        debug_assert!(self.is_empty(), "the first part");
        self.0 = Bytes::Pooled(part);
    }

    /// Makes room for so many bytes more: all of it or, without room, nothing.
    pub(super) fn reserve(&mut self, pool: &Pool, more: usize) -> Result<(), OverBudget> {
        match &mut self.0 {
            Bytes::None => self.0 = Self::with_capacity(pool, more)?,
            Bytes::Pooled(lease) if lease.spare_capacity() >= more => {}
            Bytes::Pooled(lease) => {
                let needed = lease.len() + more;
                if needed <= LEASE_BYTES_MAX {
                    let wish = needed.max(2 * lease.len()).min(LEASE_BYTES_MAX);
                    return pool.try_grow(lease, wish - lease.len());
                }
                let mut charged = Charged::with_capacity(pool, needed)?;
                charged.bytes.extend_from_slice(lease);
                self.0 = Bytes::Heap(charged);
            }
            Bytes::Heap(charged) => charged.reserve(more)?,
        }
        Ok(())
    }

    /// Copies the next part.
    pub(super) fn push(&mut self, pool: &Pool, part: &[u8]) -> Result<(), OverBudget> {
        self.reserve(pool, part.len())?;
        match &mut self.0 {
            Bytes::None => debug_assert!(part.is_empty(), "room was made"),
            Bytes::Pooled(lease) => {
                let taken = lease.extend(part);
                debug_assert_eq!(taken, part.len(), "room was made");
            }
            Bytes::Heap(charged) => charged.bytes.extend_from_slice(part),
        }
        Ok(())
    }

    fn with_capacity(pool: &Pool, bytes: usize) -> Result<Bytes, OverBudget> {
        if bytes <= LEASE_BYTES_MAX {
            return pool.try_acquire(bytes, Kind::Buffers).map(Bytes::Pooled);
        }
        Charged::with_capacity(pool, bytes).map(Bytes::Heap)
    }

    /// All that was put in.
    pub(super) fn finish(self) -> Body {
        match self.0 {
            Bytes::None => Body::Empty,
            Bytes::Pooled(lease) => Body::Lease(lease),
            Bytes::Heap(charged) => Body::Bytes(bytes::Bytes::from_owner(charged)),
        }
    }
}

impl Charged {
    fn with_capacity(pool: &Pool, capacity: usize) -> Result<Self, OverBudget> {
        let charge = pool.charge(Kind::Buffers, capacity as u64)?;
        Ok(Self { bytes: Vec::with_capacity(capacity), charge })
    }

    fn reserve(&mut self, more: usize) -> Result<(), OverBudget> {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let capacity = needed.max(2 * self.bytes.len());
            self.charge.grow((capacity as u64).saturating_sub(self.charge.bytes()))?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        debug_assert!(self.charge.bytes() >= self.bytes.capacity() as u64, "charged before");
        Ok(())
    }
}

/// The largest class.
const LEASE_BYTES_MAX: usize = Class::K128.bytes();
