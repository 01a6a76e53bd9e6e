//! What the kernel says about a process, in `/proc`.

use std::collections::BTreeMap;

use procfs::process::{ClearRefs, LimitValue, Process, Status};
use procfs::{ProcError, ProcResult};

/// Time on a core, for each thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    /// Nanoseconds by thread.
    threads: BTreeMap<i32, u64>,
}

impl CpuTime {
    /// Of a process now. Threads of the kernel that work for its rings are among its threads.
    pub(super) fn of(pid: u32) -> ProcResult<CpuTime> {
        let mut threads = BTreeMap::new();
        for task in process(pid)?.tasks()? {
            match task.and_then(|task| Ok((task.tid, task.schedstat()?.sum_exec_runtime))) {
                Ok((thread, on_cpu_ns)) => drop(threads.insert(thread, on_cpu_ns)),
                // A thread may end between the listing and this.
                Err(ProcError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(CpuTime { threads })
    }

    /// Nanoseconds since an earlier reading. What a thread used that has ended since then is lost; a new one counts in
    /// full.
    pub(super) fn since(&self, earlier: &CpuTime) -> u64 {
        let before = |thread| earlier.threads.get(thread).copied().unwrap_or(0);
        self.threads.iter().map(|(thread, now)| now.saturating_sub(before(thread))).sum()
    }
}

/// Time in user space and in the kernel, in the clock ticks of `/proc`. What the ticks are does not matter for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    user: u64,
    kernel: u64,
}

impl Ticks {
    /// Of a process now, all threads together, and those that have ended.
    pub(super) fn of(pid: u32) -> ProcResult<Ticks> {
        let stat = process(pid)?.stat()?;
        Ok(Ticks { user: stat.utime, kernel: stat.stime })
    }

    /// The share of the kernel since an earlier reading, 0 to 1; none if there was no tick.
    pub(super) fn kernel_share_since(self, earlier: Ticks) -> Option<f64> {
        let kernel = self.kernel.saturating_sub(earlier.kernel);
        let all = kernel + self.user.saturating_sub(earlier.user);
        (all > 0).then(|| kernel as f64 / all as f64)
    }
}

/// The memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Resident now.
    pub(super) rss_bytes: u64,
    /// The most that was resident.
    pub(super) peak_rss_bytes: u64,
    /// Resident now, what is shared with others in parts.
    pub(super) pss_bytes: u64,
    /// Of it, what belongs to no file.
    pub(super) anonymous_bytes: u64,
}

impl Memory {
    /// Of a process now.
    pub(super) fn of(pid: u32) -> ProcResult<Memory> {
        let rollup = process(pid)?.smaps_rollup()?.memory_map_rollup;
        let bytes = |name| rollup.0.first().and_then(|sum| sum.extension.map.get(name).copied()).ok_or(ABSENT);
        Ok(Memory {
            rss_bytes: bytes("Rss")?,
            peak_rss_bytes: status_bytes(pid, |status| status.vmhwm)?,
            pss_bytes: bytes("Pss")?,
            anonymous_bytes: bytes("Anonymous")?,
        })
    }
}

/// A figure of `status` that is in KiB, in bytes.
pub(crate) fn status_bytes(pid: u32, kib: impl Fn(&Status) -> Option<u64>) -> ProcResult<u64> {
    kib(&process(pid)?.status()?).and_then(|kib| kib.checked_mul(1024)).ok_or(ABSENT)
}

/// Makes `VmHWM` of a process what `VmRSS` is.
pub(super) fn reset_peak(pid: u32) -> ProcResult<()> {
    process(pid)?.clear_refs(ClearRefs::PeakRSS)
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
    pub(super) fn now() -> ProcResult<OpenFiles> {
        let limit = Process::myself()?.limits()?.max_open_files;
        let number = |limit| if let LimitValue::Value(number) = limit { number } else { u64::MAX };
        Ok(OpenFiles { soft: number(limit.soft_limit), hard: number(limit.hard_limit) })
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

fn process(pid: u32) -> ProcResult<Process> {
    Process::new(pid as i32)
}

/// A kernel that does not say it.
const ABSENT: ProcError = ProcError::Incomplete(None);

#[cfg(test)]
mod tests;
