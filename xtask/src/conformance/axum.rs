//! The tests inside the axum crate, with its test server exchanged for ours.
//!
//! axum's tests start a server by one function, `spawn_service`. The crate's source, as the registry has it, is copied
//! into the target directory, that function is replaced, and the tests are run there. Nothing of axum is kept here.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Tests that fail, as the docs explain: `docs/conformance-axum.md`.
const KNOWN: [&str; 2] = ["extract::ws::tests::http2", "extract::ws::tests::integration_test"];

/// Copies and patches the crate, and runs its tests on each driver.
pub(super) fn run() -> u8 {
    let dir = match prepare() {
        Ok(dir) => dir,
        Err(Unprepared::Missing(what)) => {
            println!("skipped: {what}");
            return EXIT_MISSING;
        }
        Err(Unprepared::Unlike(what)) => {
            eprintln!("{what}");
            return EXIT_FAILED;
        }
    };
    let mut exit = EXIT_OK;
    for driver in ["uring", "mio"] {
        match on_driver(&dir, driver) {
            Ok(summary) => println!("axum's tests on {driver}: {summary}"),
            Err(error) => {
                eprintln!("axum's tests on {driver}: {error}");
                exit = EXIT_FAILED;
            }
        }
    }
    exit
}

enum Unprepared {
    /// What is not there.
    Missing(String),
    /// The crate is not as this program knows it.
    Unlike(String),
}

impl From<io::Error> for Unprepared {
    fn from(error: io::Error) -> Self {
        Self::Missing(format!("the source of axum cannot be copied: {error}"))
    }
}

/// A copy of the crate whose tests are served by us.
fn prepare() -> Result<PathBuf, Unprepared> {
    let source = source().ok_or_else(|| Unprepared::Missing("no source of axum: cargo fetch".to_owned()))?;
    let dir = repo::target_dir().join("conformance/axum/axum");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    copy(&source, &dir)?;
    let manifest = fs::read_to_string(dir.join("Cargo.toml"))?;
    let ours = repo::root().join("crates");
    let ours = format!(
        "{manifest}\n[dev-dependencies.plimsoll]\npath = {:?}\nfeatures = [\"tokio-context\"]\n\n\
         [dev-dependencies.plimsoll-tower]\npath = {:?}\n\n\
         [dev-dependencies.axum-macros]\nversion = \"0.5.1\"\nfeatures = [\"__private\"]\n\n[workspace]\n",
        ours.join("plimsoll"),
        ours.join("tower")
    );
    fs::write(dir.join("Cargo.toml"), ours)?;
    let client = dir.join("src/test_helpers/test_client.rs");
    let text = fs::read_to_string(&client)?;
    let unlike =
        || Unprepared::Unlike("spawn_service is not where it was in axum 0.8.9: adapt this program".to_owned());
    let (before, rest) = text.split_once("pub(crate) fn spawn_service<S>").ok_or_else(unlike)?;
    let (_theirs, after) = rest.split_once("pub struct TestClient").ok_or_else(unlike)?;
    let before = before.replace("use super::{serve, ", "use super::{");
    let before = before.replace("use tokio::net::TcpListener;\nuse tower::make::Shared;\n", "");
    fs::write(&client, format!("{before}{SPAWN_SERVICE}\npub struct TestClient{after}"))?;
    Ok(dir)
}

/// Where Cargo keeps the crate that our lock file names.
fn source() -> Option<PathBuf> {
    let output = repo::cargo().args(["metadata", "--format-version", "1", "--locked"]).output().ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let axum = metadata["packages"].as_array()?.iter().find(|package| package["name"] == "axum")?;
    Some(Path::new(axum["manifest_path"].as_str()?).parent()?.to_owned())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::write(to, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// The summary, if no test fails but those that are explained.
fn on_driver(dir: &Path, driver: &str) -> Result<String, String> {
    let mut test = repo::cargo();
    test.current_dir(dir).args(["test", "--all-features", "--lib", "--", "--show-output"]);
    test.env("CARGO_TARGET_DIR", repo::target_dir().join("conformance/axum/build")).env("PLIMSOLL_DRIVER", driver);
    let output = test.output().map_err(|error| format!("did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text
        .lines()
        .find_map(|line| line.strip_prefix("test result: "))
        .ok_or_else(|| format!("no summary: {}", String::from_utf8_lossy(&output.stderr)))?;
    let failed: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
    let known: BTreeSet<&str> = KNOWN.into_iter().collect();
    // Each test's output has a heading of its own.
    let served = text.split("\n---- ").filter(|section| section.contains(MARK)).count();
    // `FAILED. 319 passed; 3 failed; ...`: whether that is as it should be is said below.
    let counts = summary.split_once(". ").map_or(summary, |(_verdict, counts)| counts);
    let summary = format!("{counts}; {served} of them asked our server");
    if failed == known { Ok(summary) } else { Err(format!("{summary}\nfailed: {failed:#?}\nexplained: {known:#?}")) }
}

/// What a test prints that is served by us.
const MARK: &str = "served by plimsoll";

/// A thread with a runtime and a server for each call, until the test program ends.
const SPAWN_SERVICE: &str = include_str!("axum/spawn_service.txt");
