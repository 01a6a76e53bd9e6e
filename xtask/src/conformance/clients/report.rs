//! What the programs print, read again, and the table of it.

use std::fmt::Write as _;

use super::bed::{self, Via};
use super::programs::Client;

/// A client on one way to the server with one driver.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) client: &'static Client,
    pub(super) via: Via,
    pub(super) driver: &'static str,
    pub(super) run: Run,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    version: String,
    passed: u32,
    failed: u32,
    /// The kinds of which checks failed, with how many, and then how the program ended if that was wrong.
    wrong: Vec<String>,
    /// What the program said of them.
    said: String,
}

impl Run {
    /// Reads what the program printed.
    pub(super) fn new(stdout: &str, stderr: &str, ended: Result<(), String>) -> Run {
        let mut run = Run { version: String::new(), passed: 0, failed: 0, wrong: Vec::new(), said: String::new() };
        let mut is_done = false;
        for line in stdout.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["version", ..] => line[7..].trim().clone_into(&mut run.version),
                ["done"] => is_done = true,
                ["kind", name, passed, failed] => {
                    let (Ok(passed), Ok(failed)) = (passed.parse::<u32>(), failed.parse::<u32>()) else {
                        run.wrong.push(format!("a line that says nothing: {line}"));
                        continue;
                    };
                    run.passed += passed;
                    run.failed += failed;
                    if failed > 0 {
                        run.wrong.push(format!("{name} {failed} of {}", passed + failed));
                    }
                }
                _ => run.wrong.push(format!("a line that says nothing: {line}")),
            }
        }
        if let Err(why) = ended {
            run.wrong.push(why);
        } else if !is_done {
            run.wrong.push("it did not come to its end".to_owned());
        } else if run.passed + run.failed < CHECKS_MIN {
            run.wrong.push("too few checks".to_owned());
        }
        if !run.is_good() {
            let lines: Vec<&str> = stderr.lines().take(SAID_LINES_MAX).collect();
            run.said = lines.join("\n");
        }
        run
    }

    pub(super) fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    /// In a few words; what failed with what the program said of it.
    pub(super) fn verdict(&self) -> String {
        match self.is_good() {
            true => format!("{} passed", self.passed),
            false => {
                format!("{} passed, {} failed: {}\n{}", self.passed, self.failed, self.wrong.join(", "), self.said)
            }
        }
    }

    fn figures(&self) -> String {
        match (self.is_good(), self.failed) {
            (true, _) => self.passed.to_string(),
            (false, 0) => format!("{} / ended", self.passed),
            (false, failed) => format!("{} / {failed} failed", self.passed),
        }
    }
}

/// The runs of a client on a way, a line with a column for each driver.
fn lines(rows: &[Row]) -> Vec<[String; 5]> {
    let mut lines = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let is_same = |other: &&Row| other.client == row.client && other.via == row.via;
        if rows[..number].iter().any(|other| is_same(&other)) {
            continue;
        }
        let figures = |driver: &str| {
            let mut runs = rows.iter().filter(is_same).filter(|other| other.driver == driver);
            runs.next().map_or("-".to_owned(), |row| row.run.figures())
        };
        let [uring, mio] = super::DRIVERS.map(figures);
        lines.push([row.client.name.to_owned(), row.run.version.clone(), row.via.name().to_owned(), uring, mio]);
    }
    lines
}

/// The table, for a terminal.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut line = |[client, version, via, uring, mio]: [&str; 5]| {
        let _never_fails = writeln!(text, "{client:<18} {version:<22} {via:<11} {uring:>18} {mio:>18}");
    };
    line(HEAD);
    for cells in lines(rows) {
        line(cells.each_ref().map(String::as_str));
    }
    text
}

/// The document.
pub(super) fn document(rows: &[Row]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let proxies = bed::proxy_versions();
    if !proxies.is_empty() {
        let _never_fails = writeln!(text, "\nThe proxies are {}.", proxies.join(" and "));
    }
    let total: u32 = rows.iter().map(|row| row.run.passed + row.run.failed).sum();
    let failed: u32 = rows.iter().map(|row| row.run.failed).sum();
    let _never_fails = writeln!(text, "\n{total} checks, of which {failed} failed.\n");
    let mut line = |cells: [&str; 5]| {
        let _never_fails = writeln!(text, "| {} |", cells.join(" | "));
    };
    line(HEAD);
    line(["---"; 5]);
    for cells in lines(rows) {
        line(cells.each_ref().map(String::as_str));
    }
    let wrong: Vec<&Row> = rows.iter().filter(|row| !row.run.is_good()).collect();
    if !wrong.is_empty() {
        text.push_str("\n## What failed\n\n");
        for row in wrong {
            let place = format!("{}, {}, {}", row.client.name, row.via.name(), row.driver);
            let _never_fails = writeln!(text, "* {place}: {}", row.run.wrong.join(", "));
        }
    }
    text
}

const HEAD: [&str; 5] = ["client", "version", "via", "io_uring", "epoll"];

const INTRODUCTION: &str = "\
# Clients that others wrote

Made by `cargo xtask conformance clients --write`: do not edit. Each client sends requests of every kind to `arena`, and each answer is checked: status,
fields, and bodies by their hash. The kinds: GET, HEAD and POST; bodies of every size around a boundary, up to 5 MiB, with Content-Length and
chunked, sent back or counted; `Expect: 100-continue`; large answers; delays; trailers; pipelining; errors; one connection for many requests; 32 at once;
requests that are given up in the middle; answers that come before the body was sent. WebSockets: text, binary, fragments, pings, codes of closing,
connections that break off, with and without compression. The programs are in `conformance/clients`, one for each language.

A client asks the server itself (`direct`), nginx, which asks the server with HTTP/1.1, or haproxy, which asks it with HTTP/1.1 or with HTTP/2. A number is of checks
that passed; `-` was not run.
";

/// A run with fewer checks shows nothing.
const CHECKS_MIN: u32 = 100;
/// Of what a program says about its failures.
const SAID_LINES_MAX: usize = 40;
