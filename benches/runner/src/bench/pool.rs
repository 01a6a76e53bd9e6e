//! `cargo xtask bench --pool [NAME]`: the targets of memory, each with what is measured here and now; with a name,
//! those that have it in theirs. A new one is a line in [`TARGETS`]. `docs/memory.md` has the table of a whole run, and
//! says why what is not met is not.
//!
//! The report says which targets are met. It does not judge: times depend on the machine, and on what else runs there.
//!
//! | what | file |
//! |---|---|
//! | times and ratios of the pool alone | its example `figures` |
//! | waiting: deadlocks, shares, liveness; blocked receives | [`model`], which runs tests that print figures |
//! | instructions of the ledger | [`instructions`] |
//! | a server with parked connections, and when all of them speak | [`memory`], [`burst`] |
//! | a server after a burst | [`decay`] |
//! | a server whose clients want more than the line | [`line`](mod@line) |

mod burst;
mod decay;
mod line;
mod model;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::placement::{self, Placement};
use super::servers::{self, Server};
use super::{client, instructions, loads, memory};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;
use line::Flooded;

/// Something that memory shall do.
struct Target {
    name: &'static str,
    bound: Bound,
    unit: &'static str,
    /// The figure, or why there is none here.
    measure: fn(&Bench) -> Result<f64, String>,
}

/// In the target's unit.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const fn at_most(name: &'static str, bound: f64, unit: &'static str, measure: Measure) -> Target {
    Target { name, bound: Bound::AtMost(bound), unit, measure }
}

const fn at_least(name: &'static str, bound: f64, unit: &'static str, measure: Measure) -> Target {
    Target { name, bound: Bound::AtLeast(bound), unit, measure }
}

type Measure = fn(&Bench) -> Result<f64, String>;

/// In the order of the report.
const TARGETS: [Target; 31] = [
    at_most("acquire and release, hot, 64 B to 20 KiB, slowest", 10.0, "ns", hot),
    at_most("acquire and release, hot, 128 KiB", 10.0, "ns", hot_large),
    at_most("acquire of a page that is not resident, for a fault", 1.15, "x", fault),
    at_most("remote free, both sides, slowest", 90.0, "ns", remote_free),
    at_most("giving back in one turn, slowest kind", 200.0, "us", turn_of_giving_back),
    at_most("held for needed after churn, 4 KiB and up", 1.02, "x", churn_of_buffers),
    at_most("held for needed after churn, below 4 KiB", 1.15, "x", churn_of_slots),
    at_least("random schedules without a deadlock", model::SCHEDULES as f64, "", schedules),
    at_least("clients of 10,000 that end, room for one footprint", 10_000.0, "", liveness_of_model),
    at_least("the same for the runtime, two workers", 10_000.0, "", liveness),
    at_least("Jain index of the shares of uneven tenants", 0.95, "", jain),
    at_most("p99 wait beside a greedy tenant, for without it", 2.0, "x", greedy),
    at_most("the budget in a small GET", 1.0, "%", ledger_of_get),
    at_most("the budget in any request, at worst", 1.0, "%", ledger_at_worst),
    at_most("leases of 10,000 parked connections, beside tables", 0.0, "", leases),
    at_most("parked connection, io_uring", 128.0, "bytes", parked_uring),
    at_most("parked connection, epoll", 128.0, "bytes", parked_mio),
    at_most("parked connection, io_uring, the further goal", 96.0, "bytes", parked_uring),
    at_most("parked connection, epoll, the further goal", 96.0, "bytes", parked_mio),
    at_most("burst of small requests, io_uring, for each", 64.0, "bytes", burst_uring),
    at_most("burst of small requests, epoll, for each", 64.0, "bytes", burst_mio),
    at_most("ENOBUFS for each of 1,000 connections, server", 1.1, "", storm),
    at_most("the same while the bytes are held back, driver", 1.1, "", storm_of_driver),
    at_least("back 3 s after 5,000 exchanges, io_uring", 98.0, "%", back_uring),
    at_least("back 3 s after 5,000 exchanges, epoll", 98.0, "%", back_mio),
    at_most("growth under floods, for the line, io_uring", 1.0, "x", growth_uring),
    at_most("growth under floods, for the line, epoll", 1.0, "x", growth_mio),
    at_most("slowest answer to another client meanwhile, io_uring", 1.0, "s", slowest_uring),
    at_most("slowest answer to another client meanwhile, epoll", 1.0, "s", slowest_mio),
    at_most("answers to that client that were not 200, io_uring", 0.0, "", turned_away_uring),
    at_most("answers to that client that were not 200, epoll", 0.0, "", turned_away_mio),
];

