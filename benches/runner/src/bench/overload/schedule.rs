//! When requests begin. They do so whether or not earlier ones are answered: that is an open loop, and what a closed
//! one hides.

use std::time::Duration;

use crate::random::Random;

/// A request that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Since the start.
    pub(super) at: Duration,
    /// Which of the plan's asks it is.
    pub(super) ask: usize,
}

/// How far apart they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spacing {
    /// All alike.
    Even,
    /// As those of many clients that know nothing of each other.
    Poisson,
}

/// Requests of one kind at so many a second, from one time until another.
pub(super) fn arrivals(
    ask: usize,
    per_second: f64,
    spacing: Spacing,
    (from, until): (Duration, Duration),
    random: &mut Random,
) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut at = from.as_secs_f64();
    loop {
        at += match spacing {
            Spacing::Even => 1.0 / per_second,
            Spacing::Poisson => -(1.0 - unit(random)).ln() / per_second,
        };
        // Also when the rate is none at all, and there is no time of the first.
        if at.is_nan() || at >= until.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Arrival { at: Duration::from_secs_f64(at), ask });
    }
}

/// Several of them, as one in order of time.
pub(super) fn merged(mut all: Vec<Arrival>, more: Vec<Arrival>) -> Vec<Arrival> {
    all.extend(more);
    all.sort_by_key(|arrival| arrival.at);
    all
}

/// 0 to 1, without 1.
fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    //! A schedule has its rate, its order and its seed.

    use std::time::Duration;

    use super::{Arrival, Spacing, arrivals, merged};
    use crate::random::Random;

    const SPAN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(11));

    #[test]
    fn even_arrivals_are_even() {
        let all = arrivals(3, 100.0, Spacing::Even, SPAN, &mut Random::new(1));
        assert!((998..=1_000).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|arrival| arrival.ask == 3));
        for two in all.windows(2) {
            let apart = (two[1].at - two[0].at).as_secs_f64();
            assert!((apart - 0.01).abs() < 1e-6, "{apart}");
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_variance_of_one() {
        let all = arrivals(0, 1_000.0, Spacing::Poisson, SPAN, &mut Random::new(7));
        assert!((9_500..10_500).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted_by_key(|arrival| arrival.at) && all[0].at >= SPAN.0 && all[all.len() - 1].at < SPAN.1);
        let gaps: Vec<f64> = all.windows(2).map(|two| (two[1].at - two[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution the standard deviation is the mean; of an even schedule it is 0.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn a_seed_gives_the_same_again_and_another_one_does_not() {
        let of = |seed| arrivals(0, 50.0, Spacing::Poisson, SPAN, &mut Random::new(seed));
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }

    #[test]
    fn no_rate_is_no_arrival_and_merging_keeps_the_order() {
        assert_eq!(arrivals(0, 0.0, Spacing::Poisson, SPAN, &mut Random::new(1)), []);
        let at = |ms, ask| Arrival { at: Duration::from_millis(ms), ask };
        assert_eq!(merged(vec![at(1, 0), at(5, 0)], vec![at(3, 1)]), [at(1, 0), at(3, 1), at(5, 0)]);
    }
}
