//! The rounds of a profile: every server is loaded once in each, and each begins with another one.

use std::thread;
use std::time::{Duration, Instant};

use super::Extent;
use super::h2load;
use super::loads::{Generator, Profile};
use super::placement::{self, Placement};
use super::process::Running;
use super::record::{ProfileRecord, Sample, Series};
use super::servers::Server;
use super::swarm::plan::Plan;
use super::swarm::{Event, guide::Swarm};
use super::wrk::{Errors, Load, Loading, Wrk};

/// What loads the servers.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) placement: &'a Placement,
    pub(super) wrk: &'a Wrk,
    pub(super) extent: Extent,
}

impl Bench<'_> {
    /// Loads the servers in turns. One that cannot do this, does not answer or dies is said to, and the others go on.
    pub(super) fn measure(&self, profile: &'static Profile, servers: &[&'static Server]) -> ProfileRecord {
        let Extent { rounds, seconds, .. } = self.extent;
        let load_average = placement::load_average();
        let mut entries: Vec<Entry> = servers.iter().map(|server| self.start(profile, server)).collect();
        for round in 1..=rounds {
            for index in turns(entries.len(), round - 1) {
                self.turn(profile, &mut entries[index], round, seconds);
            }
            progress(profile, round, rounds, &entries);
        }
        ProfileRecord {
            name: profile.name.to_owned(),
            what: profile.what.to_owned(),
            rounds,
            seconds,
            load_average,
            upload_bytes: match &profile.generator {
                Generator::Swarm(plan) => plan.upload_bytes,
                Generator::Wrk { .. } | Generator::H2load { .. } => None,
            },
            series: entries.into_iter().map(|entry| entry.series).collect(),
        }
    }

    fn start(&self, profile: &Profile, server: &'static Server) -> Entry {
        let mut series =
            Series { server: server.name.to_owned(), missing: None, errors: Errors::default(), samples: Vec::new() };
        let running = match server.cannot(profile.needs) {
            Some(why) => Err(why.to_owned()),
            None => Running::start(server, profile.target, self.placement),
        };
        let running = running.map_err(|why| series.missing = Some(why)).ok();
        Entry { running, series }
    }

    /// One run, unless the server is no longer there.
    fn turn(&self, profile: &Profile, entry: &mut Entry, round: u32, seconds: u32) {
        let Some(running) = &mut entry.running else { return };
        let measured = self.sample(profile, running, round, seconds);
        let measured = match running.death() {
            Some(death) => Err(death),
            None => measured,
        };
        match measured {
            Ok((sample, errors)) => {
                entry.series.errors = entry.series.errors.plus(errors);
                entry.series.samples.push(sample);
            }
            Err(why) => {
                eprintln!("{}: {}: {why}", profile.name, entry.series.server);
                entry.series.missing = Some(why);
                entry.running = None;
            }
        }
    }

    fn sample(
        &self,
        profile: &Profile,
        server: &Running,
        round: u32,
        seconds: u32,
    ) -> Result<(Sample, Errors), String> {
        let run = match &profile.generator {
            &Generator::Wrk { connections, depth } => {
                let load = Load { target: profile.target, connections, depth };
                middle(self.wrk.start(load, server.address(), seconds)?, server, seconds)?
            }
            &Generator::H2load { connections, streams } => {
                let load = h2load::Load { target: profile.target, connections, streams };
                middle(h2load::start(self.placement, load, server.address(), seconds)?, server, seconds)?
            }
            Generator::Swarm(plan) => self.with_swarm(profile.name, plan, server, seconds)?,
        };
        // The connections are closed when the load ends; that belongs to this run and not to the next.
        thread::sleep(SETTLE);
        let Window { requests_per_second, seconds, .. } = run.window;
        if requests_per_second * seconds < 1.0 {
            return Err("no request was answered".to_owned());
        }
        if run.window.cpu_ns == 0 {
            return Err("it answered at first, and then hung".to_owned());
        }
        let sample = Sample {
            round,
            requests_per_second,
            cpu_us_per_request: run.window.cpu_ns as f64 / 1e3 / (requests_per_second * seconds),
            kernel_share: run.window.kernel_share,
            p50_us: run.p50_us,
            p99_us: run.p99_us,
            peak_rss_bytes: server.memory()?.peak_rss_bytes,
            pss_bytes: run.window.pss_bytes,
        };
        Ok((sample, run.errors))
    }

    /// The clients say what they have done at both ends of the window.
    fn with_swarm(&self, name: &str, plan: &Plan, server: &Running, seconds: u32) -> Result<Run, String> {
        let swarm = Swarm::start(name, server.address(), Some(seconds), 1, self.placement)?;
        let unexpected = |event: Event| format!("the clients say {event:?} at the wrong time");
        let begin = match swarm.next()? {
            Event::Begin(tally) => (Reading::of(server)?, tally),
            other => return Err(unexpected(other)),
        };
        let (mut window, end) = match swarm.next()? {
            Event::End(tally) => (begin.0.until_now(server)?, tally),
            other => return Err(unexpected(other)),
        };
        let done = match swarm.next()? {
            Event::Done(tally) => tally,
            other => return Err(unexpected(other)),
        };
        let requests = match plan.upload_bytes {
            Some(bytes) => (end.sent_bytes - begin.1.sent_bytes) as f64 / bytes as f64,
            None => (end.requests - begin.1.requests) as f64,
        };
        window.requests_per_second = requests / (end.seconds - begin.1.seconds);
        let errors = Errors {
            connect: done.refused,
            read: done.closed,
            status: done.wrong,
            timeout: done.unfinished,
            ..Errors::default()
        };
        Ok(Run { window, p50_us: done.p50_us, p99_us: done.p99_us, errors })
    }
}

