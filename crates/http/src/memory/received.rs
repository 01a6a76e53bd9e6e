//! Bytes that have come and find no room: a receive was armed while there was plenty, and others took that in the same
//! turn. They cannot go back into the socket, and without them what was begun on their connection would end, before all
//! that it is protected from.

use plimsoll_runtime::{Kind, Lease};

use crate::memory::desk::Desk;

impl Desk {
    /// Room for so many bytes of a connection on which something was begun, of what is kept for other ends: to be lent;
    /// for newcomers, of which half is left to them; and for answers. Each is filled again as there is memory. What is
    /// lent is large, and for others who wait: a few bytes get some of that only if there is nothing else.
    #[cold]
    pub(crate) fn spare_landed(&self, bytes: usize) -> Option<Lease> {
        let of_newcomers = || self.reserve.draw(|| self.pool.try_acquire(bytes, Kind::Buffers)).ok();
        let lent = || self.lend_landed(bytes);
        match bytes {
            ..=FEW_BYTES => of_newcomers().or_else(lent).or_else(|| self.reserve.take_for(bytes)),
            _ => lent().or_else(of_newcomers),
        }
    }

    /// The same, with these bytes in it, where something was begun.
    pub(crate) fn keep_landed(&self, bytes: &[u8], has_begun: bool) -> Option<Lease> {
        let mut lease = if has_begun { self.spare_landed(bytes.len())? } else { return None };
        lease.extend(bytes);
        Some(lease)
    }

    fn lend_landed(&self, bytes: usize) -> Option<Lease> {
        let lease = self.reserve.lend_progress()?;
        if lease.capacity() >= bytes {
            return Some(lease);
        }
        self.reserve.repay_progress(lease);
        None
    }
}

/// What a lease of the answer reserve holds.
pub(crate) const FEW_BYTES: usize = 4_096;
