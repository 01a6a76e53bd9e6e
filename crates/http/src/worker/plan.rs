//! The plan of a server: what its connections add to the runtime's.

use plimsoll_pool::Queue;
use plimsoll_runtime::Runtime;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::plan::{Part, Plan, page_share};

use crate::base::config::Config;
use crate::h1::active::EXCHANGE_BYTES;
use crate::h2::{FEW_STREAMS_BYTES, HTTP2_PARKED_BYTES, STREAM_BYTES, TABLES_BYTES};
use crate::memory::answer_reserve;
use crate::memory::by_address::Crowd;
use crate::memory::lasting::{Lasting, Sort};
use crate::memory::reserved_routes::Slots;
use crate::memory::waits::{PLACES, Waits};
use crate::worker::connection::{CONNECTION_BYTES, Connection};
use crate::worker::pressure::Pace;
use crate::worker::stay_bytes::{TASK_BYTES, class_bytes, stay_bytes, waiting_handler_bytes};
use crate::worker::turns::Turns;

/// A head with its field slots, and the answer that is gathered for it: the first class that either takes.
const HEAD_BYTES: u64 = 1_024;
const OUTPUT_BYTES: u64 = 1_024;

/// What the tables of HPACK of a parked connection hold with most clients: some fields of requests, and of responses
/// the date and a type.
const PACKED_TABLES_BYTES: u64 = 512;

/// The plan of a runtime that is about to serve HTTP, with handlers whose futures have `handler_bytes`.
///
/// An active exchange is counted with a head and an answer of 1 KiB each; longer ones take more as they come.
/// Connections of HTTP/2 are apart: what a parked one holds beside its entry, with tables of HPACK of 512 bytes (at
/// most 8 KiB), what one with streams holds more, and each stream. So are what all workers keep if some route is
/// marked, and with how many bytes each connection that stays is counted among those.
///
/// With TLS there is also what a listener for it keeps, what a connection holds beside its entry (but for its client's
/// certificates), and what it may hold until its handshake is over.
///
/// ```
/// use plimsoll_runtime::{MemoryLimit, Runtime};
///
/// let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(8)).build()?;
/// let plan = plimsoll_http::plan(&runtime, 500);
/// assert!(plan.parked_connection() <= 200 && plan.parked_max() > 10_000, "{plan}");
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[must_use]
pub fn plan(runtime: &Runtime, handler_bytes: usize) -> Plan {
    let workers = runtime.workers() as u64;
    let share = runtime.budget().limit().as_bytes() / workers;
    let lasting = Lasting::new(stay_bytes());
    lasting.know_handlers(waiting_handler_bytes(handler_bytes));
    let counted = |sort| lasting.bytes_of(sort) as u64;
    let plan = runtime
        .plan()
        .with(Part::Fixed, "answer_reserve", workers * answer_reserve::bytes(share))
        .with(
            Part::Fixed,
            "progress_reserve",
            workers * answer_reserve::progress_bytes(share, Config::default().progress_reserve_bytes),
        )
        .with(Part::Fixed, "server_lists", workers * lists_bytes(share))
        .with(Part::Parked, "connection_entry", page_share(CONNECTION_BYTES as u64))
        .with(Part::Active, "exchange", class_bytes(EXCHANGE_BYTES))
        .with(Part::Active, "request_head", HEAD_BYTES)
        .with(Part::Active, "output", OUTPUT_BYTES)
        .with(Part::Active, "handler_task", class_bytes(handler_bytes + TASK_BYTES))
        .with(Part::Apart, "http2_parked", HTTP2_PARKED_BYTES as u64 + PACKED_TABLES_BYTES)
        .with(Part::Apart, "http2_active", (TABLES_BYTES + FEW_STREAMS_BYTES) as u64)
        .with(Part::Apart, "http2_stream", STREAM_BYTES as u64 + HEAD_BYTES + class_bytes(handler_bytes + TASK_BYTES))
        .with(Part::Apart, "marked_routes", workers * Slots::BYTES)
        .with(Part::Apart, "counted_websocket", counted(Sort::Called))
        .with(Part::Apart, "counted_websocket_task", counted(Sort::Awaited))
        .with(Part::Apart, "counted_member", counted(Sort::Member))
        .with(Part::Apart, "counted_released", counted(Sort::Released))
        .with(Part::Apart, "counted_tunnel", counted(Sort::Tunnel))
        .with(Part::Apart, "counted_events", counted(Sort::Events));
    with_tls(plan, workers, share)
}

/// What TLS adds: what a worker keeps so that handshakes can wait, what a connection holds beside its entry, and until
/// its handshake is over.
#[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
fn with_tls(plan: Plan, workers: u64, share: u64) -> Plan {
    use plimsoll_tls::{HANDSHAKE_BYTES_MAX, PARKED_BYTES_MAX, SESSION_BYTES};

    use crate::worker::handshakes::{HANDSHAKE_BYTES, Handshakes};

    const { assert!(HANDSHAKE_BYTES == HANDSHAKE_BYTES_MAX, "as many are in progress as fit") };
    let in_progress_max = Handshakes::in_progress_max(&Config::default(), share);
    let lists = Handshakes::bytes(in_progress_max) + Table::<Connection>::QUEUE_BYTES as u64;
    let carrier = class_bytes(Table::<Connection>::CARRIED_BYTES) + SESSION_BYTES as u64;
    plan.with(Part::Apart, "tls_lists", workers * lists)
        .with(Part::Apart, "tls_parked", carrier + PARKED_BYTES_MAX)
        .with(Part::Apart, "tls_handshake", carrier + HANDSHAKE_BYTES_MAX)
}

#[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
fn with_tls(plan: Plan, _workers: u64, _share: u64) -> Plan {
    plan
}

/// What a worker keeps so that requests can wait, be counted and be refused without memory.
fn lists_bytes(share: u64) -> u64 {
    let waiting = Queue::<Waits>::bytes(PLACES) + Turns::bytes();
    let events = Table::<Connection>::QUEUE_BYTES as u64;
    waiting + events + Crowd::bytes(share) + Pace::bytes(share) + answer_reserve::list_bytes(share)
}
