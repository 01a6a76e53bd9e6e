//! Who may have memory, and in which order: the waiting side of the load line, for one worker.
//!
//! ```text
//!   reserve, acquire ----> waiters ----> pool (leases, pages) ----> credit ----> line
//!        |                    ^
//!        v                    | what comes back: tick, a dropped permit, credit of other workers
//!      queue (whose turn)
//! ```
//!
//! Nothing here reads a clock. The worker calls [`tick`](Admission::tick) once a turn, before it sleeps, and sleeps no
//! longer than until [`next_deadline`](Admission::next_deadline).
#![forbid(unsafe_code)]

mod turn;

use core::cell::{Cell, RefCell};
use core::task::Waker;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use crate::budget::{Budget, Charge};
use crate::credit::{Credit, Source};
use crate::credit_queue::{Flag, Ring};
use crate::error::{Error, OverBudget};
use crate::footprint::Footprint;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::permit::{Acquire, Permit, Reserve};
use crate::pool::Pool;
use crate::priority::Priority;
use crate::queue::PlaceKey;
use crate::waiters::{Answer, Request, Supply, Waiters};
use crate::watermarks::Level;

/// How an [`Admission`] is made.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionConfig {
    reserve_bytes: u64,
    waiters_max: u32,
    wait_timeout: Duration,
}

impl Default for AdmissionConfig {
    /// Nothing kept for newcomers, 16,384 waiters, 10 s.
    fn default() -> Self {
        Self { reserve_bytes: 0, waiters_max: 16_384, wait_timeout: Duration::from_secs(10) }
    }
}

impl AdmissionConfig {
    /// Credit that is kept for newcomers: only what [`Pool::for_newcomer`] runs may draw on it. Filled again before
    /// anybody who waits is granted something.
    #[must_use]
    pub fn reserve_bytes(mut self, bytes: u64) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// How many may wait at a time; more are refused.
    #[must_use]
    pub fn waiters_max(mut self, count: u32) -> Self {
        self.waiters_max = count;
        self
    }

    /// How long a wait may take that names no deadline of its own.
    #[must_use]
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = timeout;
        self
    }
}

/// The waiting side of one worker's pool. Clones are handles of the same one; it stays on its thread.
///
/// ```
/// use core::pin::pin;
/// use core::task::{Context, Poll, Waker};
/// use plimsoll_pool::{Admission, AdmissionConfig, Budget, Footprint, MemoryLimit, Pool, PoolConfig, Priority};
///
/// let pool = Pool::new(&Budget::new(MemoryLimit::kib(256)), PoolConfig::default())?;
/// let admission = Admission::new(&pool, AdmissionConfig::default())?;
///
/// let footprint = Footprint::new().head(1000).body(131_072);
/// let mut cx = Context::from_waker(Waker::noop());
/// let mut first = pin!(admission.reserve(footprint, Priority::Head, 7));
/// let Poll::Ready(Ok(mut permit)) = first.as_mut().poll(&mut cx) else { panic!("there is room") };
/// let mut second = pin!(admission.reserve(footprint, Priority::Head, 7));
/// assert!(second.as_mut().poll(&mut cx).is_pending(), "256 KiB are not enough for two");
///
/// let body = permit.take(100_000).expect("within the footprint: it cannot fail");
/// drop((body, permit));
/// admission.tick(1_000_000);
/// assert!(second.as_mut().poll(&mut cx).is_ready());
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Rc<Shared>,
}

/// Leases that are granted together.
pub(crate) type Set = [Option<Lease>; Footprint::PARTS];

/// What was asked for: all of it is there.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) leases: Set,
    pub(crate) charge: Option<Charge>,
}

#[derive(Debug)]
struct Shared {
    waiters: RefCell<Waiters<Grant>>,
    pool: Pool,
    config: AdmissionConfig,
    now_ns: Cell<u64>,
    level: Cell<Level>,
    /// What the process was told of this worker's waiters.
    told_waiting: Cell<u32>,
    /// Whether this worker has stated a need for credit.
    stated: Cell<bool>,
    /// What the line must have for the first of those who are patient, as was said; 0 if nobody is.
    watched_bytes: Cell<u64>,
    /// When the figures were last looked at, and whether they have to be again.
    observed_ns: Cell<u64>,
    unsettled: Cell<bool>,
    flag: Arc<Flag>,
    /// For this value itself.
    _fixed: Charge,
}

impl Admission {
    /// The waiting side of a pool.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when the line leaves no room for it, for a page of waiters or for the reserve.
    pub fn new(pool: &Pool, config: AdmissionConfig) -> Result<Self, Error> {
        Self::with_doorbell(pool, config, Arc::new(|| ()))
    }

