//! How long the server still waits for a body.

use ::core::time::Duration;

use plimsoll_runtime::Instant;

/// A leaky bucket of waiting time. Waiting empties it, each byte that comes fills it up by its share of a second, and
/// it is never fuller than at the start. So a peer that is silent empties it once, and one that sends too slowly
/// empties it in the end, however it spreads its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinRateTimer {
    left: Duration,
    /// Since when it is being emptied.
    since: Option<Instant>,
}

impl MinRateTimer {
    /// A full one.
    pub(crate) fn full(timeout: Duration) -> Self {
        Self { left: timeout, since: None }
    }

    /// Begins to wait; what is left.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        self.pause(now);
        self.since = Some(now);
        self.left
    }

    /// When a wait that was begun is too long; `None` while nothing is waited for.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.since.map(|since| since + self.left)
    }

    /// Ends a wait.
    pub(crate) fn pause(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(now.since(since));
        }
    }

    /// Bytes have come.
    pub(crate) fn earn(&mut self, bytes: usize, bytes_per_second_min: Option<u32>, timeout: Duration) {
        self.left = match bytes_per_second_min {
            Some(rate) => timeout.min(self.left + share(bytes, rate)),
            None => timeout,
        };
    }
}

/// The same for a wait of which only the beginning is kept: when it began, now that so many bytes have moved. It never
/// lies in the future.
pub(crate) fn moved_on(since: Instant, bytes: usize, bytes_per_second_min: Option<u32>, now: Instant) -> Instant {
    bytes_per_second_min.map_or(now, |rate| now.min(since + share(bytes, rate)))
}

/// Whether bytes that came within `time` came fast enough.
pub(crate) fn earns(bytes: usize, bytes_per_second_min: Option<u32>, time: Duration) -> bool {
    bytes_per_second_min.map_or(bytes > 0, |rate| share(bytes, rate) >= time)
}

/// What so many bytes earn.
fn share(bytes: usize, bytes_per_second: u32) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / u64::from(bytes_per_second.max(1)))
}

#[cfg(test)]
mod tests;