/// What several targets are measured with, each made when it is first wanted.
struct Bench {
    placement: Placement,
    figures: OnceCell<Result<BTreeMap<String, f64>, String>>,
    costs: OnceCell<Result<Vec<instructions::Cost>, String>>,
    models: OnceCell<Result<BTreeMap<String, f64>, String>>,
    parked: [OnceCell<Result<f64, String>>; 2],
    flooded: [OnceCell<Result<Flooded, String>>; 2],
}

/// Measures the targets with this in their names and prints the report.
pub(super) fn run(name: &str) -> u8 {
    if let Some(install) = placement::missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    let chosen: Vec<&Target> = TARGETS.iter().filter(|target| target.name.contains(name)).collect();
    if chosen.is_empty() {
        eprintln!("no target with `{name}` in its name; there are:");
        TARGETS.iter().for_each(|target| eprintln!("  {}", target.name));
        return EXIT_MISSING;
    }
    match measure(&chosen) {
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

fn measure(targets: &[&Target]) -> Result<String, String> {
    let ours: Vec<_> = servers::ALL.iter().filter(|server| server.is_ours()).collect();
    servers::build(&ours, |_ours, _why| unreachable!("ours are built or an error"))?;
    let logs = super::dir().join("servers");
    std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    placement::raise_open_files(client::OPEN_FILES);
    let bench = Bench::new(Placement::here()?);
    let mut rows = Vec::new();
    for target in targets {
        eprintln!("measuring: {}", target.name);
        rows.push((*target, (target.measure)(&bench)));
    }
    Ok(table(&rows))
}

fn table(rows: &[(&Target, Result<f64, String>)]) -> String {
    let mut text = format!("{:<54} {:>18} {:>18}\n", "target", "wanted", "measured");
    for (target, measured) in rows {
        let shown = |figure: f64| format!("{} {:<5}", rounded(figure), target.unit);
        let wanted = match target.bound {
            Bound::AtMost(bound) => format!("<= {}", shown(bound)),
            Bound::AtLeast(bound) => format!(">= {}", shown(bound)),
        };
        let (figure, verdict) = match measured {
            Ok(figure) if target.bound.is_kept_by(*figure) => (shown(*figure), "met".to_owned()),
            Ok(figure) => (shown(*figure), "NOT MET".to_owned()),
            Err(why) => ("-".to_owned(), format!("not measured: {why}")),
        };
        let _infallible = writeln!(text, "{:<54} {wanted:>18} {figure:>18}  {verdict}", target.name);
    }
    text
}

impl Bound {
    fn is_kept_by(self, figure: f64) -> bool {
        match self {
            Bound::AtMost(bound) => figure <= bound,
            Bound::AtLeast(bound) => figure >= bound,
        }
    }
}

/// Three decimals at most, and no more than it needs.
fn rounded(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Bench {
    fn new(placement: Placement) -> Self {
        Self {
            placement,
            figures: OnceCell::new(),
            costs: OnceCell::new(),
            models: OnceCell::new(),
            parked: Default::default(),
            flooded: Default::default(),
        }
    }

    /// The largest of the figures of the pool's example with such names.
    fn largest(&self, is_one: impl Fn(&str) -> bool) -> Result<f64, String> {
        let figures = self.figures.get_or_init(run_figures).as_ref().map_err(Clone::clone)?;
        let figures = figures.iter().filter(|(name, _)| is_one(name));
        let largest = figures.map(|(_, figure)| *figure).reduce(f64::max);
        largest.ok_or_else(|| "the pool's example has no such figure".to_owned())
    }

    /// The figure of a model of this name.
    fn modelled(&self, name: &str) -> Result<f64, String> {
        let figures = self.models.get_or_init(model::run).as_ref().map_err(Clone::clone)?;
        figures.get(name).copied().ok_or_else(|| format!("no model says: {name}"))
    }

    fn costs(&self) -> Result<&[instructions::Cost], String> {
        let count = || match instructions::missing() {
            Some(install) => Err(install.to_owned()),
            None => instructions::count(false),
        };
        self.costs.get_or_init(count).as_deref().map_err(Clone::clone)
    }

    /// Anonymous bytes of a parked connection.
    fn parked(&self, driver: Driver) -> Result<f64, String> {
        let measure = || {
            let case = loads::case("parked")?;
            let record = memory::measure(case, &[driver.server()?], 1, &self.placement);
            let result = record.results.first().ok_or("no server was measured")?;
            let figures = result.figures.as_ref().ok_or_else(|| result.missing.clone().unwrap_or_default())?;
            match figures.errors() {
                0 => figures.bytes_per_connection(record.connections).ok_or_else(|| "they were not held".to_owned()),
                errors => Err(format!("{errors} connections were refused or closed")),
            }
        };
        self.parked[driver as usize].get_or_init(measure).clone()
    }

    fn flooded(&self, driver: Driver) -> Result<Flooded, String> {
        let flood = || line::flood(&servers::AT_THE_LINE[driver as usize], &self.placement);
        self.flooded[driver as usize].get_or_init(flood).clone()
    }
}

/// Which of our servers. As a number, its place in [`servers::AT_THE_LINE`].
#[derive(Clone, Copy, Debug)]
enum Driver {
    Uring,
    Mio,
}

impl Driver {
    fn server(self) -> Result<&'static Server, String> {
        let name = match self {
            Driver::Uring => "plimsoll-uring",
            Driver::Mio => "plimsoll-mio",
        };
        servers::ALL.iter().find(|server| server.name == name).ok_or_else(|| format!("there is no server {name}"))
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

fn turn_of_giving_back(bench: &Bench) -> Result<f64, String> {
    bench.largest(|name| name.starts_with("a turn of giving back, "))
}

fn schedules(bench: &Bench) -> Result<f64, String> {
    bench.modelled("schedules that ended")
}

fn liveness_of_model(bench: &Bench) -> Result<f64, String> {
    bench.modelled("clients that ended, model")
}

fn liveness(bench: &Bench) -> Result<f64, String> {
    bench.modelled("clients that ended, runtime")
}

fn jain(bench: &Bench) -> Result<f64, String> {
    bench.modelled("Jain index of uneven tenants")
}

fn greedy(bench: &Bench) -> Result<f64, String> {
    bench.modelled("p99 wait beside a greedy tenant")
}

fn leases(bench: &Bench) -> Result<f64, String> {
    burst::leases_of_parked(Driver::Uring.server()?, &bench.placement)
}

fn parked_uring(bench: &Bench) -> Result<f64, String> {
    bench.parked(Driver::Uring)
}

fn parked_mio(bench: &Bench) -> Result<f64, String> {
    bench.parked(Driver::Mio)
}

fn burst_uring(bench: &Bench) -> Result<f64, String> {
    burst::bytes_per_request(Driver::Uring.server()?, &bench.placement)
}

fn burst_mio(bench: &Bench) -> Result<f64, String> {
    burst::bytes_per_request(Driver::Mio.server()?, &bench.placement)
}

/// epoll has no buffers to run out of.
fn storm(bench: &Bench) -> Result<f64, String> {
    burst::blocked_per_connection(Driver::Uring.server()?, &bench.placement)
}

fn storm_of_driver(bench: &Bench) -> Result<f64, String> {
    bench.modelled("blocked receives, for each")
}

fn back_uring(bench: &Bench) -> Result<f64, String> {
    decay::percent_back(Driver::Uring.server()?, &bench.placement)
}

fn back_mio(bench: &Bench) -> Result<f64, String> {
    decay::percent_back(Driver::Mio.server()?, &bench.placement)
}

fn growth_uring(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Uring).map(|flooded| flooded.growth)
}

fn growth_mio(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Mio).map(|flooded| flooded.growth)
}

fn slowest_uring(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Uring).map(|flooded| flooded.slowest_seconds)
}

fn slowest_mio(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Mio).map(|flooded| flooded.slowest_seconds)
}

fn turned_away_uring(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Uring).map(|flooded| flooded.turned_away.into())
}

fn turned_away_mio(bench: &Bench) -> Result<f64, String> {
    bench.flooded(Driver::Mio).map(|flooded| flooded.turned_away.into())
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

#[cfg(test)]
mod tests;
