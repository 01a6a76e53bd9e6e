//! The README's figures and plot, made from the stored result by `cargo xtask bench --readme`.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use super::{html, plot, table, text};
use crate::bench::figures::Spread;
use crate::bench::record::{CPU, CaseResult, MIB, ProfileRecord, Record, Series};

/// Writes the block of the README and the plot. The error says what is wrong.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let record = stored(root, RESULT)?;
    let readme = fs::read_to_string(root.join(README)).map_err(|error| said(README, &error))?;
    let (before, _, after) = split(&readme).ok_or_else(|| format!("{README} has no lines {BEGIN} and {END}"))?;
    fs::write(root.join(README), format!("{before}{}{after}", block(&record))).map_err(|error| said(README, &error))?;
    fs::write(root.join(TABLES), text(&record)).map_err(|error| said(TABLES, &error))?;
    fs::write(root.join(PLOT), drawn(&record)?).map_err(|error| said(PLOT, &error))
}

fn said(path: &str, error: &io::Error) -> String {
    format!("{path}: {error}")
}

fn stored(root: &Path, path: &str) -> Result<Record, String> {
    let text = fs::read_to_string(root.join(path)).map_err(|error| said(path, &error))?;
    Record::parse(&text).map_err(|error| format!("{path}: {error}"))
}

/// The text around the block, and the block.
fn split(readme: &str) -> Option<(&str, &str, &str)> {
    let begin = readme.find(BEGIN)? + BEGIN.len();
    let end = begin + readme[begin..].find(END)?;
    Some((&readme[..begin], &readme[begin..end], &readme[end..]))
}

fn drawn(record: &Record) -> Result<String, String> {
    let profile = record.profiles.iter().find(|profile| profile.name == PLOTTED);
    let profile = profile.ok_or_else(|| format!("the result has no profile {PLOTTED}"))?;
    plot::svg(&html::cpu(profile)).ok_or_else(|| "the plot is empty".to_owned())
}

/// What stands between the markers.
fn block(record: &Record) -> String {
    let mut text = String::new();
    let machine = &record.machine;
    let rounds = record.profiles.iter().map(|profile| profile.rounds).min().unwrap_or(0);
    let mut line = |shown: &str| {
        // Writing to a string does not fail.
        let _written = writeln!(text, "{shown}");
    };
    line("");
    line(&format!(
        "Measured by `cargo xtask bench` on Linux {}, {} cores ({}), {} MiB of memory; one serving thread on one core, the load on another; medians of \
         at least {rounds} interleaved rounds. In brackets: the ratio to a bare loop on the same driver that only counts the ends of requests. \
         **Bold**: the best, floors aside. `-`: not measured; the tables say why. All figures: [{TABLES}]({TABLES}).",
        machine.kernel, machine.cores, machine.cpu, machine.memory_mib
    ));
    let busiest = record.profiles.iter().filter_map(|profile| profile.load_average).reduce(f64::max);
    if let Some(load) = busiest.filter(|load| *load > QUIET_LOAD_MAX) {
        line(&format!(
            "The machine was not quiet: other programs ran at the same time (load average up to {load:.1}), so times are longer than on an idle one."
        ));
    }
    if let Some(differ) = uncertainty(record) {
        line(&format!(
            "Ratios to the floor from even and from odd rounds alone differ by {:.0} % in the middle of all servers and profiles, and by {:.0} % at most: \
             smaller differences between servers say nothing here.",
            differ.median, differ.max
        ));
    }
    line("");
    line(&format!("![CPU time for each request, {PLOTTED}]({PLOT})"));
    line("");
    line(&profiles(record));
    line(&cases(record));
    text
}

/// Over all servers and profiles, in per cent.
fn uncertainty(record: &Record) -> Option<Spread> {
    let all = record.profiles.iter().flat_map(|profile| profile.series.iter().map(move |series| (profile, series)));
    let of = |(profile, series): (&ProfileRecord, &Series)| {
        let floor = record.floor_of(&series.server).filter(|floor| *floor != series.server)?;
        Some(profile.uncertainty(series, floor, CPU)? * 100.0)
    };
    Spread::of(all.filter_map(of))
}

fn profiles(record: &Record) -> String {
    let name = |profile: &ProfileRecord| match profile.upload_bytes {
        Some(_) => format!("{}, s/GB", profile.name),
        None => profile.name.clone(),
    };
    let columns = record.profiles.iter().map(name).collect::<Vec<_>>();
    let cell = |profile: &ProfileRecord, server: &str| -> Option<(f64, String)> {
        let series = profile.series.iter().find(|series| series.server == server)?;
        let median = series.spread(CPU)?.median;
        let shown = match profile.upload_bytes {
            Some(bytes) => format!("{:.3}", median * 1e3 / bytes as f64),
            None => format!("{median:.2}"),
        };
        Some((median, format!("{shown}{}", ratio(record, profile, series))))
    };
    let cells = |server: &str| record.profiles.iter().map(|profile| cell(profile, server)).collect();
    markdown("CPU us per request", &columns, record, cells)
}

