//! What a run leaves: every sample, as `report.json` has it. All that is shown is made from this.

use serde::{Deserialize, Serialize};

use super::figures::{Spread, median_ratio};
use super::placement::Machine;
use super::servers::{BASELINE, BASELINE_HTTP2};
use super::wrk::Errors;

/// One or more runs on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    pub(super) machine: Machine,
    pub(super) servers: Vec<ServerRecord>,
    pub(super) absent: Vec<Absent>,
    pub(super) profiles: Vec<ProfileRecord>,
    pub(super) memory: Vec<CaseRecord>,
}

/// A server that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ServerRecord {
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// The floor of its driver.
    pub(super) floor: String,
}

/// A server that was asked for and could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Absent {
    pub(super) server: String,
    pub(super) why: String,
}

/// All servers under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProfileRecord {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    /// Before it began.
    pub(super) load_average: Option<f64>,
    /// Of each request, if it uploads.
    pub(super) upload_bytes: Option<u64>,
    pub(super) series: Vec<Series>,
}

/// One server in all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) server: String,
    /// Why there are no samples, or no more.
    pub(super) missing: Option<String>,
    pub(super) errors: Errors,
    pub(super) samples: Vec<Sample>,
}

/// One server in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) round: u32,
    pub(super) requests_per_second: f64,
    /// Time on a core of all its threads over the middle of the run, for each request answered in that time.
    pub(super) cpu_us_per_request: f64,
    /// Of that time, 0 to 1.
    pub(super) kernel_share: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// The most that was resident since the start.
    pub(super) peak_rss_bytes: u64,
    /// Proportional set size when three quarters of the run are over.
    pub(super) pss_bytes: u64,
}

/// All servers in one memory case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CaseRecord {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) connections: usize,
    pub(super) results: Vec<CaseResult>,
}

/// One server in a memory case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CaseResult {
    pub(super) server: String,
    /// Why there is no figure; also how it died.
    pub(super) missing: Option<String>,
    pub(super) figures: Option<CaseFigures>,
}

/// Bytes of the server's process, and what became of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CaseFigures {
    pub(super) before_rss_bytes: u64,
    pub(super) before_anonymous_bytes: u64,
    /// When all connections are where the case wants them, in cases that hold them.
    pub(super) held_anonymous_bytes: Option<u64>,
    pub(super) peak_rss_bytes: u64,
    /// The largest that was seen, at those moments.
    pub(super) peak_pss_bytes: u64,
    /// A while after all connections were closed.
    pub(super) after_rss_bytes: u64,
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) closed: u64,
    pub(super) wrong: u64,
    pub(super) unfinished: u64,
}

/// A figure of a sample, if this kind of load has it.
pub(super) type Figure = fn(&Sample) -> Option<f64>;

/// Microseconds on a core for each request.
pub(super) const CPU: Figure = |sample| Some(sample.cpu_us_per_request);
/// Requests a second.
pub(super) const RATE: Figure = |sample| Some(sample.requests_per_second);
/// The share of the kernel in per cent.
pub(super) const KERNEL: Figure = |sample| sample.kernel_share.map(|share| share * 100.0);
/// The median and the 99th percentile of the latency in microseconds.
pub(super) const P50: Figure = |sample| sample.p50_us;
pub(super) const P99: Figure = |sample| sample.p99_us;
/// Peak RSS and PSS in MiB.
pub(super) const RSS: Figure = |sample| Some(sample.peak_rss_bytes as f64 / MIB);
pub(super) const PSS: Figure = |sample| Some(sample.pss_bytes as f64 / MIB);
/// The square root of requests a second for each MiB of peak RSS.
pub(super) const SCORE: Figure =
    |sample| Some(sample.requests_per_second.sqrt() / (sample.peak_rss_bytes as f64 / MIB));

impl Record {
    /// Nothing yet.
    pub(super) fn new(machine: Machine) -> Record {
        Record {
            format: FORMAT,
            machine,
            servers: Vec::new(),
            absent: Vec::new(),
            profiles: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// From JSON of this form. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Record, String> {
        let record: Record =
            serde_json::from_str(text).map_err(|error| format!("not a report of this form: {error}"))?;
        let is_known = record.format == FORMAT;
        if is_known { Ok(record) } else { Err(format!("a report of form {}, not {FORMAT}", record.format)) }
    }

    pub(super) fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }

