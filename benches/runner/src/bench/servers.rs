//! Which servers there are. A new one is a line in [`ALL`]; nothing else has to know it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

use crate::repo;

/// A server that can be measured: one thread that serves, HTTP/1.1 on 127.0.0.1.
#[derive(Debug)]
pub(super) struct Server {
    /// As the report calls it.
    pub(super) name: &'static str,
    program: Program,
    /// Words after the program; `{port}`, `{target}` (of the load's requests), `{dir}` (a folder of its own) and
    /// `{tls}` (that of the certificate) are replaced.
    arguments: &'static str,
    /// How it waits for the kernel, which decides the floor that it is compared with.
    pub(super) driver: Driver,
    /// What it cannot do, and why.
    cannot: &'static [(Ability, &'static str)],
    http2: Http2,
}

/// Whether a server speaks HTTP/2 with clients that know it beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2 {
    No,
    Too,
    Alone,
}

/// What is built, or has to be installed, for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// An example of this workspace: ours.
    Example(&'static str),
    /// An example, built with a feature of the examples.
    Featured(&'static str, &'static str),
    /// A program of `plimsoll-benches`: ours, too.
    Bench(&'static str),
    /// A package of `benches/peers`, which is a workspace of its own, and the crate whose version it shows.
    Peer(&'static str, &'static str),
    /// A folder of `benches/peers` with a program in Go.
    Go(&'static str),
    /// A program that is installed, from the package of this name; its configuration, which `{dir}/config` is.
    Installed(&'static str, &'static str, &'static str),
}

/// How a server waits for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    Uring,
    Epoll,
}

/// What a load may need of a server, beside `GET /pipeline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// `GET /json/50`.
    Json,
    /// `POST /upload`.
    Upload,
    /// `GET /blob/1048576`.
    Blob,
    /// `/ws`, which sends back what comes.
    WebSocket,
    /// `GET /pipeline` in HTTP/2.
    Http2,
    /// Those of `--overload` that take their time.
    Handlers,
    /// More than one request on a connection, and connections beside each other.
    Stays,
    /// Handshakes of TLS 1.3 with a ticket.
    Resumes,
}

const ARENA: Program = Program::Example("arena");
const RELAY: Program = Program::Example("relay");
const PUSH: Program = Program::Example("push");
const OVERLOAD: Program = Program::Bench("overload");
const HYPER: Program = Program::Peer("peer-hyper", "hyper");
const SECURED_ARENA: Program = Program::Featured("arena", "tls-aws-lc");
const SECURED_HYPER: Program = Program::Peer("peer-hyper-tls", "hyper");
const ARENA_URING: &str =
    "--workers 1 --driver uring --listen 127.0.0.1:0 --tls 127.0.0.1:{port} --cert {tls}/cert.pem --key {tls}/key.pem";
const ARENA_EPOLL: &str =
    "--workers 1 --driver mio --listen 127.0.0.1:0 --tls 127.0.0.1:{port} --cert {tls}/cert.pem --key {tls}/key.pem";
const COMPACT_URING: &str = "--workers 1 --driver uring --listen 127.0.0.1:0 --tls 127.0.0.1:{port} --cert {tls}/cert.pem --key {tls}/key.pem --tls-compact";
const COMPACT_EPOLL: &str = "--workers 1 --driver mio --listen 127.0.0.1:0 --tls 127.0.0.1:{port} --cert {tls}/cert.pem --key {tls}/key.pem --tls-compact";
const FILES: &str = "127.0.0.1:{port} {tls}/cert.pem {tls}/key.pem";
const FILES_FLUSH: &str = "127.0.0.1:{port} {tls}/cert.pem {tls}/key.pem --pipeline-flush";
/// That of handshakes.
pub(super) const FLOOR_RUSTLS: &str = "floor-rustls";
const ADDRESS: &str = "127.0.0.1:{port}";

/// The servers, in the order of the report.
pub(super) static ALL: &[Server] = &[
    server("plimsoll-uring", ARENA, "--workers 1 --driver uring --listen 127.0.0.1:{port}", Driver::Uring, &[])
        .http2(Http2::Too),
    server("plimsoll-mio", ARENA, "--workers 1 --driver mio --listen 127.0.0.1:{port}", Driver::Epoll, &[])
        .http2(Http2::Too),
    server(FLOOR_URING, Program::Peer(FLOOR_URING, "io-uring"), FIXED, Driver::Uring, FLOOR_OF_URING),
    server(FLOOR_EPOLL, Program::Peer(FLOOR_EPOLL, "rustix"), FIXED, Driver::Epoll, FLOOR),
    server(BASELINE, HYPER, ADDRESS, Driver::Epoll, PLAIN),
    server("hyper-pipeline-flush", HYPER, "127.0.0.1:{port} --pipeline-flush", Driver::Epoll, PLAIN),
    server(BASELINE_HTTP2, Program::Peer("peer-hyper-h2", "hyper"), ADDRESS, Driver::Epoll, PLAIN).http2(Http2::Alone),
    server("axum", Program::Peer("peer-axum", "axum"), ADDRESS, Driver::Epoll, &[]),
    server("actix-web", Program::Peer("peer-actix", "actix-web"), ADDRESS, Driver::Epoll, &[]),
    server("ntex", Program::Peer("peer-ntex", "ntex"), ADDRESS, Driver::Uring, PLAIN),
    server("may-minihttp", Program::Peer("peer-may", "may_minihttp"), ADDRESS, Driver::Epoll, MAY),
    server("httparse-tokio", Program::Peer("peer-httparse-tokio", "tokio"), ADDRESS, Driver::Epoll, PLAIN),
    server("httparse-monoio", Program::Peer("peer-httparse-monoio", "monoio"), ADDRESS, Driver::Uring, PLAIN),
    server("httparse-compio", Program::Peer("peer-httparse-compio", "compio"), ADDRESS, Driver::Uring, PLAIN),
    server("nginx", Program::Installed("nginx", "nginx", NGINX), "-p {dir} -c {dir}/config", Driver::Epoll, STATIC),
    server("h2o", Program::Installed("h2o", "h2o", H2O), "-c {dir}/config", Driver::Epoll, STATIC).http2(Http2::Too),
    server("haproxy", Program::Installed("haproxy", "haproxy", HAPROXY), "-db -f {dir}/config", Driver::Epoll, PROXY),
];

/// Ours with a low line, for loads that want more.
pub(super) static AT_THE_LINE: &[Server] = &[
    server(
        "low-line-uring",
        ARENA,
        "--workers 1 --memory 16MiB --driver uring --listen 127.0.0.1:{port}",
        Driver::Uring,
        &[],
    ),
    server(
        "low-line-mio",
        ARENA,
        "--workers 1 --memory 16MiB --driver mio --listen 127.0.0.1:{port}",
        Driver::Epoll,
        &[],
    ),
];
/// What that line is.
pub(super) const LOW_LINE_BYTES: u64 = 16 << 20;

/// The relays of `--relay`; `{target}` is where they connect to.
pub(super) static RELAYS: &[Server] = &[
    server(
        "plimsoll-uring",
        RELAY,
        "--workers 1 --driver uring --listen 127.0.0.1:{port} --to {target}",
        Driver::Uring,
        &[],
    ),
    server(
        "plimsoll-mio",
        RELAY,
        "--workers 1 --driver mio --listen 127.0.0.1:{port} --to {target}",
        Driver::Epoll,
        &[],
    ),
    server("floor", Program::Peer("peer-relay-floor", "rustix"), FIXED, Driver::Epoll, &[]),
    server(
        "floor-splice",
        Program::Peer("peer-relay-floor", "rustix"),
        "127.0.0.1:{port} {target} --splice",
        Driver::Epoll,
        &[],
    ),
    server("tokio", Program::Peer("peer-relay-tokio", "tokio"), FIXED, Driver::Epoll, &[]),
    server(
        "nginx",
        Program::Installed("nginx", "libnginx-mod-stream", NGINX_STREAM),
        "-p {dir} -c {dir}/config",
        Driver::Epoll,
        &[],
    ),
    server("haproxy", Program::Installed("haproxy", "haproxy", HAPROXY_TCP), "-db -f {dir}/config", Driver::Epoll, &[]),
];

/// The servers of `--fanout`; `{target}` is the policy for slow members.
pub(super) static PUSHERS: &[Server] = &[
    server(
        "plimsoll-uring",
        PUSH,
        "--workers 1 --driver uring --listen 127.0.0.1:{port} --slow {target}",
        Driver::Uring,
        &[],
    ),
    server(
        "plimsoll-mio",
        PUSH,
        "--workers 1 --driver mio --listen 127.0.0.1:{port} --slow {target}",
        Driver::Epoll,
        &[],
    ),
];

/// The servers of `--overload`; `{target}` is the memory line of ours, and how many requests the others take at a time.
pub(super) static OVERLOADED: &[Server] = &[
    server(
        "plimsoll-uring",
        OVERLOAD,
        "--workers 1 --driver uring --listen 127.0.0.1:{port} --memory {target}",
        Driver::Uring,
        &[],
    )
    .http2(Http2::Too),
    server(
        "plimsoll-mio",
        OVERLOAD,
        "--workers 1 --driver mio --listen 127.0.0.1:{port} --memory {target}",
        Driver::Epoll,
        &[],
    )
    .http2(Http2::Too),
    server(BASELINE, Program::Peer("overload-hyper", "hyper"), FIXED, Driver::Epoll, PLAIN).http2(Http2::Too),
    server("axum", Program::Peer("overload-axum", "axum"), FIXED, Driver::Epoll, &[]).http2(Http2::Too),
    server(
        "nginx",
        Program::Installed("nginx", "nginx", NGINX_OVERLOAD),
        "-p {dir} -c {dir}/config",
        Driver::Epoll,
        &[(Ability::Handlers, "it has no handlers"), NO_WEBSOCKET],
    ),
];

/// The servers of `--tls`, all with the same certificate.
pub(super) static SECURED: &[Server] = &[
    server("plimsoll-uring", SECURED_ARENA, ARENA_URING, Driver::Uring, &[]).http2(Http2::Too),
    server("plimsoll-mio", SECURED_ARENA, ARENA_EPOLL, Driver::Epoll, &[]).http2(Http2::Too),
    server("compact-uring", SECURED_ARENA, COMPACT_URING, Driver::Uring, &[]).http2(Http2::Too),
    server("compact-mio", SECURED_ARENA, COMPACT_EPOLL, Driver::Epoll, &[]).http2(Http2::Too),
    server(FLOOR_RUSTLS, Program::Peer(FLOOR_RUSTLS, "rustls"), FILES, Driver::Epoll, FLOOR_OF_HANDSHAKES),
    server(BASELINE, SECURED_HYPER, FILES, Driver::Epoll, &[]).http2(Http2::Too),
    server("hyper-pipeline-flush", SECURED_HYPER, FILES_FLUSH, Driver::Epoll, &[]).http2(Http2::Too),
    server("actix-web", Program::Peer("peer-actix-tls", "actix-web"), FILES, Driver::Epoll, &[]).http2(Http2::Too),
    server("go", Program::Go("go-tls"), FILES, Driver::Epoll, &[]).http2(Http2::Too),
    server("nginx", Program::Installed("nginx", "nginx", NGINX_TLS), "-p {dir} -c {dir}/config", Driver::Epoll, &[])
        .http2(Http2::Too),
    server(
        "haproxy",
        Program::Installed("haproxy", "haproxy", HAPROXY_TLS),
        "-db -f {dir}/config",
        Driver::Epoll,
        PROXY,
    )
    .http2(Http2::Too),
    server("h2o", Program::Installed("h2o", "h2o", H2O_TLS), "-c {dir}/config", Driver::Epoll, NO_TICKETS)
        .http2(Http2::Too),
];

/// The server that all are compared with.
pub(super) const BASELINE: &str = "hyper";
/// The same in HTTP/2, as a program of its own.
pub(super) const BASELINE_HTTP2: &str = "hyper-h2";

/// What `--quick` measures: ours, the floors and the baseline.
const QUICK: [&str; 4] = [FLOOR_URING, FLOOR_EPOLL, BASELINE, BASELINE_HTTP2];

const FLOOR_URING: &str = "floor-uring";
const FLOOR_EPOLL: &str = "floor-epoll";
const FIXED: &str = "127.0.0.1:{port} {target}";

const FLOOR: &[(Ability, &str)] =
    &[(Ability::Upload, "a floor answers at the end of the head"), (Ability::Blob, "a floor has one short answer")];
const FLOOR_OF_HANDSHAKES: &[(Ability, &str)] =
    &[FLOOR[1], (Ability::Stays, "it gives one answer, and takes one connection at a time")];
const FLOOR_OF_URING: &[(Ability, &str)] = &[FLOOR[0], FLOOR[1], (Ability::WebSocket, "the one on epoll does")];
const NO_WEBSOCKET: (Ability, &str) =
    (Ability::WebSocket, "it has no WebSockets of its own, or they are not set up here");
const NO_TICKETS: &[(Ability, &str)] = &[(Ability::Resumes, "version 2.2 does not take its tickets of TLS 1.3 here")];
const PLAIN: &[(Ability, &str)] = &[NO_WEBSOCKET];
const MAY: &[(Ability, &str)] = &[(Ability::Blob, "its answers are bodies in one piece"), NO_WEBSOCKET];
const STATIC: &[(Ability, &str)] =
    &[(Ability::Json, "it serves files and fixed answers"), (Ability::Upload, "it counts no bytes"), NO_WEBSOCKET];
const PROXY: &[(Ability, &str)] = &[
    (Ability::Json, "it serves fixed answers"),
    (Ability::Upload, "it counts no bytes"),
    (Ability::Blob, "its fixed answers are no larger than a buffer"),
    NO_WEBSOCKET,
];

const NGINX: &str = include_str!("../../../peers/packages/nginx.conf");
const NGINX_OVERLOAD: &str = include_str!("../../../peers/packages/nginx-overload.conf");
const H2O: &str = include_str!("../../../peers/packages/h2o.conf");
const NGINX_STREAM: &str = include_str!("../../../peers/packages/nginx-stream.conf");
const HAPROXY_TCP: &str = include_str!("../../../peers/packages/haproxy-tcp.cfg");
const NGINX_TLS: &str = include_str!("../../../peers/packages/nginx-tls.conf");
const H2O_TLS: &str = include_str!("../../../peers/packages/h2o-tls.conf");
const HAPROXY_TLS: &str = include_str!("../../../peers/packages/haproxy-tls.cfg");
const HAPROXY: &str = include_str!("../../../peers/packages/haproxy.cfg");

const fn server(
    name: &'static str,
    program: Program,
    arguments: &'static str,
    driver: Driver,
    cannot: &'static [(Ability, &'static str)],
) -> Server {
    Server { name, program, arguments, driver, cannot, http2: Http2::No }
}

