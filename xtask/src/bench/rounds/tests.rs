//! The order of rounds, and ratios between series.

use super::{CPU, Errors, Measured, P99, RATE, Run, Sample, Series, turns};
use crate::bench::load::PROFILES;

fn series(server: &'static str, figures: &[(f64, f64)]) -> Series {
    let sample = |&(cpu_us_per_request, requests_per_second): &(f64, f64)| Sample {
        run: Run { requests: 1000, requests_per_second, p99_us: None, errors: Errors::default() },
        cpu_us_per_request,
    };
    Series { server, samples: figures.iter().map(sample).collect(), errors: Errors::default() }
}

#[test]
fn every_server_has_a_turn_in_each_round_and_is_first_in_turn() {
    let firsts: Vec<usize> = (0..3).map(|round| turns(3, round).next().unwrap()).collect();
    assert_eq!(firsts, [0, 1, 2]);
    for round in 0..7 {
        let mut order: Vec<usize> = turns(3, round).collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
    }
}

#[test]
fn ratios_are_to_the_base_in_the_same_round() {
    let ours = series("plimsoll-uring", &[(1.0, 300.0), (2.0, 200.0), (3.0, 100.0)]);
    let measured = |series| Measured { profile: &PROFILES[0], series };
    let both = measured(vec![ours, series("hyper", &[(2.0, 100.0), (4.0, 100.0), (3.0, 100.0)])]);
    assert_eq!(both.ratio(&both.series[0], CPU), Some(0.5));
    assert_eq!(both.ratio(&both.series[0], RATE), Some(2.0));
    assert_eq!(both.ratio(&both.series[1], CPU), Some(1.0));
    assert_eq!((both.series[0].spread(P99), both.ratio(&both.series[0], P99)), (None, None));
    let alone = measured(vec![series("plimsoll-mio", &[(1.0, 1.0)])]);
    assert_eq!(alone.ratio(&alone.series[0], CPU), None);
}