fn ratio(record: &Record, profile: &ProfileRecord, series: &Series) -> String {
    let floor = record.floor_of(&series.server).filter(|floor| *floor != series.server);
    let ratio = floor.and_then(|floor| profile.ratio(series, floor, CPU));
    ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})"))
}

fn cases(record: &Record) -> String {
    let parked = record.memory.iter().find(|case| case.name == "parked");
    let mut columns = vec!["bytes per parked connection".to_owned()];
    columns.extend(record.memory.iter().map(|case| case.name.clone()));
    let find = |results: &[CaseResult], server: &str| -> Option<CaseResult> {
        results.iter().find(|result| result.server == server).cloned()
    };
    let cells = |server: &str| {
        let bytes = parked.and_then(|case| {
            let bytes = find(&case.results, server)?.figures?.bytes_per_connection(case.connections)?;
            Some((bytes, format!("{bytes:.0}")))
        });
        let peaks = record.memory.iter().map(|case| {
            let result = find(&case.results, server)?;
            let Some(figures) = result.figures else {
                return result.missing.filter(|why| why.starts_with("died")).map(|_| (f64::MAX, "died".to_owned()));
            };
            let peak = figures.peak_rss_bytes as f64 / MIB;
            let failed = figures.errors();
            // Who serves fewer clients needs less for them: that is no win.
            if failed > 0 {
                Some((f64::MAX, format!("{peak:.1} ({failed} failed)")))
            } else {
                Some((peak, format!("{peak:.1}")))
            }
        });
        std::iter::once(bytes).chain(peaks).collect()
    };
    markdown("peak RSS, MiB", &columns, record, cells)
}

/// A value to compare and the text to show, for each column.
type Cells = Vec<Option<(f64, String)>>;

/// A table of the servers; less is better.
fn markdown(title: &str, columns: &[String], record: &Record, cells: impl Fn(&str) -> Cells) -> String {
    let rows: Vec<(&str, Cells)> =
        record.servers.iter().map(|server| (server.name.as_str(), cells(&server.name))).collect();
    let best = |column: usize| {
        let judged = rows.iter().filter(|(server, _)| !table::is_floor(server));
        judged.filter_map(|(_, cells)| cells[column].as_ref().map(|(value, _)| *value)).reduce(f64::min)
    };
    let best: Vec<Option<f64>> = (0..columns.len()).map(best).collect();
    let mut text = format!("| {title} | {} |\n|---|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for (server, cells) in &rows {
        let shown = cells.iter().zip(&best).map(|(cell, best)| match cell {
            Some((value, shown)) if Some(*value) == *best && *value < f64::MAX && !table::is_floor(server) => {
                format!(" **{shown}** |")
            }
            Some((_, shown)) => format!(" {shown} |"),
            None => " - |".to_owned(),
        });
        let _written = writeln!(text, "| {server} |{}", shown.collect::<String>());
    }
    text
}

/// A load average that the load of the profile before may have left.
const QUIET_LOAD_MAX: f64 = 2.2;
/// The stored result of one machine.
const RESULT: &str = "benches/results/reference.json";
/// The same as text.
const TABLES: &str = "benches/results/reference.txt";
const PLOT: &str = "benches/results/cpu.svg";
/// The profile of the plot.
const PLOTTED: &str = "keep-alive-64";
const README: &str = "README.md";
const BEGIN: &str = "<!-- figures: cargo xtask bench --readme -->\n";
const END: &str = "<!-- end of figures -->";

#[cfg(test)]
mod tests {
    //! The README says what the stored result says.

    use std::fs;

    use super::{PLOT, README, RESULT, TABLES, block, drawn, split, stored, text};
    use crate::bench::record::tests::record;
    use crate::repo;

    #[test]
    fn the_readme_is_made_from_the_stored_result() {
        let root = repo::root();
        let record = stored(&root, RESULT).unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let readme = read(README);
        let (_, shown, _) = split(&readme).expect("the README has the markers");
        assert_eq!(shown, block(&record), "run cargo xtask bench --readme");
        assert_eq!(read(PLOT), drawn(&record).unwrap(), "run cargo xtask bench --readme");
        assert_eq!(read(TABLES), text(&record), "run cargo xtask bench --readme");
    }

    #[test]
    fn a_machine_that_was_not_quiet_is_said() {
        let mut record = record();
        assert!(!block(&record).contains("not quiet"));
        record.profiles[0].load_average = Some(4.0);
        assert!(block(&record).contains("not quiet: other programs ran at the same time (load average up to 4.0)"));
    }

    #[test]
    fn the_best_is_bold_and_failures_are_shown() {
        let block = block(&record());
        assert!(block.contains("| plimsoll-uring | **4.50 (2.25)** |"), "{block}");
        assert!(block.contains("| plimsoll-uring | **200** | 3.0 (1 failed) |"), "{block}");
        assert!(block.contains("| hyper | - | died |"), "{block}");
    }
}
