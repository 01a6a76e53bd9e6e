//! Credit that moves between workers: who waits for some, and how what comes back finds the one who waits longest.
//!
//! ```text
//!   waiting worker                         another worker
//!   --------------                         --------------
//!   states its need (under the lock)       gives credit back to the line
//!   fence                                  fence
//!   asks the line once more                looks whether anybody waits:
//!   rings who has most free memory         if so, takes it from the line into the claim of the one who
//!   sleeps                                 waits longest (under the lock), and rings
//! ```
//!
//! Both sides write first and look second, so one of them sees the other: no wake-up is lost. While somebody waits,
//! credit that comes back goes to claims before it reaches the line, so that those who do not wait cannot take it. What
//! lies in a claim is still handed out (I1).
//!
//! A worker whose waiters are patient *watches* the line: it is rung when the line has so much, and gets nothing before
//! others. It writes first and looks second, too.
#![forbid(unsafe_code)]

use core::fmt;
use std::sync::Arc;

use crate::account::Account;
use crate::line::Line;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// Wakes a worker; may be called on any thread.
pub(crate) type Ring = Arc<dyn Fn() + Send + Sync>;

/// What a worker looks at in each of its turns: whether there is something for it under the lock.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Flag(AtomicU64);

impl Default for Flag {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Flag {
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    fn raise(&self) {
        self.0.store(1, Ordering::Release);
    }

