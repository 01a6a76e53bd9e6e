//! Which cores the servers and the load run on, and what machine that is.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use procfs::{Current, Meminfo};
use serde::{Deserialize, Serialize};

use super::proc;

/// Who runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Servers on one core, the load on another.
    Pinned {
        /// The core of the servers.
        server: usize,
        /// The core of the load.
        load: usize,
    },
    /// There is one core: they take it from each other.
    Unpinned,
}

/// The machine that a report is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) cpu: String,
    /// Of the machine.
    pub(super) memory_mib: u64,
    /// Cores that this program may use.
    pub(super) cores: usize,
    pub(super) server_core: Option<usize>,
    pub(super) load_core: Option<usize>,
}

impl Placement {
    /// Takes the cores that this program may use.
    pub(super) fn here() -> Result<Placement, String> {
        let cores = cores()?;
        Ok(Placement::choose(&cores, |core| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            fs::read_to_string(path).ok().and_then(|list| proc::core_list(&list)).unwrap_or_default()
        }))
    }

    /// The last core is for the servers, as the first ones have most interrupts; wrk has one that is not its sibling,
    /// if there is.
    fn choose(cores: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Placement {
        let Some((&server, others)) = cores.split_last() else { return Placement::Unpinned };
        let siblings = siblings(server);
        let apart = others.iter().rev().find(|core| !siblings.contains(core));
        match apart.or(others.last()) {
            Some(&load) => Placement::Pinned { server, load },
            None => Placement::Unpinned,
        }
    }

    /// A program where the servers run.
    pub(super) fn server_command(&self, program: &Path) -> Command {
        self.command(program, |server, _| server)
    }

    /// A program where wrk runs.
    pub(super) fn load_command(&self, program: &Path) -> Command {
        self.command(program, |_, load| load)
    }

    /// `setpriv` and `taskset` become the program, so the process that is started is the program itself.
    fn command(&self, program: &Path, core: impl Fn(usize, usize) -> usize) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Placement::Pinned { server, load } = *self {
            command.args(["taskset", "-c", &core(server, load).to_string()]);
        }
        command.arg(program);
        command
    }

    /// This program's own core is that of the load from now on: where the servers run, it would disturb them.
    pub(super) fn stay_away(&self) {
        if let Placement::Pinned { load, .. } = *self {
            let mut command = Command::new("taskset");
            command.args(["-cp", &load.to_string(), &std::process::id().to_string()]);
            // It is only better so.
            let _status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }

    /// The machine, for the report.
    pub(super) fn describe(&self) -> Result<Machine, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let (server_core, load_core) = match *self {
            Placement::Pinned { server, load } => (Some(server), Some(load)),
            Placement::Unpinned => (None, None),
        };
        Ok(Machine {
            kernel: read("/proc/sys/kernel/osrelease").split('-').next().unwrap_or_default().trim().to_owned(),
            cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.to_owned()),
            memory_mib: Meminfo::current().map_or(0, |memory| memory.mem_total >> 20),
            cores: cores()?.len(),
            server_core,
            load_core,
        })
    }
}

/// Processes that wanted to run, over the last minute: well above 1 before a start means that others disturb.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// What to install when a program is missing that places processes.
pub(crate) fn missing() -> Option<&'static str> {
    let all = ["taskset", "setpriv", "prlimit"].iter().all(|program| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    (!all).then_some("no taskset, setpriv or prlimit: apt-get install util-linux")
}

/// Lets this program and what it starts have so many files open, as far as the hard limit goes. Who needs them asks
/// afterwards how many there are, so it is no error if it does not work.
pub(crate) fn raise_open_files(wanted: u64) {
    let Ok(limit) = proc::OpenFiles::now() else { return };
    if limit.soft < wanted {
        let pid = std::process::id().to_string();
        let nofile = format!("--nofile={}:{}", wanted.min(limit.hard), limit.hard);
        let mut command = Command::new("prlimit");
        command.args(["--pid", &pid, &nofile]).stdin(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("prlimit {nofile} failed: {} files may be open", limit.soft);
        }
    }
}

fn cores() -> Result<Vec<usize>, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(proc::core_list).ok_or_else(|| "/proc/self/status has no Cpus_allowed_list".to_owned())
}

#[cfg(test)]
mod tests;
