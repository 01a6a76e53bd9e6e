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
//! This is safe code without a clock, a thread or memory of its own: a [`Supply`] gives or refuses, the caller says
//! what time it is, and wakes whom it is told to wake, after the borrow has ended. A grant is assigned before its
//! waiter is woken, so nobody can take it away in between.
//!
//! **The head.** The [queue](crate::queue) says whose turn it is. If that waiter does not fit, it is *blocked*: others
//! that need less may pass it, 8 times or for 1 ms. After that, what becomes free is earmarked for it.
//!
//! **Who is patient** waits for a charge beside leases, which may be large. All others pass it, and nothing is
//! earmarked for it, as that would stop them for as long as it waits: it is granted what is free when nobody else
//! waits. Among themselves those have the order of the queue.
//!
//! **I7**: after [`next_grant`](Waiters::next_grant) has said that there is nothing to grant, a non-empty queue means
//! that the supply does not have what its head needs, or that only patient ones wait, and it does not have what the
//! first of these needs.
#![forbid(unsafe_code)]

use core::fmt;
use core::task::Waker;

use crate::credit::Source;
use crate::error::OverBudget;
use crate::footprint::Footprint;
use crate::kind::Kind;
use crate::pool::Pool;
use crate::priority::Priority;
use crate::queue::{Place, PlaceKey, Queue};

/// Where grants come from.
pub(crate) trait Supply {
    type Grant;

    /// All that is asked for, or nothing.
    fn take(&self, request: &Request, source: Source) -> Result<Self::Grant, OverBudget>;

    /// Keeps what is free, up to as many bytes, for the blocked waiter; 0 ends that.
    fn earmark(&self, bytes: u64);
}

/// Why memory was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shed {
    /// The deadline passed.
    Deadline,
    /// It can never be given, or there is no room to wait: the queue is full, or needs a page that the line refuses.
    OverBudget(OverBudget),
}

impl fmt::Display for Shed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("no memory came free before the deadline: retry later, or raise the line"),
            Self::OverBudget(over) => over.fmt(f),
        }
    }
}

impl core::error::Error for Shed {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Deadline => None,
            Self::OverBudget(over) => Some(over),
        }
    }
}

impl From<OverBudget> for Shed {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// A blocked head is passed at most so often,
const PASSES_MAX: u8 = 8;
/// and for at most so long.
const PASSED_NS_MAX: u64 = 1_000_000;
/// Waiters that are looked at behind a blocked one, at most.
const CANDIDATES_MAX: usize = 32;
/// So many may wait from the start; more as far as there is memory for their places, as many at a time.
const PLACES: usize = 64;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) footprint: Footprint,
    /// Beside the footprint, for memory that is not the pool's. Who wants some is patient.
    pub(crate) charge_bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) priority: Priority,
    /// Among whom waiting is fair.
    pub(crate) name: u64,
    pub(crate) now_ns: u64,
    pub(crate) deadline_ns: u64,
}

impl Request {
    /// What it charges at most, without metadata.
    pub(crate) fn bytes(&self) -> u64 {
        self.footprint.page_bytes() + self.charge_bytes
    }

    fn is_patient(&self) -> bool {
        self.charge_bytes > 0
    }
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
}

impl<G> Waiter<G> {
    fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Whether it may be the head.
    fn is_impatient(&self) -> bool {
        self.is_waiting() && !self.request.is_patient()
    }
}