impl Driver {
    /// The server that costs least on it.
    pub(super) fn floor(self) -> &'static str {
        match self {
            Driver::Uring => FLOOR_URING,
            Driver::Epoll => FLOOR_EPOLL,
        }
    }
}

impl Server {
    const fn http2(self, http2: Http2) -> Server {
        Server { http2, ..self }
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self.program, Program::Example(_) | Program::Featured(..) | Program::Bench(_))
    }

    /// Not built here: it may do what it likes with itself.
    pub(super) fn is_installed(&self) -> bool {
        matches!(self.program, Program::Installed(..))
    }

    /// Why it cannot do this, if it cannot.
    pub(super) fn cannot(&self, needed: Option<Ability>) -> Option<&'static str> {
        match (self.http2, needed) {
            (Http2::No, Some(Ability::Http2)) => return Some("it is measured in HTTP/1.1"),
            (Http2::Alone, needed) if needed != Some(Ability::Http2) => return Some("it is measured in HTTP/2"),
            _ => {}
        }
        self.cannot.iter().find(|(ability, _)| Some(*ability) == needed).map(|(_, why)| *why)
    }

    /// The program to start.
    pub(super) fn path(&self) -> PathBuf {
        match self.program {
            Program::Example(name) | Program::Featured(name, _) => {
                repo::target_dir().join("release/examples").join(name)
            }
            Program::Go(name) => go_dir().join(name),
            Program::Bench(name) => repo::target_dir().join("release").join(name),
            Program::Peer(name, _) => peers_target_dir().join("release").join(name),
            Program::Installed(name, ..) => installed(name).unwrap_or_else(|| name.into()),
        }
    }

    /// The words after the program.
    pub(super) fn arguments(&self, port: u16, target: &str) -> Vec<String> {
        let dir = self.dir().display().to_string();
        let fill = |word: &str| fill(word, port, &dir).replace("{target}", target);
        self.arguments.split_whitespace().map(fill).collect()
    }

    /// Writes what it needs beside its program: a configuration for this port, and the files that it serves.
    pub(super) fn prepare(&self, port: u16, target: &str) -> io::Result<()> {
        let Program::Installed(_, _, config) = self.program else { return Ok(()) };
        let dir = self.dir();
        for folder in ["files/blob", "body"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        fs::write(dir.join("files/pipeline"), "ok")?;
        fs::write(dir.join("files/blob").join(BLOB_BYTES.to_string()), vec![b'p'; BLOB_BYTES])?;
        fs::write(dir.join("config"), fill(config, port, &dir.display().to_string()).replace("{target}", target))
    }

    /// A folder of its own.
    fn dir(&self) -> PathBuf {
        super::dir().join("servers").join(self.name)
    }

    /// Which version it is, as far as that can be known.
    pub(super) fn version(&self) -> Option<String> {
        match self.program {
            Program::Example(_) | Program::Featured(..) | Program::Bench(_) => None,
            Program::Go(_) => {
                let said = Command::new("go").args(["env", "GOVERSION"]).output().ok()?;
                Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
            }
            Program::Peer(_, of) => {
                let lock = fs::read_to_string(repo::root().join("benches/peers/Cargo.lock")).ok()?;
                locked_version(&lock, of).map(|version| format!("{of} {version}"))
            }
            Program::Installed(name, ..) => {
                let said = Command::new(installed(name)?).arg("-v").output().ok()?;
                // nginx says it on stderr.
                let said = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
                let version = said.iter().flat_map(|text| text.split([' ', '/', '\n'])).find(number)?;
                Some(format!("{name} {version}"))
            }
        }
    }
}

