//! The Autobahn test suite for WebSocket on the arena, with each driver.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Runs all cases without compression on both drivers. A case passes if the suite calls it OK or INFORMATIONAL; NON-STRICT is a failure here.
pub(crate) fn run() -> u8 {
    if Command::new("wstest").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: wstest is missing; in a Python 2.7, pip install autobahntestsuite==0.8.2");
        return EXIT_MISSING;
    }
    let built = repo::cargo().args(["build", "--quiet", "--release", "--example", "arena"]).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("the arena does not build");
        return EXIT_FAILED;
    }
    let arena = repo::target_dir().join("release/examples/arena");
    let results = ["uring", "mio"].map(|driver| judge(&arena, driver));
    for (driver, result) in ["uring", "mio"].into_iter().zip(&results) {
        match result {
            Ok(cases) => println!("{driver}: {cases} cases, no failure"),
            Err(error) => eprintln!("{driver}: {error}"),
        }
    }
    if results.iter().all(Result::is_ok) { EXIT_OK } else { EXIT_FAILED }
}

/// How many cases passed.
fn judge(arena: &Path, driver: &str) -> Result<usize, String> {
    let mut command = Command::new(arena);
    command.args(["--listen", "127.0.0.1:0", "--workers", "1", "--memory", "256MiB", "--driver", driver]);
    let mut server = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("the arena: {error}"))?;
    let cases = address(&mut server).and_then(|address| suite(&address, driver));
    let stopped = server.kill().and_then(|()| server.wait());
    stopped.map_err(|error| format!("the arena does not stop: {error}"))?;
    cases
}

/// What the server says it listens at.
fn address(server: &mut Child) -> Result<String, String> {
    let stdout = server.stdout.as_mut().ok_or("no output of the arena")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|error| format!("the arena: {error}"))?;
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_whitespace().next());
    address.map(|address| address.trim_end_matches(',').to_owned()).ok_or(format!("no address in {line:?}"))
}

fn suite(address: &str, driver: &str) -> Result<usize, String> {
    let folder = repo::target_dir().join("autobahn").join(driver);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let spec = serde_json::json!({
        "outdir": folder,
        "servers": [{"agent": AGENT, "url": format!("ws://{address}/ws")}],
        "cases": ["*"],
        // The arena does not compress.
        "exclude-cases": ["12.*", "13.*"],
        "exclude-agent-cases": {},
    });
    let path = folder.join("spec.json");
    std::fs::write(&path, spec.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
    let status = Command::new("wstest").args(["-m", "fuzzingclient", "-s"]).arg(&path).stdout(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("wstest failed".to_owned());
    }
    let index = std::fs::read_to_string(folder.join("index.json")).map_err(|error| format!("the results: {error}"))?;
    verdict(&index)
}

/// How many cases there are, or which failed.
fn verdict(index: &str) -> Result<usize, String> {
    let index: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
        serde_json::from_str(index).map_err(|error| format!("the results: {error}"))?;
    let cases = index.get(AGENT).filter(|cases| !cases.is_empty()).ok_or("the suite ran no case")?;
    let passed = |value: &serde_json::Value| matches!(value.as_str(), Some("OK" | "INFORMATIONAL"));
    let failed = cases.iter().filter(|(_, case)| !passed(&case["behavior"]) || !passed(&case["behaviorClose"]));
    let failed: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
    if failed.is_empty() { Ok(cases.len()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

const AGENT: &str = "plimsoll";

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn only_ok_and_informational_pass() {
        let index = |first: &str, close: &str| {
            format!(
                r#"{{"plimsoll":{{"1.1.1":{{"behavior":"{first}","behaviorClose":"{close}"}},"2.1":{{"behavior":"OK","behaviorClose":"OK"}}}}}}"#
            )
        };
        assert_eq!(verdict(&index("INFORMATIONAL", "OK")), Ok(2));
        for (first, close) in [("NON-STRICT", "OK"), ("OK", "UNCLEAN"), ("FAILED", "OK")] {
            assert_eq!(verdict(&index(first, close)), Err("failed: 1.1.1".to_owned()));
        }
        assert!(verdict("{}").is_err() && verdict(r#"{"plimsoll":{}}"#).is_err());
    }
}
