//! Clients that nobody here wrote, each with a few hundred checked requests, on the arena with each driver: direct, and
//! through proxies.
//!
//! The programs are in `conformance/clients`, one for each language; what they need is installed into
//! `target/conformance/clients`. Each prints a line `kind NAME PASSED FAILED` for each kind of request.

mod bed;
mod programs;
mod report;

use std::thread;
use std::time::Instant;

use bed::{Bed, Via};
use programs::{Client, Language, Program};
use report::Row;

use crate::cli::{ConformanceFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// What came of the runs.
#[derive(Debug)]
pub(crate) struct Results {
    rows: Vec<Row>,
    /// What could not run, and what to install.
    pub(crate) missing: Vec<String>,
    /// A server or proxy that did not start or end as it should.
    pub(crate) broken: Vec<String>,
}

impl Results {
    /// Whether something ran, and every check of every run holds.
    pub(crate) fn is_good(&self) -> bool {
        self.broken.is_empty() && self.rows.iter().all(|row| row.run.is_good())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.broken.is_empty()
    }

    /// The checks that failed, in a line.
    pub(crate) fn summary(&self) -> String {
        let bad = self.rows.iter().filter(|row| !row.run.is_good()).count();
        format!(
            "{bad} of {} runs failed{}",
            self.rows.len(),
            self.broken.iter().map(|why| format!("; {why}")).collect::<String>()
        )
    }
}

/// Runs the clients, prints the table and, if asked for, writes the document.
pub(super) fn run(flags: &ConformanceFlags) -> u8 {
    let clients = match programs::chosen(&flags.only) {
        Ok(clients) => clients,
        Err(error) => {
            eprintln!("{error}");
            return EXIT_MISSING;
        }
    };
    let results = match run_all(&clients, &Via::ALL) {
        Ok(results) => results,
        Err(error) => {
            eprintln!("{error}");
            return EXIT_FAILED;
        }
    };
    if flags.write
        && let Err(error) = std::fs::write(repo::root().join(DOCUMENT), report::document(&results.rows))
    {
        eprintln!("{DOCUMENT}: {error}");
        return EXIT_FAILED;
    }
    match results.is_good() {
        // Who names a client wants to hear that it cannot run.
        true if !results.missing.is_empty() && (results.is_empty() || !flags.only.is_empty()) => EXIT_MISSING,
        true => EXIT_OK,
        false => EXIT_FAILED,
    }
}

/// Installs all clients, runs them without a proxy between, and prints the table and what is missing. The error is a
/// program of ours that does not build.
pub(crate) fn direct() -> Result<Results, String> {
    let clients: Vec<_> = programs::chosen(&[])?.into_iter().filter(|client| client.name != WAITS_FOR_ITSELF).collect();
    run_all(&clients, &[Via::Direct])
}

/// This client now and then waits for a window that it has been given: docs/http2.md says how that was found out. Only
/// the command runs it.
const WAITS_FOR_ITSELF: &str = "python-httpx-h2";

fn run_all(clients: &[&'static Client], ways: &[Via]) -> Result<Results, String> {
    let mut missing = Vec::new();
    let mut programs: Vec<Program> = Vec::new();
    for language in Language::ALL {
        if clients.iter().any(|client| client.language == language) {
            match language.prepare()? {
                Ok(program) => programs.push(program),
                Err(install) => missing.push(install),
            }
        }
    }
    let vias: Vec<Via> = ways.iter().copied().filter(|via| via.missing().is_none()).collect();
    if vias.len() < ways.len() {
        missing.extend(bed::missing_proxies());
    }
    let built = repo::cargo().args(["build", "--locked", "-p", "plimsoll-examples", "--example", "arena"]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("arena was not built".to_owned());
    }
    let lanes = DRIVERS.map(|driver| (driver, planned(clients, &programs, &vias)));
    let ended: Vec<(Vec<Row>, Option<String>)> = thread::scope(|scope| {
        let lanes = lanes.iter().map(|(driver, runs)| scope.spawn(|| on_driver(driver, runs)));
        // All of them are started before one is awaited.
        let lanes: Vec<_> = lanes.collect();
        let panicked = |_| (Vec::new(), Some("a thread of ours panicked".to_owned()));
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(panicked)).collect()
    });
    let mut results = Results { rows: Vec::new(), missing, broken: Vec::new() };
    for (rows, broken) in ended {
        results.rows.extend(rows);
        results.broken.extend(broken);
    }
    print!("{}", report::table(&results.rows));
    for why in &results.broken {
        eprintln!("FAILED: {why}");
    }
    for what in &results.missing {
        println!("skipped: {what}");
    }
    Ok(results)
}

/// A client on its way to the server.
type Planned<'a> = (&'static Client, &'a Program, Via);

/// The runs with a driver, in order.
fn planned<'a>(clients: &[&'static Client], programs: &'a [Program], vias: &[Via]) -> Vec<Planned<'a>> {
    let mut runs = Vec::new();
    for client in clients {
        let Some(program) = programs.iter().find(|program| program.language == client.language) else { continue };
        runs.extend(vias.iter().map(|via| (*client, program, *via)));
    }
    runs
}

/// One run after the other; the server has to end as it should.
fn on_driver(driver: &'static str, runs: &[Planned<'_>]) -> (Vec<Row>, Option<String>) {
    let mut rows = Vec::new();
    if runs.is_empty() {
        return (rows, None);
    }
    let mut bed = match Bed::start(
        driver,
        &Via::ALL.into_iter().filter(|via| runs.iter().any(|run| run.2 == *via)).collect::<Vec<_>>(),
    ) {
        Ok(bed) => bed,
        Err(error) => return (rows, Some(format!("on {driver}: {error}"))),
    };
    for &(client, program, via) in runs {
        let start = Instant::now();
        let run = program.run(client, &bed.base(via, client.protocol), via, driver);
        eprintln!(
            "{} {} {driver}: {} ({:.1} s)",
            client.name,
            via.name(),
            run.verdict(),
            start.elapsed().as_secs_f64()
        );
        rows.push(Row { client, via, driver, run });
    }
    let stopped = bed.stop().err().map(|error| format!("on {driver}: {error}"));
    (rows, stopped)
}

const DRIVERS: [&str; 2] = ["uring", "mio"];
const DOCUMENT: &str = "docs/conformance-clients.md";

#[cfg(test)]
mod tests;