/// A load that says nothing while it runs: the requests of the middle are those of the whole, as far as the time goes.
fn middle(loading: Loading, server: &Running, seconds: u32) -> Result<Run, String> {
    let quarter = Duration::from_secs(seconds.into()) / 4;
    thread::sleep(quarter);
    let begin = Reading::of(server)?;
    thread::sleep(quarter * 2);
    let mut window = begin.until_now(server)?;
    let run = loading.finish()?;
    window.requests_per_second = run.requests_per_second;
    Ok(Run { window, p50_us: run.p50_us, p99_us: run.p99_us, errors: run.errors })
}

/// A server and what was measured of it.
struct Entry {
    /// None if it cannot do this, or is no longer there.
    running: Option<Running>,
    series: Series,
}

/// What a run of a load found.
struct Run {
    window: Window,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    errors: Errors,
}

/// The middle half of a run.
struct Window {
    seconds: f64,
    cpu_ns: u64,
    kernel_share: Option<f64>,
    pss_bytes: u64,
    requests_per_second: f64,
}

/// The server at the beginning of a window.
struct Reading {
    at: Instant,
    cpu: super::proc::CpuTime,
    ticks: super::proc::Ticks,
}

impl Reading {
    fn of(server: &Running) -> Result<Reading, String> {
        let (ticks, at) = (server.ticks()?, Instant::now());
        Ok(Reading { at, cpu: server.cpu()?, ticks })
    }

    fn until_now(&self, server: &Running) -> Result<Window, String> {
        let (seconds, cpu) = (self.at.elapsed().as_secs_f64(), server.cpu()?);
        Ok(Window {
            seconds,
            cpu_ns: cpu.since(&self.cpu),
            kernel_share: server.ticks()?.kernel_share_since(self.ticks),
            pss_bytes: server.memory()?.pss_bytes,
            requests_per_second: 0.0,
        })
    }
}

fn progress(profile: &Profile, round: u32, rounds: u32, entries: &[Entry]) {
    let last = |entry: &Entry| {
        let cpu = entry.series.samples.last().filter(|sample| sample.round == round)?.cpu_us_per_request;
        Some(format!("{} {cpu:.2}", entry.series.server))
    };
    let figures: Vec<String> = entries.iter().filter_map(last).collect();
    eprintln!("{}: round {round} of {rounds}: CPU us/request: {}", profile.name, figures.join(", "));
}

/// The order of a round.
fn turns(servers: usize, round: u32) -> impl Iterator<Item = usize> {
    (0..servers).map(move |turn| (turn + round as usize) % servers)
}

/// After a run until the server has nothing to do any more.
const SETTLE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    //! The order of rounds.

    use super::turns;

    #[test]
    fn every_server_has_a_turn_in_each_round_and_is_first_in_turn() {
        let firsts: Vec<usize> = (0..3).map(|round| turns(3, round).next().unwrap()).collect();
        assert_eq!(firsts, [0, 1, 2]);
        for round in 0..7 {
            let mut order: Vec<usize> = turns(3, round).collect();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
    }
}
