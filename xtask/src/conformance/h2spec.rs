//! h2spec, the public suite of HTTP/2, against `arena` on each driver.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// The suite's last line, if every case passed.
fn on_driver(suite: &Path, driver: &str) -> Result<String, String> {
    let mut arena = Arena::start(driver)?;
    let output = Command::new(suite).args(["--strict", "-h", "127.0.0.1", "-p", &arena.port]).output();
    let output = output.map_err(|error| format!("did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().rev().find(|line| line.contains(" passed")).unwrap_or("no summary").to_owned();
    arena.stop()?;
    if output.status.success() && summary.ends_with(" 0 skipped, 0 failed") {
        return Ok(summary);
    }
    Err(format!("{text}\n{summary}"))
}

/// A server while it runs.
struct Arena {
    child: Child,
    port: String,
}

impl Arena {
    fn start(driver: &str) -> Result<Self, String> {
        let mut command = Command::new(repo::target_dir().join("debug/examples/arena"));
        command.args(["--listen", "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--workers", "1", "--driver", driver]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut arena = Self { child: child.map_err(|error| format!("arena: {error}"))?, port: String::new() };
        let mut line = String::new();
        if let Some(stdout) = arena.child.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| format!("arena: {error}"))?;
        }
        let after = line.split("h2c=127.0.0.1:").nth(1).ok_or("arena is not ready; its last words are above")?;
        arena.port = after.split_whitespace().next().unwrap_or_default().to_owned();
        Ok(arena)
    }

    /// Asks it to stop, and sees that it leaves nothing over.
    fn stop(&mut self) -> Result<(), String> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("arena ended with {ended:?}")),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
