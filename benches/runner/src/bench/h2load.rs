//! h2load: what it is told, and what it says.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::placement::Placement;
use super::wrk::{Errors, Loading, Run};

/// What h2load sends, in HTTP/2 with prior knowledge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) target: &'a str,
    pub(super) connections: u32,
    /// Requests that wait for an answer on each connection at a time; at least 1.
    pub(super) streams: u32,
}

/// Begins to load a server for some time.
pub(super) fn start(
    placement: &Placement,
    load: Load<'_>,
    address: SocketAddr,
    seconds: u32,
) -> Result<Loading, String> {
    let mut command = placement.load_command(Path::new("h2load"));
    command.args(["--threads", "1", "--duration", &format!("{seconds}s")]);
    command.args(["--clients", &load.connections.to_string()]);
    command.args(["--max-concurrent-streams", &load.streams.to_string()]);
    command.arg(format!("http://{address}{}", load.target));
    Loading::start("h2load", &mut command, seconds, parse)
}

/// What to install when there is no h2load.
pub(super) fn missing() -> Option<&'static str> {
    let mut command = Command::new("h2load");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_err().then_some("no h2load: apt-get install nghttp2-client")
}

/// Reads what h2load prints. Its latencies have no percentiles, so there are none.
pub(super) fn parse(said: &str) -> Option<Run> {
    let after = |label: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim);
    let requests_per_second = after("finished in ")?.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    let (requests, statuses) = (after("requests: ")?, after("status codes: ")?);
    let done = count(requests, "done")?;
    let errors = Errors {
        read: count(requests, "failed")? + count(requests, "errored")?,
        timeout: count(requests, "timeout")?,
        status: count(statuses, "4xx")? + count(statuses, "5xx")?,
        ..Errors::default()
    };
    Some(Run { requests: done, requests_per_second, p50_us: None, p99_us: None, errors })
}

/// The number before a word in a list such as `5 total, 4 done`.
fn count(list: &str, word: &str) -> Option<u64> {
    let item = list.split(", ").find_map(|item| item.strip_suffix(word))?;
    item.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    //! What h2load says is understood.

    use super::parse;

    const SAID: &str = "\
finished in 2.00s, 504311.50 req/s, 13.47MB/s
requests: 1008623 total, 1008623 started, 1008623 done, 1008620 succeeded, 3 failed, 1 errored, 2 timeout
status codes: 1008620 2xx, 0 3xx, 4 4xx, 5 5xx
traffic: 26.94MB (28246660) total, 7.70MB (8073048) headers (space savings 92.08%), 1.92MB (2017246) data
";

    #[test]
    fn counts_and_errors_are_read() {
        let run = parse(SAID).unwrap();
        assert_eq!((run.requests, run.requests_per_second, run.p99_us), (1_008_623, 504_311.5, None));
        assert_eq!((run.errors.read, run.errors.timeout, run.errors.status), (4, 2, 9));
        assert_eq!(run.errors.total(), 15);
    }

    #[test]
    fn what_is_something_else_is_not_made_up() {
        assert_eq!(parse("h2load: unrecognized option"), None);
        assert_eq!(parse(&SAID.replace("done", "ready")), None);
    }
}
