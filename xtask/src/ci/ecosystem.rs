//! The programs of `examples/ecosystem`, a workspace of its own: built, and tested beside a Redis, a PostgreSQL and a
//! NATS server, and asked by grpcurl. Those of Debian's packages are taken where they are installed; the NATS server
//! and grpcurl are fetched by Go.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;
use super::steps::finish;
use crate::repo;

pub(super) fn ecosystem() -> Outcome {
    let mut path: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let folder = repo::target_dir().join("ecosystem/go");
    for (program, module) in BY_GO {
        if let Err(why) = fetch(program, module, &folder) {
            println!("skipped: {program} ({why})");
        }
    }
    path.push(folder);
    let Ok(path) = env::join_paths(path) else { return Outcome::Failed("PATH has a folder with a colon".to_owned()) };
    let mut test = repo::cargo();
    test.args(["test", "--locked", "--manifest-path", MANIFEST, "--test", "services"]).env("PATH", path);
    finish(test.env("CARGO_TARGET_DIR", repo::target_dir().join("ecosystem")))
}

/// Has a program built into a folder, if it is not installed, or there already.
fn fetch(program: &str, module: &str, folder: &Path) -> Result<(), String> {
    if folder.join(program).is_file() || repo::succeeds_quietly(Command::new(program).arg("--version")) {
        return Ok(());
    }
    let install = Command::new("go").args(["install", module]).env("GOBIN", folder).stdin(Stdio::null()).status();
    match install {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`go install {module}` ended with {status}")),
        Err(_) => Err("it is built by Go, which is missing: https://go.dev/dl".to_owned()),
    }
}

pub(super) const MANIFEST: &str = "examples/ecosystem/Cargo.toml";

/// Programs, and where Go has them.
const BY_GO: [(&str, &str); 2] = [
    ("nats-server", "github.com/nats-io/nats-server/v2@v2.15.2"),
    ("grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"),
];
