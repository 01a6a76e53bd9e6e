//! The Autobahn test suite for WebSocket on the arena, with each driver.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Runs all cases on both drivers, beside each other: most of the time is the suite's. A case passes if the suite calls
/// it OK or INFORMATIONAL; NON-STRICT is a failure here.
pub(crate) fn run() -> u8 {
    let suite = match Suite::find() {
        Ok(suite) => suite,
        Err(missing) => {
            eprintln!("{missing}");
            return EXIT_MISSING;
        }
    };
    let mut build = repo::cargo();
    build.args(["build", "--quiet", "--release", "--locked", "-p", "plimsoll-examples"]);
    if !build.args(["--example", "arena"]).status().is_ok_and(|status| status.success()) {
        eprintln!("the arena does not build");
        return EXIT_FAILED;
    }
    eprintln!("{CASES} cases on each driver; this takes a quarter of an hour");
    let running = DRIVERS.map(|driver| Running::start(&suite, driver));
    let results = running.map(|running| running.and_then(Running::finish));
    for (driver, result) in DRIVERS.into_iter().zip(&results) {
        match result {
            Ok(cases) => println!("autobahn on {driver}: {cases} cases, no failure"),
            Err(error) => eprintln!("autobahn on {driver}: {error}"),
        }
    }
    if results.iter().all(Result::is_ok) { EXIT_OK } else { EXIT_FAILED }
}

/// How the suite is started.
struct Suite {
    program: OsString,
    /// The folder of its packages and of what they need, if it was built here.
    packages: Option<PathBuf>,
}

impl Suite {
    /// The suite that is installed, or was built here before, or is now. The error says what to install.
    fn find() -> Result<Suite, String> {
        if answers(Command::new("wstest").arg("--help")) {
            return Ok(Suite { program: "wstest".into(), packages: None });
        }
        let Some(python) =
            pythons().into_iter().find(|python| answers(Command::new(python).args(["-m", "pip", "--version"])))
        else {
            return Err(format!(
                "the Autobahn suite needs Python 2.7 with pip: pyenv install 2.7.18; or, with one elsewhere, \
                pip install {PACKAGE} there, and wstest on the PATH"
            ));
        };
        let packages = repo::target_dir().join("conformance/autobahn");
        let suite = Suite { program: python.clone().into(), packages: Some(packages.clone()) };
        if suite.works() {
            return Ok(suite);
        }
        let log = packages.with_extension("log");
        let failed =
            |error: &dyn std::fmt::Display| format!("{PACKAGE} was not installed: {error}; see {}", log.display());
        fs::create_dir_all(&packages).map_err(|error| failed(&error))?;
        let output = fs::File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = output.map_err(|error| failed(&error))?;
        eprintln!("building the suite in {}", packages.display());
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--upgrade", "--target"])
            .arg(&packages)
            .arg(PACKAGE);
        let status = pip.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status().map_err(|error| failed(&error))?;
        // A folder of packages of several distributions: Python 2.7 wants a file that says so, which pip does not
        // write.
        let marked = fs::write(packages.join("zope/__init__.py"), "");
        marked.map_err(|error| failed(&error))?;
        if status.success() && suite.works() { Ok(suite) } else { Err(failed(&status)) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(packages) = &self.packages {
            command.env("PYTHONPATH", packages).args(["-c", "from autobahntestsuite.wstest import run; run()"]);
        }
        command
    }

    fn works(&self) -> bool {
        answers(self.command().arg("--help"))
    }
}

/// Whether it ends well.
fn answers(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Where a Python 2.7 may be.
fn pythons() -> Vec<PathBuf> {
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_27 = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("2.7"));
    let mut pythons: Vec<PathBuf> = versions.filter(is_27).map(|path| path.join("bin/python2.7")).collect();
    pythons.push("python2.7".into());
    pythons
}

/// A server, and the suite that asks it.
struct Running {
    server: Child,
    suite: Child,
    folder: PathBuf,
}

impl Running {
    fn start(suite: &Suite, driver: &str) -> Result<Running, String> {
        let arena = repo::target_dir().join("release/examples/arena");
        let mut command = Command::new(arena);
        command.args(["--listen", "127.0.0.1:0", "--workers", "1", "--memory", "256MiB", "--driver", driver]);
        let mut server = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("the arena: {error}"))?;
        let folder = repo::target_dir().join("autobahn").join(driver);
        let started = address(&mut server).and_then(|address| ask(suite, &address, &folder));
        match started {
            Ok(suite) => Ok(Running { server, suite, folder }),
            Err(error) => {
                let _ended_already = server.kill().and_then(|()| server.wait());
                Err(error)
            }
        }
    }

