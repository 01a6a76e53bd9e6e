//! `cargo xtask bench --pool`: the targets of the memory pool, each with what is measured here and now. A new one is a line in [`TARGETS`].
//!
//! The report says which targets are met. It does not judge: times depend on the machine, and on what else runs there.

mod burst;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::placement::{self, Placement};
use super::servers::{self, Server};
use super::{instructions, parked};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Something that the pool shall not exceed.
struct Target {
    name: &'static str,
    /// In `unit`.
    at_most: f64,
    unit: &'static str,
    /// The figure, or why there is none here.
    measure: fn(&Bench) -> Result<f64, String>,
}

/// In the order of the report.
const TARGETS: [Target; 13] = [
    Target { name: "acquire and release, hot, 64 B to 20 KiB, slowest", at_most: 10.0, unit: "ns", measure: hot },
    Target { name: "acquire and release, hot, 128 KiB", at_most: 10.0, unit: "ns", measure: hot_large },
    Target { name: "acquire of a page that is not resident, for a fault", at_most: 1.15, unit: "x", measure: fault },
    Target { name: "remote free, both sides, slowest", at_most: 90.0, unit: "ns", measure: remote_free },
    Target { name: "leases of 10,000 parked connections, beside tables", at_most: 0.0, unit: "", measure: leases },
    Target { name: "parked connection, io_uring", at_most: 128.0, unit: "bytes", measure: parked_uring },
    Target { name: "parked connection, epoll", at_most: 128.0, unit: "bytes", measure: parked_mio },
    Target { name: "burst of small requests, io_uring, for each", at_most: 64.0, unit: "bytes", measure: burst_uring },
    Target { name: "burst of small requests, epoll, for each", at_most: 64.0, unit: "bytes", measure: burst_mio },
    Target { name: "held for needed after churn, 4 KiB and up", at_most: 1.02, unit: "x", measure: churn_of_buffers },
    Target { name: "held for needed after churn, below 4 KiB", at_most: 1.15, unit: "x", measure: churn_of_slots },
    Target { name: "the budget in a small GET", at_most: 1.0, unit: "%", measure: ledger_of_get },
    Target { name: "the budget in any request, at worst", at_most: 1.0, unit: "%", measure: ledger_at_worst },
];

/// What several targets are measured with, each made when it is first wanted.
struct Bench {
    placement: Placement,
    figures: OnceCell<Result<BTreeMap<String, f64>, String>>,
    costs: OnceCell<Result<Vec<instructions::Cost>, String>>,
}

/// Measures all targets and prints the report.
pub(super) fn run() -> u8 {
    if let Some(install) = placement::missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    match measure() {
        Ok(text) => {
            print!("{text}");
            EXIT_OK
        }
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure() -> Result<String, String> {
    let ours: Vec<_> = servers::ALL.iter().filter(|server| server.is_ours()).collect();
    servers::build(&ours, |_ours, _why| unreachable!("ours are built or an error"))?;
    std::fs::create_dir_all(super::dir()).map_err(|error| format!("{}: {error}", super::dir().display()))?;
    placement::raise_open_files(parked::OPEN_FILES);
    let bench = Bench { placement: Placement::here()?, figures: OnceCell::new(), costs: OnceCell::new() };
    let mut rows = Vec::new();
    for target in &TARGETS {
        eprintln!("measuring: {}", target.name);
        rows.push((target, (target.measure)(&bench)));
    }
    Ok(table(&rows))
}

fn table(rows: &[(&Target, Result<f64, String>)]) -> String {
    let mut text = format!("{:<52} {:>14} {:>14}\n", "target", "at most", "measured");
    for (target, measured) in rows {
        let shown = |figure: f64| format!("{} {:<5}", rounded(figure), target.unit);
        let (figure, verdict) = match measured {
            Ok(figure) if *figure <= target.at_most => (shown(*figure), "met".to_owned()),
            Ok(figure) => (shown(*figure), "NOT MET".to_owned()),
            Err(why) => ("-".to_owned(), format!("not measured: {why}")),
        };
        let _infallible = writeln!(text, "{:<52} {:>14} {figure:>14}  {verdict}", target.name, shown(target.at_most));
    }
    text
}

/// Three decimals at most, and no more than it needs.
fn rounded(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Bench {
    /// The figures of the pool's example, by what they are of.
    fn figures(&self) -> Result<&BTreeMap<String, f64>, String> {
        self.figures.get_or_init(run_figures).as_ref().map_err(Clone::clone)
    }

    /// The largest of the figures with such names.
    fn largest(&self, is_one: impl Fn(&str) -> bool) -> Result<f64, String> {
        let figures = self.figures()?.iter().filter(|(name, _)| is_one(name));
        let largest = figures.map(|(_, figure)| *figure).reduce(f64::max);
        largest.ok_or_else(|| "the pool's example has no such figure".to_owned())
    }

    fn costs(&self) -> Result<&[instructions::Cost], String> {
        let count = || match instructions::missing() {
            Some(install) => Err(install.to_owned()),
            None => instructions::count(),
        };
        self.costs.get_or_init(count).as_deref().map_err(Clone::clone)
    }

    fn parked(&self, server: &str) -> Result<f64, String> {
        let measured = parked::measure(server_named(server)?, &self.placement, ROUNDS)?;
        let spread = Some(measured).filter(|parked| parked.errors == 0).and_then(|parked| parked.spread());
        spread.map(|spread| spread.median).ok_or_else(|| "connections were refused or closed".to_owned())
    }
}

/// Of the classes that the pool keeps some of at hand.
fn hot(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| is_hot(name) && !name.contains(LARGE))
}

fn hot_large(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| is_hot(name) && name.contains(LARGE))
}

fn is_hot(name: &str) -> bool {
    name.starts_with("acquire and release, ") && name.ends_with(", one at a time")
}

fn fault(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| name == "acquire and touch against touch alone")
}

