//! Room for the beginnings of a few requests, kept from the start: a connection that was parked and whose request finds no memory is not turned away,
//! it waits in line with those that were there before.
//!
//! What is taken out is put back as soon as there is memory again.

use ::core::cell::RefCell;

use plimsoll_pool::{Class, Kind, Lease, Pool, PoolBox};

use crate::connection::{Active, EXCHANGE_BYTES};

/// Portions of a worker at most: each an exchange and a head.
const PORTIONS_MAX: usize = 32;
/// Heads up to this are kept.
const HEAD_CLASS: Class = Class::B1024;
pub(crate) const HEAD_BYTES: usize = HEAD_CLASS.bytes();
/// No more than this part of a worker's share of the line.
const SHARE_PART: u64 = 128;
/// So many connections of an address may wait with what they got from here.
pub(crate) const PER_HOST_MAX: usize = 4;

/// See the module.
pub(crate) struct Larder {
    pool: Pool,
    portions: usize,
    exchanges: RefCell<Vec<Lease>>,
    heads: RefCell<Vec<Lease>>,
}

impl Larder {
    /// A larder for a worker with this share of the line, in bytes. Filled as far as there is memory.
    pub(crate) fn new(pool: &Pool, line_share: u64) -> Self {
        let portion_bytes = (EXCHANGE_BYTES.max(1) + HEAD_CLASS.bytes()) as u64;
        let portions = usize::try_from(line_share / SHARE_PART / portion_bytes).unwrap_or(PORTIONS_MAX);
        let portions = portions.min(PORTIONS_MAX);
        let larder = Self {
            pool: pool.clone(),
            portions,
            exchanges: RefCell::new(Vec::with_capacity(portions)),
            heads: RefCell::new(Vec::with_capacity(portions)),
        };
        larder.restock();
        larder
    }

    pub(crate) fn is_full(&self) -> bool {
        self.exchanges.borrow().len() == self.portions && self.heads.borrow().len() == self.portions
    }

    /// Puts back what was taken out, as far as there is memory.
    pub(crate) fn restock(&self) {
        for (shelf, class) in [(&self.exchanges, PoolBox::<Active>::CLASS), (&self.heads, HEAD_CLASS)] {
            let mut shelf = shelf.borrow_mut();
            while shelf.len() < self.portions {
                let Ok(lease) = self.pool.try_acquire_class(class, Kind::Fixed) else { break };
                shelf.push(lease);
            }
        }
    }

    /// Room for an exchange.
    pub(crate) fn exchange(&self) -> Option<Lease> {
        self.exchanges.borrow_mut().pop()
    }

    /// Room for a head, with these bytes in it; `None` for more than are kept for one.
    pub(crate) fn head(&self, bytes: &[u8]) -> Option<Lease> {
        if bytes.len() > HEAD_BYTES {
            return None;
        }
        let mut lease = self.heads.borrow_mut().pop()?;
        let taken = lease.extend(bytes);
        debug_assert_eq!(taken, bytes.len(), "the class was looked at");
        Some(lease)
    }
}

#[cfg(test)]
mod tests;
