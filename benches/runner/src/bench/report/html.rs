//! A record as a page that needs no other file.

use std::fmt::Write;

use super::plot::{self, Bar, Bars};
use super::table::{self, Table};
use crate::bench::record::{CPU, CaseRecord, MIB, ProfileRecord, Record};

/// The page.
pub(in crate::bench) fn page(record: &Record) -> String {
    let mut page = begun("Servers side by side", &table::heading(record));
    for profile in &record.profiles {
        let plot = cpu(profile);
        section(&mut page, &table::profile_title(profile), plot::svg(&plot), &table::profile(record, profile));
    }
    for case in &record.memory {
        section(&mut page, &table::case_title(case), plot::svg(&peak(case)), &table::case(case));
    }
    page.push_str("</body></html>\n");
    page
}

/// A page up to its first section: what it is, and in which circumstances that was found.
pub(in crate::bench) fn begun(title: &str, heading: &[String]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for line in heading {
        push(&mut page, &format!("<p>{}</p>\n", escaped(line)));
    }
    page
}

/// CPU time of each server under a load.
pub(super) fn cpu(profile: &ProfileRecord) -> Bars {
    let (title, factor) = match profile.upload_bytes {
        Some(bytes) => ("CPU seconds for each GB", 1e3 / bytes as f64),
        None => ("CPU microseconds for each request", 1.0),
    };
    let bar = |series: &crate::bench::record::Series| {
        let spread = series.spread(CPU)?;
        let server = series.server.clone();
        Some(Bar { server, median: spread.median * factor, min: spread.min * factor, max: spread.max * factor })
    };
    Bars {
        title: format!("{}: {title}, less is better (line: all rounds)", profile.name),
        bars: profile.series.iter().filter_map(bar).collect(),
    }
}

/// Peak memory of each server in a case; the line begins at what it had before.
fn peak(case: &CaseRecord) -> Bars {
    let bar = |result: &crate::bench::record::CaseResult| {
        let figures = result.figures?;
        let mib = |bytes: u64| bytes as f64 / MIB;
        let (min, max) = (mib(figures.before_rss_bytes), mib(figures.peak_rss_bytes));
        Some(Bar { server: result.server.clone(), median: max, min, max })
    };
    Bars {
        title: format!("{}: peak RSS in MiB, less is better (line: from what it had before)", case.name),
        bars: case.results.iter().filter_map(bar).collect(),
    }
}

/// A table with its title, and a plot if there is one.
pub(in crate::bench) fn section(page: &mut String, title: &str, svg: Option<String>, table: &Table) {
    push(page, &format!("<h2>{}</h2>\n", escaped(title)));
    page.push_str(&svg.unwrap_or_default());
    page.push_str("<div><table><tr><th>server</th>");
    for column in &table.columns {
        push(page, &format!("<th>{}</th>", escaped(column)));
    }
    page.push_str("<th></th></tr>\n");
    for row in &table.rows {
        push(page, &format!("<tr><td>{}</td>", escaped(&row.server)));
        for cell in &row.cells {
            let class = if cell.is_best { " class=\"best\"" } else { "" };
            push(page, &format!("<td{class}>{}</td>", escaped(&cell.text)));
        }
        push(page, &format!("<td>{}</td></tr>\n", escaped(row.note.as_deref().unwrap_or_default())));
    }
    page.push_str("</table></div>\n");
}

fn push(page: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _written = page.write_str(text);
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:1100px;padding:0 1em}div{overflow-x:auto}\
                     table{border-collapse:collapse;font-size:13px;white-space:nowrap}th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}\
                     th:first-child,td:first-child,td:last-child{text-align:left}.best{font-weight:bold;background:#e6f2e6}svg{max-width:100%}";

#[cfg(test)]
mod tests {
    //! The page has all tables and plots, and no markup from names.

    use super::page;
    use crate::bench::record::tests::record;

    #[test]
    fn the_page_is_whole() {
        let page = page(&record());
        assert_eq!((page.matches("<table>").count(), page.matches("<svg").count()), (2, 2));
        assert!(page.contains("Some &lt;CPU&gt;") && !page.contains("<CPU>"));
        assert!(page.contains("<td class=\"best\">4.50 (4.00..5.00)</td>"), "{page}");
        assert!(
            !page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
        );
    }
}
