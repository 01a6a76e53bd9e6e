//! What a world is like, who lives in it, and what one is told to do next.
#![forbid(unsafe_code)]

use core::net::IpAddr;
use core::time::Duration;

use super::faults::Faults;
use crate::time::Instant;

/// What a world is like. [`SimConfig::new`] is a clean one.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Decides everything that is left open.
    pub seed: u64,
    /// What goes wrong. Default: nothing.
    pub faults: Faults,
    /// The shortest one-way time of a connection. Default 50 µs.
    pub latency_min: Duration,
    /// The longest one-way time of a connection. Default 500 µs.
    pub latency_max: Duration,
    /// Bytes of each send buffer and each receive buffer of a socket. Default 64 KiB.
    pub socket_buffer_bytes: usize,
    /// The network carries at most so many bytes in one piece. Default 16 KiB.
    pub segment_bytes_max: usize,
    /// Open descriptors at most. Default 1,048,576.
    pub descriptors_max: u32,
    /// The longest time of a file operation on a good day. Default 200 µs.
    pub file_latency_max: Duration,
    /// Bytes of one file at most. Default 64 MiB.
    pub file_bytes_max: u64,
    /// How many of the last events [`World::trace`](super::World::trace) has. Default 0.
    pub trace_events_max: usize,
    /// Addresses of the simulated hosts besides the loopback ones. Default: none.
    pub hosts: Vec<IpAddr>,
    /// The virtual time at the start. Default 1,000 s.
    pub start: Instant,
}

impl SimConfig {
    /// A clean world of a seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            faults: Faults::clean(),
            latency_min: Duration::from_micros(50),
            latency_max: Duration::from_micros(500),
            socket_buffer_bytes: 64 * 1024,
            segment_bytes_max: 16 * 1024,
            descriptors_max: 1 << 20,
            file_latency_max: Duration::from_micros(200),
            file_bytes_max: 64 * 1024 * 1024,
            trace_events_max: 0,
            hosts: Vec::new(),
            start: Instant::from_millis(1_000_000),
        }
    }

    /// The same, with these faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(super) fn check(&self) {
        assert!(self.latency_min <= self.latency_max, "latencies are an interval");
        assert!(self.socket_buffer_bytes > 0 && self.segment_bytes_max > 0, "the network carries bytes");
        assert!(self.descriptors_max > 0, "a process has descriptors");
    }

    pub(super) fn has_address(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.hosts.contains(&ip)
    }
}

/// A driver's name in its world, in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// How many drivers the world had before it.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// What to do next with the drivers of a world: see [`World::step`](super::World::step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This driver has something to do: give it a turn.
    Run(NodeId),
    /// Every driver waited, and the clock has moved to this time. Ask again.
    Advanced(Instant),
    /// Every driver waits for ever and nothing will happen: a deadlock.
    Stuck,
}

/// A duration in nanoseconds, saturating.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
