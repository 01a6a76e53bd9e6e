//! Metrics as Prometheus text: of the memory line, the server, the runtime and the process.
//!
//! | name, each with `plimsoll_` before it | what it is |
//! |---|---|
//! | `budget_bytes`, `budget_charged_bytes{kind}`, `budget_peak_bytes`, `budget_level`, `waiters` | the memory line, what is charged to it by kind, the most that ever was, 0 calm to 3 red, work that waits for memory |
//! | `kernel_bytes_estimate`, `window_reserved_bytes`, `leases{class}`, `released_bytes_total`, `heap_bytes` | what else is memory |
//! | `connections{state}`, `accepted_total`, `requests_total{protocol}`, `responses_total{code}`, `exchanges_begun_total`, `exchanges_ended_total{how}`, `shed_total{reason}` | the server |
//! | `tls_handshakes{state}`, `tls_handshakes_begun_total`, `tls_handshakes_completed_total`, `tls_handshakes_resumed_total`, `tls_handshakes_failed_total{reason}`, `tls_on_plain_port_total` | handshakes of TLS: steps that wait and those in progress, what became of them, and TLS where HTTP is spoken |
//! | `loop_turns_total`, `long_turns_total{over_ms}`, `turn_ms_max`, `stalls_total`, `completions_total`, `enobufs_total`, `tasks`, `ops_in_flight`, `fds` | the runtime |
//! | `process_resident_bytes{kind}`, `process_resident_peak_bytes` | the process, as the system sees it |

use ::core::fmt::{self, Display, Write};

use plimsoll_pool::{Class, PoolStats};
use plimsoll_runtime::{Budget, Kind, Metrics, Resident};

use crate::face::serve::Handler;
use crate::{Counters, ExchangeEnd, HandshakeFailure, HandshakeTotals, IntoResponse, Request, Response, Shed};

/// The type of the text: version 0.0.4 of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A handler that answers with all metrics. Its route is always answered, as with
/// [`Router::reserved`](crate::Router::reserved): at the line somebody wants to see them.
///
/// ```
/// use plimsoll_http::{Router, metrics};
///
/// let routes = Router::new().get("/metrics", metrics::handler());
/// assert!(routes.check().is_ok());
/// ```
pub fn handler() -> MetricsHandler {
    MetricsHandler(())
}

/// See [`handler`].
#[derive(Clone, Debug)]
pub struct MetricsHandler(());

impl<S> Handler<S, MetricsHandler> for MetricsHandler {
    fn call(&self, request: Request, _state: &S) -> impl Future<Output: IntoResponse> {
        // Whoever calls it without a server sees that nothing was counted.
        let counters = request.handle().desk().map_or_else(|| Counters::new(0), |desk| desk.all_counters().clone());
        // Boxed, as it is rare and large.
        let text = Box::pin(async move { text(&counters).await });
        async move { Response::text(text.await).without_header("content-type").header("Content-Type", CONTENT_TYPE) }
    }

    fn is_reserved(&self) -> bool {
        true
    }
}

/// All metrics, for a handler of your own: send them with [`CONTENT_TYPE`].
///
/// ```
/// use plimsoll_http::{Counters, IntoResponse, Request, metrics};
///
/// async fn answer(_req: Request, counters: Counters) -> impl IntoResponse {
///     let text = metrics::text(&counters).await + "# TYPE orders_total counter\norders_total 7\n";
///     ([("content-type", metrics::CONTENT_TYPE)], text)
/// }
/// ```
pub async fn text(counters: &Counters) -> String {
    let mut text = Text(String::with_capacity(8 * 1024));
    put_budget(&mut text, &plimsoll_runtime::budget());
    put_server(&mut text, counters);
    put_handshakes(&mut text, &counters.totals().handshakes);
    put_runtime(&mut text);
    put_process(&mut text);
    put_pools(&mut text, &pool_stats().await);
    text.0
}

fn put_budget(text: &mut Text, budget: &Budget) {
    text.gauge("budget_bytes", "The memory line.", budget.limit().as_bytes());
    text.family("budget_charged_bytes", "gauge", "Bytes charged now, by what for.");
    for kind in Kind::ALL {
        text.labelled("budget_charged_bytes", "kind", kind.name(), budget.charged_by(kind));
    }
    text.gauge("budget_peak_bytes", "The most bytes that were ever charged.", budget.peak());
    text.gauge("budget_level", "0 calm, 1 yellow, 2 orange, 3 red.", budget.level() as u64);
}

fn put_server(text: &mut Text, counters: &Counters) {
    let totals = counters.totals();
    let kernel_bytes = plimsoll_runtime::budget().kernel_bytes_estimate();
    text.gauge(
        "kernel_bytes_estimate",
        "What the kernel holds for the connections, without unread bytes.",
        kernel_bytes,
    );
    text.gauge(
        "window_reserved_bytes",
        "Bytes reserved for what peers may send unasked.",
        totals.window_reserved_bytes,
    );
    text.family("connections", "gauge", "Connections, by state.");
    text.labelled("connections", "state", "parked", totals.parked);
    text.labelled("connections", "state", "active", totals.active);
    text.counter("accepted_total", "Connections accepted.", totals.accepted_total);
    text.family("requests_total", "counter", "Requests begun, by protocol.");
    for (protocol, requests) in
        [("h1", totals.requests_total), ("h2", totals.http2_requests_total), ("ws", totals.websockets_total)]
    {
        text.labelled("requests_total", "protocol", protocol, requests);
    }
    text.family("responses_total", "counter", "Responses, by status code.");
    for (code, responses) in &totals.responses_total {
        text.labelled("responses_total", "code", code, *responses);
    }
    text.counter("exchanges_begun_total", "Exchanges begun: their handlers were made.", totals.exchanges_begun_total);
    text.family("exchanges_ended_total", "counter", "How exchanges that were begun have ended.");
    for (how, ended) in ExchangeEnd::ALL.into_iter().zip(totals.exchanges_ended_total) {
        text.labelled("exchanges_ended_total", "how", how.name(), ended);
    }
    text.family("shed_total", "counter", "What was let go of early, by reason.");
    for (reason, shed) in Shed::ALL.into_iter().zip(totals.shed_total) {
        text.labelled("shed_total", "reason", reason.name(), shed);
    }
    text.gauge("waiters", "Work that waits for memory.", plimsoll_runtime::budget().waiting());
}

