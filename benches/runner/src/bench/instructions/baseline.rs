//! The counts that the repository remembers: a line for each kind of request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::Cost;

/// Counts of an earlier build.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Baseline {
    /// What they were counted with.
    pub(super) circumstances: String,
    /// Instructions for a request, by kind.
    totals: BTreeMap<String, f64>,
    /// The kinds, in the order of the report.
    order: Vec<String>,
}

impl Baseline {
    pub(super) fn of(costs: &[Cost], circumstances: &str) -> Baseline {
        Baseline {
            circumstances: circumstances.to_owned(),
            totals: costs.iter().map(|cost| (cost.kind.clone(), cost.total())).collect(),
            order: costs.iter().map(|cost| cost.kind.clone()).collect(),
        }
    }

    pub(super) fn total(&self, kind: &str) -> Option<f64> {
        self.totals.get(kind).copied().filter(|total| *total > 0.0)
    }

    /// Of a file; one that does not exist remembers nothing.
    pub(super) fn read(path: &Path) -> Result<Baseline, String> {
        match fs::read_to_string(path) {
            Ok(text) => Baseline::parse(&text).ok_or_else(|| format!("{}: not as --update writes it", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Baseline::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}{COUNTED_WITH}{}\n", self.circumstances);
        for kind in &self.order {
            let total = self.totals.get(kind).copied().unwrap_or_default();
            let _infallible = writeln!(text, "{kind} {total:.1}");
        }
        text
    }

    fn parse(text: &str) -> Option<Baseline> {
        let mut baseline = Baseline::default();
        for line in text.lines() {
            if let Some(circumstances) = line.strip_prefix(COUNTED_WITH) {
                baseline.circumstances = circumstances.to_owned();
            } else if !line.starts_with('#') && !line.is_empty() {
                let (kind, total) = line.split_once(' ')?;
                baseline.totals.insert(kind.to_owned(), total.parse().ok()?);
                baseline.order.push(kind.to_owned());
            }
        }
        Some(baseline)
    }
}

const HEAD: &str = "# Instructions for a request, written by `cargo xtask bench --instructions --update`.\n";
const COUNTED_WITH: &str = "# Counted with ";

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(kind: &str, total: f64) -> Cost {
        Cost { kind: kind.to_owned(), parts: BTreeMap::from([("codec", total)]), ledger: 0.0 }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let baseline = Baseline::of(&[cost("get", 1_234.5), cost("echo", 99.0)], "this compiler; that valgrind");
        assert_eq!(Baseline::parse(&baseline.text()), Some(baseline.clone()));
        assert_eq!((baseline.total("get"), baseline.total("put")), (Some(1_234.5), None));
        assert!(baseline.text().ends_with("get 1234.5\necho 99.0\n"), "{}", baseline.text());
    }

    #[test]
    fn what_is_not_a_count_is_refused() {
        assert_eq!(Baseline::parse("get many\n"), None);
        assert_eq!(Baseline::parse("get\n"), None);
        assert_eq!(Baseline::parse(""), Some(Baseline::default()));
    }
}
