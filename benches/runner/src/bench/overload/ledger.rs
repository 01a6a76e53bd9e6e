//! What the clients know of their requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The whole answer came, with status 200; a WebSocket stayed for as long as its client wanted.
    Served,
    /// It was refused in words: 503, `REFUSED_STREAM`, close code 1013. Perhaps they say after how many seconds to come
    /// back.
    Refused(Option<u64>),
    /// Another status, or no HTTP at all.
    Wrong,
    /// The connection or the stream ended within the answer.
    Cut,
    /// It ended before the first byte of the answer.
    Silent,
    /// There was no connection.
    Unopened,
    /// There was no answer in time, and the client left.
    Late,
}

/// The requests of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Those between these times are in the window: `in_window`.
    window: (Duration, Duration),
    tally: Tally,
    served_us: Vec<u32>,
    refused_us: Vec<u32>,
    lag_us: Vec<u32>,
}

/// The counts of a ledger. Every request that was sent is in one of those from `served` to `late`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Requests that were sent, those that came back included.
    pub(super) offered: u64,
    /// Requests that were due and not sent: the client had no descriptor left.
    pub(super) unsent: u64,
    pub(super) served: u64,
    pub(super) refused: u64,
    pub(super) wrong: u64,
    pub(super) cut: u64,
    pub(super) silent: u64,
    pub(super) unopened: u64,
    pub(super) late: u64,
    /// Answers that ended in the window.
    pub(super) served_in_window: u64,
    pub(super) refused_in_window: u64,
    /// From when a request was due to the end of its answer.
    pub(super) served_ms: Option<Percentiles>,
    pub(super) refused_ms: Option<Percentiles>,
    /// From when a request was due until the client sent it: if that is long, the client was too slow, and the row says
    /// little.
    pub(super) lag_ms: Option<Percentiles>,
}

/// Of some times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Ledger {
    pub(super) fn new(window: (Duration, Duration)) -> Ledger {
        Ledger { window, ..Ledger::default() }
    }

    /// A request is sent, so long after it was due.
    pub(super) fn sent(&mut self, lag: Duration) {
        self.tally.offered += 1;
        self.lag_us.push(micros(lag));
    }

    /// A request is due and cannot be sent.
    pub(super) fn unsent(&mut self) {
        self.tally.unsent += 1;
    }

    /// A request that was due at a time ends now.
    pub(super) fn ended(&mut self, outcome: Outcome, due: Duration, now: Duration) {
        let (took, (from, until)) = (micros(now.saturating_sub(due)), self.window);
        let in_window = u64::from(from <= now && now < until);
        let tally = &mut self.tally;
        match outcome {
            Outcome::Served => {
                tally.served += 1;
                tally.served_in_window += in_window;
                self.served_us.push(took);
            }
            Outcome::Refused(_) => {
                tally.refused += 1;
                tally.refused_in_window += in_window;
                self.refused_us.push(took);
            }
            Outcome::Wrong => tally.wrong += 1,
            Outcome::Cut => tally.cut += 1,
            Outcome::Silent => tally.silent += 1,
            Outcome::Unopened => tally.unopened += 1,
            Outcome::Late => tally.late += 1,
        }
    }

    /// All that is known.
    pub(super) fn tally(mut self) -> Tally {
        Tally {
            served_ms: Percentiles::of(&mut self.served_us),
            refused_ms: Percentiles::of(&mut self.refused_us),
            lag_ms: Percentiles::of(&mut self.lag_us),
            ..self.tally
        }
    }
}

impl Tally {
    /// Those that have ended, in whatever way.
    pub(super) const fn ended(&self) -> u64 {
        self.served + self.refused + self.wrong + self.cut + self.silent + self.unopened + self.late
    }
}

impl Percentiles {
    /// By the nearest rank; none of no times.
    pub(super) fn of(us: &mut [u32]) -> Option<Percentiles> {
        us.sort_unstable();
        let rank = |percent: usize| us.get((us.len() * percent).div_ceil(100).checked_sub(1)?);
        let ms = |percent| rank(percent).map(|us| f64::from(*us) / 1_000.0);
        Some(Percentiles { p50: ms(50)?, p99: ms(99)?, max: ms(100)? })
    }
}

/// As it is kept; more than an hour is an hour.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    //! Every request is in one column, and percentiles are those of the nearest rank.

    use std::time::Duration;

    use super::{Ledger, Outcome, Percentiles};

    #[test]
    fn every_request_is_in_one_column() {
        let second = Duration::from_secs;
        let mut ledger = Ledger::new((second(2), second(4)));
        let all = [
            Outcome::Served,
            Outcome::Refused(Some(1)),
            Outcome::Wrong,
            Outcome::Cut,
            Outcome::Silent,
            Outcome::Unopened,
            Outcome::Late,
        ];
        for (at, outcome) in all.iter().enumerate() {
            for times in 0..=at as u64 {
                ledger.sent(Duration::from_millis(times));
                ledger.ended(*outcome, second(1), second(1 + times));
            }
        }
        ledger.unsent();
        let tally = ledger.tally();
        let counts = [tally.served, tally.refused, tally.wrong, tally.cut, tally.silent, tally.unopened, tally.late];
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((tally.offered, tally.ended(), tally.unsent), (28, 28, 1));
        // The one that was served ended at 1 s, those that were refused at 1 s and 2 s.
        assert_eq!((tally.served_in_window, tally.refused_in_window), (0, 1));
        assert_eq!(tally.refused_ms, Some(Percentiles { p50: 0.0, p99: 1_000.0, max: 1_000.0 }));
        assert_eq!(tally.lag_ms.map(|lag| lag.max), Some(6.0));
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        assert_eq!(Percentiles::of(&mut []), None);
        assert_eq!(Percentiles::of(&mut [7_000]), Some(Percentiles { p50: 7.0, p99: 7.0, max: 7.0 }));
        let mut hundred: Vec<u32> = (1..=100).rev().map(|ms| ms * 1_000).collect();
        assert_eq!(Percentiles::of(&mut hundred), Some(Percentiles { p50: 50.0, p99: 99.0, max: 100.0 }));
        let mut two_hundred: Vec<u32> = (1..=200).map(|ms| ms * 1_000).collect();
        assert_eq!(Percentiles::of(&mut two_hundred).map(|of| of.p99), Some(198.0));
    }
}