/// The head that does not fit.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    waiter: PlaceKey,
    request: Request,
    since_ns: u64,
    passed: u8,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiters<G> {
    /// Those who wait, and those who were answered and do not know it yet.
    queue: Queue<Waiter<G>>,
    waiting: u32,
    /// Beside those.
    patient: u32,
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

impl<G> Waiters<G> {
    /// An empty queue that takes no more than `waiters_max` waiters, with room for some of them from the start.
    pub(crate) fn new(pool: &Pool, waiters_max: u32) -> Result<Self, OverBudget> {
        let mut queue = Queue::new(pool, PLACES, waiters_max as usize);
        queue.make_room()?;
        Ok(Self { queue, waiting: 0, patient: 0, blocked: None, earliest_ns: u64::MAX })
    }

    /// How many wait, but for those who are patient.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many wait and are patient.
    pub(crate) fn patient(&self) -> u32 {
        self.patient
    }

    /// Whether a request need not stand behind anybody who waits.
    pub(crate) fn is_passed_by(&self, request: &Request) -> bool {
        self.waiting == 0 && (self.patient == 0 || !request.is_patient())
    }

    /// What the first of these needs.
    pub(crate) fn patient_bytes(&self) -> Option<u64> {
        let is_first = |place: &Place<Waiter<G>>| place.item().is_waiting() && place.item().request.is_patient();
        if self.patient > 0 { self.queue.first(is_first).map(|first| first.item().request.bytes()) } else { None }
    }

    /// Puts a waiter behind all others of its name.
    pub(crate) fn enqueue(&mut self, request: Request) -> Result<PlaceKey, OverBudget> {
        self.queue.make_room()?;
        let waiter = Waiter { state: State::Waiting, waker: None, request };
        let key = self.queue.add(request.name, request.priority, request.bytes(), waiter);
        let key = key.ok().expect("room was made");
        *if request.is_patient() { &mut self.patient } else { &mut self.waiting } += 1;
        self.earliest_ns = self.earliest_ns.min(request.deadline_ns);
        Ok(key)
    }

    fn waiter(&self, key: PlaceKey) -> &Waiter<G> {
        self.queue.get(key).expect("a waiter is polled until it is told, and not after").item()
    }

    /// Whether a waiter has to wait, and would be told by another waker than this.
    pub(crate) fn wants(&self, key: PlaceKey, waker: &Waker) -> bool {
        let waiter = self.waiter(key);
        let is_known = waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        waiter.is_waiting() && !is_known
    }

    /// What became of a waiter; it is gone once it is told anything but to wait. The waker is for one that
    /// [`wants`](Self::wants) it. The one that it replaces, or that nobody needs, comes back, to be dropped outside.
    pub(crate) fn poll(&mut self, key: PlaceKey, waker: Option<Waker>) -> (Answer<G>, Option<Waker>) {
        if self.waiter(key).is_waiting() {
            let outdated = waker.and_then(|waker| self.queue.item_mut(key)?.waker.replace(waker));
            return (Answer::Wait, outdated);
        }
        match self.remove(key).map(|waiter| waiter.state) {
            Some(State::Granted(grant)) => (Answer::Granted(grant), waker),
            Some(State::Refused(shed)) => (Answer::Shed(shed), waker),
            Some(State::Waiting) | None => unreachable!("looked at above"),
        }
    }

    fn remove(&mut self, key: PlaceKey) -> Option<Waiter<G>> {
        let removed = self.queue.remove(key);
        if self.queue.is_empty() {
            self.earliest_ns = u64::MAX;
        }
        removed
    }

    /// Takes a waiter out; a grant that it was assigned comes back.
    pub(crate) fn cancel(&mut self, key: PlaceKey) -> (Option<G>, Option<Waker>) {
        let Some(waiter) = self.remove(key) else { return (None, None) };
        match waiter.state {
            State::Granted(grant) => (Some(grant), waiter.waker),
            State::Refused(_) => (None, waiter.waker),
            State::Waiting => {
                self.waits_no_longer(key, waiter.request);
                (None, waiter.waker)
            }
        }
    }

    /// Assigns the next grant; the waker of its waiter, if it has polled. `None`: nothing can be granted (I7).
    pub(crate) fn next_grant(&mut self, now_ns: u64, supply: &impl Supply<Grant = G>) -> Option<Option<Waker>> {
        if self.blocked.is_none() {
            supply.earmark(0);
        }
        if self.waiting == 0 {
            return self.grant_patient(supply);
        }
        let (waiter, request, source) = match self.blocked {
            Some(blocked) => (blocked.waiter, blocked.request, Source::Earmark),
            None => {
                let head = self.queue.first(|place| place.item().is_impatient()).expect("somebody waits");
                (head.key(), head.item().request, Source::Free)
            }
        };
        if let Ok(grant) = supply.take(&request, source) {
            return Some(self.assign(waiter, grant));
        }
        let blocked = self.blocked.get_or_insert(Blocked { waiter, request, since_ns: now_ns, passed: 0 });
        if blocked.passed >= PASSES_MAX || now_ns.saturating_sub(blocked.since_ns) >= PASSED_NS_MAX {
            supply.earmark(request.footprint.page_bytes());
            return None;
        }
        self.pass(request.footprint.page_bytes(), supply)
    }

    /// Nobody else waits: what is free is for the first of those who are patient.
    fn grant_patient(&mut self, supply: &impl Supply<Grant = G>) -> Option<Option<Waker>> {
        if self.patient == 0 {
            return None;
        }
        let first = self.queue.first(|place| place.item().is_waiting())?;
        let (key, grant) = (first.key(), supply.take(&first.item().request, Source::Free).ok()?);
        Some(self.assign(key, grant))
    }

    /// Lets one who fits pass the blocked head. What needs as much as one who does not fit would not either.
    fn pass(&mut self, mut below_bytes: u64, supply: &impl Supply<Grant = G>) -> Option<Option<Waker>> {
        let mut candidates = self.queue.iter().filter(|place| place.item().is_impatient()).take(CANDIDATES_MAX);
        let (key, grant) = candidates.find_map(|place| {
            let request = place.item().request;
            if request.bytes() >= below_bytes {
                return None;
            }
            let grant = supply.take(&request, Source::Free);
            below_bytes = request.bytes();
            Some((place.key(), grant.ok()?))
        })?;
        self.blocked = self.blocked.map(|blocked| Blocked { passed: blocked.passed + 1, ..blocked });
        Some(self.assign(key, grant))
    }

    /// Assigns a grant; whom to wake.
    fn assign(&mut self, key: PlaceKey, grant: G) -> Option<Waker> {
        self.queue.pass(key);
        self.waits_no_longer(key, self.waiter(key).request);
        let waiter = self.queue.item_mut(key)?;
        waiter.state = State::Granted(grant);
        waiter.waker.take()
    }

    fn waits_no_longer(&mut self, key: PlaceKey, request: Request) {
        *if request.is_patient() { &mut self.patient } else { &mut self.waiting } -= 1;
        self.blocked = self.blocked.filter(|blocked| blocked.waiter != key);
    }

    /// Refuses the next waiter on whose deadline has passed, of those behind another one. A grant that was not taken by
    /// its deadline comes back, so that a future that was forgotten keeps nothing for ever.
    pub(crate) fn next_expired(&mut self, now_ns: u64, behind: Option<PlaceKey>) -> Option<Expired<G>> {
        if behind.is_none() {
            if now_ns < self.earliest_ns {
                return None;
            }
            self.earliest_ns = u64::MAX;
        }
        let mut unanswered =
            self.queue.iter_behind(behind).filter(|place| !matches!(place.item().state, State::Refused(_)));
        let mut earliest_ns = self.earliest_ns;
        let due = unanswered.find_map(|place| {
            let deadline_ns = place.item().request.deadline_ns;
            if deadline_ns <= now_ns {
                return Some(place.key());
            }
            earliest_ns = earliest_ns.min(deadline_ns);
            None
        });
        self.earliest_ns = earliest_ns;
        let key = due?;
        if self.waiter(key).is_waiting() {
            self.waits_no_longer(key, self.waiter(key).request);
        }
        let waiter = self.queue.item_mut(key)?;
        let grant = match core::mem::replace(&mut waiter.state, State::Refused(Shed::Deadline)) {
            State::Granted(grant) => Some(grant),
            State::Waiting | State::Refused(_) => None,
        };
        Some(Expired { key, waker: waiter.waker.take(), grant })
    }

    /// When a deadline passes, though nothing comes back.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        (self.earliest_ns != u64::MAX).then_some(self.earliest_ns)
    }

    /// Since when the waiter whose turn it is has waited, and what it needs.
    pub(crate) fn head(&self) -> Option<(u64, Footprint)> {
        self.blocked.map(|blocked| (blocked.request.now_ns, blocked.request.footprint))
    }
}

/// A waiter that was refused.
#[derive(Debug)]
pub(crate) struct Expired<G> {
    pub(crate) key: PlaceKey,
    pub(crate) waker: Option<Waker>,
    pub(crate) grant: Option<G>,
}

#[cfg(test)]
mod tests;
