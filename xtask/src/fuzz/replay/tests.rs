//! The replay finds what a fuzzer would find, the same way each time.

use crate::repo;

use super::{INPUT_BYTES_MAX, Random, SEED, corpus, names, replay};

#[test]
fn inputs_follow_from_the_seed_and_differ() {
    let corpus = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"a=1&b=2".to_vec()];
    let make = |seed| {
        let mut random = Random(seed);
        (0..500).map(|_| random.input(&corpus)).collect::<Vec<_>>()
    };
    let inputs = make(SEED);
    assert_eq!(inputs, make(SEED));
    assert_ne!(inputs, make(SEED + 1));
    assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    let distinct: std::collections::BTreeSet<_> = inputs.iter().collect();
    assert!(distinct.len() > 400, "{} of 500 differ", distinct.len());
}

#[test]
fn a_target_that_panics_is_a_failure_with_its_input() {
    let corpus = vec![b"good".to_vec(), b"bad\n".to_vec()];
    let error = replay("sample", |input| assert!(!input.starts_with(b"bad")), &corpus, 0);
    assert_eq!(error, Err("sample panics at \"bad\\n\"".to_owned()));
    assert_eq!(replay("sample", |_| {}, &corpus, 10), Ok(()));
}

#[test]
fn changes_reach_what_the_corpus_does_not_hold() {
    let corpus = vec![b"chunk".to_vec()];
    let error = replay("sample", |input| assert!(input.len() < 8), &corpus, 1_000);
    assert!(error.is_err(), "a longer input is never made");
}

#[test]
fn every_target_has_a_corpus() {
    for name in names() {
        assert!(corpus(name).is_ok_and(|inputs| !inputs.is_empty()), "{name}");
    }
}

#[test]
fn the_replay_knows_every_target_of_the_fuzzer() {
    let files = std::fs::read_dir(repo::root().join("fuzz/fuzz_targets")).expect("the folder of the targets");
    let files = files.map(|file| file.expect("a file").file_name().to_string_lossy().replace(".rs", ""));
    let files: std::collections::BTreeSet<String> = files.collect();
    assert_eq!(files, names().into_iter().map(str::to_owned).collect());
}
