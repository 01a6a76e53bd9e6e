//! Suites of gRPC that others wrote, on the same services carried by tonic's own transport and by ours: connectrpc's
//! conformance suite and the interop client of grpc-go. What passes on tonic's has to pass on ours.
//!
//! The services are `conformance/grpc`, a workspace of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Go programs: the name that we give it, the module, its name there.
const CONNECT: Tool =
    Tool { name: "connectconformance", module: "connectrpc.com/conformance/cmd/connectconformance@v1.0.7" };
const INTEROP: Tool = Tool { name: "client", module: "google.golang.org/grpc/interop/client@v1.85.0" };

/// The cases that need no credentials of a cloud and no load reports.
const INTEROP_CASES: [&str; 15] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "pick_first_unary",
];

/// What the services can.
const FEATURES: &str = "\
features:
  versions: [HTTP_VERSION_2]
  protocols: [PROTOCOL_GRPC]
  codecs: [CODEC_PROTO]
  compressions: [COMPRESSION_IDENTITY, COMPRESSION_GZIP, COMPRESSION_DEFLATE]
  supportsH2c: true
  supportsTls: false
";

struct Tool {
    name: &'static str,
    module: &'static str,
}

/// What carries the services.
pub(super) const OURS: [&[&str]; 2] =
    [&["--transport", "plimsoll", "--driver", "uring"], &["--transport", "plimsoll", "--driver", "mio"]];
const TONIC: &[&str] = &["--transport", "tonic"];

/// The cases that failed, and the suite's summary.
struct Ran {
    failed: BTreeSet<String>,
    summary: String,
}

/// Builds the suites and the services, and runs every case on every transport.
pub(super) fn run() -> u8 {
    let suites = match (CONNECT.install(), INTEROP.install()) {
        (Ok(connect), Ok(interop)) => (connect, interop),
        (Err(missing), _) | (_, Err(missing)) => {
            println!("skipped: {missing}");
            return EXIT_MISSING;
        }
    };
    let server = match server() {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return EXIT_FAILED;
        }
    };
    let mut exit = EXIT_OK;
    for (suite, run) in [
        ("connectrpc", &(|flags: &[&str]| connect(&suites.0, &server, flags)) as &dyn Fn(&[&str]) -> _),
        ("grpc-go", &|flags: &[&str]| interop(&suites.1, &server, flags)),
    ] {
        if let Err(error) = compare(suite, run) {
            eprintln!("{suite}: {error}");
            exit = EXIT_FAILED;
        }
    }
    exit
}

/// Fails when a case fails on ours that passes on tonic's.
fn compare(suite: &str, run: &dyn Fn(&[&str]) -> Result<Ran, String>) -> Result<(), String> {
    let theirs = run(TONIC)?;
    println!("{suite} on tonic's transport: {}", theirs.summary);
    for flags in OURS {
        let ours = run(flags)?;
        println!("{suite} on {}: {}", flags[3], ours.summary);
        let worse: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
        if !worse.is_empty() {
            return Err(format!("these pass on tonic's transport, and not on {}: {worse:#?}", flags[3]));
        }
        for better in theirs.failed.difference(&ours.failed) {
            println!("  only ours passes {better}");
        }
    }
    theirs.failed.iter().for_each(|case| println!("  fails on both: {case}"));
    Ok(())
}

fn connect(suite: &Path, server: &Path, flags: &[&str]) -> Result<Ran, String> {
    let features = repo::target_dir().join("conformance/grpc.yaml");
    fs::write(&features, FEATURES).map_err(|error| format!("{}: {error}", features.display()))?;
    let mut command = Command::new(suite);
    command.arg("--conf").arg(&features).args(["--mode", "server", "--"]).arg(server);
    let output = command.args(["--service", "conformance"]).args(flags).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("did not start: {error}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let summary = text.lines().rev().find(|line| line.contains(" passed, ")).ok_or_else(|| text.clone())?;
    let failed = text.lines().filter_map(|line| line.strip_prefix("FAILED: "));
    Ok(Ran { failed: failed.map(|case| case.trim_end_matches(':').to_owned()).collect(), summary: summary.to_owned() })
}

fn interop(suite: &Path, server: &Path, flags: &[&str]) -> Result<Ran, String> {
    let mut served = Served::start(server, &[&["--service", "interop"], flags].concat())?;
    let mut failed = BTreeSet::new();
    for case in INTEROP_CASES {
        let mut client = Command::new(suite);
        client.args(["--server_host", "127.0.0.1", "--server_port", &served.port, "--test_case", case]);
        if !repo::succeeds_quietly(&mut client) {
            failed.insert(case.to_owned());
        }
    }
    served.stop()?;
    let summary = format!("{} passed, {} failed", INTEROP_CASES.len() - failed.len(), failed.len());
    Ok(Ran { failed, summary })
}

impl Tool {
    /// The program, built if it is not there yet. The error says what to install.
    fn install(&self) -> Result<PathBuf, String> {
        let dir = repo::target_dir().join("conformance/bin");
        let program = dir.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut go = Command::new("go");
        match go.args(["install", self.module]).env("GOBIN", &dir).stdin(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(program),
            Ok(status) => Err(format!("`go install {}` failed: {status}", self.module)),
            Err(error) => Err(format!("the suites are written in Go, which is missing ({error}): https://go.dev/dl")),
        }
    }
}

/// The services' program, built.
pub(super) fn server() -> Result<PathBuf, String> {
    let target = repo::target_dir().join("grpc");
    let mut build = repo::cargo();
    build
        .args(["build", "--locked", "--manifest-path", "conformance/grpc/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &target);
    match build.status() {
        Ok(status) if status.success() => Ok(target.join("debug/plimsoll-grpc-conformance")),
        ended => Err(format!("conformance/grpc was not built: {ended:?}")),
    }
}

/// A service that listens. It ends with this value.
pub(super) struct Served {
    child: Child,
    pub(super) port: String,
}

impl Served {
    pub(super) fn start(server: &Path, flags: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(server);
        let child = command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut served =
            Self { child: child.map_err(|error| format!("{}: {error}", server.display()))?, port: String::new() };
        let mut line = String::new();
        if let Some(stdout) = served.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|error| format!("its first line: {error}"))?;
        }
        let port = line.trim_end().rsplit(':').next().filter(|port| !port.is_empty());
        served.port = port.ok_or("the service is not ready; its last words are above")?.to_owned();
        Ok(served)
    }

    /// Asks it to stop, and sees that it ends well.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        asked.map_err(|error| format!("kill: {error}"))?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("the service ended with {ended:?}")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
