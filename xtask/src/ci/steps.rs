//! What each step of `ci` does.

use std::num::NonZero;
use std::process::Command;
use std::thread;

use super::Outcome;
use crate::conformance::clients;
use crate::tidy::workspace::{Role, Workspace};
use crate::{fuzz, repo, runner, sim, tidy};

pub(super) fn fmt() -> Outcome {
    let all = finish(repo::cargo().args(["fmt", "--all", "--check"]));
    // Workspaces of their own. Not `--all`: that would be the packages by path, too.
    let own = ["fuzz/Cargo.toml", "conformance/grpc/Cargo.toml", super::ecosystem::MANIFEST];
    own.iter().fold(all, |before, manifest| match before {
        Outcome::Passed => finish(repo::cargo().args(["fmt", "--check", "--manifest-path", manifest])),
        failed => failed,
    })
}

pub(super) fn clippy() -> Outcome {
    finish(repo::cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

pub(super) fn tidy() -> Outcome {
    match tidy::check() {
        0 => Outcome::Passed,
        broken => Outcome::Failed(format!("{broken} rules are broken")),
    }
}

/// `_typos.toml` says which words are right.
pub(super) fn typos() -> Outcome {
    let typos = || Command::new("typos");
    if !repo::succeeds_quietly(typos().arg("--version")) {
        return Outcome::Skipped("no typos: cargo install --locked typos-cli".to_owned());
    }
    finish(typos().current_dir(repo::root()))
}

/// `deny.toml` says what may be depended on. Advisories are looked up where their database has been fetched: `cargo
/// deny fetch`.
pub(super) fn deny() -> Outcome {
    if let Some(install) = repo::subcommand_missing("deny") {
        return Outcome::Skipped(install);
    }
    let deny = |flags: &[&str]| finish(repo::cargo().args(["deny", "--locked", "--all-features"]).args(flags));
    match deny(&["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]) {
        Outcome::Passed if repo::cargo_home().join("advisory-dbs").is_dir() => {
            deny(&["--offline", "check", "--hide-inclusion-graph", "advisories"])
        }
        ended => ended,
    }
}

/// Libraries, programs, examples, integration tests and the examples of the documentation. A program that fails does
/// not hide what the others find.
pub(super) fn test() -> Outcome {
    let threads = test_threads();
    match finish(repo::cargo().args(["test", "--workspace", "--locked", "--no-fail-fast"]).env(TEST_THREADS, &threads))
    {
        // Nobody else in the workspace asks for these features.
        Outcome::Passed => {
            let mut adapters = repo::cargo();
            adapters.env(TEST_THREADS, &threads);
            adapters.args(["test", "-p", "plimsoll-runtime", "-p", "plimsoll-tower", "--all-features", "--locked"]);
            finish(adapters.args([
                "--test",
                "traits",
                "--test",
                "tokio_runtime",
                "--test",
                "services",
                "--test",
                "edges",
            ]))
        }
        failed => failed,
    }
}

/// Most tests wait for peers and clocks more than they compute.
fn test_threads() -> String {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    (processors * TESTS_A_PROCESSOR).to_string()
}

pub(super) fn doc() -> Outcome {
    finish(repo::cargo().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Features are told by nightly alone. What is on the pages of other crates is a dead link without them.
pub(super) fn docs_rs() -> Outcome {
    if let Some(install) = repo::nightly_missing(DOC_CFG_FROM) {
        return Outcome::Skipped(install);
    }
    let mut nightly = repo::cargo_of("nightly");
    nightly.args(["doc", "--no-deps", "--all-features", "--locked"]);
    nightly.args(["-p", "plimsoll", "-p", "plimsoll-http", "-p", "plimsoll-runtime"]);
    nightly.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
    finish(nightly.env("CARGO_TARGET_DIR", repo::target_dir().join("docs-rs")))
}

/// The loom models of every crate that has some.
pub(super) fn loom() -> Outcome {
    let packages = match Workspace::load(&repo::root()) {
        Ok(workspace) => packages_with_loom(&workspace),
        Err(error) => return Outcome::Failed(format!("cannot read the sources: {error}")),
    };
    if packages.is_empty() {
        return Outcome::Skipped("no crate has a loom model".to_owned());
    }
    for package in packages {
        if let failed @ Outcome::Failed(_) = loom_package(&package) {
            return failed;
        }
    }
    Outcome::Passed
}

fn loom_package(package: &str) -> Outcome {
    let test = || {
        let mut command = repo::cargo();
        command.args(["test", "--release", "--locked", "--lib", "-p", package, "loom"]);
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", repo::target_dir().join("loom"));
        // The models need optimised code, but not optimised across crates.
        command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        command
    };
    // A filter that matches nothing passes: count first.
    match test().args(["--", "--list"]).output() {
        Ok(listed) if listed.status.success() && !String::from_utf8_lossy(&listed.stdout).contains(": test") => {
            Outcome::Failed(format!("{package} mentions loom::model but has no test with `loom` in its name"))
        }
        // A build that fails says so below, with its messages.
        _ => finish(&mut test()),
    }
}

/// The packages whose sources hold a loom model.
pub(super) fn packages_with_loom(workspace: &Workspace) -> Vec<String> {
    let has_model = |dir: &str| {
        let mut sources = workspace.files.iter().filter(|file| file.package == dir && file.role != Role::Tool);
        sources.any(|file| file.tokens.find_sequence(&["loom", "::", "model"]).next().is_some())
    };
    workspace.packages.iter().filter(|package| has_model(&package.dir)).map(|package| package.name.clone()).collect()
}

/// About a minute on two processors; `cargo xtask sim --seeds N` runs more.
pub(super) fn sim() -> Outcome {
    match finish(&mut sim::command(&[])) {
        Outcome::Passed => finish(&mut sim::command(&["--of", "tls", "--seeds", TLS_SEEDS].map(str::to_owned))),
        failed => failed,
    }
}

/// The fuzz targets are library functions: this needs no fuzzer.
pub(super) fn fuzz() -> Outcome {
    match fuzz::replay::run() {
        Ok(()) => Outcome::Passed,
        Err(what) => Outcome::Failed(what),
    }
}

/// `cargo xtask soak` runs for longer.
pub(super) fn soak() -> Outcome {
    runner::step("soak", &["--minutes", SOAK_MINUTES])
}

/// Those whose language is installed, without a proxy between: under a minute on two processors.
pub(super) fn clients() -> Outcome {
    match clients::direct() {
        Ok(results) if results.is_empty() => Outcome::Skipped(results.missing.join("; ")),
        Ok(results) if results.is_good() => Outcome::Passed,
        Ok(results) => Outcome::Failed(results.summary()),
        Err(what) => Outcome::Failed(what),
    }
}

/// Another libc or processor moves the counts: a change is for the reader, and only a program that does not run fails.
pub(super) fn instructions() -> Outcome {
    runner::step("bench", &["--instructions"])
}

pub(super) fn asan() -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        return Outcome::Skipped(format!("only checked on {ASAN_TARGET}"));
    }
    if let Some(install) = repo::nightly_missing(repo::RUST_VERSION_MIN) {
        return Outcome::Skipped(install);
    }
    let mut command = repo::cargo_of("nightly");
    command.args([
        "test",
        "--locked",
        "--target",
        ASAN_TARGET,
        "--lib",
        "--tests",
        "--features",
        "plimsoll-pool/bytes",
    ]);
    for package in ASAN_PACKAGES {
        command.args(["-p", package]);
    }
    // The sanitizer itself needs the addresses that this test takes away.
    command.args(["--", "--skip", "under_a_limit_of_addresses"]);
    // The tests have run at full length without it; it costs a factor of three.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("PROPTEST_CASES", "64");
    command.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", repo::root().join(LEAKS).display()));
    command
        .env("RUSTFLAGS", "-Zsanitizer=address --cfg plimsoll_asan")
        .env("CARGO_TARGET_DIR", repo::target_dir().join("asan"));
    finish(&mut command)
}

/// Each feature of what is published alone, none, and all: no lint speaks. Dev-dependencies are not built, and so add
/// no feature.
pub(super) fn features() -> Outcome {
    if let Some(install) = repo::subcommand_missing("hack") {
        return Outcome::Skipped(install);
    }
    let hack = |words: &[&str]| {
        let mut command = repo::cargo();
        command.args(["hack", "clippy", "--locked"]).args(words);
        finish(command.args(["--", "-D", "warnings"]))
    };
    match hack(&["--each-feature", "--workspace", "--ignore-private", "--exclude", "plimsoll-tls"]) {
        // It is nothing without cryptography.
        Outcome::Passed => {
            hack(&["--feature-powerset", "--package", "plimsoll-tls", "--at-least-one-of", "aws-lc,ring"])
        }
        failed => failed,
    }
}

/// What is published builds with the Rust that the manifest names.
pub(super) fn msrv() -> Outcome {
    match repo::toolchain_missing(repo::RUST_VERSION_MIN) {
        Some(install) => Outcome::Skipped(install),
        None => check_published(&mut repo::cargo_of(repo::RUST_VERSION_MIN), "msrv"),
    }
}

/// What is published builds with the lowest versions that its manifests allow, in a lock file of their own.
pub(super) fn minimal_versions() -> Outcome {
    if let Some(install) = repo::nightly_missing(LOCKFILE_PATH_FROM) {
        return Outcome::Skipped(install);
    }
    let lock = repo::target_dir().join("minimal-versions/Cargo.lock");
    let nightly = || {
        let mut command = repo::cargo_of("nightly");
        command.arg("--config").arg(format!("resolver.lockfile-path={lock:?}"));
        command
    };
    match finish(nightly().args(["-Z", "direct-minimal-versions", "update", "--quiet"])) {
        Outcome::Passed => check_published(&mut nightly(), "minimal-versions"),
        failed => failed,
    }
}

/// `check` of the crates that are published, with all features, into a directory of its own.
fn check_published(cargo: &mut Command, dir: &str) -> Outcome {
    let packages = match published() {
        Ok(packages) => packages,
        Err(failed) => return failed,
    };
    cargo.args(["check", "--locked", "--all-features"]).env("CARGO_TARGET_DIR", repo::target_dir().join(dir));
    packages.iter().for_each(|package| _ = cargo.args(["-p", package]));
    finish(cargo)
}

/// The names of the packages that are published.
pub(super) fn published() -> Result<Vec<String>, Outcome> {
    match Workspace::load(&repo::root()) {
        Ok(workspace) => Ok(workspace.published().map(|package| package.name.clone()).collect()),
        Err(error) => Err(Outcome::Failed(format!("cannot read the manifests: {error}"))),
    }
}

/// Runs a command whose output the reader sees as it comes.
pub(super) fn finish(command: &mut Command) -> Outcome {
    let line = shown(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("`{line}` ended with {status}")),
        Err(error) => Outcome::Failed(format!("`{line}` did not start: {error}")),
    }
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let variables = variables.map(|(name, value)| format!("{}={:?} ", name.display(), value.to_string_lossy()));
    let words = command.get_args().map(|word| format!(" {}", word.to_string_lossy()));
    format!("{}{}{}", variables.collect::<String>(), program.to_string_lossy(), words.collect::<String>())
}

/// Tells a test program how many of its tests run at once.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
const TESTS_A_PROCESSOR: usize = 3;

const SOAK_MINUTES: &str = "1";

/// Enough for each limit to be reached in some world.
const TLS_SEEDS: &str = "1000";

/// The crates with unsafe code: the address sanitizer watches their tests.
const ASAN_PACKAGES: [&str; 4] = ["plimsoll-slab", "plimsoll-pool", "plimsoll-reactor", "plimsoll-runtime"];

/// The first nightly that is known to leave our own lock file alone when it is told of another.
const LOCKFILE_PATH_FROM: &str = "1.97";

/// `doc_cfg` tells features by itself since then.
const DOC_CFG_FROM: &str = "1.92";

/// The leaks that are meant.
pub(super) const LEAKS: &str = "xtask/leaks.txt";

/// The target whose sanitizer run-time is used.
const ASAN_TARGET: &str = "x86_64-unknown-linux-gnu";
