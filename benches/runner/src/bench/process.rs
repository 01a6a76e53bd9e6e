//! A server while it runs. It ends with its handle, whatever happens, and with this program, whatever ends that.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::placement::Placement;
use super::proc;
use super::servers::Server;

/// A server that takes connections.
#[derive(Debug)]
pub(super) struct Running {
    server: &'static Server,
    child: Child,
    /// Ends the server when this program is gone without having done so; only for programs that would outlive it.
    guard: Option<Child>,
    address: SocketAddr,
}

impl Running {
    /// Starts a server for requests of a target, on its core and a free port, and waits until it takes connections. The
    /// error is what the server says last.
    pub(super) fn start(server: &'static Server, target: &str, placement: &Placement) -> Result<Running, String> {
        let name = server.name;
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let log = log_path(name);
        server.prepare(port, target).map_err(|error| format!("{name}: its files: {error}"))?;
        let stderr = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let child = placement
            .server_command(&server.path())
            .args(server.arguments(port, target))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(|error| format!("{name} did not start: {error}"))?;
        let guard = server.is_installed().then(|| guard(child.id())).flatten();
        let mut running = Running { server, child, guard, address: (Ipv4Addr::LOCALHOST, port).into() };
        running.wait_until_ready()?;
        Ok(running)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Time on a core so far, of every thread.
    pub(super) fn cpu(&self) -> Result<proc::CpuTime, String> {
        let cpu = proc::CpuTime::of(self.child.id());
        cpu.map_err(|error| format!("{}: no CPU time: {error} {}", self.server.name, self.last_words()))
    }

    /// Time in user space and in the kernel so far.
    pub(super) fn ticks(&self) -> Result<proc::Ticks, String> {
        let ticks = proc::Ticks::of(self.child.id());
        ticks.map_err(|error| format!("{}: no times: {error} {}", self.server.name, self.last_words()))
    }

    /// Its memory now.
    pub(super) fn memory(&self) -> Result<proc::Memory, String> {
        let memory = proc::Memory::of(self.child.id());
        memory.map_err(|error| format!("{}: no memory figure: {error} {}", self.server.name, self.last_words()))
    }

    /// How it ended, if it has.
    pub(super) fn death(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("died: {status} {}", self.last_words())),
            Err(error) => Some(format!("died: {error}")),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes that are resident now.
    pub(super) fn resident_bytes(&self) -> Result<u64, String> {
        proc::status_bytes(self.child.id(), |status| status.vmrss)
            .map_err(|error| format!("{}: {error}", self.server.name))
    }

    /// The most bytes that were resident at once since the start, or since the last [`reset_peak`](Self::reset_peak).
    pub(super) fn peak_resident_bytes(&self) -> Result<u64, String> {
        proc::status_bytes(self.child.id(), |status| status.vmhwm)
            .map_err(|error| format!("{}: {error}", self.server.name))
    }

    /// The peak is what is resident now.
    pub(super) fn reset_peak(&self) -> Result<(), String> {
        proc::reset_peak(self.child.id()).map_err(|error| format!("{}: {error}", self.server.name))
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Err(format!("ended with {status} {}", self.last_words())),
                Err(error) => return Err(format!("cannot be waited for: {error}")),
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("takes no connection after {} s", READY_TIMEOUT.as_secs()));
            }
            thread::sleep(READY_POLL);
        }
    }

    /// The last line that the server wrote on stderr, in brackets.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(log_path(self.server.name)).unwrap_or_default();
        format!("({})", log.lines().last().unwrap_or("it said nothing"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // First, so that it cannot end another process that has got the number.
        if let Some(guard) = &mut self.guard {
            let _gone = guard.kill();
            let _status = guard.wait();
        }
        // It may have ended by itself; then there is nothing to do.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A program that changes its user is no longer ended with the one that started it. A shell that waits for the end of
/// its input, which is this program's end, does that.
fn guard(pid: u32) -> Option<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' INT TERM; read -r _; kill -KILL {pid}")]);
    // A terminal's interrupt is for the server, too; without a guard there is only that.
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

fn log_path(server: &str) -> PathBuf {
    super::dir().join("servers").join(format!("{server}.stderr"))
}

/// A port of loopback that nobody has now. Who takes it before the server does makes the server end with its own
/// message.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A server that takes no connection for so long does not start.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries.
const READY_POLL: Duration = Duration::from_millis(20);
