//! The plan: what the memory goes to before the first connection, and how many connections fit under the rest.

use std::fmt::Write;

use plimsoll::http::{CONNECTION_BYTES, EXCHANGE_BYTES};
use plimsoll::pool::{Class, Kind};
use plimsoll::reactor::{DriverKind, OPERATION_BYTES, READINESS_BYTES};
use plimsoll::{Error, Runtime};

use crate::routes::ANSWER_BYTES;

/// A head with its field slots, and the answer that is gathered for it: the first class that either takes.
const HEAD_BYTES: u64 = 1_024;
const OUTPUT_BYTES: u64 = 1_024;
/// What a task's cell holds beside the handler's future: its header, its output and the way back to the connection.
const TASK_BYTES: usize = 256;
/// What the kernel holds for a connected TCP socket with its descriptor, on Linux 6.18, without unread bytes.
pub(crate) const KERNEL_SOCKET_BYTES: u64 = 3_850;
/// An armed io_uring receive; an epoll registration.
const KERNEL_RECEIVE_BYTES: u64 = 864;
const KERNEL_EPOLL_BYTES: u64 = 208;

/// The plan of a runtime that has just been made.
pub(crate) fn of(runtime: &Runtime) -> Result<String, Error> {
    let budget = runtime.budget();
    let kind = runtime.driver().kind;
    let mut plan = Plan(String::new());
    let fixed = plan
        .sum(Kind::ALL.map(|of| (fixed_name(of), budget.charged_by(of))).into_iter().filter(|(_, bytes)| *bytes > 0));
    let parked = plan.sum([
        ("connection_entry", page_share(CONNECTION_BYTES as u64)),
        ("armed_receive", page_share(OPERATION_BYTES as u64)),
        ("readiness", if kind == DriverKind::Mio { READINESS_BYTES as u64 } else { 0 }),
    ]);
    let working = plan.sum([
        ("exchange", class_bytes(EXCHANGE_BYTES)),
        ("request_head", HEAD_BYTES),
        ("output", OUTPUT_BYTES),
        ("handler_task", class_bytes(ANSWER_BYTES + TASK_BYTES)),
        ("send_operation", page_share(OPERATION_BYTES as u64)),
    ]);
    let active = parked + working;
    let free = budget.limit().as_bytes().saturating_sub(fixed);
    plan.line("fixed", fixed);
    plan.line("parked_connection", parked);
    plan.line("active_exchange", active);
    plan.line("kernel_per_connection", kernel_per_connection(kind));
    plan.line("parked_max", free / parked);
    plan.line("active_max", free / active);
    Ok(plan.0)
}

/// The bytes of the smallest class that takes `bytes`.
fn class_bytes(bytes: usize) -> u64 {
    Class::for_len(bytes).map_or(bytes, Class::bytes) as u64
}

/// What the kernel holds for a parked connection, about.
pub(crate) fn kernel_per_connection(kind: DriverKind) -> u64 {
    let armed = if kind == DriverKind::Uring { KERNEL_RECEIVE_BYTES } else { KERNEL_EPOLL_BYTES };
    KERNEL_SOCKET_BYTES + armed
}

/// What is charged before the first connection.
const fn fixed_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Fixed => "tables",
        Kind::Buffers => "free_pages",
        other => other.name(),
    }
}

/// The bytes of a page that fall to one of its entries.
const fn page_share(entry_bytes: u64) -> u64 {
    4_096_u64.div_ceil(4_096 / entry_bytes)
}

struct Plan(String);

impl Plan {
    fn line(&mut self, name: &str, value: u64) {
        let written = writeln!(self.0, "{name} {value}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }

    /// A line for each consumer; their sum.
    fn sum<'a>(&mut self, consumers: impl IntoIterator<Item = (&'a str, u64)>) -> u64 {
        let mut sum = 0;
        for (name, bytes) in consumers {
            self.line(name, bytes);
            sum += bytes;
        }
        sum
    }
}
