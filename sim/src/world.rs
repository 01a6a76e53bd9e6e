//! A world for a scenario, and what must hold of every world in the end.

use core::future::Future;
use core::pin::Pin;

use plimsoll::sim::{Census, Faults, SimConfig, World as Simulated};
use plimsoll::{MemoryLimit, Runtime};

use crate::plan::Rng;

/// What a scenario knows of its world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Nothing fails, nothing is cut short.
    pub(crate) is_clean: bool,
}

/// What a run came to, to be compared with another run of its seed.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of every event in the world, in order, with its time.
    pub trace_hash: u64,
    /// What happened.
    pub census: Census,
    /// What the scenario says of it.
    pub summary: String,
}

pub(crate) type Scenario = Pin<Box<dyn Future<Output = String>>>;

/// Runs a scenario: half of the seeds have a clean world, a quarter an ordinary bad day, a quarter everything at once.
pub(crate) fn run(seed: u64, workers: usize, scenario: impl FnOnce(World, Rng) -> Scenario) -> Outcome {
    let mut rng = Rng::new(seed);
    let (faults, is_clean) = match seed % 4 {
        0 => (Faults::wild(), false),
        1 => (Faults::mild(), false),
        _ => (Faults::clean(), true),
    };
    let world = Simulated::new(SimConfig {
        socket_buffer_bytes: rng.pick(&[2_048, 8_192, 65_536]),
        segment_bytes_max: rng.pick(&[700, 4_096, 16_384]),
        trace_events_max: 20,
        ..SimConfig::new(seed).with_faults(faults)
    });
    let builder = Runtime::builder().workers(workers).memory(MemoryLimit::mib(32));
    let runtime = builder.simulate(&world).expect("a simulation starts");
    let summary = runtime.block_on(scenario(World { is_clean }, rng));
    let report = runtime.shutdown();
    assert!(report.is_clean(), "the pools drain: {report}");
    assert_eq!(report.in_flight, 0);
    assert!(world.descriptors().is_empty(), "descriptors are left: {:?}", world.descriptors());
    Outcome { trace_hash: world.trace_hash(), census: world.census(), summary }
}
