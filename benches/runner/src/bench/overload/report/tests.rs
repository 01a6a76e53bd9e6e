//! Nothing is left out, and what does not add up is said.

use super::{COLUMNS, page, text};
use crate::bench::overload::counts::{Counts, Difference};
use crate::bench::overload::ledger::{Percentiles, Tally};
use crate::bench::overload::light::Light;
use crate::bench::overload::record::{Cell, Costs, ProfileRecord, Record, Series};
use crate::bench::placement::Machine;

fn cell(factor: f64) -> Cell {
    let ms = |p99| Some(Percentiles { p50: 2_001.0, p99, max: p99 });
    let tally = Tally {
        offered: 700,
        unsent: 3,
        served: 400,
        refused: 290,
        late: 10,
        served_in_window: 300,
        served_ms: ms(2_345.0),
        refused_ms: ms(1_011.0),
        lag_ms: ms(250.0),
        ..Tally::default()
    };
    let counts = Counts { begun: 430, finished: 411, dropped: 19 };
    Cell {
        factor,
        offered_per_second: 100.0 * factor,
        window_seconds: 4.0,
        difference: counts.beside(&tally),
        tally,
        light: Light { asked: 80, failed: 2, refused: 1, ms: ms(17.0) },
        counts,
        cpu_share: 0.5,
        peak_rss_bytes: 9 << 20,
        load_average: Some(1.0),
    }
}

fn record() -> Record {
    let series = |server: &str, missing: Option<&str>, cells| Series {
        server: server.to_owned(),
        missing: missing.map(str::to_owned),
        limit: None,
        fits: Some(100.0),
        costs: Some(Costs { get_us: 10.0, refusal_us: Some(11.0), refused_percent: 99.5 }),
        cells,
    };
    let machine = Machine {
        kernel: "6.1".to_owned(),
        cpu: "Some <CPU>".to_owned(),
        memory_mib: 4_096,
        cores: 2,
        server_core: Some(1),
        load_core: Some(0),
    };
    let all = vec![
        series("plimsoll-uring", None, vec![cell(1.0), cell(5.0)]),
        series("hyper", Some("died: signal: 9"), Vec::new()),
    ];
    let profile =
        ProfileRecord { name: "sleep".to_owned(), what: "sleepers".to_owned(), line: "3MiB".to_owned(), series: all };
    Record { machine, seed: 15, profiles: vec![profile] }
}

#[test]
fn the_text_has_a_row_for_each_cell_and_server() {
    let text = text(&record().profiles[0]);
    let row = |start: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in {text}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("plimsoll-uring x5")[2..7], ["500", "75", "700", "400", "290"]);
    assert!(row("plimsoll-uring x1").len() > COLUMNS.len());
    assert_eq!(row("plimsoll-uring  ")[1..], ["-", "100", "10.0", "11.0", "1.10", "99.5"]);
    assert!(row("hyper").ends_with(&["died:".to_owned(), "signal:".to_owned(), "9".to_owned()]));
    assert!(text.contains("the clients were 250 ms late, 3 not sent for want of descriptors"), "{text}");
}

#[test]
fn the_differences_are_columns() {
    assert_eq!(cell(1.0).difference, Difference { dropped: 9, unheard: 11, running: 0, unbegun: 0 });
    let text = text(&record().profiles[0]);
    let line = text.lines().find(|line| line.starts_with("plimsoll-uring x1")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (_, columns) = words.split_at(2);
    assert_eq!(columns[COLUMNS.len() - 7..COLUMNS.len()], ["430", "411", "19", "9", "11", "0", "1.0"]);
}

#[test]
fn the_page_has_a_plot_and_no_markup_from_names() {
    let page = page(&record());
    assert_eq!((page.matches("<table>").count(), page.matches("<svg").count()), (2, 1));
    assert!(page.contains("Some &lt;CPU&gt;") && !page.contains("<CPU>") && page.ends_with("</body></html>\n"));
}

#[test]
fn the_record_is_the_same_after_a_turn_through_json() {
    let text = serde_json::to_string(&record()).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record());
}

#[test]
fn the_document_explains_every_column() {
    let document = include_str!("../../../../../../docs/overload.md");
    let is_told = |column: &str| document.lines().any(|line| line.starts_with('|') && line.contains(column));
    let missing: Vec<_> = COLUMNS.iter().filter(|column| !is_told(column)).collect();
    assert!(missing.is_empty(), "docs/overload.md does not explain {missing:?}");
}
