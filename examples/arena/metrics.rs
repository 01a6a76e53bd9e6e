//! `/metrics`: what the server holds and has done, as Prometheus text.

use std::fmt::{Display, Write};

use plimsoll::Resident;
use plimsoll::http::Class;
use plimsoll::http::{ExchangeEnd, Response, Shed};
use plimsoll::{Budget, Kind, PoolStats};

use crate::State;

/// The answer to `/metrics`.
pub(crate) async fn answer(state: &State) -> Response {
    let mut text = Text(String::with_capacity(8 * 1024));
    put_budget(&mut text, &plimsoll::budget());
    put_server(&mut text, state);
    put_runtime(&mut text);
    put_process(&mut text);
    put_pools(&mut text, &pool_stats().await);
    Response::new(plimsoll::http::StatusCode::OK)
        .body(text.0)
        .header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
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

fn put_server(text: &mut Text, state: &State) {
    let totals = state.counters.totals();
    let kernel_bytes = plimsoll::budget().kernel_bytes_estimate();
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
    text.gauge("waiters", "Work that waits for memory.", plimsoll::budget().waiting());
    let lost_lines = state.log.as_ref().map_or(0, |log| log.lost_lines());
    text.counter("access_log_lost_total", "Lines that the access log lost.", lost_lines);
}

fn put_runtime(text: &mut Text) {
    let metrics = plimsoll::metrics();
    text.counter("enobufs_total", "Receives that had to queue for a buffer.", metrics.enobufs_total);
    text.counter("loop_turns_total", "Turns of the workers' loops.", metrics.loop_turns_total);
    text.counter("completions_total", "Completions taken from the drivers.", metrics.completions_total);
    text.gauge("tasks", "Live tasks.", metrics.tasks);
    text.gauge("ops_in_flight", "Operations in flight.", metrics.ops_in_flight);
    text.gauge("fds", "Descriptors that the workers hold.", metrics.fds);
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
    let asked: Vec<_> = (0..plimsoll::workers())
        .map(|worker| plimsoll::spawn_on(worker, || async { plimsoll::pool().stats() }))
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

    fn sample(&mut self, sample: std::fmt::Arguments<'_>) {
        let written = writeln!(self.0, "plimsoll_{sample}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}
