//! The rounds of a profile: every server is loaded once in each, and each begins with another one.

use std::thread;
use std::time::Duration;

use super::Extent;
use super::figures::{Spread, median_ratio};
use super::load::{Errors, Profile, Run, Wrk};
use super::process::Running;
use super::servers::BASELINE;

/// One server in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) run: Run,
    /// Time on a core of all its threads, for each answered request.
    pub(super) cpu_us_per_request: f64,
}

/// One server in all rounds.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) server: &'static str,
    /// A sample for each round, in their order.
    pub(super) samples: Vec<Sample>,
    /// Those of the warm-up too.
    pub(super) errors: Errors,
}

/// All servers under one load.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) profile: &'static Profile,
    pub(super) series: Vec<Series>,
}

/// A figure of a sample, if this kind of load has it.
pub(super) type Figure = fn(&Sample) -> Option<f64>;

/// Microseconds on a core for each request.
pub(super) const CPU: Figure = |sample| Some(sample.cpu_us_per_request);
/// Requests a second.
pub(super) const RATE: Figure = |sample| Some(sample.run.requests_per_second);
/// The 99th percentile of the latency in microseconds.
pub(super) const P99: Figure = |sample| sample.run.p99_us;

impl Series {
    /// The figure of each round, in their order.
    pub(super) fn rounds(&self, figure: Figure) -> impl Iterator<Item = f64> {
        self.samples.iter().filter_map(figure)
    }

    pub(super) fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.rounds(figure))
    }
}

impl Measured {
    /// The median over the rounds of a server's figure divided by that of the base in the same round.
    pub(super) fn ratio(&self, series: &Series, figure: Figure) -> Option<f64> {
        let base = self.series.iter().find(|series| series.server == BASELINE)?;
        median_ratio(series.rounds(figure), base.rounds(figure))
    }
}

/// Loads the servers in turns.
pub(super) fn measure(
    profile: &'static Profile,
    servers: &[Running],
    wrk: &Wrk,
    extent: Extent,
) -> Result<Measured, String> {
    let mut series = Vec::new();
    for server in servers {
        eprintln!("{}: warm-up of {}", profile.name, server.server().name);
        let errors = wrk.run(profile, server.address(), extent.warm_up_seconds)?.errors;
        series.push(Series { server: server.server().name, samples: Vec::new(), errors });
    }
    for round in 0..extent.rounds {
        for index in turns(servers.len(), round) {
            let sample = sample(profile, &servers[index], wrk, extent.seconds)?;
            eprintln!(
                "{}: round {} of {}: {}: {:.2} us/request, {:.0} requests/s, {} errors",
                profile.name,
                round + 1,
                extent.rounds,
                series[index].server,
                sample.cpu_us_per_request,
                sample.run.requests_per_second,
                sample.run.errors.total()
            );
            series[index].errors = series[index].errors.plus(sample.run.errors);
            series[index].samples.push(sample);
        }
    }
    Ok(Measured { profile, series })
}

fn sample(profile: &Profile, server: &Running, wrk: &Wrk, seconds: u32) -> Result<Sample, String> {
    let before = server.cpu()?;
    let run = wrk.run(profile, server.address(), seconds)?;
    // The connections are closed when wrk ends; that belongs to this run and not to the next.
    thread::sleep(SETTLE);
    let spent_ns = server.cpu()?.since(&before);
    if run.requests == 0 {
        return Err(format!("{} answered no request under {}", server.server().name, profile.name));
    }
    Ok(Sample { run, cpu_us_per_request: spent_ns as f64 / 1e3 / run.requests as f64 })
}

/// The order of a round.
fn turns(servers: usize, round: u32) -> impl Iterator<Item = usize> {
    (0..servers).map(move |turn| (turn + round as usize) % servers)
}

/// After a run until the server has nothing to do any more.
const SETTLE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
