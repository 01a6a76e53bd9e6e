//! What is done to a server, and the figure that comes of it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::client::{Client, Connection, Handshakes};
use crate::bench::placement::Placement;
use crate::bench::process::Running;
use crate::bench::servers::{Ability, BLOB_BYTES};
use crate::bench::wrk::{Loading, Run};
use crate::bench::{Extent, client, h2load};

/// A profile; the table in the module above says what each does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    KeepAlive,
    Pipelined,
    Http2,
    Full,
    Resumed,
    Bulk,
    Parked,
}

/// What all measurements need.
pub(super) struct Bed<'a> {
    placement: &'a Placement,
    extent: &'a Extent,
    full: Client,
    dir: PathBuf,
}

/// What is back, 3 s after all connections were closed.
pub(super) struct Burst {
    /// Before, with all connections, and after: bytes that are charged, but for those of the start.
    charged: [u64; 3],
    /// The same of anonymous memory.
    anonymous: [u64; 3],
}

impl Work {
    /// In the order of the report.
    pub(super) const ALL: [Work; 7] =
        [Work::KeepAlive, Work::Pipelined, Work::Http2, Work::Full, Work::Resumed, Work::Bulk, Work::Parked];

    pub(super) fn name(self) -> &'static str {
        match self {
            Work::KeepAlive => "keep-alive",
            Work::Pipelined => "pipelined",
            Work::Http2 => "h2",
            Work::Full => "full",
            Work::Resumed => "resumed",
            Work::Bulk => "bulk",
            Work::Parked => "parked",
        }
    }

    /// What its figure is.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Work::KeepAlive | Work::Pipelined | Work::Http2 => "CPU us/request",
            Work::Full | Work::Resumed => "CPU us/connection",
            Work::Bulk => "CPU s/GB",
            Work::Parked => "bytes/connection",
        }
    }

    pub(super) fn of(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }

    /// What a server has to be able to do for it.
    pub(super) fn needs(self) -> &'static [Ability] {
        match self {
            Work::Full => &[],
            Work::Resumed => &[Ability::Resumes],
            Work::Http2 => &[Ability::Http2, Ability::Stays],
            Work::Bulk => &[Ability::Blob, Ability::Stays],
            Work::KeepAlive | Work::Pipelined | Work::Parked => &[Ability::Stays],
        }
    }
}

