//! A quota that accounts of several workers share.
//!
//! ```text
//!   quota (an atomic counter) ---- parts of it ---- the tenant's account on worker 0
//!                                              `--- the tenant's account on worker 1
//! ```
//!
//! It is to the accounts of a tenant what the [line](crate::Budget) is to the workers: an account takes a part when it needs more than it has,
//! and works with plain numbers within it; what it has too much goes back. So the sum over all workers is never above the quota, and noting a use
//! costs no atomic operation as long as the part lasts. The price is that a worker may be refused while others hold parts they do not use: at most
//! two quanta each, and nothing when they use nothing.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::line::Line;

/// A limit in class bytes for the accounts of one tenant on all workers together. Clones are handles of the same one.
///
/// ```
/// use plimsoll_pool::{AccountError, AccountLimits, Admission, AdmissionConfig, Budget, Kind, MemoryLimit, Pool, PoolConfig, Quota};
///
/// let budget = Budget::new(MemoryLimit::mib(4));
/// let admission = || -> Result<Admission, plimsoll_pool::Error> {
///     Admission::new(&Pool::new(&budget, PoolConfig::default().workers(2))?, AdmissionConfig::default())
/// };
/// let (here, there) = (admission()?, admission()?);
/// let quota = Quota::new(64 << 10, 2);
/// let limits = AccountLimits::default();
/// let one = here.tenant_within(7, limits, &quota).expect("a page");
/// let other = there.tenant_within(7, limits, &quota).expect("a page");
///
/// assert_eq!(here.begin_use(one, Kind::Buffers, 40 << 10), Ok(()));
/// assert!(matches!(there.begin_use(other, Kind::Buffers, 40 << 10), Err(AccountError::Quota { .. })));
/// here.end_use(one, Kind::Buffers, 40 << 10);
/// assert_eq!(there.begin_use(other, Kind::Buffers, 40 << 10), Ok(()));
/// # there.end_use(other, Kind::Buffers, 40 << 10);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quota(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    line: Line,
    use_bytes_max: u64,
    quantum: u64,
}

impl Quota {
    /// A quota of so many class bytes for accounts on so many workers; at least one is assumed.
    ///
    /// A quantum, by which parts are taken, is an eighth of every worker's share.
    #[must_use]
    pub fn new(use_bytes_max: u64, workers: u32) -> Self {
        let quantum = (use_bytes_max / (8 * u64::from(workers.max(1)))).max(1);
        Self(Arc::new(Shared { line: Line::new(use_bytes_max), use_bytes_max, quantum }))
    }

    /// What it was made with.
    #[must_use]
    pub fn use_bytes_max(&self) -> u64 {
        self.0.use_bytes_max
    }

    /// What the accounts on all workers use, and at most two quanta more for each. From any thread.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.line.credited()
    }
}

/// One account's part of a quota. It goes back with it.
#[derive(Debug)]
pub(crate) struct Part {
    quota: Quota,
    /// What the account may use on its worker whatever the quota says.
    local_bytes_max: u64,
    bytes: u64,
}

impl Part {
    pub(crate) fn new(quota: &Quota, local_bytes_max: u64) -> Self {
        Self { quota: quota.clone(), local_bytes_max, bytes: 0 }
    }

    /// What the account may use with this part.
    pub(crate) fn use_bytes_max(&self) -> u64 {
        self.bytes.min(self.local_bytes_max)
    }

    /// Makes it large enough for a use of so many bytes; whether it is.
    pub(crate) fn grow(&mut self, use_bytes: u64) -> bool {
        let need = use_bytes.saturating_sub(self.bytes);
        if use_bytes > self.local_bytes_max {
            return false;
        }
        let taken = self.quota.0.line.take(need, need.max(self.quota.0.quantum));
        self.bytes += taken.unwrap_or(0);
        debug_assert!(taken.is_none() || self.bytes >= use_bytes);
        taken.is_some()
    }

    /// Whether [`grow`](Self::grow) would succeed now. Another worker may be faster.
    pub(crate) fn may_grow(&self, use_bytes: u64) -> bool {
        let free = self.quota.use_bytes_max() - self.quota.used_bytes();
        use_bytes <= self.local_bytes_max && use_bytes.saturating_sub(self.bytes) <= free
    }

    /// Gives back what is too much for a use of so many bytes.
    pub(crate) fn shrink(&mut self, use_bytes: u64) {
        let (spare, quantum) = (self.bytes - use_bytes, self.quota.0.quantum);
        let surplus = match use_bytes {
            0 => spare,
            _ if spare > 2 * quantum => spare - quantum,
            _ => 0,
        };
        if surplus > 0 {
            self.bytes -= surplus;
            self.quota.0.line.give(surplus);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.quota.0.line.give(self.bytes);
    }
}

#[cfg(test)]
mod tests;
