//! A record as text for a terminal, and as a page.

use super::ledger::Percentiles;
use super::plot::{self, Curve};
use super::record::{Cell, ProfileRecord, Record, Series};
use crate::bench::report::html;
use crate::bench::report::table::{self, Row, Table};
use crate::bench::report::text::aligned;

/// In which circumstances it was found.
pub(super) fn introduction(record: &Record) -> String {
    heading(record).join("\n") + "\n"
}

/// The tables of a load.
pub(super) fn text(profile: &ProfileRecord) -> String {
    format!("\n{}\n{}{}", title(profile), aligned(&fits(profile)), aligned(&cells(profile)))
}

/// All tables, with plots of goodput over what is offered.
pub(super) fn page(record: &Record) -> String {
    let mut page = html::begun("Servers under more than fits", &heading(record));
    for profile in &record.profiles {
        html::section(&mut page, &title(profile), plot::svg(&profile.name, &curves(profile)), &cells(profile));
        html::section(
            &mut page,
            &format!("{}: what fits, and what a refusal costs", profile.name),
            None,
            &fits(profile),
        );
    }
    page + "</body></html>\n"
}

fn heading(record: &Record) -> Vec<String> {
    let machine = &record.machine;
    let place = match (machine.server_core, machine.load_core) {
        (Some(server), Some(load)) => format!("server on core {server}, load on core {load}"),
        _ => "server and load on one core".to_owned(),
    };
    vec![
        format!(
            "{}, {} cores, {} MiB, Linux {}; {place}",
            machine.cpu, machine.cores, machine.memory_mib, machine.kernel
        ),
        format!("seed {}; what the columns are: docs/overload.md", record.seed),
    ]
}

fn title(profile: &ProfileRecord) -> String {
    format!("{}: {} (line of ours: {})", profile.name, profile.what, profile.line)
}

/// A row for each server: what fits, and costs.
fn fits(profile: &ProfileRecord) -> Table {
    let row = |series: &Series| {
        let costs = series.costs;
        let cells = vec![
            series.limit.map(|limit| limit.to_string()),
            series.fits.map(|rate| format!("{rate:.0}")),
            costs.map(|costs| format!("{:.1}", costs.get_us)),
            costs.and_then(|costs| Some(format!("{:.1}", costs.refusal_us?))),
            costs.and_then(|costs| Some(format!("{:.2}", costs.refusal_us? / costs.get_us))),
            costs.map(|costs| format!("{:.1}", costs.refused_percent)),
        ];
        self::row(series.server.clone(), cells, series.missing.clone())
    };
    let columns = vec!["limit", "fits/s", "GET us", "refusal us", "ratio", "refused %"];
    Table { columns, rows: profile.series.iter().map(row).collect() }
}

/// A row for each server and multiple of what fits.
fn cells(profile: &ProfileRecord) -> Table {
    let rows = profile.series.iter().flat_map(|series| series.cells.iter().map(|cell| row_of(series, cell)));
    Table { columns: COLUMNS.to_vec(), rows: rows.collect() }
}

fn row_of(series: &Series, cell: &Cell) -> Row {
    let Cell { tally, light, counts, difference, .. } = cell;
    let count = |count: u64| Some(count.to_string());
    let whole = |of: Option<Percentiles>, which: fn(Percentiles) -> f64| of.map(|of| format!("{:.0}", which(of)));
    let cells = vec![
        Some(format!("{:.0}", cell.offered_per_second)),
        Some(format!("{:.0}", cell.goodput())),
        count(tally.offered),
        count(tally.served),
        count(tally.refused),
        count(tally.cut),
        count(tally.silent),
        count(tally.late),
        count(tally.wrong + tally.unopened),
        whole(tally.served_ms, |of| of.p50),
        whole(tally.served_ms, |of| of.p99),
        whole(tally.refused_ms, |of| of.p50),
        whole(tally.refused_ms, |of| of.p99),
        whole(light.ms, |of| of.p99),
        Some(format!("{}/{}", light.failed, light.asked)),
        Some(format!("{:.2}", cell.cpu_share)),
        Some(format!("{:.1}", cell.peak_rss_bytes as f64 / crate::bench::record::MIB)),
        count(counts.begun),
        count(counts.finished),
        count(counts.dropped),
        count(difference.dropped),
        count(difference.unheard),
        count(difference.running),
        cell.load_average.map(|load| format!("{load:.1}")),
    ];
    row(format!("{} x{}", series.server, cell.factor), cells, doubt(cell))
}

/// Why a row says less than it seems to.
fn doubt(cell: &Cell) -> Option<String> {
    let mut doubts = Vec::new();
    if let Some(lag) = cell.tally.lag_ms.filter(|lag| lag.p99 > LAG_MS_MAX) {
        doubts.push(format!("the clients were {:.0} ms late", lag.p99));
    }
    if cell.tally.unsent > 0 {
        doubts.push(format!("{} not sent for want of descriptors", cell.tally.unsent));
    }
    if cell.difference.unbegun > 0 {
        doubts.push(format!("{} served that were not begun", cell.difference.unbegun));
    }
    (!doubts.is_empty()).then(|| doubts.join(", "))
}

fn row(server: String, cells: Vec<Option<String>>, note: Option<String>) -> Row {
    let shown = |text: Option<String>| table::Cell { text: text.unwrap_or_else(|| "-".to_owned()), is_best: false };
    Row { server, cells: cells.into_iter().map(shown).collect(), note }
}

/// Goodput over what is offered, in multiples of what fits.
fn curves(profile: &ProfileRecord) -> Vec<Curve> {
    let curve = |series: &Series| {
        let fits = series.fits?;
        let points = series.cells.iter().map(|cell| (cell.factor, cell.goodput() / fits)).collect();
        Some(Curve { name: series.server.clone(), points })
    };
    profile.series.iter().filter_map(curve).collect()
}

/// In this order in docs/overload.md, too.
const COLUMNS: [&str; 24] = [
    "offered/s",
    "goodput/s",
    "sent",
    "200",
    "503",
    "cut",
    "silent",
    "late",
    "wrong",
    "200 p50 ms",
    "p99",
    "503 p50 ms",
    "p99",
    "light p99 ms",
    "failed",
    "CPU",
    "RSS MiB",
    "begun",
    "finished",
    "dropped",
    "unexplained",
    "unheard",
    "running",
    "load avg",
];
/// Clients that send so much later than they should are not an open loop.
const LAG_MS_MAX: f64 = 100.0;

#[cfg(test)]
mod tests;