    /// Puts the profiles and cases of a newer run in the place of those of the same name. The error is that the machine
    /// is another one.
    pub(super) fn merge(mut self, newer: Record, order: impl Fn(&str) -> usize) -> Result<Record, String> {
        if self.machine != newer.machine {
            return Err("the report is from another machine or kernel: move it away, or run without --merge".to_owned());
        }
        let replaced = |name: &str| newer.profiles.iter().any(|profile| profile.name == name);
        self.profiles.retain(|profile| !replaced(&profile.name));
        let replaced = |name: &str| newer.memory.iter().any(|case| case.name == name);
        self.memory.retain(|case| !replaced(&case.name));
        self.servers.retain(|server| newer.servers.iter().all(|other| other.name != server.name));
        self.absent.retain(|absent| newer.servers.iter().all(|other| other.name != absent.server));
        self.absent.retain(|absent| newer.absent.iter().all(|other| other.server != absent.server));
        self.profiles.extend(newer.profiles);
        self.memory.extend(newer.memory);
        self.servers.extend(newer.servers);
        self.absent.extend(newer.absent);
        self.profiles.sort_by_key(|profile| order(&profile.name));
        self.memory.sort_by_key(|case| order(&case.name));
        self.servers.sort_by_key(|server| order(&server.name));
        Ok(self)
    }

    /// The floor of this server's driver.
    pub(super) fn floor_of(&self, server: &str) -> Option<&str> {
        self.servers.iter().find(|record| record.name == server).map(|record| record.floor.as_str())
    }

    /// All servers answered every request of the profiles that they can do.
    pub(super) fn is_clean(&self) -> bool {
        self.profiles.iter().flat_map(|profile| &profile.series).all(|series| series.errors.total() == 0)
    }
}

impl Series {
    pub(super) fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.samples.iter().filter_map(figure))
    }
}

impl ProfileRecord {
    /// The median over the rounds of a server's figure divided by that of another in the same round.
    pub(super) fn ratio(&self, series: &Series, base: &str, figure: Figure) -> Option<f64> {
        self.ratio_in(series, base, figure, |_| true)
    }

    /// By how much the ratios differ that even and odd rounds alone would have had, as a share of the ratio: what the
    /// rounds are good for.
    pub(super) fn uncertainty(&self, series: &Series, base: &str, figure: Figure) -> Option<f64> {
        let half = |odd: u32| self.ratio_in(series, base, figure, |round| round % 2 == odd);
        let (even, odd) = (half(0)?, half(1)?);
        Some((even - odd).abs() / f64::midpoint(even, odd))
    }

    fn ratio_in(&self, series: &Series, base: &str, figure: Figure, wanted: impl Fn(u32) -> bool) -> Option<f64> {
        let base = self.series.iter().find(|series| series.server == base)?;
        let pairs = series.samples.iter().filter(|sample| wanted(sample.round)).filter_map(|sample| {
            let other = base.samples.iter().find(|other| other.round == sample.round)?;
            Some((figure(sample)?, figure(other)?))
        });
        let (values, others): (Vec<f64>, Vec<f64>) = pairs.unzip();
        median_ratio(values, others)
    }

    /// The ratio to the server that all are compared with.
    pub(super) fn ratio_to_baseline(&self, series: &Series, figure: Figure) -> Option<f64> {
        self.ratio(series, BASELINE, figure).or_else(|| self.ratio(series, BASELINE_HTTP2, figure))
    }
}

impl CaseFigures {
    /// Anonymous bytes that a held connection costs.
    pub(super) fn bytes_per_connection(&self, connections: usize) -> Option<f64> {
        let held = self.held_anonymous_bytes? as f64;
        Some((held - self.before_anonymous_bytes as f64) / connections as f64)
    }

    /// Connections that did not go as they should have.
    pub(super) fn errors(&self) -> u64 {
        self.refused + self.closed + self.wrong + self.unfinished
    }
}

pub(super) const MIB: f64 = 1_048_576.0;
const FORMAT: u32 = 2;

#[cfg(test)]
pub(super) mod tests;
