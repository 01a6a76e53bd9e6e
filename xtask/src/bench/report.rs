//! The report: a text for people and JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figures::Spread;
use super::placement::{Machine, Placement};
use super::rounds::{CPU, Figure, P99, RATE, Series};
use super::servers::BASELINE;
use super::{Extent, parked, rounds};

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Report {
    machine: Machine,
    extent: Extent,
    pub(super) absent: Vec<Absent>,
    pub(super) profiles: Vec<rounds::Measured>,
    pub(super) parked: Option<parked::Measured>,
}

/// A server that was asked for and could not be measured.
#[derive(Debug)]
pub(super) struct Absent {
    pub(super) server: &'static str,
    pub(super) why: String,
}

impl Report {
    pub(super) fn new(machine: Machine, extent: Extent) -> Report {
        Report { machine, extent, absent: Vec::new(), profiles: Vec::new(), parked: None }
    }

    /// All servers were measured and answered every request.
    pub(super) fn is_clean(&self) -> bool {
        let loaded = self.profiles.iter().flat_map(|measured| &measured.series).map(|series| series.errors.total());
        let parked = self.parked.iter().flat_map(|measured| &measured.servers).map(|parked| parked.errors);
        self.absent.is_empty() && loaded.chain(parked).all(|errors| errors == 0)
    }

    /// A table for each profile and one for the memory.
    pub(super) fn text(&self) -> String {
        let mut text = self.heading();
        for Absent { server, why } in &self.absent {
            line(&mut text, &format!("{server} is left out: {why}"));
        }
        for measured in &self.profiles {
            let profile = measured.profile;
            let title = format!("{}: {} connections, GET {}", profile.name, profile.connections, super::client::PATH);
            line(&mut text, &format!("\n{title}, {} requests at a time", profile.depth));
            text.push_str(&table(&LOAD_COLUMNS, measured.series.iter().map(|series| load_row(measured, series))));
        }
        if let Some(measured) = &self.parked {
            line(&mut text, &format!("\nparked: {} keep-alive connections after a request", measured.connections));
            text.push_str(&table(&PARKED_COLUMNS, measured.servers.iter().map(|parked| parked_row(measured, parked))));
        }
        text
    }

    fn heading(&self) -> String {
        let Machine { kernel, cpu, cores, load_average, placement } = &self.machine;
        let Extent { rounds, seconds, .. } = self.extent;
        let placed = match placement {
            Placement::Pinned { server, load } => format!("servers on core {server}, wrk on core {load}"),
            Placement::Unpinned => "nothing pinned, as there is one core: the figures disturb each other".to_owned(),
        };
        let mut text = format!("Linux {kernel}, {cpu}, {cores} cores, load average {load_average}; {placed}\n");
        line(&mut text, &format!("{rounds} rounds of {seconds} s, interleaved: median (min..max), x = to {BASELINE}"));
        text
    }

    /// The same with every round.
    pub(super) fn json(&self) -> String {
        let Machine { kernel, cpu, cores, load_average, placement } = &self.machine;
        let (server_core, load_core) = match placement {
            Placement::Pinned { server, load } => (Some(server), Some(load)),
            Placement::Unpinned => (None, None),
        };
        let absent = self.absent.iter().map(|absent| json!({ "server": absent.server, "why": absent.why }));
        let report = json!({
            "machine": {
                "kernel": kernel,
                "cpu": cpu,
                "cores": cores,
                "load_average": load_average.parse::<f64>().ok(),
                "server_core": server_core,
                "load_core": load_core,
            },
            "rounds": self.extent.rounds,
            "seconds": self.extent.seconds,
            "warm_up_seconds": self.extent.warm_up_seconds,
            "baseline": BASELINE,
            "absent": absent.collect::<Vec<_>>(),
            "profiles": self.profiles.iter().map(profile_json).collect::<Vec<_>>(),
            "parked": self.parked.as_ref().map(parked_json),
        });
        format!("{report:#}\n")
    }
}

fn profile_json(measured: &rounds::Measured) -> Value {
    let series = |series: &Series| {
        let figure = |figure: Figure| {
            let rounds = series.rounds(figure).collect::<Vec<_>>();
            figure_json(series.spread(figure), measured.ratio(series, figure), &rounds)
        };
        let errors = series.errors;
        json!({
            "server": series.server,
            "cpu_us_per_request": figure(CPU),
            "requests_per_second": figure(RATE),
            "p99_us": figure(P99),
            "requests": series.samples.iter().map(|sample| sample.run.requests).collect::<Vec<_>>(),
            "errors": {
                "connect": errors.connect,
                "read": errors.read,
                "write": errors.write,
                "timeout": errors.timeout,
                "status": errors.status,
            },
        })
    };
    json!({
        "name": measured.profile.name,
        "connections": measured.profile.connections,
        "depth": measured.profile.depth,
        "servers": measured.series.iter().map(series).collect::<Vec<_>>(),
    })
}

fn parked_json(measured: &parked::Measured) -> Value {
    let server = |parked: &parked::Parked| {
        json!({
            "server": parked.server,
            "bytes_per_connection":
                figure_json(parked.spread(), measured.ratio(parked), &parked.bytes_per_connection),
            "idle_bytes": parked.idle_bytes,
            "errors": parked.errors,
        })
    };
    json!({
        "connections": measured.connections,
        "servers": measured.servers.iter().map(server).collect::<Vec<_>>(),
    })
}

fn figure_json(spread: Option<Spread>, ratio: Option<f64>, rounds: &[f64]) -> Value {
    json!({
        "median": spread.map(|spread| spread.median),
        "min": spread.map(|spread| spread.min),
        "max": spread.map(|spread| spread.max),
        "ratio": ratio,
        "rounds": rounds,
    })
}

const LOAD_COLUMNS: [&str; 7] = ["server", "CPU us/request", "x", "requests/s", "x", "p99 us", "errors"];

fn load_row(measured: &rounds::Measured, series: &Series) -> Vec<String> {
    vec![
        series.server.to_owned(),
        spread(series.spread(CPU), 2),
        ratio(measured.ratio(series, CPU)),
        spread(series.spread(RATE), 0),
        ratio(measured.ratio(series, RATE)),
        spread(series.spread(P99), 0),
        series.errors.total().to_string(),
    ]
}

const PARKED_COLUMNS: [&str; 5] = ["server", "anonymous bytes/connection", "x", "KiB before", "errors"];

fn parked_row(measured: &parked::Measured, parked: &parked::Parked) -> Vec<String> {
    vec![
        parked.server.to_owned(),
        spread(parked.spread(), 0),
        ratio(measured.ratio(parked)),
        parked.idle().map_or_else(|| "-".to_owned(), |idle| format!("{:.0}", idle.median / 1024.0)),
        parked.errors.to_string(),
    ]
}

fn spread(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| format!("{median:.decimals$} ({min:.decimals$}..{max:.decimals$})"),
    )
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// Columns as wide as their widest cell: the first to the left, the others to the right.
fn table<const N: usize>(columns: &[&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = columns.iter().map(|&column| column.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut shown = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            shown.push_str(&format!("  {cell:>width$}"));
        }
        line(&mut text, &shown);
    }
    text
}

fn line(text: &mut String, shown: &str) {
    // Writing to a string does not fail.
    let _written = writeln!(text, "{shown}");
}

#[cfg(test)]
mod tests;
