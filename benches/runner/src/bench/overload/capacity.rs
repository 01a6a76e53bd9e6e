//! What fits: the highest rate at which every request is answered 200, and what a refusal costs when it is exceeded.

use std::time::Duration;

use super::ask::Ask;
use super::cell::{Bed, LONG, Subject, waking};
use super::engine::Plan;
use super::profiles::Profile;
use super::record::Costs;
use super::schedule::{Spacing, arrivals, merged};
use crate::bench::servers::Server;
use crate::random::Random;

impl Bed<'_> {
    /// Requests a second that fit. Of those that take long it is how many there may be at once, divided by that time.
    pub(super) fn fits(&self, subject: &Subject, profile: &Profile) -> Result<f64, String> {
        let (takes, ask) = (profile.ask.takes(), profile.sample());
        if takes >= LONG {
            let time = ask.takes() / 2;
            let most = search(FIRST_AT_ONCE, AT_ONCE_MAX, self.precision, |count| {
                self.all_are_served(subject, profile, &ask, f64::from(count) / time.as_secs_f64(), time)
            })?;
            return Ok(f64::from(most) / takes.as_secs_f64());
        }
        search(FIRST_RATE, RATE_MAX, self.precision, |rate| {
            self.all_are_served(subject, profile, &ask, f64::from(rate), TRIAL)
        })
        .map(f64::from)
    }

    /// Whether a server that was just started answers all of so many requests a second, in about the time that they
    /// take.
    fn all_are_served(
        &self,
        subject: &Subject,
        profile: &Profile,
        ask: &Ask,
        rate: f64,
        time: Duration,
    ) -> Result<bool, String> {
        let running = self.start(subject)?;
        let (takes, span) = (ask.takes(), (Duration::ZERO, time));
        let plan = Plan {
            asks: vec![ask.clone()],
            arrivals: arrivals(0, rate, Spacing::Even, span, &mut Random::new(self.seed)),
            window: span,
            late_after: LATE_MAX,
            until: time + takes + LATE_MAX,
        };
        let tallies = self.load(&waking(plan, profile), &running)?.tallies;
        let tally = tallies.first().ok_or("a plan without asks")?;
        // What does not fit makes a queue that grows, and half of all requests wait in it; a machine that is busy with
        // something else makes a few late.
        let in_time = tally.served_ms.is_some_and(|ms| ms.p50 <= (takes * 2 + QUEUE_MAX).as_secs_f64() * 1e3);
        Ok(tally.served == tally.offered && tally.unsent == 0 && in_time)
    }

    /// How many requests at a time a server that has no line may take, so that they need as much memory as the line of
    /// ours is.
    pub(super) fn limit(&self, server: &'static Server, profile: &Profile) -> Result<u64, String> {
        let running = self.start(&Subject { server, word: AT_ONCE_MAX.to_string() })?;
        let before = running.resident_bytes()?;
        let span = (Duration::ZERO, LONG);
        let rate = f64::from(SAMPLE) / LONG.as_secs_f64();
        let plan = Plan {
            asks: vec![Ask::get("/sleep/2000", 2_000, profile.ask.wire)],
            arrivals: arrivals(0, rate, Spacing::Even, span, &mut Random::new(self.seed)),
            window: span,
            late_after: LATE_MAX,
            until: FILLED + LATE_MAX * 2,
        };
        let tallies = self.load(&plan, &running)?.tallies;
        let served = tallies.first().map_or(0, |tally| tally.served);
        let each = running.peak_resident_bytes()?.saturating_sub(before) / served.max(1);
        if served == 0 || each == 0 {
            return Err(format!("{served} requests at a time needed no memory that could be seen"));
        }
        Ok((profile.line_mib * MIB / each).clamp(1, AT_ONCE_MAX.into()))
    }

    /// What a refusal costs while all that fits is there, and a small answer while nobody is.
    pub(super) fn costs(&self, subject: &Subject, profile: &Profile, fits: f64) -> Result<Costs, String> {
        let wire = profile.ask.wire;
        let probe = Ask::get("/tiny", 0, wire);
        let probes = arrivals(0, PROBES, Spacing::Even, (FILLED, PROBED), &mut Random::new(self.seed));
        let window = (FILLED + LONG, PROBED);
        let plan = |asks: Vec<Ask>, arrivals| Plan { asks, arrivals, window, late_after: LATE_MAX, until: PROBED };
        let alone = self.load(&plan(vec![probe.clone()], probes.clone()), &self.start(subject)?)?;
        let answered = alone.tallies.first().map_or(0, |tally| tally.served_in_window);
        if answered == 0 {
            return Err("no small request was answered".to_owned());
        }
        let get_us = alone.cpu_ns as f64 / 1e3 / answered as f64;
        // From the address of the probes: one that holds nothing would be served. And some more all the time for those
        // that are let go of.
        let fill = Ask::get("/sleep/8000", 8_000, wire);
        let places = fits * profile.ask.takes().as_secs_f64();
        let first = arrivals(1, places * FILL, Spacing::Even, (Duration::ZERO, FILLED / 2), &mut Random::new(1));
        let more = arrivals(1, places * REFILL, Spacing::Even, (FILLED / 2, PROBED), &mut Random::new(1));
        let arrivals = merged(merged(first, more), probes);
        let full = self.load(&plan(vec![probe, fill], arrivals), &self.start(subject)?)?;
        let [probed, filled] = full.tallies[..] else { return Err("a plan without asks".to_owned()) };
        let refused = (probed.refused_in_window + filled.refused_in_window) as f64;
        let served = probed.served_in_window as f64;
        let share = refused / (refused + served).max(1.0);
        let rest_us = full.cpu_ns as f64 / 1e3 - served * get_us;
        let refusal_us = (share >= REFUSED_MIN).then(|| rest_us / refused);
        Ok(Costs { get_us, refusal_us, refused_percent: share * 100.0 })
    }
}

