//! `cargo xtask bench --instructions`: what a request costs, in instructions that the processor executes outside the
//! kernel.
//!
//! A program of `benches` sends a fixed set of requests to the codec, and to the server in a simulated world. It runs
//! under callgrind with two counts of requests, and the difference is the requests' own: starting and ending cancel
//! out. Nothing in it depends on time or chance, so the counts of one build on one machine are exact; another libc or
//! processor moves them. They are printed beside those of `benches/instructions.txt`.
//!
//! | part | what is counted there |
//! |---|---|
//! | codec, http, runtime, reactor, pool, slab | the crates, with what they call in the standard library and libc |
//! | handler | the program's handler |
//! | other | what has none of these among its callers |
//!
//! Clients and the simulated kernel are left out. What is left of clients is what the runtime does to wake them.

mod baseline;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::callgrind::{self, Place};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;
use baseline::Baseline;

/// What a request of one kind costs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// As the counted program calls it.
    pub(super) kind: String,
    /// Instructions for a request, by [part](self).
    pub(super) parts: BTreeMap<&'static str, f64>,
    /// Of these, what the budget takes: the ledger of the pool.
    pub(super) ledger: f64,
}

impl Cost {
    /// Instructions for a request.
    pub(super) fn total(&self) -> f64 {
        self.parts.values().sum()
    }

    fn part(&self, name: &str) -> f64 {
        self.parts.get(name).copied().unwrap_or(0.0)
    }

    /// The share of a request that is the pool's, and the part of that which is the budget's.
    pub(super) fn shares(&self) -> (f64, f64) {
        (self.part("pool") / self.total(), self.ledger / self.total())
    }
}

/// Counts, prints, and writes the new baseline when asked.
pub(super) fn run(update: bool, layers: bool) -> u8 {
    if let Some(install) = missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    match report(update, layers) {
        Ok(()) => EXIT_OK,
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

/// What to install before anything can be counted.
pub(super) fn missing() -> Option<&'static str> {
    callgrind::missing()
}

/// Counts, and prints the change; nothing is judged.
fn report(update: bool, layers: bool) -> Result<(), String> {
    let costs = count(layers)?;
    let path = repo::root().join(BASELINE);
    let before = Baseline::read(&path)?;
    print!("{}", table(&costs, &before));
    if update {
        Baseline::of(&costs, &circumstances()).write(&path)?;
        eprintln!(
            "written: {BASELINE}; its change belongs to the commit that changes the counts, with the reason in the message"
        );
    }
    Ok(())
}

/// Builds the program and counts all its kinds, or those with layers around a route.
pub(super) fn count(layers: bool) -> Result<Vec<Cost>, String> {
    let program = build(layers)?;
    let listed = Command::new(&program).arg("--kinds").stdin(Stdio::null()).output();
    let listed = listed.map_err(|error| format!("{} did not start: {error}", program.display()))?;
    let dir = super::dir();
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut costs = Vec::new();
    for kind in String::from_utf8_lossy(&listed.stdout).lines() {
        eprintln!("counting {kind}");
        let run = |count: u32| {
            callgrind::count(&program, &[kind, &count.to_string()], &dir.join(format!("callgrind.{kind}.{count}")))
        };
        let difference = callgrind::difference(&run(COUNTS.0)?, &run(COUNTS.1)?);
        costs.push(cost(kind, &difference, COUNTS.1 - COUNTS.0));
    }
    Ok(costs)
}

/// In a directory of its own, as the build differs in a flag: under valgrind a program gets too few addresses for an
/// arena of the usual size.
fn build(layers: bool) -> Result<PathBuf, String> {
    let target = repo::target_dir().join("instructions");
    let mut cargo = repo::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "plimsoll-benches", "--bin", PROGRAM]);
    if layers {
        cargo.args(["--features", "layers"]);
    }
    cargo.env("RUSTFLAGS", "--cfg plimsoll_small_arena").env("CARGO_TARGET_DIR", &target);
    match cargo.status() {
        Ok(status) if status.success() => Ok(target.join("release").join(PROGRAM)),
        Ok(status) => Err(format!("the build of {PROGRAM} ended with {status}")),
        Err(error) => Err(format!("the build of {PROGRAM} did not start: {error}")),
    }
}

/// Sums a difference up by part, for each of `requests`.
fn cost(kind: &str, difference: &BTreeMap<Place, i64>, requests: u32) -> Cost {
    let mut cost = Cost { kind: kind.to_owned(), parts: BTreeMap::new(), ledger: 0.0 };
    for (place, count) in difference {
        let Some(part) = part(place) else { continue };
        let each = *count as f64 / f64::from(requests);
        *cost.parts.entry(part).or_default() += each;
        if is_ledger(place) {
            cost.ledger += each;
        }
    }
    cost
}

