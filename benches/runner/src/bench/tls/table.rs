//! The table of a profile.

use super::Series;
use super::work::Work;
use crate::bench::figures::{Spread, median_ratio};
use crate::bench::servers::{BASELINE, FLOOR_RUSTLS};

/// The middle of each server's rounds, and its ratio to others, round by round.
pub(super) fn of(work: Work, series: &[Series], load_before: Option<f64>, load_after: Option<f64>) -> String {
    let load = |load: Option<f64>| load.map_or("?".to_owned(), |load| format!("{load:.1}"));
    let rounds = series.iter().map(|series| series.figures.len()).max().unwrap_or(0);
    let bases: &[&str] = match work {
        Work::Bulk | Work::Parked => &[BASELINE, "nginx"],
        Work::Pipelined => &[BASELINE, "hyper-pipeline-flush"],
        Work::Full | Work::Resumed => &[BASELINE, FLOOR_RUSTLS],
        Work::KeepAlive | Work::Http2 => &[BASELINE],
    };
    let mut text = format!(
        "\n{}, {}; rounds: {rounds}; load average {} to {}\n{:<22} {:>10} {:>21}",
        work.name(),
        work.unit(),
        load(load_before),
        load(load_after),
        "",
        "median",
        "from to"
    );
    for base in bases {
        text.push_str(&format!(" {:>24}", format!("of {base}")));
    }
    text.push('\n');
    for own in series {
        let Some(spread) = Spread::of(own.figures.iter().map(|(_, figure)| *figure)) else {
            text.push_str(&format!("{:<22} {}\n", own.server.name, own.failed.as_deref().unwrap_or("-")));
            continue;
        };
        let digits = if work == Work::Parked { 0 } else { 2 };
        let range = format!("{:.digits$} {:.digits$}", spread.min, spread.max);
        text.push_str(&format!("{:<22} {:>10.digits$} {range:>21}", own.server.name, spread.median));
        for base in bases {
            let base = series.iter().find(|series| series.server.name == *base);
            let ratio = base.and_then(|base| ratio(own, base)).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            text.push_str(&format!(" {ratio:>24}"));
        }
        if let Some(why) = &own.failed {
            text.push_str(&format!("  ({why})"));
        }
        text.push('\n');
    }
    text
}

/// Over the rounds that both have.
fn ratio(own: &Series, base: &Series) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = own
        .figures
        .iter()
        .filter_map(|(round, figure)| Some((*figure, base.figures.iter().find(|(of, _)| of == round)?.1)))
        .collect();
    median_ratio(pairs.iter().map(|pair| pair.0), pairs.iter().map(|pair| pair.1))
}