impl Program {
    /// Builds it, or finds it. The error says what to do.
    fn make(self) -> Result<(), String> {
        let mut cargo = repo::cargo();
        cargo.args(["build", "--release", "--locked", "--target-dir"]);
        match self {
            Program::Example(name) => cargo.arg(repo::target_dir()).args(["--example", name]),
            Program::Featured(name, feature) => cargo.arg(repo::target_dir()).args([
                "-p",
                "plimsoll-examples",
                "--example",
                name,
                "--features",
                feature,
            ]),
            Program::Go(name) => return go(name),
            Program::Bench(name) => cargo.arg(repo::target_dir()).args(["-p", "plimsoll-benches", "--bin", name]),
            Program::Peer(name, _) => {
                cargo.arg(peers_target_dir()).args(["--manifest-path", "benches/peers/Cargo.toml", "--package", name])
            }
            Program::Installed(name, package, _) => {
                let missing = || format!("no {name}: apt-get install {package}");
                return installed(name).map(drop).ok_or_else(missing);
            }
        };
        match cargo.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the build ended with {status}")),
            Err(error) => Err(format!("the build did not start: {error}")),
        }
    }
}

/// Builds the program in Go of a folder of the peers; the error says what to do.
fn go(name: &str) -> Result<(), String> {
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(go_dir().join(name)).arg(".");
    match command.current_dir(repo::root().join("benches/peers").join(name)).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the build ended with {status}")),
        Err(_) => Err("no go: install it from go.dev/dl, or apt-get install golang-go".to_owned()),
    }
}

