//! Giving memory back while the pool lives: what nobody has needed for a while goes to the system, a little at a time.
//!
//! Time is cut into epochs of half the decay time. A unit that is empty all through one is surplus at its end, so it
//! goes between half and the whole of the decay time after its last use. Which units those are is not asked: the
//! bookkeeping knows how many were never needed, and the highest go first.
//!
//! ```text
//!            something is free                     an epoch ends
//!   Idle ----------------------> Armed ------------------------------> surplus: some of it each tick
//!    ^                           |   ^                                         |
//!    +---------------------------+   +-----------------------------------------+
//!      nothing is free any more                   until it is gone
//! ```
#![forbid(unsafe_code)]

use core::time::Duration;

use super::Pool;
use crate::OutOfRange;

/// How long free memory stays, and how much of it goes at a time. See [`Decay`].
///
/// ```
/// use core::time::Duration;
/// use plimsoll_pool::DecayConfig;
///
/// let config = DecayConfig { slow: Duration::from_secs(10), ..DecayConfig::default() };
/// assert_eq!(config.fast, Duration::from_millis(250));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecayConfig {
    /// After how long without use memory goes back when there is enough: at most this, at least half of it.
    pub slow: Duration,
    /// The same when memory is short. Also how often, twice in it, is looked whether it is.
    pub fast: Duration,
    /// Bytes that one tick gives back at most.
    pub tick_bytes_max: u64,
    /// Ranges of addresses that one tick gives back at most, 1 to 512.
    pub tick_ranges_max: usize,
}

impl DecayConfig {
    /// Whether these times and amounts make sense together.
    ///
    /// # Errors
    ///
    /// Which of them does not, and what it may be.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if self.fast.is_zero() {
            return Err(OutOfRange::new("DecayConfig::fast", "more than 0: free memory is kept for some time"));
        }
        if self.slow < self.fast {
            return Err(OutOfRange::new("DecayConfig::slow", "at least as long as `fast`"));
        }
        if !(1..=crate::segments::BATCH_SPANS).contains(&self.tick_ranges_max) {
            return Err(OutOfRange::new("DecayConfig::tick_ranges_max", "between 1 and 512 ranges"));
        }
        if self.tick_bytes_max < 128 << 10 {
            return Err(OutOfRange::new("DecayConfig::tick_bytes_max", "at least 131,072 bytes, the largest buffer"));
        }
        Ok(())
    }
}

impl Default for DecayConfig {
    /// 2 s and 250 ms; as much at a time as was measured to take less than 200 us.
    fn default() -> Self {
        Self {
            slow: Duration::from_secs(2),
            fast: Duration::from_millis(250),
            tick_bytes_max: TICK_BYTES_MAX,
            tick_ranges_max: TICK_RANGES_MAX,
        }
    }
}

/// How fast free memory has to go, from how short it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecaySpeed {
    /// There is enough.
    Slow,
    /// The line is near.
    Fast,
    /// Somebody waits for it: everything free goes, however lately it was used.
    Now,
}

/// The timer by which a [`Pool`] gives its free memory back.
///
/// It reads no clock: the owner calls [`tick`](Self::tick) once a turn with the time since some moment of its choice,
/// and sleeps no longer than until [`next_deadline`](Self::next_deadline), also when it has nothing else to do. While
/// nothing is free there is no deadline.
///
/// When somebody else under the same budget is refused credit, the next tick gives back at once what it may.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_pool::{Budget, Decay, DecayConfig, DecaySpeed, Kind, MemoryLimit, Pool, PoolConfig};
///
/// let budget = Budget::new(MemoryLimit::mib(8));
/// let pool = Pool::new(&budget, PoolConfig::default())?;
/// let mut decay = Decay::new(DecayConfig::default());
/// drop(pool.try_acquire(1 << 17, Kind::Buffers)?);
///
/// let mut now = Duration::ZERO;
/// decay.tick(&pool, now, || DecaySpeed::Slow);
/// while let Some(deadline) = decay.next_deadline() {
///     now = deadline;
///     decay.tick(&pool, now, || DecaySpeed::Slow);
/// }
/// assert!(now <= Duration::from_millis(2250));
/// assert_eq!(budget.charged_by(Kind::Buffers), 0);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Debug)]
pub struct Decay {
    config: DecayConfig,
    state: State,
    refusals_seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was free when it was looked last.
    Idle,
    /// The epoch began at `began`. At `look` the speed is asked for, and whether the epoch is over.
    Armed { began: Duration, look: Duration },
    /// As `Armed`, and something is to be released now.
    Releasing { began: Duration, look: Duration },
}

