//! The fuzz targets without a fuzzer: over their corpora, over mutations of them and over random bytes.
//!
//! The inputs follow from a seed that never changes, so a failure here is a failure everywhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::{fs, io};

use super::seeds;
use crate::repo;

/// A fuzz target is a function that panics when something is wrong.
pub(crate) type Target = fn(&[u8]);

/// The targets by name; each has a file in `fuzz/fuzz_targets` and a folder in `fuzz/corpus`.
pub(crate) const TARGETS: [(&str, Target); 12] = [
    ("head", plimsoll_codec::fuzz::head),
    ("chunked", plimsoll_codec::fuzz::chunked),
    ("connection", plimsoll_codec::fuzz::connection),
    ("operations", plimsoll_codec::fuzz::operations),
    ("hpack", plimsoll_codec::fuzz::hpack),
    ("h2_frames", plimsoll_codec::fuzz::h2_frames),
    ("h2_operations", plimsoll_codec::fuzz::h2_operations),
    ("ws_frames", plimsoll_codec::fuzz::ws_frames),
    ("ws_text", plimsoll_codec::fuzz::ws_text),
    ("ws_deflate", plimsoll_codec::fuzz::ws_deflate),
    ("query", plimsoll_codec::fuzz::query),
    ("differential", plimsoll_conformance::differential::request),
];

/// Targets that this program has not, as they need a C compiler: a test of the same name of the package
/// `plimsoll-conformance`, with a feature, does what is done here.
pub(crate) const TESTED: [(&str, &str); 1] = [("tls_records", "tls")];

/// All names.
pub(crate) fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|(name, _)| *name).chain(TESTED.iter().map(|(name, _)| *name)).collect()
}

/// Gives every target its inputs. The error says which targets failed at which input.
pub(crate) fn run() -> Result<(), String> {
    let failed = TARGETS.into_iter().filter_map(|(name, target)| run_target(name, target).err());
    let failed: Vec<String> =
        failed.chain(TESTED.into_iter().filter_map(|(name, of)| run_test(name, of).err())).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn run_test(name: &str, feature: &str) -> Result<(), String> {
    let package = ["test", "--locked", "-p", "plimsoll-conformance"];
    let mut command = repo::cargo();
    command.args(package).args(["--features", feature, "--test", name, "--", "--nocapture"]);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("{name} fails")),
        Err(error) => Err(format!("cargo did not start: {error}")),
    }
}

fn run_target(name: &str, target: Target) -> Result<(), String> {
    let mut corpus = corpus(name).map_err(|error| format!("the corpus of {name}: {error}"))?;
    if corpus.is_empty() {
        return Err(format!("the corpus of {name} is empty"));
    }
    let files = corpus.len();
    corpus.extend(seeds::of(name));
    replay(name, target, &corpus, RANDOM_INPUTS)?;
    let cases = corpus.len() - files;
    println!("{name}: {files} inputs of the corpus, {cases} cases, {RANDOM_INPUTS} random ones from seed {SEED:#x}");
    Ok(())
}

/// The folder of a target's inputs.
pub(crate) fn corpus_dir(name: &str) -> PathBuf {
    repo::root().join("fuzz/corpus").join(name)
}

/// The inputs of a target, in the order of their names.
fn corpus(name: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = fs::read_dir(corpus_dir(name))?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

/// Gives a target the corpus and then `random` inputs made from it.
fn replay(name: &str, target: Target, corpus: &[Vec<u8>], random: usize) -> Result<(), String> {
    let mut random_numbers = Random(SEED);
    let made = (0..random).map(|_| random_numbers.input(corpus));
    for input in corpus.iter().cloned().chain(made) {
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            return Err(format!("{name} panics at \"{}\"", input.escape_ascii()));
        }
    }
    Ok(())
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

    /// A number below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end.max(1)
    }

    /// A quarter is noise; the rest is an input of the corpus with up to four changes.
    fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        if corpus.is_empty() || self.below(4) == 0 {
            let len = self.below(NOISE_BYTES_MAX);
            return (0..len).map(|_| self.next().to_le_bytes()[3]).collect();
        }
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut input, corpus);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let end = at + self.below(input.len() + 1 - at);
        match self.below(6) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = b"\r\n\0 \t:;,%=&?09afFxX-+"[self.below(21)],
            2 => input.insert(at, self.next().to_le_bytes()[3]),
            3 => drop(input.drain(at..end)),
            4 => input.extend_from_within(at..end),
            _ => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

/// Where all random inputs come from.
const SEED: u64 = 0x006c_6f61_646c_696e;
/// Random inputs for each target.
const RANDOM_INPUTS: usize = 20_000;
/// The longest input of noise.
const NOISE_BYTES_MAX: usize = 512;
/// The longest input of all.
const INPUT_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests;
