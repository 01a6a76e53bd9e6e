//! What a container's memory limit leaves for the line: files of cgroups, version 2 and 1.
//!
//! The limit counts all memory of the container: ours, the program's own heap and code, files in the page cache, and
//! what the kernel holds for sockets. So the line gets a part of it, and connections the kernel's part of another.
//!
//! Sources: the kernel's documents `admin-guide/cgroup-v2.rst` (`memory.max`) and `admin-guide/cgroup-v1/memory.rst`
//! (`memory.limit_in_bytes`), cgroups(7).
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

/// The line takes at most this part of the limit.
const LINE_PERCENT: u64 = 60;
/// The line and the kernel's memory for connections together take at most this part.
const CHARGED_PERCENT: u64 = 80;
/// Limits from here on are none: version 1 writes the largest number of whole pages.
const UNLIMITED_BYTES: u64 = 1 << 62;

/// A limit on the memory of the container that this process runs in.
///
/// ```
/// use plimsoll_runtime::ContainerLimit;
///
/// let container = ContainerLimit { bytes: 100 << 20 };
/// assert_eq!(container.line_bytes_max(), 60 << 20);
/// assert_eq!(container.kernel_bytes_max(32 << 20), 48 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerLimit {
    /// The lowest limit of the process's cgroup and those above it.
    pub bytes: u64,
}

impl ContainerLimit {
    /// The limit of the calling process, `None` without one.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        Self::under(Path::new("/"))
    }

    /// The highest line that leaves room for everything else: 60 % of the limit.
    #[must_use]
    pub const fn line_bytes_max(self) -> u64 {
        percent_of(self.bytes, LINE_PERCENT)
    }

    /// What the kernel may hold for connections beside a line: both together are 80 % of the limit.
    #[must_use]
    pub const fn kernel_bytes_max(self, line_bytes: u64) -> u64 {
        percent_of(self.bytes, CHARGED_PERCENT).saturating_sub(line_bytes)
    }

    /// As [`of_process`](Self::of_process), with `root` for the root of the file system.
    pub(crate) fn under(root: &Path) -> Option<Self> {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        groups.lines().filter_map(|line| lowest_limit(root, line)).min().map(|bytes| Self { bytes })
    }
}

/// The lowest limit in the hierarchy that a line of `/proc/self/cgroup` names: `number:controllers:path`.
fn lowest_limit(root: &Path, line: &str) -> Option<u64> {
    let (_number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    let mount = root.join(mount);
    // Inside of a container the path may be that of the host, which is not there: what is mounted begins at the
    // container's own group then.
    let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
    ancestors.filter_map(|group| limit_in(&mount.join(group).join(file))).min()
}

fn limit_in(file: &Path) -> Option<u64> {
    // "max" is no number, and no limit.
    let bytes = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (bytes < UNLIMITED_BYTES).then_some(bytes)
}

const fn percent_of(bytes: u64, percent: u64) -> u64 {
    bytes / 100 * percent + bytes % 100 * percent / 100
}

#[cfg(test)]
mod tests;
