//! What a server says of itself and the kernel of it, and whether the two agree with what the clients know.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::asks::Weather;
use super::child::{self, Running};
use super::ledger::{Kind, Tallies};
use crate::bench::{client, proc};

/// The samples of `/metrics`, by name and labels, without the prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    samples: BTreeMap<String, u64>,
    /// How many looks at them there were so far, this one included: each is a connection and a request of its own.
    looks: u64,
}

/// Who looks at the metrics of a server.
#[derive(Debug)]
pub(super) struct Observer {
    server: SocketAddr,
    looks: u64,
}

impl Observer {
    pub(super) const fn new(server: SocketAddr) -> Observer {
        Observer { server, looks: 0 }
    }

    /// What the server says now. It may have no room to say it, for a while.
    fn look(&mut self) -> Result<Metrics, String> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            match client::get(self.server, "/metrics") {
                Ok(text) => {
                    self.looks += 1;
                    return Ok(Metrics::parse(&text, self.looks));
                }
                Err(error) if Instant::now() >= deadline => return Err(format!("/metrics: {error}")),
                Err(_) => thread::sleep(STEP),
            }
        }
    }

    /// Waits until the server has nothing to do but to say so.
    pub(super) fn quiet(&mut self) -> Result<Metrics, String> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let metrics = self.look()?;
            if metrics.is_quiet() {
                return Ok(metrics);
            }
            if Instant::now() >= deadline {
                let connections: Vec<String> =
                    metrics.family("connections").map(|(name, value)| format!("{name} {value}")).collect();
                return Err(format!("connections are left when all clients are gone: {}", connections.join(", ")));
            }
            thread::sleep(STEP);
        }
    }
}

impl Metrics {
    fn parse(text: &str, looks: u64) -> Metrics {
        let sample = |line: &str| {
            let (name, value) = line.strip_prefix("plimsoll_")?.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Metrics { samples: text.lines().filter_map(sample).collect(), looks }
    }

    /// A sample; 0 for one that has not happened yet.
    fn get(&self, name: &str) -> u64 {
        self.samples.get(name).copied().unwrap_or(0)
    }

    fn family<'a>(&'a self, family: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        let is_of =
            move |name: &str| name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        self.samples.iter().filter(move |(name, _)| is_of(name)).map(|(name, value)| (name.as_str(), *value))
    }

    /// What was shed since an earlier look, by reason.
    pub(super) fn shed_since(&self, before: &Metrics) -> String {
        let since = |name: &str, value: u64| value.saturating_sub(before.get(name));
        let shed = self.family("shed_total").map(|(name, value)| format!("{name} {}", since(name, value)));
        shed.collect::<Vec<_>>().join(", ")
    }

    /// Whether the connection that asks is the only one, and everything that was begun has ended.
    fn is_quiet(&self) -> bool {
        self.get("connections{state=\"active\"}") == 1 && self.get("connections{state=\"parked\"}") == 0
    }

    /// What must not be more than the first time whenever the server is quiet, and by how much it may differ.
    fn held(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let exact = ["fds", "ops_in_flight", "tasks", "waiters", "window_reserved_bytes"];
        let exact = exact.into_iter().flat_map(|family| self.family(family)).map(|(name, value)| (name, value, 0));
        exact.chain(self.family("leases").map(|(name, value)| (name, value, LEASES_NOISE)))
    }
}

/// What a process holds when nobody is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) anonymous_bytes: u64,
    /// By what they are.
    descriptors: BTreeMap<String, u64>,
}

impl Sample {
    pub(super) fn descriptors(&self) -> u64 {
        self.descriptors.values().sum()
    }

    fn of(running: &Running) -> Result<Sample, String> {
        let anonymous =
            proc::status_bytes(running.id(), |status| status.rssanon).map_err(|error| format!("RssAnon: {error}"))?;
        Ok(Sample { anonymous_bytes: anonymous, descriptors: child::descriptors(running.id())? })
    }
}

/// The samples of a program, one after each storm, and what the first one, which is the warm-up, left.
#[derive(Debug, Default)]
pub(super) struct Series {
    held: Option<Metrics>,
    pub(super) samples: Vec<Sample>,
}

impl Series {
    /// Takes the next sample, when the program holds no more than after the warm-up. The error is that it does not come
    /// to that.
    pub(super) fn take(&mut self, running: &Running, observer: Option<&mut Observer>) -> Result<Sample, String> {
        let (deadline, mut observer) = (Instant::now() + WAIT_MAX, observer);
        // Free pages are given back after two seconds.
        thread::sleep(SETTLE);
        loop {
            // First: a look is a connection, which may be there for a while after it.
            let sample = Sample::of(running)?;
            let metrics = observer.as_mut().map(|observer| observer.quiet()).transpose()?;
            let grown = self.grown(&sample, metrics.as_ref());
            if grown.is_empty() {
                self.held = self.held.take().or(metrics);
                self.samples.push(sample.clone());
                return Ok(sample);
            }
            if Instant::now() >= deadline {
                return Err(format!("more is held than after the warm-up: {}", grown.join(", ")));
            }
            thread::sleep(STEP);
        }
    }

