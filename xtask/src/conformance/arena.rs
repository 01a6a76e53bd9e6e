//! The arena while a suite asks it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::repo;

/// A server with one worker on a free port. It ends with this value.
#[derive(Debug)]
pub(super) struct Arena {
    child: Child,
    /// Where it listens.
    pub(super) address: String,
    /// Where it listens for HTTP/2 alone, if it was told to.
    pub(super) h2c: Option<String>,
    /// ... and for HTTPS.
    pub(super) tls: Option<String>,
}

impl Arena {
    /// Starts the development build, which has to be there.
    pub(super) fn start(driver: &str, flags: &[&str]) -> Result<Arena, String> {
        let mut command = Command::new(repo::target_dir().join("debug/examples/arena"));
        command.args(["--listen", "127.0.0.1:0", "--workers", "1", "--driver", driver]).args(flags);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("arena: {error}"))?;
        let mut arena = Arena { child, address: String::new(), h2c: None, tls: None };
        let mut line = String::new();
        if let Some(stdout) = arena.child.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| format!("arena: {error}"))?;
        }
        let value = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        arena.address = value("http://").ok_or("arena is not ready; its last words are above")?;
        arena.h2c = value("h2c=");
        arena.tls = value("tls=");
        Ok(arena)
    }

    /// Asks it to stop, and sees that it leaves nothing over.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("arena ended with {ended:?}")),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
