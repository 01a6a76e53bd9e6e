//! Where things are in the repository, and how its programs are started.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo says at run time where the package is; the path of the build is wrong after the clone has moved.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = PathBuf::from(package);
    package.ancestors().nth(2).unwrap_or(&package).to_owned()
}

/// The directory that Cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The Cargo that started us, at the root, without input.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}
