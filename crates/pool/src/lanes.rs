//! Whose turn it is among those who wait: weighted over priorities, in turns over tenants, first in first out within a tenant.
//!
//! ```text
//!   Output 4 |  lane of tenant A: w w w        a ring of lanes for each priority;
//!   Body   2 |  lane of tenant B: w            the front moves on with each grant
//!   Head   1 |  ...
//! ```
//!
//! The front lane keeps its turn until its share of bytes is used up, and a lane that used more is passed over until the others had theirs. So
//! both many small requests and few large ones of one tenant cost the others no more than its own share.
#![forbid(unsafe_code)]

use crate::error::OverBudget;
use crate::pool::Pool;
use crate::priority::Priority;
use crate::table::Table;
use crate::tenants::{TenantKey, Tenants};

pub(crate) const NONE: u32 = u32::MAX;
/// A lane's share of a round.
const SHARE_BYTES: i64 = 16 << 10;
const PER_PAGE: usize = 56;
/// Waiters that are looked at behind a blocked one, at most.
pub(crate) const CANDIDATES_MAX: usize = 8;

/// Who waits for one tenant at one priority.
#[derive(Debug)]
struct Lane {
    tenant: TenantKey,
    /// Of the share of this round; at most `SHARE_BYTES`, negative for what was granted beyond it.
    left_bytes: i64,
    first: u32,
    last: u32,
    next: u32,
    previous: u32,
    priority: Priority,
}

/// The links of waiters within their lanes.
pub(crate) trait Chain {
    /// `(previous, next)` of a waiter.
    fn links(&mut self, waiter: u32) -> &mut (u32, u32);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Table<Lane, PER_PAGE>,
    /// The lane of each priority whose turn it is.
    fronts: [u32; Priority::COUNT],
    /// Smooth weighted turns: the highest is next.
    turns: [i32; Priority::COUNT],
}

impl Lanes {
    pub(crate) fn new(lanes_max: u32) -> Self {
        Self { lanes: Table::new(lanes_max), fronts: [NONE; Priority::COUNT], turns: [0; Priority::COUNT] }
    }

    pub(crate) fn make_room(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        self.lanes.make_room(pool)
    }

    /// Adds a waiter at the end of its tenant's lane; gives the lane. Room was made.
    pub(crate) fn push(
        &mut self,
        tenants: &mut Tenants,
        chain: &mut impl Chain,
        tenant: TenantKey,
        priority: Priority,
        waiter: u32,
    ) -> u32 {
        if let Some(lane) = tenants.lane(tenant, priority) {
            let last = core::mem::replace(&mut self.lanes.at_mut(lane).last, waiter);
            chain.links(last).1 = waiter;
            *chain.links(waiter) = (last, NONE);
            return lane;
        }
        *chain.links(waiter) = (NONE, NONE);
        let front = self.fronts[priority as usize];
        let lane = Lane {
            tenant,
            left_bytes: SHARE_BYTES - i64::from(tenants.debt(tenant)),
            first: waiter,
            last: waiter,
            next: NONE,
            previous: NONE,
            priority,
        };
        let lane = self.lanes.insert(lane).index;
        tenants.set_lane(tenant, priority, Some(lane));
        if front == NONE {
            (self.lanes.at_mut(lane).next, self.lanes.at_mut(lane).previous) = (lane, lane);
            self.fronts[priority as usize] = lane;
        } else {
            self.link_behind_all(lane, front);
        }
        lane
    }

    /// Behind all others is before the front.
    fn link_behind_all(&mut self, lane: u32, front: u32) {
        let last = self.lanes.at(front).previous;
        (self.lanes.at_mut(lane).next, self.lanes.at_mut(lane).previous) = (front, last);
        self.lanes.at_mut(last).next = lane;
        self.lanes.at_mut(front).previous = lane;
    }

    fn unlink(&mut self, lane: u32) {
        let (next, previous) = (self.lanes.at(lane).next, self.lanes.at(lane).previous);
        self.lanes.at_mut(previous).next = next;
        self.lanes.at_mut(next).previous = previous;
    }

