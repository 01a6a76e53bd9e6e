//! Those who wait for memory, and who of them gets it next.
//!
//! ```text
//!                 enqueue                grant (all of it or nothing)            poll
//!   (no waiter) ----------> Waiting ---------------------------------> Granted ------> (gone)
//!                             |                                           |
//!                             | deadline                                  | deadline: not taken in time
//!                             v                                           |
//!                          Refused <--------------------------------------+
//!                             | poll
//!                             v
//!                          (gone)                  cancel: from any state; a grant goes back
//! ```
//!
//! This is safe code without a clock, a thread or memory of its own: a [`Supply`] gives or refuses, the caller says what time it is, and wakes
//! whom it is told to wake, after the borrow has ended. A grant is assigned before its waiter is woken, so nobody can take it away in between.
//!
//! **The head.** The lanes say whose turn it is. If that waiter does not fit, it is *blocked*: others that do fit may pass it, 8 times or for
//! 1 ms. After that, what becomes free is earmarked for it.
//!
//! **I7**: after [`next_grant`](Waiters::next_grant) has said that there is nothing to grant, a non-empty queue means that the supply does not
//! have what its head needs.
#![forbid(unsafe_code)]

use core::fmt;
use core::task::Waker;

use crate::account::Source;
use crate::error::OverBudget;
use crate::footprint::Footprint;
use crate::kind::Kind;
use crate::lanes::{Chain, Lanes, NONE};
use crate::pool::Pool;
use crate::priority::Priority;
use crate::table::{Key, Table};
use crate::tenants::{TenantKey, Tenants};

/// Where grants come from.
pub(crate) trait Supply {
    type Grant;

    /// All of a footprint, or nothing.
    fn take(&self, footprint: Footprint, kind: Kind, source: Source) -> Result<Self::Grant, OverBudget>;

    /// Keeps what is free, up to as many bytes, for the blocked waiter; 0 ends that.
    fn earmark(&self, bytes: u64);
}

/// Why memory was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shed {
    /// The deadline passed.
    Deadline,
    /// The tenant was closed before, or was never one of this worker.
    Gone,
    /// It can never be given, or there is no room to wait: the queue is full, or needs a page that the line refuses.
    OverBudget(OverBudget),
}

impl fmt::Display for Shed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("no memory came free before the deadline: retry later, or raise the line"),
            Self::Gone => f.write_str("the tenant was closed: open it again"),
            Self::OverBudget(over) => over.fmt(f),
        }
    }
}

impl core::error::Error for Shed {}

impl From<OverBudget> for Shed {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// A blocked head is passed at most so often,
const PASSES_MAX: u8 = 8;
/// and for at most so long.
const PASSED_NS_MAX: u64 = 1_000_000;
pub(crate) const PER_PAGE: usize = 32;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) footprint: Footprint,
    pub(crate) kind: Kind,
    pub(crate) priority: Priority,
    pub(crate) tenant: TenantKey,
    pub(crate) now_ns: u64,
    pub(crate) deadline_ns: u64,
}

#[derive(Debug)]
enum State<G> {
    Waiting,
    Granted(G),
    Refused(Shed),
}

#[derive(Debug)]
struct Waiter<G> {
    state: State<G>,
    waker: Option<Waker>,
    request: Request,
    lane: u32,
    /// Within the lane.
    links: (u32, u32),
}

/// The head that does not fit.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    waiter: u32,
    since_ns: u64,
    passed: u8,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiters<G> {
    table: Table<Waiter<G>, PER_PAGE>,
    lanes: Lanes,
    waiting: u32,
    blocked: Option<Blocked>,
    /// No deadline is earlier.
    earliest_ns: u64,
}

/// What a waiter is told.
#[derive(Debug)]
pub(crate) enum Answer<G> {
    Wait,
    Granted(G),
    Shed(Shed),
}

impl<G> Chain for Table<Waiter<G>, PER_PAGE> {
    fn links(&mut self, waiter: u32) -> &mut (u32, u32) {
        &mut self.at_mut(waiter).links
    }
}

