//! The driver's clock: nanoseconds since an arbitrary start, so that a simulation can move it.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in the driver's time, in nanoseconds since the driver's epoch (up to 584 years of it).
///
/// It comes from [`Driver::now`](crate::Driver::now) and is monotonic per process. On io_uring and mio it is the
/// kernel's `CLOCK_MONOTONIC`; in a simulation it is virtual and moves only when every worker waits.
///
/// ```
/// use plimsoll_reactor::Instant;
/// use core::time::Duration;
///
/// let start = Instant::from_nanos(5_000_000);
/// let later = start + Duration::from_millis(3);
/// assert_eq!(later - start, Duration::from_millis(3));
/// assert_eq!(start - later, Duration::ZERO, "never negative");
/// assert_eq!(later.as_millis(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The instant `nanos` nanoseconds after the driver's epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `millis` milliseconds after the driver's epoch, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the driver's epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the driver's epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time.
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// How long a turn may wait for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Submit, look, and come back at once.
    No,
    /// Until the first completion, a doorbell, or this instant.
    Until(Instant),
    /// Until the first completion or a doorbell.
    Forever,
}

impl Wait {
    /// The same wait, ended by `deadline` at the latest.
    pub(crate) fn no_later_than(self, deadline: Instant) -> Self {
        match self {
            Self::No => Self::No,
            Self::Until(earlier) => Self::Until(earlier.min(deadline)),
            Self::Forever => Self::Until(deadline),
        }
    }
}
