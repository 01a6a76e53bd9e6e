//! Clients of our own, for what wrk cannot do: connections that end, stay, stall, or do not read.
//!
//! They run in a process of their own, which this program starts from itself on the load's core; it is told the name of
//! a load and says on stdout, a JSON object a line, where it is ([`Event`]). They come from twenty addresses of
//! loopback, as one has too few ports for many connections, and end in time whatever the server does.
//!
//! | part | file |
//! |---|---|
//! | what the connections do | [`plan`] |
//! | one connection | [`connection`] |
//! | its answers | [`answer`] |
//! | the same of a WebSocket | [`websocket`] |
//! | all of them on one thread | [`engine`] |
//! | the side that starts it and listens | [`guide`] |

mod answer;
mod connection;
mod engine;
pub(crate) mod guide;
pub(super) mod plan;
pub(crate) mod websocket;

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::{EXIT_FAILED, EXIT_OK, SwarmFlags};

/// What the process says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A quarter of the time has gone: the window that counts begins.
    Begin(Tally),
    /// Three quarters.
    End(Tally),
    /// All connections are where they are held.
    Held(Tally),
    /// It is over.
    Done(Tally),
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Since the start.
    pub(crate) seconds: f64,
    /// Answered ones.
    pub(crate) requests: u64,
    /// Of bodies.
    pub(crate) sent_bytes: u64,
    pub(crate) opened: u64,
    /// Not opened: refused or timed out.
    pub(crate) refused: u64,
    /// Closed by the server before the plan was done.
    pub(crate) closed: u64,
    /// Answered with something else than 200, or with what is no answer; closed then.
    pub(crate) wrong: u64,
    /// Neither done nor failed when the time was up.
    pub(crate) unfinished: u64,
    /// From the request to the end of its answer; none before the end.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

impl Tally {
    /// What must not happen.
    pub(crate) fn errors(&self) -> u64 {
        self.refused + self.closed + self.wrong + self.unfinished
    }
}

/// The process: does what the load of this name says to the server at this address.
pub(crate) fn run(flags: &SwarmFlags) -> u8 {
    let Some(plan) = super::loads::plan(&flags.load) else {
        eprintln!("no load of this kind: {}", flags.load);
        return EXIT_FAILED;
    };
    let address: SocketAddr = flags.to;
    let plan = plan.scaled(flags.part);
    let say = |event: &Event| {
        let mut stdout = std::io::stdout().lock();
        let said = serde_json::to_writer(&mut stdout, event).map_err(std::io::Error::from);
        // Nobody listens any more: there is nothing to be done for.
        if said.and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()).is_err() {
            std::process::exit(i32::from(EXIT_FAILED));
        }
    };
    match engine::run(&plan, address, flags.seconds.map(|seconds| Duration::from_secs(seconds.into())), say) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            eprintln!("{}: {error}", flags.load);
            EXIT_FAILED
        }
    }
}