impl<'a> Bed<'a> {
    /// Writes what wrk and OpenSSL need into the directory that has the certificate.
    pub(super) fn new(placement: &'a Placement, dir: &Path, extent: &'a Extent) -> Result<Bed<'a>, String> {
        for (name, text) in [
            (OPENSSL_FILE, OPENSSL.to_owned()),
            (script_name(1), script(1, extent.seconds)),
            (script_name(DEPTH), script(DEPTH, extent.seconds)),
        ] {
            fs::write(dir.join(name), text).map_err(|error| format!("{}: {error}", dir.join(name).display()))?;
        }
        Ok(Bed { placement, extent, full: Client::new(dir, Handshakes::Full)?, dir: dir.to_owned() })
    }

    pub(super) fn placement(&self) -> &Placement {
        self.placement
    }

    /// One run; its figure is in the unit of the profile.
    pub(super) fn measure(&self, work: Work, server: &Running) -> Result<f64, String> {
        let figure = match work {
            Work::KeepAlive => self.wrk(server, 512, 1),
            Work::Pipelined => self.wrk(server, 64, DEPTH),
            Work::Http2 => self.h2load(server),
            Work::Full => self.connections(server, Handshakes::Full),
            Work::Resumed => self.connections(server, Handshakes::Resumed),
            Work::Bulk => self.bulk(server),
            Work::Parked => self.parked(server),
        };
        // What the server does for the closes belongs to this run.
        thread::sleep(SETTLE);
        figure
    }

    /// 5,000 connections that have asked once, and their end.
    pub(super) fn burst(&self, server: &Running) -> Result<Burst, String> {
        let said = |error: std::io::Error| error.to_string();
        drop(self.hold(server.address(), WARM_UP)?);
        thread::sleep(GIVEN_BACK);
        // It stays: what it costs is in all three.
        let mut reader = self.full.open(client::from(0), server.address()).map_err(said)?;
        let mut look = || -> Result<(u64, u64), String> {
            let charged = charged(&reader.text("/metrics").map_err(said)?)?;
            Ok((charged, server.memory()?.anonymous_bytes))
        };
        let before = look()?;
        let held = self.hold(server.address(), BURST / self.extent.part as usize)?;
        let full = look()?;
        drop(held);
        thread::sleep(GIVEN_BACK);
        let after = look()?;
        Ok(Burst { charged: [before.0, full.0, after.0], anonymous: [before.1, full.1, after.1] })
    }

    fn wrk(&self, server: &Running, connections: u32, depth: u32) -> Result<f64, String> {
        let seconds = self.extent.seconds;
        let mut command = self.placement.load_command(Path::new("wrk"));
        command.env("OPENSSL_CONF", self.dir.join(OPENSSL_FILE));
        let whole = WARM_SECONDS + seconds + TAIL_SECONDS;
        command.args(["--threads", "1", "--latency", "--connections", &connections.to_string()]);
        command.args(["--duration", &format!("{whole}s"), "--script"]).arg(self.dir.join(script_name(depth)));
        command.arg(format!("https://{}{}", server.address(), client::PATH));
        let loading = Loading::start("wrk", &mut command, whole, middle)?;
        self.window(server, loading)
    }

    fn h2load(&self, server: &Running) -> Result<f64, String> {
        let seconds = self.extent.seconds;
        let mut command = self.placement.load_command(Path::new("h2load"));
        command.env("OPENSSL_CONF", self.dir.join(OPENSSL_FILE));
        command.args(["--threads", "1", "--clients", "32", "--max-concurrent-streams", "32"]);
        command.args(["--warm-up-time", &format!("{WARM_SECONDS}s"), "--duration", &format!("{seconds}s")]);
        command.arg(format!("https://{}{}", server.address(), client::PATH));
        let loading = Loading::start("h2load", &mut command, WARM_SECONDS + seconds, h2load::parse)?;
        self.window(server, loading)
    }

    /// CPU time of the server behind the warm-up, for each request of that time.
    fn window(&self, server: &Running, loading: Loading) -> Result<f64, String> {
        let began = std::time::Instant::now();
        thread::sleep(Duration::from_secs(WARM_SECONDS.into()));
        let (before, from) = (server.cpu()?, began.elapsed());
        thread::sleep(Duration::from_secs(self.extent.seconds.into()));
        let (used, to) = (server.cpu()?.since(&before), began.elapsed());
        let run = loading.finish()?;
        if run.errors.total() > 0 {
            return Err(format!("{:?}", run.errors));
        }
        let requests = run.requests_per_second * (to - from).as_secs_f64();
        if requests < 1.0 || used == 0 {
            return Err("no request was answered".to_owned());
        }
        Ok(used as f64 / 1e3 / requests)
    }

    /// Connections of one request each.
    fn connections(&self, server: &Running, handshakes: Handshakes) -> Result<f64, String> {
        let to = server.address();
        let each = CONNECTIONS / CLIENTS / self.extent.part as usize;
        let clients = (0..CLIENTS).map(|_| {
            let client = Client::new(&self.dir, handshakes)?;
            if handshakes == Handshakes::Resumed {
                // The first has no ticket yet.
                once(&client, 0, to, Handshakes::Full)?;
            }
            Ok(client)
        });
        let clients = clients.collect::<Result<Vec<_>, String>>()?;
        thread::sleep(SETTLE);
        let before = server.cpu()?;
        let done = thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter()
                .map(|client| scope.spawn(move || (0..each).try_for_each(|index| once(client, index, to, handshakes))))
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?)
        });
        done?;
        // The end of the last ones is part of it.
        thread::sleep(SETTLE);
        Ok(server.cpu()?.since(&before) as f64 / 1e3 / (each * CLIENTS) as f64)
    }

    fn bulk(&self, server: &Running) -> Result<f64, String> {
        let said = |error: std::io::Error| error.to_string();
        let path = format!("/blob/{BLOB_BYTES}");
        let open = |index| self.full.open(client::from(index), server.address()).map_err(said);
        let mut open = (0..BULK_CLIENTS).map(open).collect::<Result<Vec<Connection>, _>>()?;
        let blobs = BULK_BLOBS / self.extent.part as usize;
        let fetch = |connection: &mut Connection, blobs: usize| {
            (0..blobs).try_for_each(|_| match connection.get(&path) {
                Ok(BLOB_BYTES) => Ok(()),
                Ok(bytes) => Err(format!("a body of {bytes} bytes")),
                Err(error) => Err(said(error)),
            })
        };
        open.iter_mut().try_for_each(|connection| fetch(connection, 2))?;
        let before = server.cpu()?;
        let done = thread::scope(|scope| {
            let threads: Vec<_> = open.iter_mut().map(|connection| scope.spawn(|| fetch(connection, blobs))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?)
        });
        done?;
        let used = server.cpu()?.since(&before);
        Ok(used as f64 / (BULK_CLIENTS * blobs * BLOB_BYTES) as f64)
    }

    fn parked(&self, server: &Running) -> Result<f64, String> {
        drop(self.hold(server.address(), WARM_UP)?);
        thread::sleep(GIVEN_BACK);
        let before = server.memory()?.anonymous_bytes;
        let count = client::connections_here()? / self.extent.part as usize;
        let held = self.hold(server.address(), count)?;
        thread::sleep(GIVEN_BACK);
        let after = server.memory()?.anonymous_bytes;
        let mut last = [0];
        for socket in &held {
            socket.set_nonblocking(true).map_err(|error| error.to_string())?;
            // A server that closes says so first, in a record.
            if socket.peek(&mut last).is_ok() {
                return Err("the server has closed a connection, or said something unasked".to_owned());
            }
        }
        Ok((after as f64 - before as f64) / count as f64)
    }

    /// So many sockets whose sessions have had an answer.
    fn hold(&self, to: SocketAddr, count: usize) -> Result<Vec<TcpStream>, String> {
        let open = |index| {
            let mut connection = self.full.open(client::from(index), to)?;
            connection.get(client::PATH)?;
            Ok(connection.into_socket())
        };
        (0..count).map(open).collect::<std::io::Result<_>>().map_err(|error| error.to_string())
    }
}