impl<G> Waiters<G> {
    /// An empty queue that takes no more than `waiters_max` waiters.
    pub(crate) fn new(waiters_max: u32) -> Self {
        Self {
            table: Table::new(waiters_max),
            lanes: Lanes::new(waiters_max),
            waiting: 0,
            blocked: None,
            earliest_ns: u64::MAX,
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Room for one more waiter, so that one finds it when memory is short.
    pub(crate) fn make_room(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        self.table.make_room(pool)?;
        self.lanes.make_room(pool)
    }

    /// Puts a waiter at the end of its lane. Its tenant is there.
    pub(crate) fn enqueue(&mut self, pool: &Pool, tenants: &mut Tenants, request: Request) -> Result<Key, OverBudget> {
        debug_assert!(tenants.is_there(request.tenant));
        self.make_room(pool)?;
        let waiter = Waiter { state: State::Waiting, waker: None, request, lane: NONE, links: (NONE, NONE) };
        let key = self.table.insert(waiter);
        let lane = self.lanes.push(tenants, &mut self.table, request.tenant, request.priority, key.index);
        self.table.at_mut(key.index).lane = lane;
        self.waiting += 1;
        self.earliest_ns = self.earliest_ns.min(request.deadline_ns);
        Ok(key)
    }

    /// Whether a waiter has to wait, and would be told by another waker than this.
    pub(crate) fn wants(&self, key: Key, waker: &Waker) -> bool {
        let waiter = self.table.get(key).expect("a waiter is polled until it is told, and not after");
        let is_known = waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        matches!(waiter.state, State::Waiting) && !is_known
    }

    /// What became of a waiter; it is gone once it is told anything but to wait. The waker is for one that [`wants`](Self::wants) it. The one that it
    /// replaces, or that nobody needs, comes back, to be dropped outside.
    pub(crate) fn poll(&mut self, key: Key, waker: Option<Waker>) -> (Answer<G>, Option<Waker>) {
        let waiter = self.table.get_mut(key).expect("a waiter is polled until it is told, and not after");
        if matches!(waiter.state, State::Waiting) {
            let outdated = if waker.is_some() { core::mem::replace(&mut waiter.waker, waker) } else { None };
            return (Answer::Wait, outdated);
        }
        let removed = self.remove(key);
        match removed.map(|waiter| waiter.state) {
            Some(State::Granted(grant)) => (Answer::Granted(grant), waker),
            Some(State::Refused(shed)) => (Answer::Shed(shed), waker),
            Some(State::Waiting) | None => unreachable!("matched above"),
        }
    }

    fn remove(&mut self, key: Key) -> Option<Waiter<G>> {
        let removed = self.table.remove(key);
        if self.table.len() == 0 {
            self.earliest_ns = u64::MAX;
        }
        removed
    }

    /// Takes a waiter out; a grant that it was assigned comes back.
    pub(crate) fn cancel(&mut self, tenants: &mut Tenants, key: Key) -> (Option<G>, Option<Waker>) {
        let Some(waiter) = self.table.get(key) else { return (None, None) };
        if matches!(waiter.state, State::Waiting) {
            self.leave_lane(tenants, key.index);
        }
        let Some(waiter) = self.remove(key) else { return (None, None) };
        let grant = match waiter.state {
            State::Granted(grant) => Some(grant),
            State::Waiting | State::Refused(_) => None,
        };
        (grant, waiter.waker)
    }

    /// Assigns the next grant; the waker of its waiter, if it has polled. `None`: nothing can be granted (I7).
    pub(crate) fn next_grant(
        &mut self,
        now_ns: u64,
        tenants: &mut Tenants,
        supply: &impl Supply<Grant = G>,
    ) -> Option<Option<Waker>> {
        if self.blocked.is_none() {
            supply.earmark(0);
        }
        if self.waiting == 0 {
            return None;
        }
        if let Some(blocked) = self.blocked {
            let request = self.table.at(blocked.waiter).request;
            if let Ok(grant) = supply.take(request.footprint, request.kind, Source::Earmark) {
                return Some(self.assign(tenants, blocked.waiter, grant));
            }
        } else {
            let head = self.lanes.head().expect("somebody waits");
            let request = self.table.at(head).request;
            match supply.take(request.footprint, request.kind, Source::Free) {
                Ok(grant) => return Some(self.assign(tenants, head, grant)),
                Err(_) => self.blocked = Some(Blocked { waiter: head, since_ns: now_ns, passed: 0 }),
            }
        }
        self.pass(now_ns, tenants, supply)
    }

    /// Lets somebody who fits pass the blocked head, or keeps what is free for it.
    fn pass(&mut self, now_ns: u64, tenants: &mut Tenants, supply: &impl Supply<Grant = G>) -> Option<Option<Waker>> {
        let blocked = self.blocked?;
        if blocked.passed >= PASSES_MAX || now_ns.saturating_sub(blocked.since_ns) >= PASSED_NS_MAX {
            supply.earmark(self.table.at(blocked.waiter).request.footprint.page_bytes());
            return None;
        }
        let needs = self.table.at(blocked.waiter).request.footprint.class_bytes();
        for waiter in self.lanes.candidates() {
            if waiter == NONE || waiter == blocked.waiter {
                continue;
            }
            let request = self.table.at(waiter).request;
            // What needs as much would be blocked too.
            if request.footprint.class_bytes() < needs
                && let Ok(grant) = supply.take(request.footprint, request.kind, Source::Free)
            {
                self.blocked = Some(Blocked { passed: blocked.passed + 1, ..blocked });
                return Some(self.assign(tenants, waiter, grant));
            }
        }
        None
    }

    /// Assigns a grant; whom to wake.
    fn assign(&mut self, tenants: &mut Tenants, index: u32, grant: G) -> Option<Waker> {
        let Waiter { request, lane, .. } = *self.table.at(index);
        self.lanes.granted(lane, request.footprint.class_bytes());
        self.leave_lane(tenants, index);
        let waiter = self.table.at_mut(index);
        waiter.state = State::Granted(grant);
        waiter.waker.take()
    }

    fn leave_lane(&mut self, tenants: &mut Tenants, index: u32) {
        let lane = self.table.at(index).lane;
        self.lanes.remove(tenants, &mut self.table, lane, index);
        self.waiting -= 1;
        if self.blocked.is_some_and(|blocked| blocked.waiter == index) {
            self.blocked = None;
        }
    }

    /// Refuses waiters from the one at `from` on whose deadline has passed: the next of them, and where to go on.
    /// A grant that was not taken by its deadline comes back, so that a future that was forgotten keeps nothing for ever.
    pub(crate) fn next_expired(&mut self, now_ns: u64, from: u32, tenants: &mut Tenants) -> Option<Expired<G>> {
        if from == 0 {
            if now_ns < self.earliest_ns {
                return None;
            }
            self.earliest_ns = u64::MAX;
        }
        let mut earliest_ns = self.earliest_ns;
        let due = self.table.iter_from(from).find_map(|(index, waiter)| {
            if matches!(waiter.state, State::Refused(_)) {
                return None;
            }
            if waiter.request.deadline_ns <= now_ns {
                return Some(index);
            }
            earliest_ns = earliest_ns.min(waiter.request.deadline_ns);
            None
        });
        self.earliest_ns = earliest_ns;
        let index = due?;
        if matches!(self.table.at(index).state, State::Waiting) {
            self.leave_lane(tenants, index);
        }
        let waiter = self.table.at_mut(index);
        let grant = match core::mem::replace(&mut waiter.state, State::Refused(Shed::Deadline)) {
            State::Granted(grant) => Some(grant),
            State::Waiting | State::Refused(_) => None,
        };
        Some(Expired { next: index + 1, waker: waiter.waker.take(), grant })
    }

    /// When a deadline passes, though nothing comes back.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        (self.earliest_ns != u64::MAX).then_some(self.earliest_ns)
    }

    /// Since when the waiter whose turn it is has waited, and what it needs.
    pub(crate) fn head(&self) -> Option<(u64, Footprint)> {
        let request = self.table.at(self.blocked?.waiter).request;
        Some((request.now_ns, request.footprint))
    }
}

/// A waiter that was refused.
#[derive(Debug)]
pub(crate) struct Expired<G> {
    pub(crate) next: u32,
    pub(crate) waker: Option<Waker>,
    pub(crate) grant: Option<G>,
}

#[cfg(test)]
mod tests;
