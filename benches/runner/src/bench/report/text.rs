//! A record as text.

use std::fmt::Write;

use super::table::{self, Table};
use crate::bench::record::Record;

/// Everything, a table for each profile and case.
pub(in crate::bench) fn text(record: &Record) -> String {
    let mut text = String::new();
    for heading in table::heading(record) {
        line(&mut text, &heading);
    }
    for profile in &record.profiles {
        line(&mut text, &format!("\n{}", table::profile_title(profile)));
        text.push_str(&aligned(&table::profile(record, profile)));
    }
    for case in &record.memory {
        line(&mut text, &format!("\n{}", table::case_title(case)));
        text.push_str(&aligned(&table::case(case)));
    }
    text
}

/// Columns as wide as their widest cell: the first to the left, the others to the right, notes behind.
pub(in crate::bench) fn aligned(table: &Table) -> String {
    let head = std::iter::once("server").chain(table.columns.iter().copied()).map(str::to_owned).collect();
    let mut rows: Vec<(Vec<String>, &str)> = vec![(head, "")];
    for row in &table.rows {
        let cells = row.cells.iter().map(|cell| format!("{}{}", if cell.is_best { "*" } else { "" }, cell.text));
        let cells = std::iter::once(row.server.clone()).chain(cells).collect();
        rows.push((cells, row.note.as_deref().unwrap_or_default()));
    }
    let width = |column: usize| rows.iter().map(|(cells, _)| cells[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=table.columns.len()).map(width).collect();
    let mut text = String::new();
    for (cells, note) in &rows {
        let mut shown = format!("{:<width$}", cells[0], width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths).skip(1) {
            // Writing to a string does not fail.
            let _written = write!(shown, "  {cell:>width$}");
        }
        if !note.is_empty() {
            let _written = write!(shown, "  {note}");
        }
        line(&mut text, shown.trim_end());
    }
    text
}

fn line(text: &mut String, shown: &str) {
    text.push_str(shown);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    //! The text lines up, marks the best, and hides nothing.

    use super::text;
    use crate::bench::record::tests::record;

    #[test]
    fn medians_ratios_and_the_best_are_shown() {
        let text = text(&record());
        let row = |start: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(row("plimsoll-uring")[1..4], ["*4.50", "(4.00..5.00)", "2.25"]);
        assert_eq!(row("hyper ")[1..4], ["9.00", "(8.00..10.00)", "-"]);
        // A floor is not in the race.
        assert_eq!(row("floor-uring")[1], "2.00");
        assert!(text.contains("servers on core 1, load on core 0"), "{text}");
        assert!(text.contains("left out: h2o: no h2o: apt-get install h2o"), "{text}");
    }

    #[test]
    fn what_a_server_cannot_do_or_did_not_survive_is_said() {
        let text = text(&record());
        let nginx = text.lines().find(|line| line.starts_with("nginx")).unwrap();
        assert!(nginx.contains("  -  ") && nginx.ends_with("it counts no bytes"), "{nginx}");
        assert!(
            text.lines().any(|line| line.starts_with("hyper") && line.ends_with("died: signal: 9 (it said nothing)"))
        );
    }
}
