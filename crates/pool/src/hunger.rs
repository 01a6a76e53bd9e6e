//! Credit that moves between workers: who waits for some, and how what comes back finds the one who waits longest.
//!
//! ```text
//!   hungry worker                          another worker
//!   -------------                          --------------
//!   states its need (under the lock)       gives credit back to the line
//!   fence                                  fence
//!   asks the line once more                looks whether anybody is hungry:
//!   rings who has most free memory         if so, takes it from the line into the seat of the one who
//!   sleeps                                 waits longest (under the lock), and rings
//! ```
//!
//! Both sides write first and look second, so one of them sees the other: no wake-up is lost. While somebody is hungry,
//! credit that comes back goes to seats before it reaches the line, so that those who do not wait cannot take it. What
//! lies in a seat is still handed out (I1).
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
    fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    fn raise(&self) {
        self.0.store(1, Ordering::Release);
    }

    fn lower(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

struct Seat {
    account: Arc<Account>,
    flag: Arc<Flag>,
    ring: Ring,
    /// Bytes of credit that are missing; 0 if it is not hungry.
    need_bytes: u64,
    /// Since when its head waits.
    since_ns: u64,
    /// Credit for it that it has not fetched.
    handed_bytes: u64,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("need_bytes", &self.need_bytes).field("handed_bytes", &self.handed_bytes).finish()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hunger {
    /// How many seats have a need.
    hungry: AtomicU64,
    seats: Mutex<Vec<Seat>>,
}

impl Default for Hunger {
    fn default() -> Self {
        Self { hungry: AtomicU64::new(0), seats: Mutex::new(Vec::new()) }
    }
}

impl Hunger {
    /// A seat for a worker.
    pub(crate) fn join(&self, account: &Arc<Account>, ring: Ring) -> Arc<Flag> {
        let flag = Arc::<Flag>::default();
        let seat = Seat {
            account: Arc::clone(account),
            flag: Arc::clone(&flag),
            ring,
            need_bytes: 0,
            since_ns: 0,
            handed_bytes: 0,
        };
        self.seats().push(seat);
        flag
    }

    /// The worker has gone; what lay in its seat goes on.
    pub(crate) fn leave(&self, flag: &Arc<Flag>, line: &Line) {
        let mut seats = self.seats();
        let Some(at) = seats.iter().position(|seat| Arc::ptr_eq(&seat.flag, flag)) else { return };
        let seat = seats.swap_remove(at);
        if seat.need_bytes > 0 {
            self.hungry.fetch_sub(1, Ordering::SeqCst);
        }
        drop(seats);
        self.give(seat.handed_bytes, line);
    }

    /// Whether anybody is hungry.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }

    /// Bytes that all hungry workers miss together.
    pub(crate) fn need_bytes(&self) -> u64 {
        self.seats().iter().map(|seat| seat.need_bytes).sum()
    }

    /// Whether no other worker's head has waited longer: it gathers credit, and all others give theirs up.
    pub(crate) fn is_longest(&self, flag: &Arc<Flag>) -> bool {
        longest(&mut self.seats()).is_none_or(|seat| Arc::ptr_eq(&seat.flag, flag))
    }

    /// States that a worker misses so many bytes since then, or none; what the line has for it at once. Whoever has
    /// most free memory is rung.
    pub(crate) fn state(&self, flag: &Arc<Flag>, need_bytes: u64, since_ns: u64, line: &Line) -> u64 {
        let mut seats = self.seats();
        let Some(at) = seats.iter().position(|seat| Arc::ptr_eq(&seat.flag, flag)) else { return 0 };
        let before = core::mem::replace(&mut seats[at].need_bytes, need_bytes);
        seats[at].since_ns = since_ns;
        match (before > 0, need_bytes > 0) {
            (false, true) => _ = self.hungry.fetch_add(1, Ordering::SeqCst),
            (true, false) => _ = self.hungry.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }
        if need_bytes == 0 {
            return core::mem::take(&mut seats[at].handed_bytes);
        }
        drop(seats);
        fence(Ordering::SeqCst);
        self.serve(line, Some(flag));
        let mut seats = self.seats();
        let Some(at) = seats.iter().position(|seat| Arc::ptr_eq(&seat.flag, flag)) else { return 0 };
        let seat = &mut seats[at];
        let got = core::mem::take(&mut seat.handed_bytes);
        seat.flag.lower();
        let richest = if seat.need_bytes > 0 && before == 0 { richest(&seats, at) } else { None };
        drop(seats);
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
        let mut seats = self.seats();
        flag.lower();
        let seat = seats.iter_mut().find(|seat| Arc::ptr_eq(&seat.flag, flag));
        seat.map_or(0, |seat| core::mem::take(&mut seat.handed_bytes))
    }

    /// Gives credit back: to those who wait longest, then to the line.
    pub(crate) fn give(&self, bytes: u64, line: &Line) {
        let mut left = bytes;
        let mut hand = |need: u64| {
            let handed = need.min(left);
            left -= handed;
            handed
        };
        while self.is_any() && self.feed_longest(&mut hand, None) {}
        line.give(left);
        fence(Ordering::SeqCst);
        self.serve(line, None);
    }

    /// Hands what the line has to those who wait, the longest first. `own` is the caller's, who need not be told what
    /// it has done itself.
    fn serve(&self, line: &Line, own: Option<&Arc<Flag>>) {
        while self.is_any() && self.feed_longest(|need| line.take_up_to(need).unwrap_or(0), own) {}
    }

    /// Gives whoever waits longest what `take` has for its need, and rings it; whether there was somebody and
    /// something.
    ///
    /// One at a time, so that every doorbell rings before the next worker is looked at, however many wait, and none
    /// under the lock.
    fn feed_longest(&self, take: impl FnOnce(u64) -> u64, own: Option<&Arc<Flag>>) -> bool {
        let mut seats = self.seats();
        let Some(seat) = longest(&mut seats) else { return false };
        let bytes = take(seat.need_bytes);
        if bytes == 0 {
            return false;
        }
        debug_assert!(bytes <= seat.need_bytes, "no more is handed out than is missing");
        seat.need_bytes -= bytes;
        seat.handed_bytes += bytes;
        seat.flag.raise();
        if seat.need_bytes == 0 {
            self.hungry.fetch_sub(1, Ordering::SeqCst);
        }
        let is_own = own.is_some_and(|own| Arc::ptr_eq(&seat.flag, own));
        let ring = (!is_own).then(|| Arc::clone(&seat.ring));
        drop(seats);
        if let Some(ring) = ring {
            ring();
        }
        true
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.seats.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn longest(seats: &mut [Seat]) -> Option<&mut Seat> {
    seats.iter_mut().filter(|seat| seat.need_bytes > 0).min_by_key(|seat| seat.since_ns)
}

/// The doorbell of the other worker with the most free memory.
fn richest(seats: &[Seat], but: usize) -> Option<Ring> {
    let others = seats.iter().enumerate().filter(|(at, _)| *at != but).map(|(_, seat)| seat);
    let richest = others.max_by_key(|seat| seat.account.free() + seat.account.unused())?;
    richest.flag.raise();
    Some(Arc::clone(&richest.ring))
}

#[cfg(test)]
mod tests;
