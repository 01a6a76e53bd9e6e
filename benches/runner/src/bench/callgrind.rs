//! Instructions of a program, counted by callgrind, with the calls that led to each.
//!
//! Callgrind writes a cost line for each source line of a function; `fn=` says which function, `fl=`, `fi=` and `fe=`
//! which file the line is from, which is another one where code was inlined. With `--separate-callers` a function's
//! name is followed by those of its callers, `malloc'grow'push'main`, so that what a shared function costs can be told
//! apart by who wanted it. Names are given numbers where they first occur: `fn=(3) main`, and `fn=(3)` from then on.
//! The format is in valgrind's manual, "Callgrind Format Specification".

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::SplitWhitespace;

/// Instructions by the place they were executed at.
pub(super) type Counts = BTreeMap<Place, u64>;

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Of the source line.
    pub(super) file: String,
    /// The function, and then its callers up to the program's start, each followed by a `'`, but for the last.
    pub(super) calls: String,
}

/// What to install when there is no valgrind.
pub(super) fn missing() -> Option<&'static str> {
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    (!valgrind.status().is_ok_and(|status| status.success()))
        .then_some("no valgrind, which counts instructions: apt-get install valgrind")
}

/// The version of valgrind, as it says it.
pub(super) fn version() -> String {
    let said = Command::new("valgrind").arg("--version").stdin(Stdio::null()).output();
    said.map_or_else(|_| "valgrind".to_owned(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// Runs a program under callgrind. Its environment is empty: the length of the variables moves its stack, and with it
/// some counts.
pub(super) fn count(program: &Path, words: &[&str], out: &Path) -> Result<Counts, String> {
    let mut callgrind = Command::new("valgrind");
    callgrind.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    callgrind.args(["--tool=callgrind", "-q", CALLERS]).arg(format!("--callgrind-out-file={}", out.display()));
    let ended = callgrind.arg(program).args(words).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("valgrind did not start: {error}"))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(format!(
            "{} {} under valgrind ended with {}:\n{said}",
            program.display(),
            words.join(" "),
            ended.status
        ));
    }
    let text = std::fs::read(out).map_err(|error| format!("{}: {error}", out.display()))?;
    parse(&String::from_utf8_lossy(&text)).map_err(|line| format!("{}: line {line} is not understood", out.display()))
}

/// What the second run counts more than the first one; places at which it counts less are negative.
pub(super) fn difference(fewer: &Counts, more: &Counts) -> BTreeMap<Place, i64> {
    let mut difference: BTreeMap<Place, i64> = BTreeMap::new();
    for (counts, sign) in [(fewer, -1), (more, 1)] {
        for (place, count) in counts {
            *difference.entry(place.clone()).or_default() += sign * *count as i64;
        }
    }
    difference
}

/// The counts of a file, or the number of the first line that is not understood.
fn parse(text: &str) -> Result<Counts, usize> {
    let (mut files, mut functions) = (Names::default(), Names::default());
    let (mut file, mut function) = (String::new(), String::new());
    let mut counts = Counts::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let understood = match line.split_once('=') {
            Some(("fl" | "fi" | "fe", name)) => files.name(name).map(|name| file = name),
            Some(("fn", name)) => functions.name(name).map(|name| function = name),
            Some(("cfi" | "cfl", name)) => files.name(name).map(drop),
            Some(("cfn", name)) => functions.name(name).map(drop),
            // The line behind it has what the call costs in all, which is counted where it is spent.
            Some(("calls", _)) => lines.next().map(drop),
            _ if line.starts_with(['+', '-', '*']) || line.starts_with(|first: char| first.is_ascii_digit()) => {
                instructions(line.split_whitespace()).map(|cost| {
                    let place = Place { file: file.clone(), calls: function.clone() };
                    *counts.entry(place).or_default() += cost;
                })
            }
            // What the file is about, and names of objects.
            _ => Some(()),
        };
        understood.ok_or(index + 1)?;
    }
    Ok(counts)
}

/// Of a cost line: the source line, and how many instructions.
fn instructions(mut words: SplitWhitespace<'_>) -> Option<u64> {
    words.next()?;
    words.next()?.parse().ok()
}

/// Names by their numbers.
#[derive(Debug, Default)]
struct Names(BTreeMap<u32, String>);

impl Names {
    /// `(3) main` or, from then on, `(3)`.
    fn name(&mut self, text: &str) -> Option<String> {
        let (number, name) = text.strip_prefix('(')?.split_once(')')?;
        let number = number.parse().ok()?;
        match name.strip_prefix(' ') {
            Some(name) => drop(self.0.insert(number, name.to_owned())),
            None if name.is_empty() => {}
            None => return None,
        }
        self.0.get(&number).cloned()
    }
}

/// More callers than the program nests.
const CALLERS: &str = "--separate-callers=100";

#[cfg(test)]
mod tests;