    fn lower(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

struct Claim {
    account: Arc<Account>,
    flag: Arc<Flag>,
    ring: Ring,
    /// Bytes of credit that are missing; 0 if it does not wait.
    need_bytes: u64,
    /// Since when its head waits.
    since_ns: u64,
    /// Credit for it that it has not fetched.
    handed_bytes: u64,
    /// It is rung when the line has so much; 0 if it does not watch.
    watched_bytes: u64,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("need_bytes", &self.need_bytes).field("handed_bytes", &self.handed_bytes).finish()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CreditQueue {
    /// How many claims have a need.
    waiting: AtomicU64,
    /// How many watch the line.
    watching: AtomicU64,
    claims: Mutex<Vec<Claim>>,
}

impl Default for CreditQueue {
    fn default() -> Self {
        Self { waiting: AtomicU64::new(0), watching: AtomicU64::new(0), claims: Mutex::new(Vec::new()) }
    }
}

impl CreditQueue {
    /// A claim for a worker.
    pub(crate) fn join(&self, account: &Arc<Account>, ring: Ring) -> Arc<Flag> {
        let flag = Arc::<Flag>::default();
        let claim = Claim {
            account: Arc::clone(account),
            flag: Arc::clone(&flag),
            ring,
            need_bytes: 0,
            since_ns: 0,
            handed_bytes: 0,
            watched_bytes: 0,
        };
        self.claims().push(claim);
        flag
    }

    /// The worker has gone; what lay in its claim goes on.
    pub(crate) fn leave(&self, flag: &Arc<Flag>, line: &Line) {
        let mut claims = self.claims();
        let Some(at) = claims.iter().position(|claim| Arc::ptr_eq(&claim.flag, flag)) else { return };
        let claim = claims.swap_remove(at);
        if claim.need_bytes > 0 {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        if claim.watched_bytes > 0 {
            self.watching.fetch_sub(1, Ordering::SeqCst);
        }
        drop(claims);
        self.give(claim.handed_bytes, line);
    }

    /// Whether anybody waits.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Bytes that all waiting workers miss together.
    pub(crate) fn need_bytes(&self) -> u64 {
        self.claims().iter().map(|claim| claim.need_bytes).sum()
    }

    /// Whether no other worker's head has waited longer: it gathers credit, and all others give theirs up.
    pub(crate) fn is_longest(&self, flag: &Arc<Flag>) -> bool {
        longest(&mut self.claims()).is_none_or(|claim| Arc::ptr_eq(&claim.flag, flag))
    }

    /// States that a worker misses so many bytes since then, or none; what the line has for it at once. Whoever has
    /// most free memory is rung.
    pub(crate) fn state(&self, flag: &Arc<Flag>, need_bytes: u64, since_ns: u64, line: &Line) -> u64 {
        let mut claims = self.claims();
        let Some(at) = claims.iter().position(|claim| Arc::ptr_eq(&claim.flag, flag)) else { return 0 };
        let before = core::mem::replace(&mut claims[at].need_bytes, need_bytes);
        claims[at].since_ns = since_ns;
        match (before > 0, need_bytes > 0) {
            (false, true) => _ = self.waiting.fetch_add(1, Ordering::SeqCst),
            (true, false) => _ = self.waiting.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
        if need_bytes == 0 {
            return core::mem::take(&mut claims[at].handed_bytes);
        }
        drop(claims);
        fence(Ordering::SeqCst);
        self.grant_from(line, Some(flag));
        let mut claims = self.claims();
        let Some(at) = claims.iter().position(|claim| Arc::ptr_eq(&claim.flag, flag)) else { return 0 };
        let claim = &mut claims[at];
        let got = core::mem::take(&mut claim.handed_bytes);
        claim.flag.lower();
        let richest = if claim.need_bytes > 0 && before == 0 { richest(&claims, at) } else { None };
        drop(claims);
        if let Some(ring) = richest {
            ring();
        }
        got
    }

    /// Credit that was handed to a worker since it last asked.
    #[inline]
    pub(crate) fn fetch(&self, flag: &Arc<Flag>) -> u64 {
        if !flag.is_raised() {
            return 0;
        }
        let mut claims = self.claims();
        flag.lower();
        let claim = claims.iter_mut().find(|claim| Arc::ptr_eq(&claim.flag, flag));
        claim.map_or(0, |claim| core::mem::take(&mut claim.handed_bytes))
    }

    /// Gives credit back: to a line that was lowered below its credits, to those who wait longest, then to the line.
    pub(crate) fn give(&self, bytes: u64, line: &Line) {
        let owed = bytes.min(line.excess());
        if owed > 0 {
            line.give(owed);
        }
        let mut left = bytes - owed;
        let mut hand = |need: u64| {
            let handed = need.min(left);
            left -= handed;
            handed
        };
        while self.is_any() && self.grant_longest(&mut hand, None) {}
        line.give(left);
        fence(Ordering::SeqCst);
        self.grant_from(line, None);
        self.ring_watchers(line);
    }

    /// The line's limit has changed: those who wait get what there is more, and every worker is called to look at it.
    pub(crate) fn limit_changed(&self, line: &Line) {
        fence(Ordering::SeqCst);
        self.grant_from(line, None);
        let mut called = 0;
        loop {
            let claims = self.claims();
            let Some(claim) = claims.get(called) else { return };
            claim.flag.raise();
            let ring = Arc::clone(&claim.ring);
            called += 1;
            drop(claims);
            ring();
        }
    }

    /// Says that a worker is to be rung when the line has so much, or for 0 that it is not. It looks at the line itself
    /// then.
    pub(crate) fn watch(&self, flag: &Arc<Flag>, watched_bytes: u64) {
        let mut claims = self.claims();
        let Some(claim) = claims.iter_mut().find(|claim| Arc::ptr_eq(&claim.flag, flag)) else { return };
        let before = core::mem::replace(&mut claim.watched_bytes, watched_bytes);
        match (before > 0, watched_bytes > 0) {
            (false, true) => _ = self.watching.fetch_add(1, Ordering::SeqCst),
            (true, false) => _ = self.watching.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
        drop(claims);
        fence(Ordering::SeqCst);
    }

    /// Rings those for whom the line has enough, one at a time, none under the lock.
    fn ring_watchers(&self, line: &Line) {
        let mut looked = 0;
        while self.watching.load(Ordering::Relaxed) > 0 {
            let (claims, free) = (self.claims(), line.free());
            let is_served = |claim: &Claim| (1..=free).contains(&claim.watched_bytes);
            let Some(at) = claims.iter().skip(looked).position(is_served) else { return };
            looked += at + 1;
            let ring = Arc::clone(&claims[looked - 1].ring);
            drop(claims);
            ring();
        }
    }

    /// Hands what the line has to those who wait, the longest first. `own` is the caller's, who need not be told what
    /// it has done itself.
    fn grant_from(&self, line: &Line, own: Option<&Arc<Flag>>) {
        while self.is_any() && self.grant_longest(|need| line.take_up_to(need).unwrap_or(0), own) {}
    }

    /// Gives whoever waits longest what `take` has for its need, and rings it; whether there was somebody and
    /// something.
    ///
    /// One at a time, so that every doorbell rings before the next worker is looked at, however many wait, and none
    /// under the lock.
    fn grant_longest(&self, take: impl FnOnce(u64) -> u64, own: Option<&Arc<Flag>>) -> bool {
        let mut claims = self.claims();
        let Some(claim) = longest(&mut claims) else { return false };
        let bytes = take(claim.need_bytes);
        if bytes == 0 {
            return false;
        }
        debug_assert!(bytes <= claim.need_bytes, "no more is handed out than is missing");
        claim.need_bytes -= bytes;
        claim.handed_bytes += bytes;
        claim.flag.raise();
        if claim.need_bytes == 0 {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        let is_own = own.is_some_and(|own| Arc::ptr_eq(&claim.flag, own));
        let ring = (!is_own).then(|| Arc::clone(&claim.ring));
        drop(claims);
        if let Some(ring) = ring {
            ring();
        }
        true
    }

    fn claims(&self) -> MutexGuard<'_, Vec<Claim>> {
        self.claims.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn longest(claims: &mut [Claim]) -> Option<&mut Claim> {
    claims.iter_mut().filter(|claim| claim.need_bytes > 0).min_by_key(|claim| claim.since_ns)
}

/// The doorbell of the other worker with the most free memory.
fn richest(claims: &[Claim], but: usize) -> Option<Ring> {
    let others = claims.iter().enumerate().filter(|(at, _)| *at != but).map(|(_, claim)| claim);
    let richest = others.max_by_key(|claim| claim.account.free() + claim.account.unused())?;
    richest.flag.raise();
    Some(Arc::clone(&richest.ring))
}

#[cfg(test)]
mod tests;
