//! The programs of `examples/ecosystem`, a workspace of its own: built, and tested beside a Redis, a PostgreSQL and a
//! NATS server. Those of Debian's packages are taken where they are installed; the NATS server is fetched by Go.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Outcome;
use super::steps::finish;
use crate::repo;

pub(super) fn ecosystem() -> Outcome {
    let mut path: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    match nats_server() {
        Ok(folder) => path.push(folder),
        Err(why) => println!("skipped: nats-server ({why})"),
    }
    let Ok(path) = env::join_paths(path) else { return Outcome::Failed("PATH has a folder with a colon".to_owned()) };
    let mut test = repo::cargo();
    test.args(["test", "--locked", "--manifest-path", MANIFEST, "--test", "services"]).env("PATH", path);
    finish(test.env("CARGO_TARGET_DIR", repo::target_dir().join("ecosystem")))
}

/// The folder of the NATS server, which is built if it is not there yet.
fn nats_server() -> Result<PathBuf, String> {
    let folder = repo::target_dir().join("ecosystem/go");
    if folder.join("nats-server").is_file() || repo::succeeds_quietly(Command::new("nats-server").arg("--version")) {
        return Ok(folder);
    }
    let install = Command::new("go").args(["install", NATS_SERVER]).env("GOBIN", &folder).stdin(Stdio::null()).status();
    match install {
        Ok(status) if status.success() => Ok(folder),
        Ok(status) => Err(format!("`go install {NATS_SERVER}` ended with {status}")),
        Err(_) => Err("it is built by Go, which is missing: https://go.dev/dl".to_owned()),
    }
}

pub(super) const MANIFEST: &str = "examples/ecosystem/Cargo.toml";

const NATS_SERVER: &str = "github.com/nats-io/nats-server/v2@v2.15.2";