impl Decay {
    /// A timer that is not armed.
    ///
    /// # Panics
    ///
    /// If [`check`](DecayConfig::check) says so.
    #[must_use]
    pub fn new(config: DecayConfig) -> Self {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        Self { config, state: State::Idle, refusals_seen: 0 }
    }

    /// When the next tick is due; `None` while there is nothing to give back.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.state {
            State::Idle => None,
            State::Armed { look, .. } => Some(look),
            State::Releasing { .. } => Some(Duration::ZERO),
        }
    }

    /// Whether the coming tick looks after everything: the moment for the owner to give its own free memory back to the
    /// pool.
    #[must_use]
    #[inline]
    pub fn looks_at(&self, now: Duration) -> bool {
        matches!(self.state, State::Armed { look, .. } | State::Releasing { look, .. } if now >= look)
    }

    /// Whether somebody was refused credit since the last tick: then the next one has something to do, however early.
    #[must_use]
    #[inline]
    pub fn is_refused(&self, pool: &Pool) -> bool {
        pool.budget().refusals() != self.refusals_seen
    }

    /// Arms the timer, for an owner that has free memory of the pool in its own tables.
    #[inline]
    pub fn arm(&mut self, now: Duration) {
        if self.state == State::Idle {
            self.state = State::Armed { began: now, look: now + self.config.fast / 2 };
        }
    }

    /// Gives back what is due, within the bounds of one tick; how many bytes. Costs a few loads when nothing is.
    ///
    /// `speed` is asked once in half the fast time at most.
    #[inline]
    pub fn tick(&mut self, pool: &Pool, now: Duration, speed: impl FnOnce() -> DecaySpeed) -> u64 {
        let refusals = pool.budget().refusals();
        let is_refused = refusals != self.refusals_seen;
        match self.state {
            State::Idle if !is_refused && !pool.is_cached() => 0,
            State::Armed { look, .. } if !is_refused && now < look => 0,
            _ => {
                self.refusals_seen = refusals;
                self.arm(now);
                self.work(pool, now, is_refused, speed)
            }
        }
    }

    #[inline(never)]
    fn work(&mut self, pool: &Pool, now: Duration, is_refused: bool, speed: impl FnOnce() -> DecaySpeed) -> u64 {
        let (State::Armed { mut began, mut look } | State::Releasing { mut began, mut look }) = self.state else {
            unreachable!("armed by the caller")
        };
        // Its own refusals a pool has answered already, as far as it could.
        let is_exceeded = pool.budget().line().excess() > 0;
        if is_refused && (is_exceeded || pool.budget().has_several_pools()) {
            pool.trim_credit();
            pool.begin_epoch();
            pool.begin_epoch();
        }
        if now >= look {
            let after = match if is_exceeded { DecaySpeed::Now } else { speed() } {
                DecaySpeed::Slow => self.config.slow,
                DecaySpeed::Fast => self.config.fast,
                DecaySpeed::Now => Duration::ZERO,
            };
            if now - began >= after / 2 {
                pool.begin_epoch();
                began = now;
                if after.is_zero() {
                    pool.begin_epoch();
                    pool.trim_credit();
                }
            }
            look = now + self.config.fast / 2;
        }
        let released = pool.release_surplus(self.config.tick_bytes_max, self.config.tick_ranges_max);
        self.state = if pool.has_surplus() {
            State::Releasing { began, look }
        } else if pool.is_cached() {
            State::Armed { began, look }
        } else {
            pool.trim_credit();
            State::Idle
        };
        released
    }
}

impl Pool {
    /// Whether there is memory that a [`Decay`] would give back some time.
    #[must_use]
    #[inline]
    pub fn is_cached(&self) -> bool {
        self.local.segments().is_cached()
    }

    fn begin_epoch(&self) {
        self.local.begin_epoch();
    }

    fn has_surplus(&self) -> bool {
        self.local.segments().has_surplus()
    }

    fn release_surplus(&self, bytes_max: u64, ranges_max: usize) -> u64 {
        self.local.release_surplus(bytes_max, ranges_max)
    }
}

/// See [`DecayConfig::default`]: 256 pages, and ranges that cost about as much as two pages each. 512 pages took 187 us
/// on the machine at its best and 250 us when others kept it busy.
const TICK_BYTES_MAX: u64 = 1 << 20;
const TICK_RANGES_MAX: usize = 128;

#[cfg(test)]
mod tests;
