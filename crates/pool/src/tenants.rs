//! The tenants of one worker: among whom waiting is fair.
//!
//! A tenant is found by its name, a peer's address say. It holds where its waiters queue, and what it was granted beyond its share. It is there as
//! long as somebody has opened it and not closed it, or waits for it.
#![forbid(unsafe_code)]

use crate::error::OverBudget;
use crate::pool::Pool;
use crate::priority::Priority;
use crate::table::{Key, Table};

/// Names a tenant of one worker's [`Admission`](crate::Admission). 8 bytes; a key of a tenant that has ended names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(Key);

const NONE: u32 = u32::MAX;
/// Where the chain of tenants of a name begins.
const BUCKETS: usize = 512;
const PER_PAGE: usize = 73;
/// How many tenants a worker has at most.
const TENANTS_MAX: u32 = 1 << 19;

#[derive(Debug)]
struct Tenant {
    name: [u64; 2],
    /// How often it was opened and not closed. It ends when it is neither open nor has a lane.
    handles: u32,
    /// The next tenant with the same hash.
    next: u32,
    /// Where its waiters queue, for each priority; see `lanes`.
    lanes: [u32; Priority::COUNT],
    /// What it was granted beyond its share when it last waited; see `lanes`.
    debt_bytes: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tenants {
    table: Table<Tenant, PER_PAGE>,
    buckets: [u32; BUCKETS],
    seed: u64,
}

impl Tenants {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_limit(seed, TENANTS_MAX)
    }

    /// At most so many tenants.
    fn with_limit(seed: u64, tenants_max: u32) -> Self {
        Self { table: Table::new(tenants_max), buckets: [NONE; BUCKETS], seed }
    }

    /// The tenant of this name, which is new if nobody has opened it. Every call is matched by a [`close`](Self::close).
    pub(crate) fn open(&mut self, pool: &Pool, name: u128) -> Result<TenantKey, OverBudget> {
        let name = [name as u64, (name >> 64) as u64];
        let bucket = self.bucket_of(name);
        let mut at = self.buckets[bucket];
        while at != NONE {
            let tenant = self.table.at_mut(at);
            if tenant.name == name {
                tenant.handles += 1;
                return Ok(TenantKey(self.table.key_at(at)));
            }
            at = tenant.next;
        }
        self.table.make_room(pool)?;
        let next = self.buckets[bucket];
        let tenant = Tenant { name, handles: 1, next, lanes: [NONE; Priority::COUNT], debt_bytes: 0 };
        let key = self.table.insert(tenant);
        self.buckets[bucket] = key.index;
        Ok(TenantKey(key))
    }

    /// Ends what [`open`](Self::open) began.
    pub(crate) fn close(&mut self, key: TenantKey) {
        if let Some(tenant) = self.table.get_mut(key.0) {
            debug_assert!(tenant.handles > 0, "every handle is closed once");
            tenant.handles = tenant.handles.saturating_sub(1);
            self.end_if_idle(key);
        }
    }

    /// Whether it has not ended.
    pub(crate) fn is_there(&self, key: TenantKey) -> bool {
        self.table.get(key.0).is_some()
    }

    /// The lane in which a tenant waits; `None` if it does not.
    pub(crate) fn lane(&self, key: TenantKey, priority: Priority) -> Option<u32> {
        let lane = self.table.get(key.0)?.lanes[priority as usize];
        (lane != NONE).then_some(lane)
    }

    /// A tenant with a lane does not end.
    pub(crate) fn set_lane(&mut self, key: TenantKey, priority: Priority, lane: Option<u32>) {
        if let Some(tenant) = self.table.get_mut(key.0) {
            tenant.lanes[priority as usize] = lane.unwrap_or(NONE);
            self.end_if_idle(key);
        }
    }

    pub(crate) fn debt(&self, key: TenantKey) -> u32 {
        self.table.get(key.0).map_or(0, |tenant| tenant.debt_bytes)
    }

    pub(crate) fn set_debt(&mut self, key: TenantKey, bytes: u32) {
        if let Some(tenant) = self.table.get_mut(key.0) {
            tenant.debt_bytes = bytes;
        }
    }

    fn end_if_idle(&mut self, key: TenantKey) {
        let tenant = self.table.at(key.0.index);
        if tenant.handles == 0 && tenant.lanes == [NONE; Priority::COUNT] {
            self.unlink(key.0.index);
            self.table.remove(key.0);
        }
    }

    fn unlink(&mut self, index: u32) {
        let (name, next) = (self.table.at(index).name, self.table.at(index).next);
        let bucket = self.bucket_of(name);
        if self.buckets[bucket] == index {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while self.table.at(at).next != index {
            at = self.table.at(at).next;
        }
        self.table.at_mut(at).next = next;
    }

    /// Keyed by a seed, so that peers cannot choose addresses that share a bucket.
    fn bucket_of(&self, name: [u64; 2]) -> usize {
        let mut mixed = self.seed ^ name[0];
        for part in [name[1], self.seed.rotate_left(32)] {
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ part;
        }
        (mixed ^ (mixed >> 31)) as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests;
