//! A few hundred seeds with every `cargo test`, each of them twice; `cargo xtask sim` runs more.

#![forbid(unsafe_code)]

use std::sync::Mutex;

use plimsoll::sim::Sweep;
use plimsoll_sim::limits::Limit;
use plimsoll_sim::scenario::run;

#[test]
fn the_server_keeps_its_word_in_any_weather() {
    let sweep = Sweep { first_seed: 1, seeds: 200, threads: 2 };
    let reached = Mutex::new(Vec::new());
    let test = |seed| {
        let outcome = run(seed);
        assert_eq!(outcome, run(seed), "a seed does the same again");
        reached.lock().expect("no thread panics").extend(outcome.limit.filter(|limit| limit.1).map(|limit| limit.0));
        outcome.census
    };
    let census = sweep.run(test, |_done| {}).unwrap_or_else(|failed| panic!("{failed}"));
    let reached = reached.into_inner().expect("no thread panicked");
    for limit in Limit::ALL {
        assert!(reached.contains(&limit), "never reached: {}", limit.name());
    }
    assert_eq!(census.ops_missing().collect::<Vec<_>>(), [], "operations that never happened");
    assert_eq!(census.faults_missing().collect::<Vec<_>>(), [], "faults that never happened");
}
