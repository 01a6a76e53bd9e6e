//! Which servers there are. A new one is a line in [`ALL`]; nothing else names one.

use std::path::PathBuf;
use std::process::Command;

use crate::repo;

/// A server that can be measured.
#[derive(Debug)]
pub(super) struct Server {
    /// As the report calls it.
    pub(super) name: &'static str,
    program: Program,
    /// Words after the program; `{port}` is replaced. One thread, HTTP/1.1 on 127.0.0.1, and `GET /pipeline` answers `ok`.
    arguments: &'static str,
}

/// What is built for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// An example of this workspace: ours.
    Example(&'static str),
    /// A program of `benches/peers`, which is a workspace of its own.
    Peer(&'static str),
}

/// The servers, in the order of the report.
pub(super) const ALL: [Server; 4] = [
    Server {
        name: "plimsoll-uring",
        program: Program::Example("arena"),
        arguments: "--workers 1 --driver uring --listen 127.0.0.1:{port}",
    },
    Server {
        name: "plimsoll-mio",
        program: Program::Example("arena"),
        arguments: "--workers 1 --driver mio --listen 127.0.0.1:{port}",
    },
    Server { name: BASELINE, program: Program::Peer("peer-hyper"), arguments: "127.0.0.1:{port}" },
    Server {
        name: "hyper-pipeline-flush",
        program: Program::Peer("peer-hyper"),
        arguments: "127.0.0.1:{port} --pipeline-flush",
    },
];

/// The server that the ratios are to.
pub(super) const BASELINE: &str = "hyper";

impl Server {
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.program, Program::Example(_))
    }

    /// The built program.
    pub(super) fn path(&self) -> PathBuf {
        match self.program {
            Program::Example(name) => repo::target_dir().join("release/examples").join(name),
            Program::Peer(name) => peers_target_dir().join("release").join(name),
        }
    }

    /// The words after the program.
    pub(super) fn arguments(&self, port: u16) -> Vec<String> {
        self.arguments.split_whitespace().map(|word| word.replace("{port}", &port.to_string())).collect()
    }
}

impl Program {
    fn build(self) -> Command {
        let mut cargo = repo::cargo();
        cargo.args(["build", "--release", "--locked", "--target-dir"]);
        match self {
            Program::Example(name) => cargo.arg(repo::target_dir()).args(["--example", name]),
            Program::Peer(name) => {
                cargo.arg(peers_target_dir()).args(["--manifest-path", "benches/peers/Cargo.toml", "--bin", name])
            }
        };
        cargo
    }
}

/// Ours, and of the others those that are named, or all of them if none is. The error names what is unknown.
pub(super) fn chosen(peers: &[String]) -> Result<Vec<&'static Server>, String> {
    let others = || ALL.iter().filter(|server| !server.is_ours()).map(|server| server.name);
    if let Some(unknown) = peers.iter().find(|peer| !others().any(|name| name == *peer)) {
        return Err(format!("no peer `{unknown}`; there are {}", others().collect::<Vec<_>>().join(", ")));
    }
    let wanted =
        |server: &&Server| server.is_ours() || peers.is_empty() || peers.iter().any(|peer| peer == server.name);
    Ok(ALL.iter().filter(wanted).collect())
}

/// Builds what the servers need, each program once.
pub(super) fn build(servers: &[&Server]) -> Result<(), String> {
    let mut built = Vec::new();
    for server in servers {
        if built.contains(&server.program) {
            continue;
        }
        eprintln!("building {:?}", server.program);
        match server.program.build().status() {
            Ok(status) if status.success() => built.push(server.program),
            Ok(status) => return Err(format!("the build of {} ended with {status}", server.name)),
            Err(error) => return Err(format!("the build of {} did not start: {error}", server.name)),
        }
    }
    Ok(())
}

/// Beside its manifest, unless everything is built elsewhere.
fn peers_target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(_) => repo::target_dir().join("peers"),
        None => repo::root().join("benches/peers/target"),
    }
}

#[cfg(test)]
mod tests;