    /// The same, with what is called, on any thread, when another worker has credit for this one or wants some of it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_doorbell(pool: &Pool, config: AdmissionConfig, ring: Ring) -> Result<Self, Error> {
        let fixed = pool.charge(Kind::Fixed, size_of::<Shared>() as u64)?;
        let waiters = Waiters::new(pool, config.waiters_max)?;
        pool.credit().set_reserve(config.reserve_bytes);
        if !refill(pool) {
            pool.credit().set_reserve(0);
            return Err(OverBudget::new(config.reserve_bytes).into());
        }
        let flag = pool.budget().credit_queue().join(pool.credit().account(), ring);
        let shared = Shared {
            waiters: RefCell::new(waiters),
            pool: pool.clone(),
            config,
            now_ns: Cell::new(0),
            level: Cell::new(Level::Calm),
            told_waiting: Cell::new(0),
            stated: Cell::new(false),
            watched_bytes: Cell::new(0),
            observed_ns: Cell::new(0),
            unsettled: Cell::new(false),
            flag,
            _fixed: fixed,
        };
        Ok(Self { shared: Rc::new(shared) })
    }

    /// The pool it hands out.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// The process's budget.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        self.shared.pool.budget()
    }

    /// The level as this worker saw it in its last [`tick`](Self::tick): a plain read.
    #[must_use]
    #[inline]
    pub fn level(&self) -> Level {
        self.shared.level.get()
    }

    /// How many wait on this worker.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let waiters = self.shared.waiters.borrow();
        waiters.waiting() + waiters.patient()
    }

    /// All buffers of a footprint or none, now. Does not wait, and passes nobody who does.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line and while somebody waits.
    pub fn try_reserve(&self, footprint: Footprint) -> Result<Permit, OverBudget> {
        let grant = self.try_now(&self.request(footprint, Priority::Head, 0))?;
        grant.map(|grant| Permit::new(self.clone(), grant)).ok_or(OverBudget::new(footprint.page_bytes()))
    }

    /// Waits for all buffers of a footprint: in turns over `name`s, of peers' addresses say, with the deadline of the
    /// configuration unless another is set.
    pub fn reserve(&self, footprint: Footprint, priority: Priority, name: u64) -> Reserve {
        Reserve::new(self.clone(), self.request(footprint, priority, name))
    }

    /// Waits for one buffer of at least `len` bytes.
    pub fn acquire(&self, len: usize, priority: Priority, name: u64) -> Acquire {
        Acquire::new(self.reserve(Footprint::one(len.max(1)), priority, name))
    }

    fn request(&self, footprint: Footprint, priority: Priority, name: u64) -> Request {
        let now_ns = self.shared.now_ns.get();
        let timeout_ns = u64::try_from(self.shared.config.wait_timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = now_ns.saturating_add(timeout_ns);
        Request { footprint, charge_bytes: 0, kind: Kind::Buffers, priority, name, now_ns, deadline_ns }
    }

    /// A grant without waiting; `None` if it has to be waited for.
    pub(crate) fn try_now(&self, request: &Request) -> Result<Option<Grant>, OverBudget> {
        let shared = &*self.shared;
        request.footprint.classes()?;
        if request.bytes() > shared.pool.budget().limit().as_bytes() {
            return Err(OverBudget::new(request.bytes()));
        }
        Ok(if shared.waiters.borrow().is_passed_by(request) { shared.take(request, Source::Free).ok() } else { None })
    }

    pub(crate) fn enqueue(&self, request: Request) -> Result<PlaceKey, OverBudget> {
        let now_ns = self.shared.now_ns.get();
        let key = self.shared.waiters.borrow_mut().enqueue(Request { now_ns, ..request })?;
        self.pump();
        Ok(key)
    }

    pub(crate) fn poll(&self, key: PlaceKey, waker: &Waker) -> Answer<Grant> {
        let is_wanted = self.shared.waiters.borrow().wants(key, waker);
        // Wakers are made and dropped by their owners' code: while nothing is borrowed.
        let waker = is_wanted.then(|| waker.clone());
        let (answer, _outdated) = self.shared.waiters.borrow_mut().poll(key, waker);
        answer
    }

    pub(crate) fn cancel(&self, key: PlaceKey) {
        let (grant, waker) = self.shared.waiters.borrow_mut().cancel(key);
        drop(grant);
        self.pump();
        // Last, as it may panic.
        drop(waker);
    }
}

impl Shared {
    /// About how much of this worker's could be charged now: credit, and pages that are free.
    fn own_bytes(&self) -> u64 {
        self.pool.credit().spare() + self.pool.releasable_bytes()
    }
}

/// Fills the reserve for newcomers; whether it is whole.
fn refill(pool: &Pool) -> bool {
    let missing = pool.credit().refill_reserve();
    if missing == 0 {
        return true;
    }
    pool.release_at_least(missing);
    pool.credit().refill_reserve() == 0
}

impl Supply for Shared {
    type Grant = Grant;

    fn take(&self, request: &Request, source: Source) -> Result<Grant, OverBudget> {
        let &Request { footprint, charge_bytes, kind, .. } = request;
        if charge_bytes > 0 && charge_bytes > self.pool.budget().line().free() + self.own_bytes() {
            // Nothing is given back to the system for what is too little.
            return Err(OverBudget::new(charge_bytes));
        }
        let classes = footprint.classes()?;
        let mut leases: Set = [const { None }; Footprint::PARTS];
        self.pool.credit().on_behalf(source, || {
            for (piece, class) in leases.iter_mut().zip(classes) {
                if let Some(class) = class {
                    *piece = Some(self.pool.try_acquire_class(class, kind)?);
                }
            }
            Ok::<_, OverBudget>(())
        })?;
        let charge = if charge_bytes > 0 { Some(self.pool.charge(kind, charge_bytes)?) } else { None };
        Ok(Grant { leases, charge })
    }

    fn earmark(&self, bytes: u64) {
        let credit: &Credit = self.pool.credit();
        if bytes > 0 {
            let free = credit.earmarkable();
            if free < bytes {
                self.pool.release_at_least(bytes - free);
            }
        }
        credit.set_earmark(bytes);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let budget = self.pool.budget();
        budget.pressure().change_waiting(self.told_waiting.get(), 0);
        let credit = self.pool.credit();
        credit.adopt(budget.credit_queue().state(&self.flag, 0, 0, budget.line()));
        budget.credit_queue().leave(&self.flag, budget.line());
        credit.set_gathers(false);
        credit.set_earmark(0);
        credit.set_reserve(0);
        credit.trim();
    }
}

#[cfg(test)]
mod tests;
