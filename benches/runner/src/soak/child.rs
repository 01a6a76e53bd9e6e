//! The programs that are soaked: started, told to stop, and what they leave behind. Each ends with its handle.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::repo;

/// The profile of the programs: optimised, and every assertion speaks.
const PROFILE: &str = "sim";

/// Builds the programs.
pub(super) fn build() -> Result<(), String> {
    let mut cargo = repo::cargo();
    cargo.args(["build", "--quiet", "--locked", "--profile", PROFILE, "-p", "plimsoll-examples"]);
    for program in PROGRAMS {
        cargo.args(["--example", program]);
    }
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the build of the programs ended with {status}")),
        Err(error) => Err(format!("cargo did not start: {error}")),
    }
}

/// Where the output of the programs goes.
pub(super) fn log_dir() -> PathBuf {
    repo::target_dir().join("soak")
}

/// Whether a program starts with this driver here; the error is its own.
pub(super) fn driver_works(driver: &str) -> Result<(), String> {
    let arena = program("arena");
    let planned = Command::new(&arena).args(["--plan", "--driver", driver]).stdin(Stdio::null()).output();
    match planned {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
        Err(error) => Err(format!("{}: {error}", arena.display())),
    }
}

fn program(name: &str) -> PathBuf {
    repo::target_dir().join(PROFILE).join("examples").join(name)
}

/// A program that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// For messages.
    name: String,
    child: Child,
    log: PathBuf,
    address: SocketAddr,
}

impl Running {
    /// Starts a program and waits for its ready line. `role` names it in messages and its log.
    pub(super) fn start(example: &str, role: &str, flags: &[String]) -> Result<Running, String> {
        let said = |error: std::io::Error| format!("{role}: {error}");
        let log = log_dir().join(format!("{}.stderr", role.replace(' ', "-")));
        fs::create_dir_all(log_dir()).map_err(said)?;
        let mut command = Command::new(program(example));
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&log).map_err(said)?).env("RUST_BACKTRACE", "1");
        let child = command.spawn().map_err(said)?;
        let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let mut running = Running { name: role.to_owned(), child, log, address };
        let mut line = String::new();
        let stdout = running.child.stdout.take().ok_or("stdout is piped")?;
        let mut stdout = BufReader::new(stdout);
        // A program that does not become ready says why and ends, and with it this line.
        stdout.read_line(&mut line).map_err(said)?;
        running.address =
            listening_on(&line).ok_or_else(|| format!("{role} did not start: {}", running.last_line()))?;
        Ok(running)
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has, though nobody told it to.
    pub(super) fn death(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended by itself with {status}: {}", self.name, self.last_line()))
    }

    /// Ends it as an operator does: it must end in time, well, and leave nothing.
    pub(super) fn stop(mut self) -> Result<(), String> {
        if let Some(death) = self.death() {
            return Err(death);
        }
        // It has not been waited for: the number is its own.
        let told = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.id())]).status();
        if !told.is_ok_and(|status| status.success()) {
            return Err(format!("{} could not be told to stop", self.name));
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
                Ok(None) => return Err(format!("{} does not stop", self.name)),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        };
        let log = self.log();
        if log.contains("panicked") {
            return Err(format!("{} panicked; see {}", self.name, self.log.display()));
        }
        let last = log.lines().last().unwrap_or_default();
        if !status.success() {
            return Err(format!("{} ended with {status}: {last}", self.name));
        }
        report(last).map_err(|what| format!("{}: {what}", self.name))
    }

    /// Ends it as a crash does.
    pub(super) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }

    fn log(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| file.read_to_end(&mut text));
        read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&text).into_owned())
    }

    fn last_line(&self) -> String {
        self.log().lines().last().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The address of a ready line, with or without a scheme.
fn listening_on(line: &str) -> Option<SocketAddr> {
    let word = line.strip_prefix("listening on ")?.split_whitespace().next()?;
    word.strip_prefix("http://").unwrap_or(word).parse().ok()
}

/// Checks the report of a program that has ended.
fn report(line: &str) -> Result<(), String> {
    let figure = |name: &str| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|word| word.parse::<u64>().ok())
    };
    let figures = line.strip_prefix("memory ").map(|_| ["charged", "fixed", "leaked", "in_flight"].map(figure));
    match figures {
        Some([Some(charged), Some(fixed), Some(0), Some(0)]) if charged <= fixed => Ok(()),
        Some([Some(_), Some(_), Some(_), Some(_)]) => Err(format!("something is left: {line}")),
        _ => Err(format!("no report, but: {line}")),
    }
}

/// Of the kernel: descriptors that a process has open, by what they are, such as `socket`.
pub(super) fn descriptors(pid: u32) -> Result<BTreeMap<String, u64>, String> {
    let listed = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let mut kinds = BTreeMap::new();
    for entry in listed.map_err(|error| format!("descriptors of {pid}: {error}"))?.flatten() {
        // One that was closed meanwhile is none.
        let Ok(name) = fs::read_link(entry.path()) else { continue };
        let name = name.to_string_lossy();
        let kind = name.split_once(":[").map_or(&*name, |(kind, rest)| if kind == "anon_inode" { rest } else { kind });
        *kinds.entry(kind.trim_end_matches(']').to_owned()).or_default() += 1;
    }
    Ok(kinds)
}

const PROGRAMS: [&str; 2] = ["arena", "relay"];
/// Longer than any program drains.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    //! What a program says is understood, and a leak is seen.

    use super::{listening_on, report};

    #[test]
    fn ready_lines_have_addresses() {
        let address = Some("127.0.0.1:81".parse().unwrap());
        assert_eq!(listening_on("listening on http://127.0.0.1:81 driver=mio workers=2\n"), address);
        assert_eq!(listening_on("listening on 127.0.0.1:81 to=127.0.0.1:82 driver=mio\n"), address);
        assert_eq!(listening_on("error: in use\n"), None);
    }

    #[test]
    fn a_report_says_what_is_left() {
        assert_eq!(report("memory charged=7 fixed=7 peak=9 leaked=0 in_flight=0"), Ok(()));
        for left in ["charged=8 fixed=7 peak=9 leaked=0 in_flight=0", "charged=1 fixed=7 peak=9 leaked=1 in_flight=0"] {
            assert!(report(&format!("memory {left}")).unwrap_err().starts_with("something is left"));
        }
        assert!(report("memory charged=1 fixed=7 peak=9 leaked=0 in_flight=1").is_err());
        assert!(report("Segmentation fault").unwrap_err().starts_with("no report"));
    }
}
