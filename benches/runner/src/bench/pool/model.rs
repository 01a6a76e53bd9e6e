//! Figures of tests that print what they found: the models of waiting, and the storm on the receive buffers.

use std::collections::BTreeMap;
use std::process::Stdio;

use super::figure;
use crate::repo;

/// Random schedules that are tried.
pub(super) const SCHEDULES: u64 = 1_000_000;

/// The figures of all models, by what they are of, the highest of each. An error if a test failed.
pub(super) fn run() -> Result<BTreeMap<String, f64>, String> {
    let mut figures = BTreeMap::new();
    for (package, target, name) in MODELS {
        // As `cargo xtask sim` builds them.
        let mut command = repo::cargo();
        command.args(["test", "--quiet", "--locked", "--profile", "sim", "-p", package]).args(target);
        command.args(["--", "--nocapture", name]).env("PLIMSOLL_SCHEDULES", SCHEDULES.to_string());
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cargo did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let why = text.lines().rfind(|line| line.contains("panicked at") || line.contains("deadlock"));
            return Err(format!("a test of {package} failed: {}", why.unwrap_or("run it to see why")));
        }
        for (name, found) in text.lines().filter_map(|line| figure(line.split_once(MARK)?.1)) {
            figures.entry(name).and_modify(|known: &mut f64| *known = known.max(found)).or_insert(found);
        }
    }
    Ok(figures)
}

/// Where the tests are that print figures.
const MODELS: [(&str, &[&str], &str); 3] = [
    ("plimsoll-pool", &["--lib"], "waiters::tests::"),
    ("plimsoll-runtime", &["--test", "liveness"], ""),
    ("plimsoll-reactor", &["--lib"], "in_a_storm_each_receive_is_blocked"),
];
/// What a line of a figure begins with, after what the test runner may have written there.
const MARK: &str = "figure: ";
