//! The memory limit of the container that the process runs in: control groups, version 2 and 1.
//!
//! From `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst` of the kernel. Every level counts: the lowest limit on the way to
//! the root is the process's.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

/// Version 1 says "no limit" with a number near 2^63.
const NO_LIMIT_FROM: u64 = 1 << 60;

/// The lowest limit above this process; `None` if there is none, or it cannot be read.
pub(crate) fn memory_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().filter_map(parse_group).filter_map(|group| lowest(&group, Path::new("/sys/fs/cgroup")));
    limits.min()
}

/// A control group that limits memory.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    /// Of its hierarchy, below where they are mounted.
    mount: &'static str,
    file: &'static str,
    path: &'a str,
}

/// A line of `/proc/self/cgroup`: number, controllers, path.
fn parse_group(line: &str) -> Option<Group<'_>> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = path.trim_start_matches('/');
    if number == "0" && controllers.is_empty() {
        return Some(Group { mount: "", file: "memory.max", path });
    }
    let is_memory = controllers.split(',').any(|controller| controller == "memory");
    is_memory.then_some(Group { mount: "memory", file: "memory.limit_in_bytes", path })
}

/// The lowest limit of a group and those above it. Inside of a container the path may not exist: then only the root is seen, which is the
/// container's own.
fn lowest(group: &Group<'_>, root: &Path) -> Option<u64> {
    let mount = root.join(group.mount);
    let at = mount.join(group.path);
    let above = at.ancestors().take_while(|path| path.starts_with(&mount));
    let limits = above.filter_map(|path| fs::read_to_string(path.join(group.file)).ok());
    limits.filter_map(|text| parse_limit(&text)).min()
}

/// `max`, or a number of bytes.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| (1..NO_LIMIT_FROM).contains(bytes))
}

#[cfg(test)]
mod tests;
