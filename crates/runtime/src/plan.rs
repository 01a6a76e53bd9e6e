//! The plan: what memory goes to before the first connection, and how many connections fit under the rest.
#![forbid(unsafe_code)]

use core::fmt;

use plimsoll_pool::{Budget, Kind, MemoryLimit};
use plimsoll_reactor::{DriverKind, OPERATION_BYTES, READINESS_BYTES, WATCH_BYTES};
use plimsoll_slab::CHUNK_BYTES;

use crate::container::ContainerLimit;

/// What the kernel holds for a connected TCP socket with its descriptor, on Linux 6.18, without unread bytes.
const KERNEL_SOCKET_BYTES: u64 = 3_850;
/// An armed io_uring receive; an epoll registration.
const KERNEL_RECEIVE_BYTES: u64 = 864;
const KERNEL_EPOLL_BYTES: u64 = 208;

/// When a consumer's bytes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// From the start.
    Fixed,
    /// For every connection.
    Parked,
    /// For a connection while it is worked on, on top of what it holds parked.
    Active,
    /// For a connection that is unlike the others, on top of what those hold, or where something is asked for; in none
    /// of the sums.
    Apart,
}

/// One consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When.
    pub part: Part,
    /// Who: lower case, no blanks, once in a plan.
    pub name: &'static str,
    /// How much.
    pub bytes: u64,
}

/// A sum with one row for each consumer of memory. Made by [`Runtime::plan`](crate::Runtime::plan); servers add
/// [rows](Self::with) of their own.
///
/// Its text is a `name bytes` line for each row, then the sums, then the rows that are [apart](Part::Apart).
///
/// ```
/// use plimsoll_runtime::plan::Part;
/// use plimsoll_runtime::{MemoryLimit, Runtime};
///
/// let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(8)).build()?;
/// let plan = runtime.plan().with(Part::Parked, "my_entry", 64).with(Part::Active, "my_buffer", 4_096);
/// assert!(plan.active_exchange() >= plan.parked_connection() + 4_096);
/// assert_eq!(plan.active_max(), (plan.line_bytes() - plan.fixed()) / plan.active_exchange());
/// assert!(plan.to_string().contains("my_entry 64\n"));
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    line: MemoryLimit,
    container: Option<ContainerLimit>,
    kernel_per_connection: u64,
    rows: Vec<Row>,
}

impl Plan {
    /// What the memory of a runtime goes to, as far as it knows.
    pub(crate) fn of_runtime(budget: &Budget, container: Option<ContainerLimit>, kind: DriverKind) -> Self {
        let mut plan = Self {
            line: budget.limit(),
            container,
            kernel_per_connection: kernel_per_connection(kind),
            rows: Vec::new(),
        };
        for of in Kind::ALL {
            plan = plan.with(Part::Fixed, fixed_name(of), budget.charged_by(of));
        }
        let readiness = match kind {
            DriverKind::Mio => READINESS_BYTES as u64,
            DriverKind::Uring => WATCH_BYTES as u64,
            DriverKind::Sim => 0,
        };
        plan.with(Part::Parked, "armed_receive", page_share(OPERATION_BYTES as u64))
            .with(Part::Parked, "readiness", readiness)
            .with(Part::Active, "send_operation", page_share(OPERATION_BYTES as u64))
    }

    /// The same with one consumer more; one of 0 bytes is left out.
    ///
    /// # Panics
    ///
    /// If there is a consumer of this name.
    #[must_use]
    pub fn with(mut self, part: Part, name: &'static str, bytes: u64) -> Self {
        assert!(self.rows.iter().all(|row| row.name != name), "{name} is in the plan twice");
        if bytes > 0 {
            self.rows.push(Row { part, name, bytes });
        }
        self
    }

    /// The consumers: fixed parts, then those of parked connections, then those of active ones, then those that are
    /// apart; each in the order in which they were added.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let of = |part| self.rows.iter().copied().filter(move |row| row.part == part);
        of(Part::Fixed).chain(of(Part::Parked)).chain(of(Part::Active)).chain(of(Part::Apart))
    }

    /// The memory line.
    #[must_use]
    pub fn line_bytes(&self) -> u64 {
        self.line.as_bytes()
    }

    /// Bytes held from the start.
    #[must_use]
    pub fn fixed(&self) -> u64 {
        self.sum(Part::Fixed)
    }

    /// Bytes of a connection that waits for its next request.
    #[must_use]
    pub fn parked_connection(&self) -> u64 {
        self.sum(Part::Parked)
    }

    /// Bytes of a connection that is worked on, all in.
    #[must_use]
    pub fn active_exchange(&self) -> u64 {
        self.parked_connection() + self.sum(Part::Active)
    }

    /// What the kernel holds for a parked connection, about. Not under the line, but under a container's limit.
    #[must_use]
    pub fn kernel_per_connection(&self) -> u64 {
        self.kernel_per_connection
    }

    /// How many parked connections fit under the line, and under the container's limit with the kernel's part.
    #[must_use]
    pub fn parked_max(&self) -> u64 {
        self.fit(self.parked_connection())
    }

    /// How many active ones fit.
    #[must_use]
    pub fn active_max(&self) -> u64 {
        self.fit(self.active_exchange())
    }

    fn sum(&self, part: Part) -> u64 {
        self.rows.iter().filter(|row| row.part == part).map(|row| row.bytes).sum()
    }

    fn fit(&self, connection_bytes: u64) -> u64 {
        let under_line = self.line_bytes().saturating_sub(self.fixed()) / connection_bytes.max(1);
        let kernel_bytes = self.container.map(|container| container.kernel_bytes_max(self.line_bytes()));
        kernel_bytes.map_or(under_line, |bytes| under_line.min(bytes / self.kernel_per_connection))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.rows().filter(|row| row.part != Part::Apart) {
            writeln!(f, "{} {}", row.name, row.bytes)?;
        }
        writeln!(f, "fixed {}", self.fixed())?;
        writeln!(f, "parked_connection {}", self.parked_connection())?;
        writeln!(f, "active_exchange {}", self.active_exchange())?;
        writeln!(f, "kernel_per_connection {}", self.kernel_per_connection)?;
        writeln!(f, "parked_max {}", self.parked_max())?;
        writeln!(f, "active_max {}", self.active_max())?;
        for row in self.rows().filter(|row| row.part == Part::Apart) {
            writeln!(f, "{} {}", row.name, row.bytes)?;
        }
        Ok(())
    }
}

/// What the kernel holds for a parked connection, about: the socket, its descriptor, and what is armed on it. Measured
/// on Linux 6.18.
#[must_use]
pub fn kernel_per_connection(kind: DriverKind) -> u64 {
    KERNEL_SOCKET_BYTES + if kind == DriverKind::Uring { KERNEL_RECEIVE_BYTES } else { KERNEL_EPOLL_BYTES }
}

/// The bytes of a chunk of a table (4 KiB of the pool, whatever the size of the system's pages) that fall to one of
/// its entries.
#[must_use]
pub const fn page_share(entry_bytes: u64) -> u64 {
    let chunk_bytes = CHUNK_BYTES as u64;
    chunk_bytes.div_ceil(chunk_bytes / entry_bytes)
}

/// What is charged before the first connection.
const fn fixed_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fixed => "tables",
        Kind::Buffers => "free_pages",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests;
