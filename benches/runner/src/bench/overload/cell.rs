//! One load on one server that was started for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::ask::{Ask, Wire};
use super::counts::Counts;
use super::engine::{self, Plan};
use super::ledger::Tally;
use super::light;
use super::profiles::Profile;
use super::record::Cell;
use super::schedule::{Spacing, arrivals, merged};
use crate::bench::placement::{self, Placement};
use crate::bench::process::Running;
use crate::bench::servers::Server;
use crate::random::Random;

/// Where servers are measured, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bed<'a> {
    pub(super) placement: &'a Placement,
    /// At least so long goodput is counted.
    pub(super) window: Duration,
    /// A search for what fits ends when it knows it to this share.
    pub(super) precision: f64,
    pub(super) seed: u64,
}

/// A server with the word that says how much it may take: a line, or a limit.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) server: &'static Server,
    pub(super) word: String,
}

/// What an engine found, and the server's time on a core meanwhile.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) tallies: Vec<Tally>,
    /// In the window.
    pub(super) cpu_ns: u64,
}

impl Bed<'_> {
    pub(super) fn start(&self, subject: &Subject) -> Result<Running, String> {
        Running::start(subject.server, &subject.word, self.placement)
    }

    /// The clients of a plan, and how much the server works in its window.
    pub(super) fn load(&self, plan: &Plan, server: &Running) -> Result<Loaded, String> {
        let (from, until) = plan.window;
        thread::scope(|scope| {
            let watch = scope.spawn(move || {
                thread::sleep(from);
                let before = server.cpu()?;
                thread::sleep(until.saturating_sub(from));
                Ok::<u64, String>(server.cpu()?.since(&before))
            });
            let tallies = engine::run(plan, server.address()).map_err(|error| format!("the clients: {error}"));
            let cpu_ns = watch.join().unwrap_or_else(|_| Err("the watch over the CPU time panicked".to_owned()));
            Ok(Loaded { tallies: tallies?, cpu_ns: cpu_ns? })
        })
    }

    /// A load at a multiple of what fits.
    pub(super) fn cell(&self, subject: &Subject, profile: &Profile, fits: f64, factor: f64) -> Result<Cell, String> {
        let load_average = placement::load_average();
        let mut running = self.start(subject)?;
        let plan = self.plan(profile, fits * factor);
        let stop = AtomicBool::new(false);
        let (loaded, light) = thread::scope(|scope| {
            let light = scope.spawn(|| light::run(running.address(), &stop));
            let loaded = self.load(&plan, &running);
            stop.store(true, Ordering::Relaxed);
            (loaded, light.join().unwrap_or_default())
        });
        if let Some(death) = running.death() {
            return Err(death);
        }
        let loaded = loaded?;
        let tally = *loaded.tallies.first().ok_or("a plan without asks")?;
        let counts = if subject.server.is_installed() {
            // It has no handlers that could be counted.
            Counts { begun: tally.served, finished: tally.served, dropped: 0 }
        } else {
            Counts::settled(running.address(), profile.ask.kind())?
        };
        // The light client has handlers of the same kind then.
        let also_light = u64::from(profile.ask.kind() == "tiny") * (light.asked - light.failed);
        let counts = if subject.server.is_installed() { counts } else { counts.without(also_light) };
        let window_seconds = (plan.window.1 - plan.window.0).as_secs_f64();
        Ok(Cell {
            factor,
            offered_per_second: fits * factor,
            window_seconds,
            tally,
            light,
            counts,
            difference: counts.beside(&tally),
            cpu_share: loaded.cpu_ns as f64 / 1e9 / window_seconds,
            peak_rss_bytes: running.peak_resident_bytes()?,
            load_average,
        })
    }

    fn plan(&self, profile: &Profile, rate: f64) -> Plan {
        let takes = profile.ask.takes();
        let warm = takes.max(WARM_MIN);
        // What begins together ends together: a whole number of such waves is in the window.
        let waves = (self.window.as_secs_f64() / takes.as_secs_f64().max(0.001)).ceil().max(1.0);
        let window = if takes >= LONG { takes.mul_f64(waves) } else { self.window };
        let end = warm + window;
        let mut random = Random::new(self.seed);
        let plan = Plan {
            asks: vec![profile.ask.clone()],
            arrivals: arrivals(0, rate, Spacing::Poisson, (Duration::ZERO, end), &mut random),
            window: (warm, end),
            late_after: WAIT_MAX,
            until: end + takes + WAIT_MAX,
        };
        waking(plan, profile)
    }
}

/// With requests for `/wake` in between, if the profile has them.
pub(super) fn waking(mut plan: Plan, profile: &Profile) -> Plan {
    if let Some(every) = profile.wake_ms {
        plan.asks.push(Ask { group: 1, ..Ask::get("/wake", 0, Wire::Kept) });
        let rate = 1_000.0 / every as f64;
        let span = (Duration::ZERO, plan.until);
        plan.arrivals = merged(plan.arrivals, arrivals(1, rate, Spacing::Even, span, &mut Random::new(1)));
    }
    plan
}

/// Requests that take so long fill places rather than a core.
pub(super) const LONG: Duration = Duration::from_millis(500);
const WARM_MIN: Duration = Duration::from_millis(500);
/// So long a client waits beyond what its request takes.
const WAIT_MAX: Duration = Duration::from_secs(4);
