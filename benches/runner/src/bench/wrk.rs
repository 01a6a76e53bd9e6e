//! wrk: what it is told, and what it says.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::loads::{Generator, PROFILES};
use super::placement::Placement;

/// What one run of wrk found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Answered requests.
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    /// The median of the latency, corrected as the next.
    pub(super) p50_us: Option<f64>,
    /// As wrk corrects it: each answer that took more than twice the mean interval of its connection counts again for
    /// every interval in it, as if requests had come on time. None for a pipeline: wrk times a whole batch but takes
    /// the interval of one request, so its correction goes below the smallest time and the percentile is wrong, often
    /// 0.
    pub(super) p99_us: Option<f64>,
    pub(super) errors: Errors,
}

/// What must not happen, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Errors {
    pub(super) connect: u64,
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) timeout: u64,
    /// Answers with another status than 2xx or 3xx.
    pub(super) status: u64,
}

impl Errors {
    pub(super) fn total(self) -> u64 {
        self.connect + self.read + self.write + self.timeout + self.status
    }

    pub(super) fn plus(self, other: Errors) -> Errors {
        Errors {
            connect: self.connect + other.connect,
            read: self.read + other.read,
            write: self.write + other.write,
            timeout: self.timeout + other.timeout,
            status: self.status + other.status,
        }
    }
}

/// wrk on its core.
#[derive(Debug)]
pub(super) struct Wrk {
    placement: Placement,
    scripts: PathBuf,
}

impl Wrk {
    /// Writes the scripts that the profiles need into a directory.
    pub(super) fn new(placement: &Placement, scripts: &Path) -> Result<Wrk, String> {
        let wrk = Wrk { placement: *placement, scripts: scripts.to_owned() };
        for profile in PROFILES {
            if let Generator::Wrk { depth, .. } = profile.generator
                && depth > 1
            {
                let path = wrk.script(depth);
                fs::write(&path, script(depth)).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(wrk)
    }

    /// Begins to load a server for some time.
    pub(super) fn start(&self, load: Load<'_>, address: SocketAddr, seconds: u32) -> Result<Loading, String> {
        let mut command = self.placement.load_command(Path::new("wrk"));
        command.args(["--threads", "1", "--latency"]);
        command.args(["--connections", &load.connections.to_string()]);
        command.args(["--duration", &format!("{seconds}s")]);
        if load.depth > 1 {
            command.arg("--script").arg(self.script(load.depth));
        }
        command.arg(format!("http://{address}{}", load.target));
        let parse =
            if load.depth > 1 { |said: &str| Run::parse(said, true) } else { |said: &str| Run::parse(said, false) };
        Loading::start("wrk", &mut command, seconds, parse)
    }

    fn script(&self, depth: u32) -> PathBuf {
        self.scripts.join(format!("pipelined-{depth}.lua"))
    }
}

/// What wrk sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) target: &'a str,
    pub(super) connections: u32,
    /// Requests that a connection sends at once; at least 1.
    pub(super) depth: u32,
}

/// wrk, or another program of its kind, at work. It ends with this value.
#[derive(Debug)]
pub(super) struct Loading {
    process: Process,
    /// Reads what it says in the end.
    parse: fn(&str) -> Option<Run>,
}

impl Loading {
    /// Starts a program that loads a server for so many seconds.
    pub(super) fn start(
        name: &'static str,
        command: &mut Command,
        seconds: u32,
        parse: fn(&str) -> Option<Run>,
    ) -> Result<Loading, String> {
        Ok(Loading { process: Process::start(name, command, Duration::from_secs(seconds.into()) + GRACE)?, parse })
    }

    /// Waits for the end.
    pub(super) fn finish(self) -> Result<Run, String> {
        let (name, parse) = (self.process.name, self.parse);
        let said = self.process.output()?;
        parse(&said).ok_or_else(|| format!("{name} says something else than what is known here:\n{said}"))
    }
}

impl Run {
    /// From what wrk prints with `--latency`.
    pub(super) fn parse(said: &str, pipelined: bool) -> Option<Run> {
        let after = |label: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim);
        let requests = said.lines().find_map(|line| line.split_once(" requests in "))?.0.trim().parse().ok()?;
        let mut errors = match after("Socket errors:") {
            Some(list) => socket_errors(list)?,
            None => Errors::default(),
        };
        if let Some(count) = after("Non-2xx or 3xx responses:") {
            errors.status = count.parse().ok()?;
        }
        let requests_per_second = after("Requests/sec:")?.parse().ok()?;
        let percentile = |label| microseconds(after(label)?);
        let (p50, p99) = (percentile("50%")?, percentile("99%")?);
        let latency = |us| (!pipelined).then_some(us);
        Some(Run { requests, requests_per_second, p50_us: latency(p50), p99_us: latency(p99), errors })
    }
}

/// What to install when there is no wrk.
pub(super) fn missing() -> Option<&'static str> {
    // It answers `--version` with its usage and an exit code of 1.
    let mut command = Command::new("wrk");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_err().then_some("no wrk: apt-get install wrk")
}

/// A script that makes wrk send so many requests at once.
fn script(depth: u32) -> String {
    format!(
        "local batch\n\
         init = function(args)\n  \
         batch = string.rep(wrk.format(\"GET\"), {depth})\n\
         end\n\
         request = function()\n  \
         return batch\n\
         end\n"
    )
}

/// `connect 0, read 3, write 0, timeout 1`.
fn socket_errors(list: &str) -> Option<Errors> {
    let mut errors = Errors::default();
    for item in list.split(", ") {
        let (name, count) = item.split_once(' ')?;
        let place = match name {
            "connect" => &mut errors.connect,
            "read" => &mut errors.read,
            "write" => &mut errors.write,
            "timeout" => &mut errors.timeout,
            _ => return None,
        };
        *place = count.parse().ok()?;
    }
    Some(errors)
}

/// A time as wrk writes it: `731.00us`, `1.21ms`, `2.00s`, `1.50m`.
fn microseconds(text: &str) -> Option<f64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        _ => return None,
    };
    text[..unit].parse::<f64>().ok().map(|value| value * factor)
}

/// A program that prints less than a pipe holds and ends in time.
#[derive(Debug)]
struct Process {
    name: &'static str,
    child: Child,
    deadline: Instant,
}

impl Process {
    fn start(name: &'static str, command: &mut Command, timeout: Duration) -> Result<Process, String> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = spawned.map_err(|error| format!("{name} did not start: {error}"))?;
        Ok(Process { name, child, deadline: Instant::now() + timeout })
    }

    /// What it prints; it is waited for.
    fn output(mut self) -> Result<String, String> {
        self.wait()?;
        let mut said = String::new();
        match self.child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut said)) {
            Some(Ok(_)) => Ok(said),
            _ => Err(format!("{} says nothing that can be read", self.name)),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("{} ended with {status}", self.name)),
                Ok(None) if Instant::now() < self.deadline => thread::sleep(POLL),
                Ok(None) => return Err(format!("{} still runs long after its time", self.name)),
                Err(error) => return Err(format!("{} cannot be waited for: {error}", self.name)),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// How much longer than it should such a program may take.
const GRACE: Duration = Duration::from_secs(15);
/// Between two looks at it.
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
