//! Programs as processes: started, asked for their address, ended by their own number.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take at most.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Asks until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that runs. It is killed when the test is done with it.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts a program of this package and waits for its ready line.
    pub(crate) fn start(program: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).args(flags);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("its output is text");
        let address = line.trim_end().strip_prefix("listening on ").expect("a ready line").parse().expect("an address");
        Self { child, address }
    }

    /// Starts a server of somebody else, and waits until it takes connections.
    pub(crate) fn start_server(command: &mut Command, address: SocketAddr) -> Self {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let running = Self { child, address };
        until("it listens", || TcpStream::connect(address).is_ok());
        running
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(sent.is_ok_and(|status| status.success()), "it runs");
    }

    /// Ends it as an operator does. It must end well.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let deadline = Instant::now() + WAIT_MAX;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// An address of this machine that nobody listens at now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("there is a free port")
}

/// A program of somebody else: in a folder of `PATH`, or where Debian has PostgreSQL's. What is not there is said.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = debian.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let found = std::env::split_paths(&path).chain(debian).map(|folder| folder.join(program)).find(|it| it.is_file());
    if found.is_none() {
        println!("skipped: no {program} is installed");
    }
    found
}

/// A folder that goes with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plimsoll-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a program that must not start: what it says on stderr.
pub(crate) fn refused(program: &str, flags: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0"]).args(flags).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("its output is text");
    assert!(!child.wait().expect("it ends").success(), "{said}");
    said
}