/// The part that pays for a place: of the source line, else of the function that it was inlined in, else of the next
/// caller that has one.
fn part(place: &Place) -> Option<&'static str> {
    let is_excluded = |call: &str| EXCLUDED.iter().any(|excluded| call.contains(excluded));
    if place.calls.split('\'').any(is_excluded) {
        return None;
    }
    let of_file = || PARTS.iter().find(|part| place.file.contains(part.files));
    let of_call = |call: &str| {
        // What drops a value belongs to whose value it is.
        let name = call.strip_prefix("core::ptr::drop_in_place").unwrap_or(call).trim_start_matches('<');
        PARTS.iter().find(|part| name.starts_with(part.functions))
    };
    let found = of_file().or_else(|| place.calls.split('\'').find_map(of_call));
    Some(found.map_or("other", |part| part.name))
}

/// Whether a place is where bytes are counted: a line of the ledger, or an atomic that was inlined in a function of the
/// pool. On its hot path the ledger's numbers are the pool's only atomics; where others are counted with them, the
/// budget seems dearer than it is.
fn is_ledger(place: &Place) -> bool {
    let function = place.calls.split('\'').next().unwrap_or_default();
    LEDGER.iter().any(|file| place.file.ends_with(file))
        || place.file.ends_with(ATOMICS) && function.contains("plimsoll_pool::")
}

/// Where instructions are counted.
struct Part {
    name: &'static str,
    /// In the path of its sources.
    files: &'static str,
    /// What the names of its functions begin with.
    functions: &'static str,
}

/// The counts, the change since the baseline, and what the parts have of it.
fn table(costs: &[Cost], before: &Baseline) -> String {
    let mut text = String::from("instructions for a request, without clients and the simulated kernel\n\n");
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).chain(["other"]).collect();
    let _infallible = write!(text, "{:<14} {:>9} {:>18}", "request", "now", "against baseline");
    for name in &names {
        let _infallible = write!(text, " {name:>8}");
    }
    let _infallible = writeln!(text, " {:>7} {:>7}", "pool", "ledger");
    for cost in costs {
        let total = cost.total();
        let change = match before.total(&cost.kind) {
            Some(before) => {
                // The baseline has tenths, so what is less than that is no change.
                let change = ((total * 10.0).round() - (before * 10.0).round()) / 10.0;
                format!("{change:+.1} ({:+.2} %)", change / before * 100.0)
            }
            None => "new".to_owned(),
        };
        let _infallible = write!(text, "{:<14} {total:>9.1} {change:>18}", cost.kind);
        for name in &names {
            let _infallible = write!(text, " {:>8.1}", cost.part(name));
        }
        let (pool, ledger) = cost.shares();
        let _infallible = writeln!(text, " {:>5.1} % {:>5.2} %", pool * 100.0, ledger * 100.0);
    }
    let here = circumstances();
    if !before.circumstances.is_empty() && before.circumstances != here {
        let _infallible = writeln!(text, "\nthe baseline is from elsewhere: {}\nthis is {here}", before.circumstances);
    }
    text
}

/// What else moves the counts: the compiler, valgrind, libc.
fn circumstances() -> String {
    let said = |program: &str, word: &str| {
        let output = Command::new(program).arg(word).stdin(Stdio::null()).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or(program).trim().to_owned()
    };
    format!("{}; {}; {}", said("rustc", "--version"), callgrind::version(), said("ldd", "--version"))
}

/// In the order of the report.
const PARTS: [Part; 7] = [
    Part { name: "codec", files: "crates/codec/src/", functions: "plimsoll_codec::" },
    Part { name: "http", files: "crates/http/src/", functions: "plimsoll_http::" },
    Part { name: "runtime", files: "crates/runtime/src/", functions: "plimsoll_runtime::" },
    Part { name: "reactor", files: "crates/reactor/src/", functions: "plimsoll_reactor::" },
    Part { name: "pool", files: "crates/pool/src/", functions: "plimsoll_pool::" },
    Part { name: "slab", files: "crates/slab/src/", functions: "plimsoll_slab::" },
    Part { name: "handler", files: "benches/src/", functions: "counted::" },
];

/// The files that count bytes.
const LEDGER: [&str; 3] = ["crates/pool/src/account.rs", "crates/pool/src/budget.rs", "crates/pool/src/line.rs"];

/// Loads and stores of the ledger are in there.
const ATOMICS: &str = "core/src/sync/atomic.rs";

/// Functions that, with all they call, are not the product's: where clients are polled, and the simulated kernel.
const EXCLUDED: [&str; 2] = ["counted::server::client_turn", "plimsoll_reactor::sim::"];

/// The program of `benches`.
const PROGRAM: &str = "counted";

/// Requests in the two runs. The first is enough for everything that happens once.
const COUNTS: (u32, u32) = (64, 320);

/// From the root of the repository.
const BASELINE: &str = "benches/instructions.txt";

#[cfg(test)]
mod tests;