    /// Takes a waiter out, wherever it stands.
    pub(crate) fn remove(&mut self, tenants: &mut Tenants, chain: &mut impl Chain, lane: u32, waiter: u32) {
        let (previous, next) = *chain.links(waiter);
        match previous {
            NONE => self.lanes.at_mut(lane).first = next,
            previous => chain.links(previous).1 = next,
        }
        match next {
            NONE => self.lanes.at_mut(lane).last = previous,
            next => chain.links(next).0 = previous,
        }
        if self.lanes.at(lane).first == NONE {
            self.end(tenants, lane);
        }
    }

    fn end(&mut self, tenants: &mut Tenants, index: u32) {
        let lane = self.lanes.at(index);
        let (priority, next, tenant, left_bytes) = (lane.priority, lane.next, lane.tenant, lane.left_bytes);
        let at = priority as usize;
        if next == index {
            self.fronts[at] = NONE;
        } else {
            self.unlink(index);
            if self.fronts[at] == index {
                self.fronts[at] = next;
            }
        }
        self.lanes.remove(self.lanes.key_at(index));
        tenants.set_debt(tenant, u32::try_from(-left_bytes).unwrap_or(0));
        tenants.set_lane(tenant, priority, None);
    }

    /// The waiter whose turn it is.
    pub(crate) fn head(&mut self) -> Option<u32> {
        let priority = self.by_turns().into_iter().find(|priority| self.fronts[*priority as usize] != NONE)?;
        let at = priority as usize;
        loop {
            let front = self.fronts[at];
            let lane = self.lanes.at_mut(front);
            if lane.next == front {
                // Nobody is kept waiting by its debt.
                lane.left_bytes = SHARE_BYTES;
            }
            if lane.left_bytes > 0 {
                return Some(lane.first);
            }
            lane.left_bytes += SHARE_BYTES;
            if lane.left_bytes <= 0 {
                self.fronts[at] = lane.next;
            }
        }
    }

    /// The first waiters of lanes, those first whose turn is sooner; not more than are worth a look.
    pub(crate) fn candidates(&self) -> [u32; CANDIDATES_MAX] {
        let mut candidates = [NONE; CANDIDATES_MAX];
        let mut count = 0;
        for priority in self.by_turns() {
            let front = self.fronts[priority as usize];
            let mut lane = front;
            while lane != NONE && count < CANDIDATES_MAX {
                candidates[count] = self.lanes.at(lane).first;
                count += 1;
                lane = self.lanes.at(lane).next;
                if lane == front {
                    break;
                }
            }
        }
        candidates
    }

    /// A waiter of this lane is granted so many bytes, and is removed next: the turns move on.
    pub(crate) fn granted(&mut self, index: u32, bytes: u64) {
        let lane = self.lanes.at_mut(index);
        lane.left_bytes -= bytes as i64;
        let (priority, next, is_used_up) = (lane.priority, lane.next, lane.left_bytes <= 0);
        let mut round = 0;
        for other in Priority::ALL {
            if self.fronts[other as usize] != NONE {
                self.turns[other as usize] += other.weight() as i32;
                round += other.weight() as i32;
            }
        }
        self.turns[priority as usize] -= round;
        let front = self.fronts[priority as usize];
        if front != index {
            // It passed others.
            self.unlink(index);
            self.link_behind_all(index, front);
        } else if is_used_up {
            self.fronts[priority as usize] = next;
        }
        debug_assert_eq!(self.turns.iter().sum::<i32>(), 0, "what one gets ahead, the others are behind");
    }

    /// Priorities, the next first.
    fn by_turns(&self) -> [Priority; Priority::COUNT] {
        let mut order = Priority::ALL;
        order.sort_by_key(|priority| {
            let weight = if self.fronts[*priority as usize] == NONE { 0 } else { priority.weight() as i32 };
            -(self.turns[*priority as usize] + weight)
        });
        order
    }
}

#[cfg(test)]
mod tests;
