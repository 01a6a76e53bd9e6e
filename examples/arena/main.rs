//! The benchmark server: every route that load generators ask for, under a memory line that it reports on when it ends.
//!
//! ```text
//! cargo run --release --example arena -- --listen 127.0.0.1:8080 --memory 64MiB
//! ```

mod flags;
mod items;
mod metrics;
mod plan;
mod routes;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use plimsoll::http::{AccessLog, Counters, Server};
use plimsoll::{DriverKind, Runtime};

use crate::flags::{Flags, Parsed};

/// What the routes share: cheap to clone for every request.
#[derive(Clone)]
struct State {
    counters: Counters,
    log: Option<Arc<AccessLog>>,
    driver: DriverKind,
}

fn main() -> ExitCode {
    let flags = match flags::parse() {
        Parsed::Run(flags) => flags,
        Parsed::Help(text) => {
            print(&text);
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(line) => return refuse(&line),
    };
    match run(&flags) {
        Ok(code) => code,
        Err(error) => refuse(&error.to_string()),
    }
}

fn run(flags: &Flags) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let runtime = flags.builder().build()?;
    if flags.plan {
        print(&plan::of(&runtime)?);
        return Ok(ExitCode::SUCCESS);
    }
    let log = match &flags.access_log {
        Some(path) => {
            let log = AccessLog::open(path, runtime.budget());
            let log = log.map_err(|error| format!("cannot write the access log {}: {error}", path.display()))?;
            Some(Arc::new(log))
        }
        None => None,
    };
    let served = runtime.block_on(serve(flags, &runtime, log.clone()));
    let lost_lines = log.map_or(0, |log| log.close());
    let report = runtime.shutdown();
    served?;
    let mut stderr = std::io::stderr().lock();
    if lost_lines > 0 {
        let _closed = writeln!(stderr, "access log: {lost_lines} lines were lost");
    }
    let _closed = writeln!(stderr, "{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Serves until a signal asks for the stop and what runs has finished.
async fn serve(flags: &Flags, runtime: &Runtime, log: Option<Arc<AccessLog>>) -> plimsoll::Result<()> {
    let mut server = Server::bind(flags.listen)?;
    if let Some(log) = log.clone() {
        server = server.access_log(move |record| log.write(record));
    }
    let state = State { counters: server.counters(), log, driver: runtime.driver().kind };
    items::load();
    print(&ready_line(server.local_addr(), runtime));
    server.serve(move |request| routes::answer(request, state.clone())).await
}

/// One line that tells scripts where and how the server runs.
fn ready_line(address: SocketAddr, runtime: &Runtime) -> String {
    let (driver, memory) = (runtime.driver(), runtime.budget().limit().as_bytes());
    let mut line =
        format!("listening on http://{address} driver={} workers={} memory={memory}", driver.kind, runtime.workers());
    if let Some((step, errno)) = driver.reason {
        let _infallible = match errno.name() {
            Some(name) => write!(line, " reason=\"{step}: {name}\""),
            None => write!(line, " reason=\"{step}: {errno}\""),
        };
    }
    let _infallible = writeln!(line, " rx={}", driver.receive);
    line
}

/// Writes to stdout, now. A reader that has gone away is no reason to end.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _closed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn refuse(line: &str) -> ExitCode {
    let _closed = writeln!(std::io::stderr(), "error: {line}");
    ExitCode::from(2)
}
