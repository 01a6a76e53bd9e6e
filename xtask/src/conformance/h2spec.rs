//! h2spec, the public suite of HTTP/2, against `arena`, with and without TLS, and against a router of axum, on each
//! driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::arena::Arena;
use super::grpc::{self, Served};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// The last version that Go's module proxy has under this name.
const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// Builds the suite and the server, and runs every case on every driver.
pub(crate) fn run() -> u8 {
    let suite = match suite() {
        Ok(suite) => suite,
        Err(missing) => {
            eprintln!("{missing}");
            return EXIT_MISSING;
        }
    };
    let built = repo::cargo().args(["build", "--locked", "-p", "plimsoll-examples", "--example", "arena"]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("arena was not built");
        return EXIT_FAILED;
    }
    let mut exit = EXIT_OK;
    for driver in ["uring", "mio"] {
        match on_driver(&suite, driver) {
            Ok(summary) => println!("h2spec on {driver}: {summary}"),
            Err(error) => {
                eprintln!("h2spec on {driver}: {error}");
                exit = EXIT_FAILED;
            }
        }
    }
    match grpc::server() {
        Ok(server) => {
            for flags in grpc::OURS {
                match on_router(&suite, &server, flags) {
                    Ok(summary) => println!("h2spec through axum on {}: {summary}", flags[3]),
                    Err(error) => {
                        eprintln!("h2spec through axum on {}: {error}", flags[3]);
                        exit = EXIT_FAILED;
                    }
                }
            }
        }
        Err(error) => {
            eprintln!("{error}");
            exit = EXIT_FAILED;
        }
    }
    exit
}

/// The suite's program, built if it is not there yet. The error says what to install.
fn suite() -> Result<PathBuf, String> {
    let dir = repo::target_dir().join("conformance/bin");
    let program = dir.join("h2spec");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let status = Command::new("go").args(["install", MODULE]).env("GOBIN", &dir).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("`go install {MODULE}` failed: {status}")),
        Err(error) => {
            Err(format!("h2spec is written in Go, which is missing ({error}): install it from https://go.dev/dl"))
        }
    }
}

/// The suite's last lines, without TLS and with it, if every case passed.
fn on_driver(suite: &Path, driver: &str) -> Result<String, String> {
    let mut arena = Arena::start(driver, &["--h2c", "127.0.0.1:0", "--tls", "127.0.0.1:0", "--tls-self-signed"])?;
    let port =
        |address: &Option<String>| address.as_deref().and_then(|address| address.rsplit(':').next().map(str::to_owned));
    let in_the_clear = cases(suite, &port(&arena.h2c).ok_or("arena has no port for HTTP/2")?, &[])?;
    let over_tls = cases(suite, &port(&arena.tls).ok_or("arena has no port for HTTPS")?, &["-t", "-k"])?;
    arena.stop()?;
    Ok(format!("{}; over TLS: {}", in_the_clear?, over_tls?))
}

/// The same through a router of axum.
fn on_router(suite: &Path, server: &Path, flags: &[&str]) -> Result<String, String> {
    let mut served = Served::start(server, &[&["--service", "axum"], flags].concat())?;
    let judged = cases(suite, &served.port, &[])?;
    served.stop()?;
    judged
}

/// The suite's last line, if every case passed; the outer error is that it did not run.
fn cases(suite: &Path, port: &str, flags: &[&str]) -> Result<Result<String, String>, String> {
    let output = Command::new(suite).args(["--strict", "-h", "127.0.0.1", "-p", port]).args(flags).output();
    let output = output.map_err(|error| format!("did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().rev().find(|line| line.contains(" passed")).unwrap_or("no summary").to_owned();
    Ok(if output.status.success() && summary.ends_with(" 0 skipped, 0 failed") {
        Ok(summary)
    } else {
        Err(format!("{text}\n{summary}"))
    })
}
