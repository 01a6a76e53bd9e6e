//! What the kernel says about a process, in `/proc`.

use std::collections::BTreeMap;
use std::{fs, io};

/// Time on a core, for each thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    /// Nanoseconds by thread.
    threads: BTreeMap<u32, u64>,
}

impl CpuTime {
    /// Of a process now. Threads of the kernel that work for its rings are among its threads.
    pub(super) fn of(pid: u32) -> io::Result<CpuTime> {
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let entry = entry?;
            let thread = entry.file_name().to_str().and_then(|name| name.parse().ok()).ok_or_else(malformed)?;
            match fs::read_to_string(entry.path().join("schedstat")) {
                Ok(text) => drop(threads.insert(thread, on_cpu_ns(&text).ok_or_else(malformed)?)),
                // A thread may end between the listing and this.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(CpuTime { threads })
    }

    /// Nanoseconds since an earlier reading. What a thread used that has ended since then is lost; a new one counts in full.
    pub(super) fn since(&self, earlier: &CpuTime) -> u64 {
        let before = |thread| earlier.threads.get(thread).copied().unwrap_or(0);
        self.threads.iter().map(|(thread, now)| now.saturating_sub(before(thread))).sum()
    }
}

/// Anonymous bytes of a process that are resident now.
pub(super) fn anonymous_bytes(pid: u32) -> io::Result<u64> {
    anonymous(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?).ok_or_else(malformed)
}

/// A figure of `status` that is in kB, such as `VmRSS`, in bytes.
pub(super) fn status_bytes(pid: u32, name: &str) -> io::Result<u64> {
    kib_line(&fs::read_to_string(format!("/proc/{pid}/status"))?, name).ok_or_else(malformed)
}

/// Makes `VmHWM` of a process what `VmRSS` is: see proc(5), `clear_refs`.
pub(super) fn reset_peak(pid: u32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

/// How many files a process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) soft: u64,
    /// `u64::MAX`: unlimited.
    pub(super) hard: u64,
}

impl OpenFiles {
    /// Of this process.
    pub(super) fn now() -> io::Result<OpenFiles> {
        OpenFiles::parse(&fs::read_to_string("/proc/self/limits")?).ok_or_else(malformed)
    }

    /// From the text of `limits`.
    fn parse(limits: &str) -> Option<OpenFiles> {
        let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
        let mut words = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace();
        Some(OpenFiles { soft: number(words.next()?)?, hard: number(words.next()?)? })
    }
}

/// The numbers of a list such as `0-2,5`.
pub(super) fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cores)
}

/// The first field of `schedstat`: nanoseconds on a core. (The others are the time spent waiting for one, and the turns.)
fn on_cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// The line `Anonymous: N kB` of `smaps_rollup`, in bytes.
fn anonymous(smaps_rollup: &str) -> Option<u64> {
    kib_line(smaps_rollup, "Anonymous")
}

/// The line `NAME: N kB`, in bytes.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not in the form that is known here")
}

#[cfg(test)]
mod tests;
