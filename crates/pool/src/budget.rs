//! The budget of a process: its line, and everything that is charged under it.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::account::Account;
use crate::alloc;
use crate::container::Container;
use crate::credit_queue::CreditQueue;
use crate::error::OverBudget;
use crate::kind::Kind;
use crate::limit::MemoryLimit;

use crate::line::Line;
use crate::pressure::{Pressure, Watch};
use crate::watermarks::{Level, Marks, Transition};
use limits::Limits;

pub(crate) mod limits;

/// Arenas without a pool, over all budgets of the process.
static ADOPTED_ARENAS: AtomicUsize = AtomicUsize::new(0);

/// How many arenas of this process outlive their pools, because leases of them are still held.
///
/// Each stays charged and mapped until its last lease is dropped.
#[must_use]
pub fn adopted_arenas() -> usize {
    ADOPTED_ARENAS.load(Ordering::Acquire)
}

/// A number of bytes that a process never exceeds, and the account of who holds them.
///
/// All pools of a runtime share one budget; what is no pool memory is charged with [`charge`](Self::charge). The chain
/// is: the line hands out *credit* to workers (never more than the line), workers *charge* memory to their credit
/// before they touch it.
///
/// The figures may be read by any thread at any time. Each is exact for its own moment; a sum is made of figures of
/// slightly different moments while other threads work, and exact when they do not.
///
/// ```
/// use plimsoll_pool::{Budget, Kind, MemoryLimit};
///
/// let budget = Budget::new(MemoryLimit::mib(1));
/// let rings = budget.charge(Kind::Rings, 600 << 10)?;
/// assert!(budget.charge(Kind::Stacks, 600 << 10).is_err(), "that would cross the line");
/// assert_eq!(budget.charged_by(Kind::Rings), 600 << 10);
/// drop(rings);
/// assert_eq!(budget.charged(), 0);
/// # Ok::<(), plimsoll_pool::OverBudget>(())
/// ```
#[derive(Debug)]
pub struct Budget {
    line: Line,
    limits: Limits,
    /// Charges without a worker. Their sum is credited.
    direct: [AtomicU64; Kind::COUNT],
    direct_sum: AtomicU64,
    direct_peak: AtomicU64,
    refusals: AtomicU64,
    register: Mutex<Register>,
    credit_queue: CreditQueue,
    pressure: Pressure,
    container: Container,
}

/// The accounts of pools, and of arenas that outlive theirs.
#[derive(Debug, Default)]
struct Register {
    accounts: Vec<Arc<Account>>,
    /// At least the highest sum of charges before the last account ended.
    peak_before: u64,
    adopted: usize,
}

impl Budget {
    /// A budget of `limit`, with nothing charged.
    #[must_use]
    pub fn new(limit: MemoryLimit) -> Arc<Self> {
        Self::with_marks(limit, Marks::default())
    }

    /// A budget of `limit` whose levels change at other marks.
    #[must_use]
    pub fn with_marks(limit: MemoryLimit, marks: Marks) -> Arc<Self> {
        Arc::new(Self {
            line: Line::new(limit.as_bytes()),
            limits: Limits::new(marks, limit.as_bytes()),
            direct: Default::default(),
            direct_sum: AtomicU64::new(0),
            direct_peak: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            register: Mutex::default(),
            credit_queue: CreditQueue::default(),
            pressure: Pressure::new(marks, limit.as_bytes()),
            container: Container::unlimited(),
        })
    }

    /// The line. [`set_limit`](Self::set_limit) changes it.
    #[must_use]
    pub fn limit(&self) -> MemoryLimit {
        MemoryLimit::bytes(self.line.limit())
    }

    /// Bytes charged now: resident pages of all pools and adopted arenas, their metadata, and all [`Charge`]s. At most
    /// [`limit`](Self::limit), except while what was charged before it was [lowered](Self::set_limit) comes back.
    #[must_use]
    pub fn charged(&self) -> u64 {
        let pools: u64 = self.register().accounts.iter().map(|account| account.charged()).sum();
        let sum = self.direct_sum.load(Ordering::Acquire) + pools;
        // The true sum never is above the credits; one of figures from different moments may be.
        sum.min(self.line.credited())
    }

