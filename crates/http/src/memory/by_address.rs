//! What each address holds of a worker's memory while that is short, so that one with much begins nothing more before
//! others do.
//!
//! A sketch of two rows of counters (count-min: Cormode and Muthukrishnan, 2005): the bytes of an address are never
//! taken for less than they are, and rarely for more. Exchanges are counted whose handlers run while memory is short,
//! and [connections that stay](crate::memory::lasting): each has a [`PeerShare`], which leaves when it is dropped, or
//! keeps its columns.

use ::core::cell::Cell;
use std::rc::Rc;

use plimsoll_pool::{Charge, Kind, Pool};

/// Counters of a row; a power of two.
const COLUMNS: usize = 4_096;
/// Rows are shorter under a low line: no more than this part of a worker's share.
const SHARE_PART: u64 = 128;

/// See the module.
pub(crate) struct Crowd {
    rows: Rc<Rows>,
    _charge: Option<Charge>,
}

struct Rows {
    counters: [Box<[Cell<u32>]>; 2],
    /// How often an address came to hold less.
    removals: Cell<u64>,
}

/// The bytes of one exchange, counted for its address until this is dropped.
pub(crate) struct PeerShare {
    rows: Rc<Rows>,
    columns: Columns,
    bytes: u32,
}

/// Where an address is counted.
pub(crate) type Columns = [u16; 2];

impl Crowd {
    fn wanted(line_share: u64) -> usize {
        let fit = (line_share / SHARE_PART / (2 * size_of::<u32>()) as u64).max(1);
        COLUMNS.min(1 << fit.ilog2())
    }

    /// Bytes of the counters of a worker with this share of the line, in bytes.
    pub(crate) fn bytes(line_share: u64) -> u64 {
        (2 * Self::wanted(line_share) * size_of::<u32>()) as u64
    }

    /// For a worker with this share of the line, in bytes.
    pub(crate) fn new(pool: &Pool, line_share: u64) -> Self {
        let wanted = Self::wanted(line_share);
        let charge = pool.charge(Kind::Fixed, Self::bytes(line_share)).ok();
        let columns = if charge.is_some() { wanted } else { 1 };
        let row = || vec![Cell::new(0); columns].into_boxed_slice();
        let rows = Rows { counters: [row(), row()], removals: Cell::new(0) };
        Self { rows: Rc::new(rows), _charge: charge }
    }

    /// Bytes of an address: at least what it holds.
    pub(crate) fn held_bytes(&self, host: u64) -> u64 {
        self.held_in(self.columns(host))
    }

    /// The same for one that is counted there.
    pub(crate) fn held_in(&self, columns: Columns) -> u64 {
        let counters = self.rows.counters.iter().zip(columns);
        let least = counters.map(|(row, column)| row[usize::from(column)].get()).min();
        u64::from(least.unwrap_or(0))
    }

    /// Counts bytes for an address.
    pub(crate) fn enter(&self, host: u64, bytes: usize) -> PeerShare {
        let columns = self.add(host, bytes);
        PeerShare { rows: Rc::clone(&self.rows), columns, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) }
    }

    /// The same for one who keeps where it is counted, and [removes](Self::remove) it.
    pub(crate) fn add(&self, host: u64, bytes: usize) -> Columns {
        let columns = self.columns(host);
        self.add_to(columns, bytes);
        columns
    }

    /// The same for one whose columns are known.
    pub(crate) fn add_to(&self, columns: Columns, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.rows.each(columns, |counter| counter.saturating_add(bytes));
    }

    /// Ends what [`add`](Self::add) began.
    pub(crate) fn remove(&self, columns: Columns, bytes: usize) {
        self.rows.remove(columns, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// How often an address came to hold less: while that stays, none does.
    pub(crate) fn removals(&self) -> u64 {
        self.rows.removals.get()
    }

    /// Where an address is counted.
    pub(crate) fn columns(&self, host: u64) -> Columns {
        // Two odd constants spread neighbouring addresses; the high bits of a product are the good ones.
        [0x9E37_79B9_7F4A_7C15_u64, 0xC2B2_AE3D_27D4_EB4F].map(|factor| {
            let spread = host.wrapping_add(1).wrapping_mul(factor);
            ((spread >> 48) as usize & (self.rows.counters[0].len() - 1)) as u16
        })
    }
}

impl Rows {
    fn each(&self, columns: Columns, change: impl Fn(u32) -> u32) {
        for (row, column) in self.counters.iter().zip(columns) {
            let counter = &row[usize::from(column)];
            counter.set(change(counter.get()));
        }
    }

    fn remove(&self, columns: Columns, bytes: u32) {
        self.each(columns, |counter| counter.saturating_sub(bytes));
        self.removals.set(self.removals.get() + 1);
    }
}

impl Drop for PeerShare {
    fn drop(&mut self) {
        self.rows.remove(self.columns, self.bytes);
    }
}

#[cfg(test)]
mod tests;
