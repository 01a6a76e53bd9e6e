//! Growth, and counters that do not agree, are found; noise is not.

use std::collections::BTreeMap;

use super::{Metrics, Sample, Series, reconcile};
use crate::soak::asks::Weather;
use crate::soak::ledger::{Fate, Kind, Tallies, Tally};

fn series(anonymous_kib: &[u64]) -> Series {
    let descriptors = BTreeMap::from([("socket".to_owned(), 9)]);
    let sample = |kib: &u64| Sample { anonymous_bytes: kib * 1024, descriptors: descriptors.clone() };
    Series { held: None, samples: anonymous_kib.iter().map(sample).collect() }
}

#[test]
fn memory_that_goes_on_growing_is_found() {
    assert!(series(&[1_000, 1_600, 1_300, 1_650, 1_400, 1_700]).judge("arena").is_ok(), "noise");
    assert!(series(&[1_000, 4_000, 4_000, 4_000]).judge("arena").is_ok(), "the warm-up may be long");
    assert!(series(&[]).judge("arena").is_ok() && series(&[7]).judge("arena").is_ok());
    let leak: Vec<u64> = (0..12).map(|cycle| 1_000 + 150 * cycle).collect();
    let error = series(&leak).judge("arena").unwrap_err();
    assert_eq!(error, "arena: anonymous memory has grown by 600 KiB");
}

#[test]
fn what_is_held_may_not_grow() {
    let text = |leases: u64| format!("# TYPE x gauge\nplimsoll_leases{{class=\"512\"}} {leases}\nplimsoll_fds 7\n");
    let mut series = series(&[1_000]);
    series.held = Some(Metrics::parse(&text(1), 1));
    let sample = series.samples[0].clone();
    assert_eq!(series.grown(&sample, Some(&Metrics::parse(&text(1), 2))), Vec::<String>::new());
    assert_eq!(series.grown(&sample, Some(&Metrics::parse(&text(0), 2))), Vec::<String>::new());
    assert_eq!(series.grown(&sample, Some(&Metrics::parse(&text(5), 2))), Vec::<String>::new(), "a page or two");
    assert_eq!(series.grown(&sample, Some(&Metrics::parse(&text(6), 2))), ["leases{class=\"512\"} 1, then 6"]);
    let held = Metrics::parse(&text(1).replace("fds 7", "fds 8"), 2);
    assert_eq!(series.grown(&sample, Some(&held)), ["fds 7, then 8"]);
    let more = Sample { descriptors: BTreeMap::from([("socket".to_owned(), 10)]), ..sample };
    assert_eq!(series.grown(&more, None), ["descriptors of socket 9, then 10"]);
}

#[test]
fn one_connection_that_asks_is_quiet() {
    let metrics = |active: u64, parked: u64| {
        let connections = |state: &str, count: u64| format!("plimsoll_connections{{state=\"{state}\"}} {count}\n");
        Metrics::parse(&(connections("active", active) + &connections("parked", parked)), 1)
    };
    assert!(metrics(1, 0).is_quiet() && !metrics(2, 0).is_quiet() && !metrics(1, 1).is_quiet());
}

#[test]
fn counters_are_compared() {
    let mut tally = Tally { connections: 2, requests: 3, ..Tally::default() };
    [200, 200, 404].into_iter().for_each(|status| tally.count(Fate::Answered(status)));
    let tallies = Tallies::from([(Kind::Http1, tally)]);
    let metrics = |looks: u64, [requests, ok, missing, accepted]: [u64; 4]| {
        let text = format!(
            "plimsoll_requests_total{{protocol=\"h1\"}} {requests}\nplimsoll_responses_total{{code=\"200\"}} {ok}\n\
             plimsoll_responses_total{{code=\"404\"}} {missing}\nplimsoll_accepted_total {accepted}\n"
        );
        Metrics::parse(&text, looks)
    };
    let before = metrics(5, [100, 90, 1, 50]);
    let check = |weather, after| reconcile(weather, &before, &metrics(7, after), &tallies);
    assert_eq!(check(Weather::Calm, [105, 94, 2, 54]), Vec::<String>::new());
    let more = check(Weather::Calm, [106, 94, 2, 54]);
    assert_eq!(more, ["requests_total{protocol=\"h1\"} went up by 6, and the clients know of exactly 5"]);
    assert_eq!(check(Weather::Calm, [105, 95, 1, 54]).len(), 2, "an answer under another status");
    assert_eq!(check(Weather::Storm, [500, 94, 2, 300]), Vec::<String>::new());
    assert_eq!(check(Weather::Storm, [500, 93, 2, 300]).len(), 1, "an answer that nobody counted");
    let mut refused = tallies.clone();
    (0..9).for_each(|_| refused.get_mut(&Kind::Http1).unwrap().count(Fate::Refused(408)));
    let check = |requests| reconcile(Weather::Storm, &before, &metrics(7, [requests, 94, 2, 300]), &refused);
    let one_status = "responses_total{code=\"408\"} went up by 0, and the clients know of at least 9";
    assert_eq!(check(105), [one_status], "none of the refused was begun");
    assert_eq!(check(104).len(), 2, "and one of those that were served neither");
    let cut = Tallies::from([(Kind::Http1, Tally { cut: 1, ..Tally::default() })]);
    let wrong = reconcile(Weather::Storm, &before, &metrics(7, [500, 94, 2, 300]), &cut);
    assert_eq!(wrong, ["1 answers were cut short, and the server knows of 0 that it let go of"]);
}