    /// Bytes charged now as `kind`.
    ///
    /// For pool memory that is the class bytes of the live leases of this kind. Resident pages that are free, and the
    /// free slots of pages that are not, count as [`Kind::Buffers`]; the pools' metadata as [`Kind::Fixed`]. So the sum
    /// over all kinds is [`charged`](Self::charged).
    #[must_use]
    pub fn charged_by(&self, kind: Kind) -> u64 {
        let of_account = |account: &Arc<Account>| match kind {
            Kind::Buffers => account.used(kind) + account.free(),
            _ => account.used(kind),
        };
        let pools: u64 = self.register().accounts.iter().map(of_account).sum();
        self.direct[kind.bits()].load(Ordering::Acquire) + pools
    }

    /// Bytes charged now that nobody uses: free resident memory of all pools, which
    /// [`Pool::release_free`](crate::Pool::release_free) gives back except for free slots in pages that are in use.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.register().accounts.iter().map(|account| account.free()).sum()
    }

    /// An upper bound of what was ever charged at one moment, itself at most the highest [`limit`](Self::limit).
    ///
    /// It is the lower of two bounds: the highest sum of credits there was, and the sum of every pool's own highest
    /// charge and the highest sum of [`Charge`]s. With one pool and no charges beside it, it is exact.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.register().peak(self.direct_peak.load(Ordering::Acquire)).min(self.line.peak())
    }

    /// Bytes of the line that are handed out, charged or not. At least [`charged`](Self::charged), at most
    /// [`limit`](Self::limit) with the exception said there.
    #[must_use]
    pub fn credited(&self) -> u64 {
        self.line.credited()
    }

    /// How often credit was refused so far.
    ///
    /// When it grows, somebody is short: workers that see it give back what they can spare
    /// ([`Pool::trim_credit`](crate::Pool::trim_credit), [`Pool::release_free`](crate::Pool::release_free)).
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Whether more than one pool or adopted arena is charged here.
    pub(crate) fn has_several_pools(&self) -> bool {
        self.register().accounts.len() > 1
    }

    /// How full the process is, as a worker has last seen it in its turn.
    #[must_use]
    pub fn level(&self) -> Level {
        self.pressure.level()
    }

    /// Tells of changes of the level.
    #[must_use]
    pub fn watch(self: &Arc<Self>) -> Watch {
        Watch::new(Arc::clone(self))
    }

    /// How often a level was entered.
    #[must_use]
    pub fn entered(&self, level: Level) -> u64 {
        self.pressure.entered(level)
    }

    /// How many wait for memory now, on all workers.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.pressure.waiting()
    }

    /// Bytes that count for the level: what is charged without pages that are free, and the heap if it is
    /// [counted](crate::alloc::Counted). The pools' part is as their workers have last seen it.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let pools: u64 = self.register().accounts.iter().map(|account| account.in_use()).sum();
        self.direct_sum.load(Ordering::Acquire) + pools + alloc::heap_bytes()
    }

    /// Charges the kernel's part of a connection, [`KERNEL_CONNECTION_BYTES`](crate::KERNEL_CONNECTION_BYTES) and what
    /// may lie unread. It is not under the line, but counted beside it, and limited where a container is.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when the line and the kernel's part would be more than 80 % of the container's limit.
    pub fn charge_kernel(&self, bytes: u64) -> Result<(), OverBudget> {
        self.container.charge(bytes)
    }

    /// Ends what [`charge_kernel`](Self::charge_kernel) began.
    pub fn uncharge_kernel(&self, bytes: u64) {
        self.container.uncharge(bytes);
    }

    /// What the kernel holds for connections, by the estimates that were charged.
    #[must_use]
    pub fn kernel_bytes_estimate(&self) -> u64 {
        self.container.kernel_bytes()
    }

    /// What the container leaves for the kernel's part; `None` without a container.
    #[must_use]
    pub fn kernel_bytes_max(&self) -> Option<u64> {
        Some(self.container.room_bytes()).filter(|room| *room != u64::MAX)
    }

    /// Says that the process runs in a container with this `memory.max`.
    pub fn set_container_bytes(&self, container_bytes: u64) {
        self.container.limit(container_bytes, self.line.limit());
    }

    pub(crate) fn credit_queue(&self) -> &CreditQueue {
        &self.credit_queue
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    /// Says to all workers that look for refusals that credit is to come back.
    pub(crate) fn call_for_credit(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    pub(crate) fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// Whether the level is calm whatever the exact figures are.
    #[inline]
    pub(crate) fn is_surely_calm(&self) -> bool {
        self.line.credited() + alloc::heap_bytes() < self.limits.calm_below()
            && self.pressure.waiting() == 0
            && self.pressure.level() == Level::Calm
    }

    /// Takes the figures of now in.
    pub(crate) fn observe(&self) -> Option<Transition> {
        self.pressure.observe(self.in_use())
    }

    /// How many arenas under this budget outlive their pools, because leases of them are still held.
    #[must_use]
    pub fn adopted_arenas(&self) -> usize {
        self.register().adopted
    }

    /// Charges memory that is not a pool's: rings, stacks, tables. Dropping the charge ends it.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when fewer than `bytes` bytes of the line are neither charged nor handed out to workers as
    /// credit; [`Pool::charge`](crate::Pool::charge) first takes back what its own worker can spare.
    pub fn charge(self: &Arc<Self>, kind: Kind, bytes: u64) -> Result<Charge, OverBudget> {
        self.take_credit(bytes, bytes).ok_or(OverBudget::new(bytes))?;
        let sum = self.direct_sum.fetch_add(bytes, Ordering::AcqRel) + bytes;
        self.direct_peak.fetch_max(sum, Ordering::AcqRel);
        self.direct[kind.bits()].fetch_add(bytes, Ordering::AcqRel);
        Ok(Charge { budget: Arc::clone(self), kind, bytes })
    }

    pub(crate) fn take_credit(&self, need: u64, wish: u64) -> Option<u64> {
        let taken = self.line.take(need, wish);
        if taken.is_none() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// The same for as much as there is, up to `wish` bytes; 0 if there is nothing.
    pub(crate) fn take_credit_up_to(&self, wish: u64) -> u64 {
        self.line.take_up_to(wish).unwrap_or(0)
    }

    pub(crate) fn give_credit(&self, bytes: u64) {
        self.credit_queue.give(bytes, &self.line);
    }

    /// A new account with nothing in it.
    pub(crate) fn open_account(&self) -> Arc<Account> {
        let account = Arc::<Account>::default();
        self.register().accounts.push(Arc::clone(&account));
        account
    }

    /// The account's pool has ended, its arena has not.
    pub(crate) fn adopt(&self) {
        self.register().adopted += 1;
        ADOPTED_ARENAS.fetch_add(1, Ordering::AcqRel);
    }

    /// The account's memory is gone, after its arena was adopted or not.
    pub(crate) fn close_account(&self, account: &Arc<Account>, end: ArenaEnd) {
        let direct_peak = self.direct_peak.load(Ordering::Acquire);
        let mut register = self.register();
        register.peak_before = register.peak(direct_peak).min(self.line.peak());
        let before = register.accounts.len();
        register.accounts.retain(|other| !Arc::ptr_eq(other, account));
        assert_eq!(register.accounts.len() + 1, before, "an account is closed once");
        if end == ArenaEnd::Adopted {
            register.adopted -= 1;
            ADOPTED_ARENAS.fetch_sub(1, Ordering::AcqRel);
        }
        drop(register);
        self.give_credit(account.end());
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        // Nothing that panics leaves the register between two states.
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Register {
    fn peak(&self, direct_peak: u64) -> u64 {
        let pools: u64 = self.accounts.iter().map(|account| account.charged_peak()).sum();
        self.peak_before.max(pools + direct_peak)
    }
}

/// How an arena ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArenaEnd {
    WithItsPool,
    Adopted,
}

/// Bytes charged without pool memory behind them; dropping it ends the charge.
///
/// The holder drops it after the memory that it stands for is gone.
#[derive(Debug)]
#[must_use = "dropping the charge ends it"]
pub struct Charge {
    budget: Arc<Budget>,
    kind: Kind,
    bytes: u64,
}

impl Charge {
    /// How many bytes are charged.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What they are charged as.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Charges `bytes` more.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] as [`Budget::charge`]; the charge is then as before.
    pub fn grow(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let mut more = self.budget.charge(self.kind, bytes)?;
        self.bytes += core::mem::take(&mut more.bytes);
        Ok(())
    }

    /// Ends the charge for all but `bytes`; a charge that is not higher stays as it is.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.end(surplus);
    }

    fn end(&self, bytes: u64) {
        let by_kind = self.budget.direct[self.kind.bits()].fetch_sub(bytes, Ordering::AcqRel);
        let sum = self.budget.direct_sum.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(by_kind >= bytes && sum >= bytes, "no more ends than began");
        self.budget.give_credit(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.end(self.bytes);
    }
}

#[cfg(test)]
mod tests;