impl Burst {
    /// For the report.
    pub(super) fn line(&self, server: &str) -> String {
        let back =
            |[before, full, after]: [u64; 3]| 100.0 * (full as f64 - after as f64) / (full as f64 - before as f64);
        let kib = |bytes: [u64; 3]| bytes.map(|bytes| bytes / 1024);
        format!(
            "burst: {server}: charged {:?} KiB, {:.1} % of the growth back; anonymous {:?} KiB, {:.1} % back\n",
            kib(self.charged),
            back(self.charged),
            kib(self.anonymous),
            back(self.anonymous)
        )
    }
}

/// A connection of one request.
fn once(client: &Client, index: usize, to: SocketAddr, handshakes: Handshakes) -> Result<(), String> {
    let done = client.open(client::from(index), to).and_then(|mut connection| {
        connection.get(client::PATH)?;
        let is_right = connection.was(handshakes);
        connection.close().map(|()| is_right)
    });
    match done {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("a handshake is not {handshakes:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// What the metrics of ours say is charged, all kinds.
fn charged(metrics: &str) -> Result<u64, String> {
    let kinds =
        metrics.lines().filter_map(|line| line.strip_prefix("plimsoll_budget_charged_bytes{")?.split_once("} "));
    let kinds: Vec<u64> = kinds.filter_map(|(_, bytes)| bytes.trim().parse().ok()).collect();
    if kinds.is_empty() { Err("the metrics have no charged bytes".to_owned()) } else { Ok(kinds.iter().sum()) }
}

/// What wrk says, with the rate of the middle in the place of that of the whole.
fn middle(said: &str) -> Option<Run> {
    let line = said.lines().find_map(|line| line.strip_prefix("Middle: "))?;
    let (batches, seconds) = line.strip_suffix(" s")?.split_once(" requests in ")?;
    let (requests, seconds): (f64, f64) = (batches.parse().ok()?, seconds.parse().ok()?);
    let run = Run::parse(said, true)?;
    Some(Run { requests_per_second: requests / seconds, ..run })
}

fn script_name(depth: u32) -> &'static str {
    if depth == 1 { "one.lua" } else { "pipelined.lua" }
}

/// A script that sends so many requests at once and counts them between the end of the warm-up and that of the window:
/// the handshakes at the beginning are in wrk's own rate.
fn script(depth: u32, seconds: u32) -> String {
    let end = WARM_SECONDS + seconds;
    format!(
        r#"local ffi = require("ffi")
ffi.cdef[[
typedef struct {{ long seconds; long ns; }} moment;
int clock_gettime(int clock, moment *now);
]]
local moment = ffi.new("moment")
local function now()
  ffi.C.clock_gettime(1, moment)
  return tonumber(moment.seconds) + tonumber(moment.ns) / 1e9
end
local threads = {{}}
function setup(thread)
  table.insert(threads, thread)
end
function init(args)
  batch = string.rep(wrk.format("GET"), {depth})
  asked, first, first_at, last, last_at = 0, 0, 0, 0, 0
  began = now()
end
function request()
  asked = asked + 1
  if asked % 16 == 0 and last_at == 0 then
    local at = now()
    if first_at == 0 and at - began >= {WARM_SECONDS} then
      first, first_at = asked, at
    elseif at - began >= {end} then
      last, last_at = asked, at
    end
  end
  return batch
end
function done(summary, latency, requests)
  local thread = threads[1]
  local batches = thread:get("last") - thread:get("first")
  local time = thread:get("last_at") - thread:get("first_at")
  io.write(string.format("Middle: %d requests in %.6f s\n", batches * {depth}, time))
end
"#
    )
}

/// TLS 1.3 with one suite and one group, for programs with OpenSSL.
const OPENSSL: &str = "openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n\
    MinProtocol = TLSv1.3\nCiphersuites = TLS_AES_128_GCM_SHA256\nGroups = X25519\n";
const OPENSSL_FILE: &str = "openssl.cnf";
/// Requests of a pipeline.
const DEPTH: u32 = 16;
/// In which all connections have shaken hands.
const WARM_SECONDS: u32 = 2;
/// Behind the window.
const TAIL_SECONDS: u32 = 1;
/// Connections of a round of handshakes, and clients that make them.
const CONNECTIONS: usize = 800;
const CLIENTS: usize = 8;
const BULK_CLIENTS: usize = 4;
/// Of each.
const BULK_BLOBS: usize = 128;
const BURST: usize = 5_000;
const WARM_UP: usize = 200;
const SETTLE: Duration = Duration::from_millis(300);
/// Until a server has given back what it gives back.
const GIVEN_BACK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    //! What programs say is understood.

    use super::{Work, charged, middle, script};

    #[test]
    fn the_rate_of_the_middle_is_taken() {
        let said = "    50%  495.00us\n    99%    1.21ms\n  100 requests in 2.10s, 29.68MB read\nRequests/sec: 47.6\n\
            Middle: 64 requests in 2.000000 s\n";
        assert_eq!(middle(said).unwrap().requests_per_second, 32.0);
        assert!(middle(&said.replace("Middle", "Muddle")).is_none());
    }

    #[test]
    fn charged_bytes_are_added() {
        let metrics = "# plimsoll_budget_charged_bytes\nplimsoll_budget_charged_bytes{kind=\"a\"} 5\nplimsoll_budget_charged_bytes{kind=\"b\"} 7\n";
        assert_eq!(charged(metrics), Ok(12));
        assert!(charged("nothing").is_err());
    }

    #[test]
    fn names_are_found_and_scripts_have_their_depth() {
        for work in Work::ALL {
            assert_eq!(Work::of(work.name()), Some(work));
        }
        assert!(script(16, 3).contains("wrk.format(\"GET\"), 16)") && script(1, 3).contains(">= 5 then"));
    }
}
