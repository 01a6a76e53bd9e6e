//! The use ledger: who uses how much, as a tree, with quotas.
//!
//! ```text
//!   worker (no quota) ---- tenant (a peer address) ---- connection
//! ```
//!
//! The tree belongs to one worker and is plain memory: noting that bytes are used walks from an account to the root and adds on each level.
//! What is counted are the class bytes that somebody holds, so that the sums agree with what leases take, whatever pages they lie in.
//!
//! A tenant has an account on every worker that serves it. Its limits are for each of them, unless they share a [`Quota`]: then what an account may use is
//! at most its part of that, which it grows and shrinks.
//!
//! **I5**: on every level, the use is at most the quota.
//!
//! **I9**: the use of an account is the sum over its kinds, and at least the sum over its children.
#![forbid(unsafe_code)]

use core::fmt;

use crate::error::OverBudget;
use crate::kind::Kind;
use crate::pool::Pool;
use crate::quota::{Part, Quota};
use crate::table::{Key, Table};

/// Names an account of one worker's [`Admission`](crate::Admission). 8 bytes; a key of an account that has ended names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey(pub(crate) Key);

/// What an account may have, on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountLimits {
    /// Class bytes of it and all accounts below it at most. No limit of its own by default, but for 256 GiB, which no account goes beyond.
    pub use_bytes_max: u64,
    /// Accounts directly below it at most: with tenants that are peer addresses, the connections of one address. No limit by default.
    pub children_max: u32,
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self { use_bytes_max: u64::MAX, children_max: u32::MAX }
    }
}

impl AccountLimits {
    /// At most so many class bytes.
    #[must_use]
    pub fn use_bytes_max(mut self, bytes: u64) -> Self {
        self.use_bytes_max = bytes;
        self
    }

    /// At most so many accounts directly below it.
    #[must_use]
    pub fn children_max(mut self, count: u32) -> Self {
        self.children_max = count;
        self
    }
}

/// Why an account refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountError {
    /// The bytes would cross the quota of the account or of one above it.
    Quota {
        /// How many bytes were asked for.
        wanted_bytes: u64,
    },
    /// The account above has as many below it as it may have.
    Children,
    /// The account has ended, or was never one of this worker.
    Gone,
    /// There is no memory for the account itself.
    OverBudget(OverBudget),
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { wanted_bytes } => {
                write!(f, "{wanted_bytes} more bytes would cross a quota: give something back, or raise use_bytes_max")
            }
            Self::Children => {
                f.write_str("the tenant has as many accounts as it may have: end one, or raise children_max")
            }
            Self::Gone => f.write_str("the account has ended: open a new one"),
            Self::OverBudget(over) => over.fmt(f),
        }
    }
}

impl core::error::Error for AccountError {}

impl From<OverBudget> for AccountError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// What an account uses. See [`Admission::account_stats`](crate::Admission::account_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountStats {
    /// Class bytes of it and all below it, for each of [`Kind::ALL`].
    pub used_bytes: [u64; Kind::COUNT],
    /// Accounts directly below it.
    pub children: u32,
}

impl AccountStats {
    /// The sum over all kinds.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.used_bytes.iter().sum()
    }
}

const NONE: u32 = u32::MAX;
/// Where the chain of tenants of a name begins.
const BUCKETS: usize = 512;
/// Class bytes are multiples of the smallest class.
const GRAIN_BYTES: u64 = 64;
/// An account uses no more than its kinds are counted in: 256 GiB less a grain.
const USE_BYTES_MAX: u64 = u32::MAX as u64 * GRAIN_BYTES;
const PER_PAGE: usize = 25;
/// How many accounts a worker has at most.
const ACCOUNTS_MAX: u32 = 1 << 19;

#[derive(Debug)]
struct Account {
    /// A tenant's name; meaningless for others.
    name: [u64; 2],
    /// I5: at most `use_bytes_max`.
    used_bytes: u64,
    /// Of an account with a part of a shared quota: what that allows now.
    use_bytes_max: u64,
    part: Option<Part>,
    /// In the order of opening.
    opened: u64,
    /// `NONE` for tenants.
    parent: u32,
    children: u32,
    children_max: u32,
    /// Open handles of a tenant; 1 or 0 for others. It ends when there is neither a handle nor a child nor a use.
    handles: u32,
    /// The next tenant with the same hash.
    next: u32,
    /// Where waiters of a tenant queue, for each priority; see `lanes`.
    lanes: [u32; 4],
    /// What a tenant was granted beyond its share when it last waited; see `lanes`.
    debt_bytes: u32,
    /// In grains.
    by_kind: [u32; Kind::COUNT],
}

