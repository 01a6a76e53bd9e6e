//! What the system says this process holds, told apart: memory of its own, and pages of files.
//!
//! Source: the kernel's document `filesystems/proc.rst` (`/proc/PID/status`).
#![forbid(unsafe_code)]

use core::fmt;

/// Resident memory of this process, in bytes. Their sum is what is called its RSS, which tells little about a leak:
/// what grows for a while under load is [`file_bytes`](Self::file_bytes), as more of the program's code is used.
///
/// ```
/// use plimsoll_runtime::Resident;
///
/// let resident = Resident::of_process().expect("procfs is mounted");
/// assert!(resident.anonymous_bytes > 0 && resident.file_bytes > 0);
/// assert!(resident.to_string().starts_with("resident anonymous="));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resident {
    /// Memory of the process alone: all that the memory line counts but rings, and what it does not count, as the
    /// program's own heap, the first thread's stack and changed data of the program. This is where a leak shows, beside
    /// what the allocator of the heap keeps of what was freed.
    pub anonymous_bytes: u64,
    /// Pages of files that are mapped: code and constants of the program and its libraries, which the kernel reads when
    /// they are used, shares between processes and drops when it is short; and the rings of io_uring, which the line
    /// counts.
    pub file_bytes: u64,
    /// Memory that is shared with other processes. The runtime has none.
    pub shared_bytes: u64,
    /// The most that all three together ever were.
    pub peak_bytes: u64,
}

impl Resident {
    /// What this process holds now; `None` without procfs. It costs a few microseconds.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
        };
        Some(Self {
            anonymous_bytes: bytes("RssAnon")?,
            file_bytes: bytes("RssFile")?,
            shared_bytes: bytes("RssShmem")?,
            peak_bytes: bytes("VmHWM")?,
        })
    }
}

impl fmt::Display for Resident {
    /// `resident anonymous=N file=N shared=N peak=N`, in bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { anonymous_bytes, file_bytes, shared_bytes, peak_bytes } = self;
        write!(f, "resident anonymous={anonymous_bytes} file={file_bytes} shared={shared_bytes} peak={peak_bytes}")
    }
}

#[cfg(test)]
mod tests;
