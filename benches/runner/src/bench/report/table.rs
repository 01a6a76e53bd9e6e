//! Rows and columns of a record, for every form that shows them.

use crate::bench::figures::Spread;
use crate::bench::placement::Machine;
use crate::bench::record::{
    CPU, CaseFigures, CaseRecord, Figure, KERNEL, MIB, P50, P99, PSS, ProfileRecord, RATE, RSS, Record, SCORE, Series,
};
use crate::bench::servers::BASELINE;

/// A table with a row for each server.
#[derive(Debug)]
pub(in crate::bench) struct Table {
    pub(in crate::bench) columns: Vec<&'static str>,
    pub(in crate::bench) rows: Vec<Row>,
}

#[derive(Debug)]
pub(in crate::bench) struct Row {
    pub(in crate::bench) server: String,
    /// As many as there are columns.
    pub(in crate::bench) cells: Vec<Cell>,
    /// Why figures are missing.
    pub(in crate::bench) note: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::bench) struct Cell {
    pub(in crate::bench) text: String,
    /// No server but a floor has a better one.
    pub(in crate::bench) is_best: bool,
}

/// How a column is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
    /// Neither.
    Plain,
}

/// A column of values, before they are compared.
struct Column {
    name: &'static str,
    better: Better,
    /// A value to compare and the text to show, for each row.
    values: Vec<Option<(f64, String)>>,
}

/// The servers under one load.
pub(super) fn profile(record: &Record, profile: &ProfileRecord) -> Table {
    let spread = |name, better, figure: Figure, factor: f64, decimals| Column {
        name,
        better,
        values: profile
            .series
            .iter()
            .map(|series| series.spread(figure).map(|spread| shown(spread, factor, decimals)))
            .collect(),
    };
    let median = |name, better, figure: Figure, decimals: usize| Column {
        name,
        better,
        values: profile
            .series
            .iter()
            .map(|series| {
                let median = series.spread(figure)?.median;
                Some((median, format!("{median:.decimals$}")))
            })
            .collect(),
    };
    let derived = |name, of: &dyn Fn(&Series) -> Option<f64>, decimals: usize, unit: &str| Column {
        name,
        better: Better::Plain,
        values: profile
            .series
            .iter()
            .map(|series| of(series).map(|value| (value, format!("{value:.decimals$}{unit}"))))
            .collect(),
    };
    let floor = |series: &Series| record.floor_of(&series.server).map(str::to_owned);
    let (cpu, rate) = match profile.upload_bytes {
        // Microseconds a request are seconds a million of them.
        Some(bytes) => (
            spread("CPU s/GB", Better::Lower, CPU, 1e3 / bytes as f64, 3),
            spread("MiB/s", Better::Higher, RATE, bytes as f64 / MIB, 0),
        ),
        None => {
            (spread("CPU us/request", Better::Lower, CPU, 1.0, 2), spread("requests/s", Better::Higher, RATE, 1.0, 0))
        }
    };
    let to_floor = |series: &Series| profile.ratio(series, &floor(series)?, CPU);
    let uncertainty = |series: &Series| Some(profile.uncertainty(series, &floor(series)?, CPU)? * 100.0);
    let columns = vec![
        cpu,
        derived("x floor", &to_floor, 2, ""),
        derived("halves differ", &uncertainty, 1, " %"),
        derived("x hyper", &|series| profile.ratio_to_baseline(series, CPU), 2, ""),
        rate,
        derived("x hyper", &|series| profile.ratio_to_baseline(series, RATE), 2, ""),
        median("kernel %", Better::Plain, KERNEL, 0),
        median("p50 us", Better::Lower, P50, 0),
        median("p99 us", Better::Lower, P99, 0),
        median("RSS MiB", Better::Lower, RSS, 1),
        median("PSS MiB", Better::Lower, PSS, 1),
        median("sqrt(rps)/MiB", Better::Higher, SCORE, 1),
        derived("errors", &|series| (!series.samples.is_empty()).then(|| series.errors.total() as f64), 0, ""),
    ];
    let rows = profile.series.iter().map(|series| (series.server.as_str(), series.missing.as_deref()));
    assemble(columns, &rows.collect::<Vec<_>>())
}

