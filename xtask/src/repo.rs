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

/// The Cargo that started us, at the root, without input.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The nightly toolchain's Cargo, at the root, without input. See [`nightly_missing`].
pub(crate) fn cargo_nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root()).stdin(Stdio::null());
    // The toolchain that runs this program put itself there.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// What to install when there is no nightly toolchain, or an old one.
pub(crate) fn nightly_missing() -> Option<&'static str> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "rustc", "--version"]).env_remove("RUSTUP_TOOLCHAIN").stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {
            let version = minor_version(&String::from_utf8_lossy(&output.stdout));
            let is_old = version < minor_version(env!("CARGO_PKG_RUST_VERSION"));
            is_old.then_some("the nightly toolchain is too old: rustup update nightly")
        }
        _ => Some("no nightly toolchain: rustup toolchain install nightly"),
    }
}

/// What to install when there is no cargo-fuzz.
pub(crate) fn cargo_fuzz_missing() -> Option<&'static str> {
    let mut command = Command::new("cargo-fuzz");
    command.args(["fuzz", "--version"]);
    (!succeeds_quietly(&mut command)).then_some("no cargo-fuzz: cargo install cargo-fuzz")
}

/// What to install when there is no cargo-mutants.
pub(crate) fn cargo_mutants_missing() -> Option<&'static str> {
    let mut command = Command::new("cargo-mutants");
    command.args(["mutants", "--version"]);
    (!succeeds_quietly(&mut command)).then_some("no cargo-mutants: cargo install cargo-mutants --locked")
}

/// The second number of the first version in a text: 97 of `rustc 1.97.0-nightly (..)`.
fn minor_version(text: &str) -> Option<u32> {
    let version = text.split_whitespace().find(|word| word.starts_with("1."))?;
    version.split('.').nth(1)?.parse().ok()
}

fn succeeds_quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests;