    fn grown(&self, sample: &Sample, metrics: Option<&Metrics>) -> Vec<String> {
        let mut grown = Vec::new();
        if let Some(first) = self.samples.first() {
            for (kind, &now) in &sample.descriptors {
                let before = first.descriptors.get(kind).copied().unwrap_or(0);
                grown.extend((now > before).then(|| format!("descriptors of {kind} {before}, then {now}")));
            }
        }
        if let (Some(first), Some(now)) = (&self.held, metrics) {
            for (name, value, _) in now.held().filter(|(name, value, noise)| *value > first.get(name) + noise) {
                grown.push(format!("{name} {}, then {value}", first.get(name)));
            }
        }
        grown
    }

    /// Bytes of anonymous memory by which it has grown: the least of the last quarter over the most of the first half.
    pub(super) fn growth_bytes(&self) -> u64 {
        let anonymous: Vec<u64> = self.samples.iter().map(|sample| sample.anonymous_bytes).collect();
        let (early, late) = anonymous.split_at(anonymous.len().div_ceil(2));
        let late = &late[late.len() / 2..];
        let most = early.iter().max().copied().unwrap_or(0);
        late.iter().min().map_or(0, |least| least.saturating_sub(most))
    }

    /// What is wrong with them.
    pub(super) fn judge(&self, name: &str) -> Result<(), String> {
        let growth = self.growth_bytes();
        let grown = || format!("{name}: anonymous memory has grown by {} KiB", growth / 1024);
        if growth > GROWTH_BYTES_MAX { Err(grown()) } else { Ok(()) }
    }
}

/// Compares what a server counted between two quiet moments with what the clients know: everything is exact when nobody
/// else was there, and a bound otherwise. The error is a list.
pub(super) fn reconcile(weather: Weather, before: &Metrics, after: &Metrics, tallies: &Tallies) -> Vec<String> {
    let is_exact = weather == Weather::Calm;
    let since = |name: &str| after.get(name).saturating_sub(before.get(name));
    let mut known = known(is_exact, tallies);
    // The first look's answer and the other looks are counted in between.
    let looks = after.looks - before.looks;
    for name in [requests("h1"), responses(200), "accepted_total".to_owned()] {
        *known.entry(name).or_default() += looks;
    }
    let mut wrong = Vec::new();
    for (name, known) in known {
        let counted = since(&name);
        if counted < known || (is_exact && counted != known) {
            let relation = if is_exact { "exactly" } else { "at least" };
            wrong.push(format!("{name} went up by {counted}, and the clients know of {relation} {known}"));
        }
    }
    let own = tallies.iter().filter(|(kind, _)| **kind != Kind::Relayed);
    let cuts: u64 = own.map(|(_, tally)| tally.cut).sum();
    let shed: u64 = after.family("shed_total").map(|(name, _)| since(name)).sum();
    if shed < cuts {
        wrong.push(format!("{cuts} answers were cut short, and the server knows of {shed} that it let go of"));
    }
    wrong
}

/// The counters as the clients know them.
fn known(is_exact: bool, tallies: &Tallies) -> BTreeMap<String, u64> {
    let mut known = BTreeMap::new();
    let mut add = |name: String, count: u64| *known.entry(name).or_default() += count;
    for (kind, tally) in tallies {
        let (protocol, is_websocket) = match kind {
            Kind::Http1 => ("h1", false),
            Kind::WebSocket => ("h1", true),
            Kind::Http2 => ("h2", false),
            Kind::WebSocketHttp2 => ("h2", true),
            // Those are the target's.
            Kind::Relayed => continue,
        };
        // In a storm a request may be lost on its way, or refused before it is begun; it counts from then on.
        add(requests(protocol), if is_exact { tally.requests } else { tally.served() });
        add("accepted_total".to_owned(), if is_exact { tally.connections } else { 0 });
        for (status, count) in &tally.answers {
            add(responses(*status), *count);
            add(requests("ws"), if is_websocket && *status < 300 { *count } else { 0 });
        }
    }
    known
}

fn requests(protocol: &str) -> String {
    format!("requests_total{{protocol=\"{protocol}\"}}")
}

fn responses(status: u16) -> String {
    format!("responses_total{{code=\"{status}\"}}")
}

/// Twice the noise of what is measured.
const GROWTH_BYTES_MAX: u64 = 512 * 1024;
/// Pages of tables: which worker is asked last differs. A leak goes on.
const LEASES_NOISE: u64 = 4;
/// A server that is not quiet for so long never is: longer than any of its timeouts.
const WAIT_MAX: Duration = Duration::from_secs(90);
const SETTLE: Duration = Duration::from_millis(2_500);
const STEP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
