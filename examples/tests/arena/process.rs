//! The programs as processes: found or built, started, signalled, waited for.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take at most.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(120);

/// The drivers that run here. What is left out is said once.
pub(crate) fn drivers() -> &'static [&'static str] {
    static DRIVERS: OnceLock<Vec<&'static str>> = OnceLock::new();
    DRIVERS.get_or_init(|| {
        let forced = run("arena", &["--plan", "--driver", "uring"]);
        if forced.code == Some(0) {
            return vec!["mio", "uring"];
        }
        println!("skipped: uring ({})", forced.stderr.trim_end());
        vec!["mio"]
    })
}

/// The program of an example, beside this test's own.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its program");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let program = profile.join("examples").join(name);
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = BUILDING.lock();
    if !program.exists() {
        build(name, profile);
    }
    program
}

fn build(name: &str, profile: &Path) {
    let directory = profile.file_name().and_then(|name| name.to_str()).expect("a profile has a name");
    let profile_name = if directory == "debug" { "dev" } else { directory };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--example", name, "--profile", profile_name]);
    command.arg("--target-dir").arg(profile.parent().expect("a profile is in the target directory"));
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "the example builds");
}

/// What a program that has ended leaves behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program to its end.
pub(crate) fn run(name: &str, flags: &[&str]) -> Ended {
    let mut running = Running::spawn(name, flags);
    let mut stdout = String::new();
    let read = running.stdout.read_to_string(&mut stdout);
    assert!(read.is_ok(), "the output is text");
    Ended { stdout, ..running.wait() }
}

/// A program that runs. It is killed when the test is done with it.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdout: BufReader<std::process::ChildStdout>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    fn spawn(name: &str, flags: &[&str]) -> Self {
        Self::spawn_program(&program(name), flags)
    }

    fn spawn_program(program: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("RUST_BACKTRACE", "1");
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _cut_short = stderr.read_to_string(&mut text);
            text
        });
        Self { child, stdout, stderr: Some(stderr) }
    }

    /// Starts a server and waits for its ready line.
    pub(crate) fn start(name: &str, flags: &[&str]) -> (Self, String) {
        Self::spawn(name, flags).ready()
    }

    /// The same of a server whose calls strace writes down; `flags` are strace's, the server's program, and its flags.
    pub(crate) fn start_traced(flags: &[&str]) -> (Self, String) {
        Self::spawn_program(Path::new("strace"), flags).ready()
    }

    fn ready(self) -> (Self, String) {
        let mut running = self;
        let mut line = String::new();
        let read = running.stdout.read_line(&mut line);
        assert!(read.is_ok() && line.ends_with('\n'), "no ready line, but {:?}", running.wait());
        (running, line.trim_end().to_owned())
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the program runs");
    }

    /// Sends a signal to those that the program has started.
    pub(crate) fn signal_children(&self, name: &str) {
        let sent = Command::new("pkill").args([&format!("-{name}"), "-P", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the program runs others");
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> Ended {
        let status = self.wait_status();
        let stderr = self.stderr.take().map(|stderr| stderr.join().expect("the reader does not panic"));
        Ended { code: status.code(), stdout: String::new(), stderr: stderr.unwrap_or_default() }
    }

    /// Ends it as an operator does. It must end well, and leave nothing.
    pub(crate) fn stop(mut self) -> Report {
        self.signal("TERM");
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = Report::parse(&ended.stderr);
        assert!(report.charged <= report.fixed && report.leaked == 0 && report.in_flight == 0, "{report:?}");
        report
    }

    fn wait_status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A benchmark server that runs.
pub(crate) struct Arena {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) ready: String,
}

impl Arena {
    /// On a free port, with more flags.
    pub(crate) fn start(driver: &str, flags: &[&str]) -> Self {
        let mut all = vec!["--listen", "127.0.0.1:0", "--driver", driver];
        all.extend(flags);
        let (running, ready) = Running::start("arena", &all);
        let address = ready.split_once("http://").and_then(|(_, rest)| rest.split(' ').next()).expect("an address");
        Self { running, address: address.parse().expect("an address"), ready }
    }

    /// Ends it as an operator does, see [`Running::stop`].
    pub(crate) fn stop(self) -> Report {
        self.running.stop()
    }
}

/// The report of a server that has ended.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) charged: u64,
    pub(crate) fixed: u64,
    pub(crate) peak: u64,
    pub(crate) leaked: u64,
    pub(crate) in_flight: u64,
}

impl Report {
    /// From the last line on stderr.
    pub(crate) fn parse(stderr: &str) -> Self {
        let line = stderr.lines().last().unwrap_or_default();
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("memory"), "the last line is the report, not {line:?}");
        let mut figure = |name: &str| {
            let (found, value) = words.next().and_then(|word| word.split_once('=')).expect("name=figure");
            assert_eq!(found, name);
            value.parse().expect("a figure")
        };
        let report = Self {
            charged: figure("charged"),
            fixed: figure("fixed"),
            peak: figure("peak"),
            leaked: figure("leaked"),
            in_flight: figure("in_flight"),
        };
        assert_eq!(words.next(), None);
        report
    }
}