fn remote_free(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| name.starts_with("remote free of ") && name.ends_with(", together"))
}

fn leases(bench: &Bench) -> Result<f64, String> {
    burst::leases_of_parked(server_named(URING)?, &bench.placement)
}

fn parked_uring(bench: &Bench) -> Result<f64, String> {
    bench.parked(URING)
}

fn parked_mio(bench: &Bench) -> Result<f64, String> {
    bench.parked(MIO)
}

fn burst_uring(bench: &Bench) -> Result<f64, String> {
    burst::bytes_per_request(server_named(URING)?, &bench.placement)
}

fn burst_mio(bench: &Bench) -> Result<f64, String> {
    burst::bytes_per_request(server_named(MIO)?, &bench.placement)
}

/// The classes of whole pages.
fn churn_of_buffers(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| name.starts_with("held for needed after churn of pages, "))
}

/// The classes that share a page.
fn churn_of_slots(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| name.starts_with("held for needed after churn of slots, "))
}

fn ledger_of_get(bench: &Bench) -> Result<f64, String> {
    let get = bench.costs()?.iter().find(|cost| cost.kind == "get");
    get.map(|cost| cost.shares().1 * 100.0).ok_or_else(|| "no request `get` is counted".to_owned())
}

fn ledger_at_worst(bench: &Bench) -> Result<f64, String> {
    let shares = bench.costs()?.iter().map(|cost| cost.shares().1 * 100.0);
    shares.reduce(f64::max).ok_or_else(|| "no request is counted".to_owned())
}

fn server_named(name: &str) -> Result<&'static Server, String> {
    servers::ALL.iter().find(|server| server.name == name).ok_or_else(|| format!("there is no server {name}"))
}

/// Runs the pool's example and reads its figures.
fn run_figures() -> Result<BTreeMap<String, f64>, String> {
    let mut cargo = repo::cargo();
    cargo.args(["run", "--release", "--locked", "-p", "plimsoll-pool", "--example", "figures"]);
    let output = cargo.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("the pool's figures ended with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| figure(line).ok_or_else(|| format!("not a figure: {line}"))).collect()
}

/// `what was measured   1.230 unit`. A number without a point belongs to the name.
fn figure(line: &str) -> Option<(String, f64)> {
    let (rest, _unit) = line.trim_end().rsplit_once(' ')?;
    let (name, figure) = rest.trim_end().rsplit_once(' ')?;
    let figure = Some(figure).filter(|figure| figure.contains('.'))?.parse().ok()?;
    Some((name.trim_end().to_owned(), figure))
}

/// The class that is too large to be kept at hand, in the names of figures.
const LARGE: &str = ", 128KiB, ";
const URING: &str = "plimsoll-uring";
const MIO: &str = "plimsoll-mio";
/// Fresh servers with parked connections.
const ROUNDS: u32 = 1;

#[cfg(test)]
mod tests;