fn put_handshakes(text: &mut Text, totals: &HandshakeTotals) {
    text.family("tls_handshakes", "gauge", "Handshakes of TLS now, by state.");
    text.labelled("tls_handshakes", "state", "in_progress", totals.in_progress);
    text.labelled("tls_handshakes", "state", "waiting", totals.waiting);
    text.counter("tls_handshakes_begun_total", "Handshakes of TLS begun.", totals.begun_total);
    text.counter("tls_handshakes_completed_total", "Handshakes of TLS completed.", totals.completed_total);
    text.counter("tls_handshakes_resumed_total", "Of the completed, those of earlier sessions.", totals.resumed_total);
    text.family("tls_handshakes_failed_total", "counter", "Why handshakes of TLS have failed.");
    for (why, failed) in HandshakeFailure::ALL.into_iter().zip(totals.failed_total) {
        text.labelled("tls_handshakes_failed_total", "reason", why.name(), failed);
    }
    text.counter("tls_on_plain_port_total", "Connections of TLS where HTTP is spoken.", totals.on_plain_port_total);
}

fn put_runtime(text: &mut Text) {
    let metrics = plimsoll_runtime::metrics();
    text.counter("enobufs_total", "Receives that had to queue for a buffer.", metrics.enobufs_total);
    text.counter("loop_turns_total", "Turns of the workers' loops.", metrics.loop_turns_total);
    text.counter("completions_total", "Completions taken from the drivers.", metrics.completions_total);
    text.gauge("tasks", "Live tasks.", metrics.tasks);
    text.gauge("ops_in_flight", "Operations in flight.", metrics.ops_in_flight);
    text.gauge("fds", "Descriptors that the workers hold.", metrics.fds);
    text.gauge("heap_bytes", "Bytes of the program's heap, if its allocator counts them.", metrics.heap_bytes);
    text.counter("stalls_total", "Polls that blocked their worker's loop.", metrics.stalls_total);
    text.family("long_turns_total", "counter", "Turns of workers' loops that took longer, in milliseconds.");
    for (ms, turns) in Metrics::TURN_MS.into_iter().zip(metrics.long_turns_total) {
        text.labelled("long_turns_total", "over_ms", ms, turns);
    }
    text.gauge("turn_ms_max", "The longest turn of a worker's loop, in milliseconds.", metrics.turn_ms_max);
}

/// What the system says: memory of the process, and pages of files, which grow while more of the program's code is
/// used.
fn put_process(text: &mut Text) {
    let Some(resident) = Resident::of_process() else { return };
    let help = "Resident memory of the process: anonymous is its own, file is pages of the program and of rings.";
    text.family("process_resident_bytes", "gauge", help);
    for (kind, bytes) in
        [("anonymous", resident.anonymous_bytes), ("file", resident.file_bytes), ("shared", resident.shared_bytes)]
    {
        text.labelled("process_resident_bytes", "kind", kind, bytes);
    }
    text.gauge("process_resident_peak_bytes", "The most that all kinds together ever were.", resident.peak_bytes);
}

/// The figures of the workers' pools. Each worker reads its own, as pools are not shared; one that has no room for that
/// is left out.
async fn pool_stats() -> Vec<PoolStats> {
    let asked: Vec<_> = (0..plimsoll_runtime::workers())
        .map(|worker| plimsoll_runtime::spawn_on(worker, || async { plimsoll_runtime::pool().stats() }))
        .collect();
    let mut stats = Vec::with_capacity(asked.len());
    for handle in asked.into_iter().flatten() {
        stats.extend(handle.await.ok());
    }
    stats
}

fn put_pools(text: &mut Text, stats: &[PoolStats]) {
    text.family("leases", "gauge", "Live leases and boxes, by the bytes of their size class.");
    for (at, class) in Class::ALL.into_iter().enumerate() {
        text.labelled("leases", "class", class.bytes(), stats.iter().map(|pool| pool.classes[at].live).sum());
    }
    let released = stats.iter().map(|pool| pool.released_bytes).sum();
    text.counter("released_bytes_total", "Bytes given back to the system while serving.", released);
}

/// The exposition format: a family's help and type, then its samples.
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(format_args!("{name} {value}"));
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let written = writeln!(self.0, "# HELP plimsoll_{name} {help}\n# TYPE plimsoll_{name} {kind}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }

    fn labelled(&mut self, name: &str, label: &str, of: impl Display, value: u64) {
        self.sample(format_args!("{name}{{{label}=\"{of}\"}} {value}"));
    }

    fn sample(&mut self, sample: fmt::Arguments<'_>) {
        let written = writeln!(self.0, "plimsoll_{sample}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}
