//! A few hundred seeds with every `cargo test`, each of them twice; `cargo xtask sim` runs more.

#![forbid(unsafe_code)]

use plimsoll::sim::Sweep;
use plimsoll_sim::scenario::run;

#[test]
fn the_server_keeps_its_word_in_any_weather() {
    let sweep = Sweep { first_seed: 1, seeds: 200, threads: 2 };
    let test = |seed| {
        let outcome = run(seed);
        assert_eq!(outcome, run(seed), "a seed does the same again");
        outcome.census
    };
    let census = sweep.run(test, |_done| {}).unwrap_or_else(|failed| panic!("{failed}"));
    assert_eq!(census.ops_missing().collect::<Vec<_>>(), [], "operations that never happened");
    assert_eq!(census.faults_missing().collect::<Vec<_>>(), [], "faults that never happened");
}