    /// How many cases passed. The server has to end as it should.
    fn finish(mut self) -> Result<usize, String> {
        let status = self.suite.wait();
        let stopped = stop(&mut self.server);
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("the suite failed; see {}", self.folder.join("log").display()));
        }
        stopped?;
        let index = fs::read_to_string(self.folder.join("index.json"));
        verdict(&index.map_err(|error| format!("the results: {error}"))?, CASES)
    }
}

/// Asks it to stop, and sees that it leaves nothing over.
fn stop(server: &mut Child) -> Result<(), String> {
    let asked = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    asked.map_err(|error| format!("kill: {error}"))?;
    match server.wait() {
        Ok(status) if status.success() => Ok(()),
        ended => Err(format!("the arena ended with {ended:?}")),
    }
}

/// What the server says it listens at.
fn address(server: &mut Child) -> Result<String, String> {
    let stdout = server.stdout.as_mut().ok_or("no output of the arena")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|error| format!("the arena: {error}"))?;
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_whitespace().next());
    address.map(|address| address.trim_end_matches(',').to_owned()).ok_or(format!("no address in {line:?}"))
}

/// Starts the suite.
fn ask(suite: &Suite, address: &str, folder: &Path) -> Result<Child, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    // Not to be taken for the results of this run.
    let index = folder.join("index.json");
    if index.exists() {
        fs::remove_file(&index).map_err(failed)?;
    }
    let spec = serde_json::json!({
        "outdir": folder,
        "servers": [{"agent": AGENT, "url": format!("ws://{address}/ws")}],
        "cases": ["*"],
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let path = folder.join("spec.json");
    fs::write(&path, spec.to_string()).map_err(failed)?;
    let log = fs::File::create(folder.join("log")).map_err(failed)?;
    let mut command = suite.command();
    command.args(["-m", "fuzzingclient", "-s"]).arg(&path).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
    command.spawn().map_err(|error| format!("the suite: {error}"))
}

/// How many cases there are, or which failed.
fn verdict(index: &str, expected: usize) -> Result<usize, String> {
    let index: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
        serde_json::from_str(index).map_err(|error| format!("the results: {error}"))?;
    let cases = index.get(AGENT).filter(|cases| !cases.is_empty()).ok_or("the suite ran no case")?;
    let passed = |value: &serde_json::Value| matches!(value.as_str(), Some("OK" | "INFORMATIONAL"));
    let failed = cases.iter().filter(|(_, case)| !passed(&case["behavior"]) || !passed(&case["behaviorClose"]));
    let failed: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
    match failed.is_empty() {
        true if cases.len() == expected => Ok(expected),
        true => Err(format!("{} of {expected} cases ran", cases.len())),
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

const AGENT: &str = "plimsoll";
/// The last one that there is.
const PACKAGE: &str = "autobahntestsuite==0.8.2";
/// Of the suite.
const CASES: usize = 517;
const DRIVERS: [&str; 2] = ["uring", "mio"];

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
        assert_eq!(verdict(&index("INFORMATIONAL", "OK"), 2), Ok(2));
        assert_eq!(verdict(&index("OK", "OK"), 3), Err("2 of 3 cases ran".to_owned()));
        for (first, close) in [("NON-STRICT", "OK"), ("OK", "UNCLEAN"), ("FAILED", "OK")] {
            assert_eq!(verdict(&index(first, close), 2), Err("failed: 1.1.1".to_owned()));
        }
        assert!(verdict("{}", 0).is_err() && verdict(r#"{"plimsoll":{}}"#, 0).is_err());
    }
}