/// Where programs in Go are built.
fn go_dir() -> PathBuf {
    super::dir().join("go")
}

/// Of these, ours, and of the others those that are named; if none is, all of them, or the few of a quick run. The
/// error names what is unknown.
pub(super) fn chosen(all: &'static [Server], peers: &[String], quick: bool) -> Result<Vec<&'static Server>, String> {
    let others = || all.iter().filter(|server| !server.is_ours()).map(|server| server.name);
    if let Some(unknown) = peers.iter().find(|peer| !others().any(|name| name == *peer)) {
        return Err(format!("no peer `{unknown}`; there are {}", others().collect::<Vec<_>>().join(", ")));
    }
    let wanted = |server: &&Server| match peers {
        _ if server.is_ours() => true,
        [] => !quick || QUICK.contains(&server.name),
        peers => peers.iter().any(|peer| peer == server.name),
    };
    Ok(all.iter().filter(wanted).collect())
}

/// Builds what the servers need, each program once, and calls `absent` for those without one. The error is that ours do
/// not build.
pub(super) fn build(
    servers: &[&'static Server],
    mut absent: impl FnMut(&'static Server, String),
) -> Result<Vec<&'static Server>, String> {
    let mut made: Vec<(Program, Result<(), String>)> = Vec::new();
    let mut present = Vec::new();
    for &server in servers {
        let known = made.iter().find(|(program, _)| *program == server.program).map(|(_, result)| result.clone());
        let result = known.unwrap_or_else(|| {
            eprintln!("building {}", server.name);
            let result = server.program.make();
            made.push((server.program, result.clone()));
            result
        });
        match result {
            Ok(()) => present.push(server),
            Err(why) if server.is_ours() => return Err(format!("{}: {why}", server.name)),
            Err(why) => absent(server, why),
        }
    }
    Ok(present)
}

/// The program of this name on the path, or where system programs are.
fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    dirs.map(|dir| dir.join(name)).find(|program| program.is_file())
}

fn fill(text: &str, port: u16, dir: &str) -> String {
    let tls = super::tls::dir().display().to_string();
    text.replace("{port}", &port.to_string()).replace("{dir}", dir).replace("{tls}", &tls)
}

/// The newest version of a package in a lock file that is sorted.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"\nversion = \"");
    lock.rsplit_once(&name)?.1.split_once('"').map(|(version, _)| version)
}

/// Beside its manifest, unless everything is built elsewhere.
fn peers_target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(_) => repo::target_dir().join("peers"),
        None => repo::root().join("benches/peers/target"),
    }
}

/// The file that servers of files have for `/blob`.
pub(super) const BLOB_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
