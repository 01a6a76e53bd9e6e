//! Servers side by side, in Markdown.

use std::fmt::Write as _;

use plimsoll_conformance::h1::{End, Framed};
use plimsoll_conformance::table;

use super::client::{Ending, Seen};

/// What one server did.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) peer: &'static str,
    pub(crate) version: String,
    pub(crate) results: Vec<Seen>,
}

/// How a server's way compares with what the table expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The same answers, or others that refuse as well.
    Same,
    /// It takes what should be refused.
    Takes,
    /// It refuses what should be taken.
    Refuses,
    /// It answers or refuses alike, but keeps or closes the connection otherwise.
    End,
}

/// What the difference is. A refusal by another status is a refusal; a connection that is closed without a word is one,
/// too.
pub(crate) fn difference(framed: &Framed, seen: &Seen) -> Difference {
    let expected = framed.expected();
    let wanted: Vec<u16> = expected
        .answers
        .iter()
        .filter_map(|answer| answer.get(..3)?.parse().ok())
        .filter(|status| *status >= 200)
        .collect();
    let is_refused = |statuses: &[u16], wanted: usize| {
        statuses.len() < wanted || statuses.last().is_some_and(|status| REFUSALS.contains(status))
    };
    let should_refuse = is_refused(&wanted, wanted.len()) || wanted.is_empty();
    let refuses = is_refused(&seen.statuses, wanted.len()) || seen.ending == Ending::Unreadable;
    let kept = seen.ending == Ending::Kept;
    match (should_refuse, refuses) {
        (true, true) if kept => Difference::End,
        (true, true) => Difference::Same,
        (true, false) if seen.statuses.is_empty() && !kept => Difference::Same,
        (true, false) => Difference::Takes,
        (false, true) => Difference::Refuses,
        (false, false) if seen.statuses.len() > wanted.len() => Difference::Takes,
        (false, false) if kept != (expected.end == End::Kept) => Difference::End,
        (false, false) => Difference::Same,
    }
}

/// Figures for each server.
pub(crate) fn summary(cases: &[Framed], columns: &[Column]) -> String {
    let mut text = table::heading(&[
        "server",
        "cases",
        "as expected",
        "takes what should be refused",
        "refuses what should be taken",
        "keeps or closes otherwise",
    ]);
    let all = cases.len().to_string();
    for column in columns {
        let count = |kind: Difference| {
            let same = cases.iter().zip(&column.results).filter(|(framed, seen)| difference(framed, seen) == kind);
            same.count().to_string()
        };
        let [same, takes, refuses, end] =
            [Difference::Same, Difference::Takes, Difference::Refuses, Difference::End].map(count);
        text.push_str(&table::line([&*column.version, &all, &same, &takes, &refuses, &end]));
    }
    text
}

/// The whole document.
pub(crate) fn document(cases: &[Framed], columns: &[Column]) -> String {
    let mut text = INTRODUCTION.to_owned() + &summary(cases, columns);
    let mut title = "";
    for (at, framed) in cases.iter().enumerate() {
        if framed.title != title {
            title = framed.title;
            write!(text, "\n## {title}\n\n").expect("a string takes everything");
            let names = columns.iter().map(|column| column.peer);
            text.push_str(&table::heading(&["rule", "RFC", "expected"].into_iter().chain(names).collect::<Vec<_>>()));
        }
        let cells = columns.iter().map(|column| cell(framed, &column.results[at]));
        let expected = expected(framed);
        let cells: Vec<String> = [table::text(framed.case.rule), framed.case.section.to_owned(), expected]
            .into_iter()
            .chain(cells)
            .collect();
        text.push_str(&table::line(cells.iter().map(String::as_str)));
    }
    text
}

/// The statuses of the table, and the end.
fn expected(framed: &Framed) -> String {
    let outcome = framed.expected();
    let statuses: Vec<&str> = outcome.answers.iter().filter_map(|answer| answer.get(..3)).collect();
    let end = if outcome.end == End::Kept { "kept" } else { "closed" };
    if statuses.is_empty() { end.to_owned() } else { format!("{}, {end}", statuses.join(" ")) }
}

fn cell(framed: &Framed, seen: &Seen) -> String {
    let end = match seen.ending {
        Ending::Kept => "kept",
        Ending::Closed => "closed",
        Ending::Reset => "reset",
        Ending::Waits => "waits",
        Ending::Unreadable => "no HTTP/1.1 answer",
    };
    let statuses: Vec<String> = seen.statuses.iter().map(u16::to_string).collect();
    let shown = if statuses.is_empty() { end.to_owned() } else { format!("{}, {end}", statuses.join(" ")) };
    match difference(framed, seen) {
        Difference::Same => shown,
        Difference::Takes => format!("{shown} (takes)"),
        Difference::Refuses => format!("{shown} (refuses)"),
        Difference::End => format!("{shown} (end)"),
    }
}

/// Statuses by which a server says that a message is not right or not for it.
const REFUSALS: [u16; 12] = [400, 405, 408, 411, 413, 414, 417, 421, 431, 500, 501, 505];

const INTRODUCTION: &str = "\
# HTTP/1.1: other servers on the same cases

Made by `cargo xtask conformance h1 --write` from the cases of [conformance-http1.md](conformance-http1.md), but for those in which a handler of
ours leaves HTTP: do not edit. Each server ran as it comes,
told only to read every body before it answers (nginx as a proxy, hyper in its handler, h2o by itself) and to answer 2xx or 3xx; hyper's
handler answers 405 to CONNECT, h2o's redirection takes every method.

Where the RFCs leave a choice, the table expects the strict one, so a difference is not always a mistake: nginx, for one, is free to
take a bare LF as the end of a line (RFC 9112 2.2), and to refuse methods that it does not know. `takes` marks what others accept and we refuse, `refuses` the reverse, `end` a
connection that is kept or closed otherwise. Servers count as refusing whatever status they use, and also if they close without a word.

";

#[cfg(test)]
mod tests;