/// The servers in a memory case.
pub(super) fn case(case: &CaseRecord) -> Table {
    let column = |name, better, decimals: usize, of: &dyn Fn(&CaseFigures) -> Option<f64>| Column {
        name,
        better,
        values: case
            .results
            .iter()
            .map(|result| {
                let value = of(result.figures.as_ref()?)?;
                Some((value, format!("{value:.decimals$}")))
            })
            .collect(),
    };
    let mib = |bytes: u64| Some(bytes as f64 / MIB);
    let columns = vec![
        column("RSS before MiB", Better::Lower, 1, &|figures| mib(figures.before_rss_bytes)),
        column("peak MiB", Better::Lower, 1, &|figures| mib(figures.peak_rss_bytes)),
        column("peak PSS MiB", Better::Lower, 1, &|figures| mib(figures.peak_pss_bytes)),
        column("after MiB", Better::Lower, 1, &|figures| mib(figures.after_rss_bytes)),
        column("bytes/connection", Better::Lower, 0, &|figures| figures.bytes_per_connection(case.connections)),
        column("seconds", Better::Plain, 1, &|figures| Some(figures.seconds)),
        column("requests", Better::Plain, 0, &|figures| Some(figures.requests as f64)),
        column("refused", Better::Plain, 0, &|figures| Some(figures.refused as f64)),
        column("closed", Better::Plain, 0, &|figures| Some(figures.closed as f64)),
        column("not 200", Better::Plain, 0, &|figures| Some(figures.wrong as f64)),
        column("unfinished", Better::Plain, 0, &|figures| Some(figures.unfinished as f64)),
    ];
    let rows = case.results.iter().map(|result| (result.server.as_str(), result.missing.as_deref()));
    assemble(columns, &rows.collect::<Vec<_>>())
}

/// The machine and what was left out, a line each.
pub(super) fn heading(record: &Record) -> Vec<String> {
    let Machine { kernel, cpu, memory_mib, cores, server_core, load_core } = &record.machine;
    let placed = match (server_core, load_core) {
        (Some(server), Some(load)) => format!("servers on core {server}, load on core {load}"),
        _ => "nothing pinned, as there is one core: the figures disturb each other".to_owned(),
    };
    let mut lines = vec![
        format!("Linux {kernel}, {cpu}, {cores} cores, {memory_mib} MiB; {placed}; one serving thread each"),
        format!(
            "median (min..max) of interleaved rounds; x: ratio to the floor of the same driver, or to {BASELINE}, in the same round; * best of the column, \
             floors aside; halves differ: by how much the ratio to the floor of the even rounds differs from that of the odd ones"
        ),
    ];
    let version =
        |version: &Option<String>| version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
    let servers: Vec<String> =
        record.servers.iter().map(|server| format!("{}{}", server.name, version(&server.version))).collect();
    lines.push(format!("servers: {}", servers.join(", ")));
    lines.extend(record.absent.iter().map(|absent| format!("left out: {}: {}", absent.server, absent.why)));
    lines
}

/// What a profile was measured with.
pub(super) fn profile_title(profile: &ProfileRecord) -> String {
    let load = profile.load_average.map_or_else(String::new, |load| format!(", load average before {load:.1}"));
    format!("{}: {}; {} rounds of {} s{load}", profile.name, profile.what, profile.rounds, profile.seconds)
}

/// What a case was measured with.
pub(super) fn case_title(case: &CaseRecord) -> String {
    format!("{}: {} ({} connections)", case.name, case.what, case.connections)
}

/// Whether it is measured to be compared with, not to win.
pub(super) fn is_floor(server: &str) -> bool {
    server.starts_with("floor-")
}

fn shown(spread: Spread, factor: f64, decimals: usize) -> (f64, String) {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| value * factor);
    (median, format!("{median:.decimals$} ({min:.decimals$}..{max:.decimals$})"))
}

fn assemble(columns: Vec<Column>, servers: &[(&str, Option<&str>)]) -> Table {
    let mut rows: Vec<Row> = servers
        .iter()
        .map(|(server, note)| Row { server: (*server).to_owned(), cells: Vec::new(), note: note.map(str::to_owned) })
        .collect();
    // A column in which nobody has anything says nothing.
    let columns: Vec<Column> = columns.into_iter().filter(|column| column.values.iter().any(Option::is_some)).collect();
    for column in &columns {
        let judged = column.values.iter().zip(servers).filter(|(_, (server, _))| !is_floor(server));
        let judged: Vec<f64> = judged.filter_map(|(value, _)| value.as_ref().map(|(value, _)| *value)).collect();
        let best = match column.better {
            Better::Lower => judged.into_iter().reduce(f64::min),
            Better::Higher => judged.into_iter().reduce(f64::max),
            Better::Plain => None,
        };
        for (row, value) in rows.iter_mut().zip(&column.values) {
            let is_best = |value: f64| Some(value) == best && !is_floor(&row.server);
            let cell = value.as_ref().map(|(value, text)| Cell { text: text.clone(), is_best: is_best(*value) });
            row.cells.push(cell.unwrap_or_else(|| Cell { text: "-".to_owned(), is_best: false }));
        }
    }
    Table { columns: columns.iter().map(|column| column.name).collect(), rows }
}