/// The accounts of one worker.
#[derive(Debug)]
pub(crate) struct Accounts {
    table: Table<Account, PER_PAGE>,
    buckets: [u32; BUCKETS],
    seed: u64,
    opened: u64,
}

impl Accounts {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_limit(seed, ACCOUNTS_MAX)
    }

    /// At most so many accounts.
    fn with_limit(seed: u64, accounts_max: u32) -> Self {
        Self { table: Table::new(accounts_max), buckets: [NONE; BUCKETS], seed, opened: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.table.len()
    }

    /// The tenant of this name, opened if it is new, with a part of a quota if there is one. Every call is matched by a [`close`](Self::close).
    pub(crate) fn tenant(
        &mut self,
        pool: &Pool,
        name: u128,
        limits: AccountLimits,
        quota: Option<&Quota>,
    ) -> Result<AccountKey, AccountError> {
        let name = [name as u64, (name >> 64) as u64];
        let bucket = self.bucket_of(name);
        let mut at = self.buckets[bucket];
        while at != NONE {
            let account = self.table.at_mut(at);
            if account.name == name {
                account.handles += 1;
                return Ok(AccountKey(self.table.key_at(at)));
            }
            at = account.next;
        }
        let next = self.buckets[bucket];
        let own_max = limits.use_bytes_max.min(USE_BYTES_MAX);
        let part = quota.map(|quota| Part::new(quota, own_max));
        let use_bytes_max = part.as_ref().map_or(own_max, Part::use_bytes_max);
        let key = self.insert(pool, Account { name, next, part, use_bytes_max, ..Account::new(NONE, limits) })?;
        self.buckets[bucket] = key.0.index;
        Ok(key)
    }

    /// A new account below another.
    pub(crate) fn child(
        &mut self,
        pool: &Pool,
        parent: AccountKey,
        limits: AccountLimits,
    ) -> Result<AccountKey, AccountError> {
        let above = self.table.get(parent.0).ok_or(AccountError::Gone)?;
        if above.children >= above.children_max {
            return Err(AccountError::Children);
        }
        let key = self.insert(pool, Account::new(parent.0.index, limits))?;
        self.table.at_mut(parent.0.index).children += 1;
        Ok(key)
    }

    fn insert(&mut self, pool: &Pool, account: Account) -> Result<AccountKey, AccountError> {
        self.table.make_room(pool)?;
        self.opened += 1;
        Ok(AccountKey(self.table.insert(Account { opened: self.opened, ..account })))
    }

    /// Lets go of an account: it ends when nothing of it is used any more.
    pub(crate) fn close(&mut self, key: AccountKey) {
        if let Some(account) = self.table.get_mut(key.0) {
            debug_assert!(account.handles > 0, "every handle is closed once");
            account.handles = account.handles.saturating_sub(1);
            self.end_if_idle(key.0.index);
        }
    }

    /// Notes that bytes of a class are used, on each level; or on none (I5).
    #[inline]
    pub(crate) fn begin_use(&mut self, key: AccountKey, kind: Kind, bytes: u64) -> Result<(), AccountError> {
        let mut account = self.table.get_mut(key.0).ok_or(AccountError::Gone)?;
        let mut at = key.0.index;
        loop {
            if bytes > account.use_bytes_max - account.used_bytes && !account.raise(bytes) {
                self.take_back(key.0.index, at, kind, bytes);
                return Err(AccountError::Quota { wanted_bytes: bytes });
            }
            account.used_bytes += bytes;
            account.by_kind[kind.bits()] += (bytes / GRAIN_BYTES) as u32;
            at = account.parent;
            if at == NONE {
                return Ok(());
            }
            account = self.table.at_mut(at);
        }
    }

    /// Ends a use on the levels from an account on to one above it, which itself is left out.
    #[inline]
    fn take_back(&mut self, from: u32, to: u32, kind: Kind, bytes: u64) {
        let mut at = from;
        while at != to {
            let account = self.table.at_mut(at);
            debug_assert!(account.used_bytes >= bytes, "no more ends than began");
            account.used_bytes -= bytes;
            account.by_kind[kind.bits()] -= (bytes / GRAIN_BYTES) as u32;
            if let Some(part) = &mut account.part {
                part.shrink(account.used_bytes);
                account.use_bytes_max = part.use_bytes_max();
            }
            at = account.parent;
        }
    }

    /// Ends what [`begin_use`](Self::begin_use) began.
    #[inline]
    pub(crate) fn end_use(&mut self, key: AccountKey, kind: Kind, bytes: u64) {
        if self.table.get(key.0).is_none() {
            debug_assert!(false, "an account lives as long as its uses");
            return;
        }
        self.take_back(key.0.index, NONE, kind, bytes);
        self.end_if_idle(key.0.index);
    }

    /// Whether as many bytes may be used.
    pub(crate) fn allows(&self, key: AccountKey, bytes: u64) -> Result<(), AccountError> {
        let mut at = key.0.index;
        self.table.get(key.0).ok_or(AccountError::Gone)?;
        while at != NONE {
            let account = self.table.at(at);
            if bytes > account.use_bytes_max - account.used_bytes && !account.may_raise(bytes) {
                return Err(AccountError::Quota { wanted_bytes: bytes });
            }
            at = account.parent;
        }
        Ok(())
    }

    pub(crate) fn stats(&self, key: AccountKey) -> Option<AccountStats> {
        let account = self.table.get(key.0)?;
        let used_bytes = account.by_kind.map(|grains| u64::from(grains) * GRAIN_BYTES);
        debug_assert_eq!(used_bytes.iter().sum::<u64>(), account.used_bytes, "I9");
        Some(AccountStats { used_bytes, children: account.children })
    }

    /// The account at the top of the branch: whose turn it is.
    pub(crate) fn tenant_of(&self, key: AccountKey) -> Option<AccountKey> {
        self.table.get(key.0)?;
        let mut at = key.0.index;
        loop {
            match self.table.at(at).parent {
                NONE => return Some(AccountKey(self.table.key_at(at))),
                parent => at = parent,
            }
        }
    }

    /// The lane in which a tenant waits; `None` if it does not.
    pub(crate) fn lane(&self, tenant: AccountKey, priority: usize) -> Option<u32> {
        let lane = self.table.get(tenant.0)?.lanes[priority];
        (lane != NONE).then_some(lane)
    }

    /// A tenant with a lane does not end.
    pub(crate) fn set_lane(&mut self, tenant: AccountKey, priority: usize, lane: Option<u32>) {
        if let Some(account) = self.table.get_mut(tenant.0) {
            account.lanes[priority] = lane.unwrap_or(NONE);
            self.end_if_idle(tenant.0.index);
        }
    }

    pub(crate) fn debt(&self, tenant: AccountKey) -> u32 {
        self.table.get(tenant.0).map_or(0, |account| account.debt_bytes)
    }

    pub(crate) fn set_debt(&mut self, tenant: AccountKey, bytes: u32) {
        if let Some(account) = self.table.get_mut(tenant.0) {
            account.debt_bytes = bytes;
        }
    }

    /// Among the accounts that use anything and have none below them: the newest of those in the largest power-of-two bucket.
    pub(crate) fn newest_of_the_largest(&self) -> Option<AccountKey> {
        let leaves = self.table.iter().filter(|(_, account)| account.children == 0 && account.used_bytes > 0);
        let largest = leaves.max_by_key(|(_, account)| (account.used_bytes.ilog2(), account.opened));
        largest.map(|(index, _)| AccountKey(self.table.key_at(index)))
    }

    /// Ends an account that nobody needs, and those above it that were kept by it alone.
    fn end_if_idle(&mut self, index: u32) {
        let mut at = index;
        while at != NONE {
            let account = self.table.at(at);
            if account.handles > 0 || account.children > 0 || account.used_bytes > 0 || account.lanes != [NONE; 4] {
                return;
            }
            let parent = account.parent;
            if parent == NONE {
                self.unlink(at);
            } else {
                self.table.at_mut(parent).children -= 1;
            }
            self.table.remove(self.table.key_at(at));
            at = parent;
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

impl Account {
    fn new(parent: u32, limits: AccountLimits) -> Self {
        Self {
            name: [0; 2],
            used_bytes: 0,
            use_bytes_max: limits.use_bytes_max.min(USE_BYTES_MAX),
            part: None,
            opened: 0,
            parent,
            children: 0,
            children_max: limits.children_max,
            handles: 1,
            next: NONE,
            lanes: [NONE; 4],
            debt_bytes: 0,
            by_kind: [0; Kind::COUNT],
        }
    }

    /// Makes room for so many bytes more out of a shared quota; whether there is.
    #[cold]
    fn raise(&mut self, bytes: u64) -> bool {
        let Some(part) = &mut self.part else { return false };
        let has_grown = self.used_bytes.checked_add(bytes).is_some_and(|wanted| part.grow(wanted));
        self.use_bytes_max = part.use_bytes_max();
        has_grown
    }

    fn may_raise(&self, bytes: u64) -> bool {
        let wanted = self.used_bytes.checked_add(bytes);
        self.part.as_ref().zip(wanted).is_some_and(|(part, wanted)| part.may_grow(wanted))
    }
}

#[cfg(test)]
mod tests;
