//! The side that starts the clients and listens to them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::Event;
use crate::bench::placement::Placement;

/// The process of the clients. It ends with this value.
#[derive(Debug)]
pub(crate) struct Swarm {
    child: Child,
    events: Receiver<Event>,
    deadline: Instant,
}

impl Swarm {
    /// Starts the clients of a load, for so many seconds if it is a profile, and with one `part`th of its connections.
    pub(crate) fn start(
        load: &str,
        server: SocketAddr,
        seconds: Option<u32>,
        part: u32,
        placement: &Placement,
    ) -> Result<Swarm, String> {
        let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
        let mut command = placement.load_command(&program);
        command.args(["bench-load", load, &server.to_string(), "--part", &part.to_string()]);
        if let Some(seconds) = seconds {
            command.args(["--seconds", &seconds.to_string()]);
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("the clients did not start: {error}"))?;
        let (sender, events) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // It ends when the process does.
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines() {
                    let event = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                    if event.is_none_or(|event| sender.send(event).is_err()) {
                        return;
                    }
                }
            });
        }
        let time = seconds.map_or(LIMIT, |seconds| Duration::from_secs(seconds.into()) + GRACE);
        Ok(Swarm { child, events, deadline: Instant::now() + time })
    }

    /// What the clients say next; an error if they end before, or take too long.
    pub(crate) fn next(&self) -> Result<Event, String> {
        self.events.recv_timeout(self.deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => "the clients take too long".to_owned(),
            RecvTimeoutError::Disconnected => "the clients ended before they were done".to_owned(),
        })
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Longer than the clients take for a plan that has an end.
const LIMIT: Duration = Duration::from_secs(40);
const GRACE: Duration = Duration::from_secs(10);
