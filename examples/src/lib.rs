//! Programs that show Plimsoll at work; run one with `cargo run --release --example NAME`.
//!
//! What the larger ones share is here: the flags that every server has, and how a program speaks to a terminal and to
//! scripts.
#![forbid(unsafe_code)]

mod log;

/// The programs of the first page and of the guides: their examples are tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../README.md")]
    struct FirstPage;

    #[doc = include_str!("../../docs/testing.md")]
    struct Testing;

    #[doc = include_str!("../../docs/listeners.md")]
    struct Listeners;
}

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

pub use crate::log::log_to_stderr;
use clap::Parser;
use clap::error::ErrorKind;
use plimsoll::{DriverChoice, MemoryLimit, Report, Resident, Runtime};

/// How large the runtime is, and on what it runs.
#[derive(Debug, clap::Args)]
pub struct RuntimeFlags {
    /// Workers, 1 to 1024 [default: the processors this process may use, or what half of the line carries]
    #[arg(long, value_name = "N", value_parser = workers)]
    workers: Option<usize>,
    /// The memory line, with the unit B, KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: MemoryLimit,
    /// The driver: auto, uring or mio
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    driver: DriverChoice,
}

impl RuntimeFlags {
    /// The memory line that was asked for.
    pub fn memory(&self) -> MemoryLimit {
        self.memory
    }

    /// The runtime that was asked for; SIGINT and SIGTERM stop it.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`](plimsoll::Builder::build).
    pub fn build(&self) -> plimsoll::Result<Runtime> {
        let builder = Runtime::builder().memory(self.memory).driver(self.driver).signals(true);
        match self.workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        }
        .build()
    }

    /// Serves on the runtime that was asked for, until it is stopped; at its end the report is written, see [`finish`].
    pub fn run(
        &self,
        serve: impl AsyncFnOnce(&Runtime) -> Result<(), Box<dyn std::error::Error>>,
    ) -> Result<ExitCode, Box<dyn std::error::Error>> {
        let runtime = self.build()?;
        let served = runtime.block_on(serve(&runtime));
        let report = runtime.shutdown();
        served?;
        Ok(finish(&report))
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed<F> {
    /// To run.
    Run(F),
    /// The text of `--help`.
    Help(String),
    /// Nothing that is understood: why, in one line.
    Wrong(String),
}

/// Parses the command line.
pub fn parse<F: Parser>() -> Parsed<F> {
    match F::try_parse() {
        Ok(flags) => Parsed::Run(flags),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Parsed::Help(error.to_string()),
        Err(error) => {
            // What is wrong may be said in several lines; hints follow after an empty one. Of those, what was probably
            // meant is for the same line.
            let text = error.to_string();
            let mut lines = text.lines().map(str::trim);
            let wrong: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let mut line = wrong.join(" ");
            if let Some(similar) =
                lines.find_map(|hint| hint.strip_prefix("tip: ").filter(|tip| tip.contains("similar")))
            {
                line = format!("{line}; {similar}");
            }
            Parsed::Wrong(line.strip_prefix("error: ").unwrap_or(&line).to_owned())
        }
    }
}

/// Runs a program with its flags: a mistake in them, or a start that fails, is one line on stderr and exit code 2.
pub fn main<F: Parser>(run: impl FnOnce(&F) -> Result<ExitCode, Box<dyn std::error::Error>>) -> ExitCode {
    let flags = match parse() {
        Parsed::Run(flags) => flags,
        Parsed::Help(text) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(line) => return refuse(&line),
    };
    run(&flags).unwrap_or_else(|error| refuse(&error.to_string()))
}

/// A socket address, for clap.
///
/// # Errors
///
/// What an address looks like.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an address is IP:PORT, such as 127.0.0.1:8080 or [::1]:8080")
}

fn workers(text: &str) -> Result<usize, &'static str> {
    let workers = text.parse().ok().filter(|workers| (1..=1_024).contains(workers));
    workers.ok_or("the number of workers is between 1 and 1024")
}

/// How the runtime runs, in `key=value` words for a ready line: ` driver=uring workers=1 memory=67108864`, the reason
/// why it is not io_uring, and how it receives.
pub fn runtime_words(runtime: &Runtime) -> (String, String) {
    let (driver, memory) = (runtime.driver(), runtime.budget().limit().as_bytes());
    let words = format!(" driver={} workers={} memory={memory}", driver.kind, runtime.workers());
    let mut more = String::new();
    if let Some((step, errno)) = driver.reason {
        let _infallible = match errno.name() {
            Some(name) => write!(more, " reason=\"{step}: {name}\""),
            None => write!(more, " reason=\"{step}: {errno}\""),
        };
    }
    let _infallible = write!(more, " rx={}", driver.receive);
    (words, more)
}

/// Prints the ready line of an HTTP server.
pub fn print_ready(address: SocketAddr, runtime: &Runtime) {
    let (words, more) = runtime_words(runtime);
    print_started(&format!("listening on http://{address}{words}{more}\n"), runtime);
}

/// Prints a ready line, and says what is not as might be expected: not before, as a start that fails is one line.
pub fn print_started(ready: &str, runtime: &Runtime) {
    say_if_lowered(runtime);
    print(ready);
}

/// When the line carries fewer workers than there are processors, stderr says so.
pub fn say_if_lowered(runtime: &Runtime) {
    if let Some(processors) = runtime.lowered_from() {
        let (workers, line) = (runtime.workers(), runtime.budget().limit().as_bytes());
        let _closed = writeln!(
            std::io::stderr(),
            "workers: {workers} for {processors} processors: more would take over half of the memory line of {line} bytes"
        );
    }
}

/// Writes the report as the last line of stderr, and before it what the system says is resident; the exit code says
/// whether anything was left over.
pub fn finish(report: &Report) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    if let Some(resident) = Resident::of_process() {
        let _closed = writeln!(stderr, "{resident} (bytes; file: pages of the program, not its memory)");
    }
    let _closed = writeln!(stderr, "{report}");
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes to stdout, now. A reader that has gone away is no reason to end.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _closed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// One line on stderr, and exit code 2.
pub fn refuse(line: &str) -> ExitCode {
    let _closed = writeln!(std::io::stderr(), "error: {line}");
    ExitCode::from(2)
}

/// A new certificate for localhost and 127.0.0.1, signed by itself.
///
/// # Errors
///
/// What a certificate cannot be made for.
pub fn self_signed() -> Result<plimsoll::http::tls::TlsConfigBuilder, String> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    let builder = plimsoll::http::tls::TlsConfig::builder();
    Ok(builder.certificate_pem(made.cert.pem(), made.signing_key.serialize_pem()))
}
