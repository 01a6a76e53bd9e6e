//! What the clients ask: the arena on a driver, and proxies before it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::programs::Protocol;
use crate::conformance::arena::Arena;
use crate::repo;

/// The way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Direct,
    /// Which speaks HTTP/1.1 to the server, on connections that it keeps.
    Nginx,
    /// With HTTP/1.1 to the server.
    HaproxyH1,
    /// With HTTP/2 to the server, WebSockets included.
    HaproxyH2,
}

impl Via {
    pub(super) const ALL: [Via; 4] = [Via::Direct, Via::Nginx, Via::HaproxyH1, Via::HaproxyH2];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Via::Direct => "direct",
            Via::Nginx => "nginx",
            Via::HaproxyH1 => "haproxy-h1",
            Via::HaproxyH2 => "haproxy-h2",
        }
    }

    const fn proxy(self) -> Option<&'static Proxy> {
        match self {
            Via::Direct => None,
            Via::Nginx => Some(&NGINX),
            Via::HaproxyH1 | Via::HaproxyH2 => Some(&HAPROXY),
        }
    }

    /// What to install, if its proxy is not there.
    pub(super) fn missing(self) -> Option<&'static str> {
        self.proxy().filter(|proxy| find(proxy.program).is_none()).map(|proxy| proxy.install)
    }
}

/// What to install for the proxies that are not there.
pub(super) fn missing_proxies() -> Vec<String> {
    let missing = PROXIES.iter().filter(|proxy| find(proxy.program).is_none());
    missing.map(|proxy| proxy.install.to_owned()).collect()
}

/// The proxies that are there, with their versions, for the document.
pub(super) fn proxy_versions() -> Vec<String> {
    let version = |proxy: &&Proxy| {
        let output = Command::new(find(proxy.program)?).arg("-v").stdin(Stdio::null()).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let version = text.split([' ', '/', '\n']).find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let version = version.split('-').next().unwrap_or(version);
        Some(format!("{} {version}", proxy.program))
    };
    PROXIES.iter().filter_map(version).collect()
}

/// A proxy and how it is started. In its configuration `{dir}`, `{arena}` and `{1}` to `{4}`, free ports, are replaced.
struct Proxy {
    program: &'static str,
    install: &'static str,
    configuration: &'static str,
    flags: &'static [&'static str],
}

/// The server on a driver, and the proxies before it. All end with this value.
#[derive(Debug)]
pub(super) struct Bed {
    arena: Arena,
    proxies: Vec<Running>,
}

impl Bed {
    /// Starts the server and what the ways need.
    pub(super) fn start(driver: &str, vias: &[Via]) -> Result<Bed, String> {
        // Room for bodies of 5 MiB in flight on many connections; what happens at the line is for other tests.
        let arena = Arena::start(driver, &["--memory", "128MiB"])?;
        let mut proxies = Vec::new();
        for proxy in PROXIES {
            if vias.iter().any(|via| via.proxy().is_some_and(|used| used.program == proxy.program)) {
                proxies.push(Running::start(proxy, driver, &arena)?);
            }
        }
        Ok(Bed { arena, proxies })
    }

    /// Where a client of that protocol asks.
    pub(super) fn base(&self, via: Via, protocol: Protocol) -> String {
        let running =
            via.proxy().and_then(|proxy| self.proxies.iter().find(|running| running.program == proxy.program));
        let Some(running) = running else { return format!("http://{}", self.arena.address) };
        let place = match (via, protocol) {
            (Via::Nginx, Protocol::Http2) | (Via::HaproxyH2, _) => 1,
            _ => 0,
        };
        format!("http://127.0.0.1:{}", running.ports[place])
    }

    /// Ends the proxies, then the server, which has to leave nothing over.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        for proxy in &mut self.proxies {
            proxy.check()?;
        }
        self.proxies.clear();
        self.arena.stop()
    }
}

/// A proxy while it runs.
#[derive(Debug)]
struct Running {
    program: &'static str,
    child: Child,
    ports: [u16; 2],
    log: PathBuf,
}

impl Running {
    fn start(proxy: &Proxy, driver: &str, arena: &Arena) -> Result<Running, String> {
        let dir = repo::target_dir().join("conformance/clients").join(format!("{}-{driver}", proxy.program));
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        let ports = [free_port().map_err(failed)?, free_port().map_err(failed)?];
        let file = dir.join("conf");
        fs::write(&file, filled(proxy.configuration, &dir, &arena.address, ports)).map_err(failed)?;
        let log = dir.join("stderr");
        let mut command = Command::new(find(proxy.program).ok_or(proxy.install)?);
        command.args(proxy.flags).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(File::create(&log).map_err(failed)?).spawn().map_err(failed)?;
        let mut running = Running { program: proxy.program, child, ports, log };
        let deadline = Instant::now() + READY_TIMEOUT;
        while !ports.iter().all(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
            running.check()?;
            if Instant::now() >= deadline {
                return Err(format!("{} takes no connection; see {}", proxy.program, running.log.display()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("{} ended with {ended:?}; see {}", self.program, self.log.display())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn filled(configuration: &str, dir: &Path, arena: &str, ports: [u16; 2]) -> String {
    let text = configuration.replace("{dir}", &dir.display().to_string()).replace("{arena}", arena);
    text.replace("{1}", &ports[0].to_string()).replace("{2}", &ports[1].to_string())
}

/// Where a program is.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// A port of loopback that nobody has now. Who takes it before the proxy does makes it end with its own message.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

const PROXIES: [&Proxy; 2] = [&NGINX, &HAPROXY];

const NGINX: Proxy = Proxy {
    program: "nginx",
    install: "nginx before the server: apt-get install nginx-light",
    configuration: include_str!("../../../../conformance/clients/proxies/nginx.conf"),
    flags: &["-c"],
};

const HAPROXY: Proxy = Proxy {
    program: "haproxy",
    install: "haproxy before the server: apt-get install haproxy",
    configuration: include_str!("../../../../conformance/clients/proxies/haproxy.cfg"),
    flags: &["-db", "-f"],
};

/// A proxy that takes no connection for so long does not start.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PROXIES, filled};

    #[test]
    fn configurations_have_no_place_left_open() {
        for proxy in PROXIES {
            let text = filled(proxy.configuration, Path::new("some/dir"), "127.0.0.1:8080", [4321, 5432]);
            assert!(text.contains("127.0.0.1:8080") && text.contains(":4321") && text.contains(":5432"), "{text}");
            assert!(!["{1}", "{2}", "{dir}", "{arena}"].iter().any(|open| text.contains(open)), "{text}");
        }
    }
}