/// The largest number for which it is true, to a share of it; each doubles the one before until one fails. The error is
/// the first of the trials'.
fn search(
    first: u32,
    most: u32,
    precision: f64,
    mut holds: impl FnMut(u32) -> Result<bool, String>,
) -> Result<u32, String> {
    let (mut good, mut bad) = (0, None);
    let mut next = first;
    loop {
        // What disturbs a trial makes it fail, and never succeed: so a failure counts when it happens again.
        if holds(next)? || holds(next)? {
            good = next;
        } else {
            bad = Some(next);
        }
        next = match bad {
            None if good >= most => return Ok(good),
            None => (good * 2).min(most),
            Some(bad) if f64::from(bad - good) <= f64::from(bad) * precision || bad - good <= 1 => break,
            Some(bad) => u32::midpoint(good, bad),
        };
    }
    if good == 0 { Err("not even a few requests were all answered".to_owned()) } else { Ok(good) }
}

const FIRST_AT_ONCE: u32 = 256;
const AT_ONCE_MAX: u32 = 16_384;
const FIRST_RATE: u32 = 64;
const RATE_MAX: u32 = 32_768;
/// So many requests at a time tell what each needs.
const SAMPLE: u32 = 512;
const MIB: u64 = 1 << 20;
/// One trial of a rate.
const TRIAL: Duration = Duration::from_millis(1_500);
/// So long a client waits beyond what its request takes, and half of them at most.
const LATE_MAX: Duration = Duration::from_millis(1_000);
const QUEUE_MAX: Duration = Duration::from_millis(100);
/// When all places are taken, and when the measurement of refusals ends.
const FILLED: Duration = Duration::from_millis(2_000);
const PROBED: Duration = Duration::from_millis(4_500);
/// Requests for something small, a second.
const PROBES: f64 = 1_000.0;
/// Of the places, so many are asked for a second: in half of `FILLED`, and from then on.
const FILL: f64 = 1.3;
const REFILL: f64 = 0.1;
/// Refusals are measured when so many of those that ask are refused.
const REFUSED_MIN: f64 = 0.9;

#[cfg(test)]
mod tests {
    //! The search finds the edge.

    use super::search;

    #[test]
    fn the_search_finds_the_edge() {
        for edge in [1, 2, 99, 100, 101, 1_000, 5_000] {
            let found = search(64, 4_096, 0.01, |count| Ok(count <= edge)).unwrap();
            assert!(found <= edge && f64::from(found) >= f64::from(edge.min(4_096)) * 0.98, "{found} for {edge}");
        }
        assert_eq!(search(64, 4_096, 0.01, |_| Ok(false)).ok(), None);
        assert_eq!(search(64, 4_096, 0.01, |_| Err("gone".to_owned())), Err("gone".to_owned()));
        let mut trials = 0;
        search(64, 4_096, 0.5, |count| {
            trials += 1;
            Ok(count <= 100)
        })
        .unwrap();
        assert_eq!(trials, 3, "a coarse search stops early, and a failure is looked at twice");
        let mut trials = 0;
        let found = search(64, 4_096, 0.01, |_| {
            trials += 1;
            Ok(trials % 2 == 0)
        });
        assert_eq!(found, Ok(4_096), "one failure is none");
    }
}
