//! What a run leaves: `overload.json`. All that is shown is made from this.

use serde::{Deserialize, Serialize};

use super::counts::{Counts, Difference};
use super::ledger::Tally;
use super::light::Light;
use crate::bench::placement::Machine;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) machine: Machine,
    pub(super) seed: u64,
    pub(super) profiles: Vec<ProfileRecord>,
}

/// All servers under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProfileRecord {
    pub(super) name: String,
    pub(super) what: String,
    /// Of ours.
    pub(super) line: String,
    pub(super) series: Vec<Series>,
}

/// One server under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) server: String,
    /// Why there are no cells, or no more.
    pub(super) missing: Option<String>,
    /// Of a server that has no line: how many requests it takes at a time.
    pub(super) limit: Option<u64>,
    /// The highest rate at which all are answered, a second.
    pub(super) fits: Option<f64>,
    pub(super) costs: Option<Costs>,
    pub(super) cells: Vec<Cell>,
}

/// CPU of the server in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Costs {
    /// Of a small answer while nothing else happens, on the same kind of connections.
    pub(super) get_us: f64,
    /// Of a refusal while all that fits sleeps; none if that could not be had, for too few were refused.
    pub(super) refusal_us: Option<f64>,
    /// Of 100 that asked meanwhile, so many were refused.
    pub(super) refused_percent: f64,
}

/// One server under one load at one multiple of what fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) factor: f64,
    /// First requests a second; those who come back are not in it.
    pub(super) offered_per_second: f64,
    pub(super) window_seconds: f64,
    pub(super) tally: Tally,
    pub(super) light: Light,
    pub(super) counts: Counts,
    pub(super) difference: Difference,
    /// Of a core, over the window.
    pub(super) cpu_share: f64,
    pub(super) peak_rss_bytes: u64,
    /// Before it began.
    pub(super) load_average: Option<f64>,
}

impl Cell {
    /// Answered 200 in the window, a second.
    pub(super) fn goodput(&self) -> f64 {
        self.tally.served_in_window as f64 / self.window_seconds
    }
}
