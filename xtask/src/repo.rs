//! Where things are in the repository, and how its programs are started.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo says at run time where the package is; the path of the build is wrong after the clone has moved.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(package);
    root.pop();
    root
}

/// The directory that Cargo builds into.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Where Cargo keeps what it has downloaded.
pub(crate) fn cargo_home() -> PathBuf {
    env::var_os("CARGO_HOME").map_or_else(|| env::home_dir().unwrap_or_default().join(".cargo"), PathBuf::from)
}

/// The Cargo that started us, at the root, without input.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The Cargo of another toolchain, at the root, without input. See [`nightly_missing`] and [`toolchain_missing`].
pub(crate) fn cargo_of(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]).current_dir(root()).stdin(Stdio::null());
    // The toolchain that runs this program put itself there.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// What to install when there is no nightly toolchain, or one before `from`.
pub(crate) fn nightly_missing(from: &str) -> Option<String> {
    match cargo_of("nightly").arg("--version").output() {
        Ok(output) if output.status.success() => {
            let version = minor_version(&String::from_utf8_lossy(&output.stdout));
            (version < minor_version(from))
                .then(|| "the nightly toolchain is too old: rustup update nightly".to_owned())
        }
        _ => Some("no nightly toolchain: rustup toolchain install nightly".to_owned()),
    }
}

/// What to install when there is no such toolchain.
pub(crate) fn toolchain_missing(name: &str) -> Option<String> {
    let install = || format!("no Rust {name}: rustup toolchain install {name} --profile minimal");
    (!succeeds_quietly(cargo_of(name).arg("--version"))).then(install)
}

/// What to install when Cargo has no such subcommand.
pub(crate) fn subcommand_missing(name: &str) -> Option<String> {
    let install = || format!("no cargo-{name}: cargo install --locked cargo-{name}");
    (!succeeds_quietly(cargo().args([name, "--version"]))).then(install)
}

/// The second number of the first version in a text: 97 of `rustc 1.97.0-nightly (..)`.
fn minor_version(text: &str) -> Option<u32> {
    let version = text.split_whitespace().find(|word| word.starts_with("1."))?;
    version.split('.').nth(1)?.parse().ok()
}

/// Whether a program is there and ends well.
pub(crate) fn succeeds_quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The lowest Rust that what is published builds with, as the manifest of the workspace has it: 1.N.
pub(crate) const RUST_VERSION_MIN: &str = env!("CARGO_PKG_RUST_VERSION");

#[cfg(test)]
mod tests;
