//! The fuzz target for records of TLS without a fuzzer: over its corpus, and over random inputs.
//!
//! `PLIMSOLL_TLS_SECONDS` has it go on with other inputs for so many seconds.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "how much was tried")]

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_conformance::tls_records::session;

/// The corpus, and what it lies in.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/tls_records");
    let files = std::fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("an input")).collect()
}

/// A xorshift generator; never zero.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Operations with little that ends a session before the others, and now and then anything.
    fn input(&mut self) -> Vec<u8> {
        let calm = !self.next().is_multiple_of(4);
        let len = self.next() as usize % 160;
        let byte = |random: &mut Self| random.next().to_le_bytes()[3];
        (0..len)
            .map(|_| match byte(self) {
                // A change of keys, plaintext, what the server seals, pieces.
                byte if calm && byte % 16 > 5 && byte % 16 < 15 => {
                    [0, 1, 2, 3, 15, 8, 128, 131, 143][usize::from(byte % 9)]
                }
                byte => byte,
            })
            .collect()
    }
}

#[test]
fn compact_sessions_do_as_those_of_rustls() {
    let corpus = corpus();
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| session(input));
    let seconds = std::env::var("PLIMSOLL_TLS_SECONDS").ok().map_or(0, |text| text.parse().expect("seconds"));
    let (until, mut tried) = (Instant::now() + Duration::from_secs(seconds), 0_u64);
    let mut random = Random(if seconds > 0 { std::process::id().into() } else { 0x7472_6163_6b65_6473 });
    while tried < INPUTS || Instant::now() < until {
        let input = random.input();
        if std::panic::catch_unwind(|| session(&input)).is_err() {
            panic!("it panics at \"{}\"", input.escape_ascii());
        }
        tried += 1;
    }
    println!("{} inputs of the corpus, {tried} random ones", corpus.len());
}

/// Random inputs of each run.
const INPUTS: u64 = 1_500;
