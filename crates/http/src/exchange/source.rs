//! What a step of a connection works on.

use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Kind, Lease, OverBudget};

use crate::memory::desk::Desk;
use crate::memory::received::FEW_BYTES;

/// What fills no more than this part of its lease is moved to a smaller one.
const SPARSE_PART: usize = 4;

/// Bytes that a step works on: what was kept from before with what has just come.
pub(crate) enum Source {
    Empty,
    /// Just come, and nothing was kept; used up to here.
    Fresh(Bytes, usize),
    /// Kept.
    Kept(Lease),
}

impl Source {
    /// `has_begun` says whether something was begun on their connection.
    #[inline]
    pub(crate) fn join(
        worker: &Desk,
        kept: Option<Lease>,
        fresh: Option<Bytes>,
        has_begun: impl FnOnce() -> bool,
    ) -> Result<Self, OverBudget> {
        let Some(mut kept) = kept else {
            return Ok(fresh.map_or(Self::Empty, |bytes| Self::Fresh(bytes, 0)));
        };
        let Some(fresh) = fresh else { return Ok(Self::Kept(kept)) };
        if let Err(over) = worker.pool.try_grow(&mut kept, fresh.len()) {
            let bytes = kept.len() + fresh.len();
            kept.move_to(has_begun().then(|| worker.spare_landed(bytes)).flatten().ok_or(over)?);
        }
        let taken = kept.extend(&fresh);
        debug_assert_eq!(taken, fresh.len(), "room was made");
        Ok(Self::Kept(kept))
    }

    /// The bytes that were not used yet.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Fresh(bytes, used) => &bytes[*used..],
            Self::Kept(lease) => lease,
        }
    }

    /// Moves the rest out of a buffer of the driver, so that it can be kept whatever is done next. A few bytes find [a
    /// place](Desk::spare_landed) when it is needed.
    #[inline]
    pub(crate) fn place(&mut self, worker: &Desk) -> Result<(), OverBudget> {
        if let Self::Fresh(Bytes::Borrowed(bytes), used) = self
            && bytes.len() - *used > FEW_BYTES
        {
            *self = Self::Kept(worker.pool.try_copy(&bytes[*used..], Kind::Buffers)?);
        }
        Ok(())
    }

    /// Whether it is in a buffer of the driver, where it cannot stay.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self, Self::Fresh(Bytes::Borrowed(_), _))
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Self::Empty => debug_assert_eq!(bytes, 0),
            Self::Fresh(_, used) => *used += bytes,
            Self::Kept(lease) => lease.consume(bytes),
        }
    }

    /// The rest, to be kept beyond this turn. Comes back when there is no room for it.
    pub(crate) fn keep(self, worker: &Desk) -> Result<Option<Lease>, Self> {
        match self {
            _ if self.rest().is_empty() => Ok(None),
            Self::Empty => Ok(None),
            Self::Fresh(Bytes::Owned(mut lease), used) => {
                lease.consume(used);
                // While memory is short, what holds little takes little.
                let is_sparse = worker.holds_back() && lease.len() <= lease.class().bytes() / SPARSE_PART;
                let copy = if is_sparse { worker.pool.try_copy(&lease, Kind::Buffers).ok() } else { None };
                Ok(Some(copy.unwrap_or(lease)))
            }
            Self::Fresh(Bytes::Borrowed(_), _) => match worker.pool.try_copy(self.rest(), Kind::Buffers) {
                Ok(copy) => Ok(Some(copy)),
                Err(_) => Err(self),
            },
            Self::Kept(lease) => Ok(Some(lease)),
        }
    }
}
