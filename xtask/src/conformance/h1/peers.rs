//! The other servers: how they are found, started and told to read every body.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::repo;

/// A server to compare with.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The program, or nothing if it is built from `benches/peers`.
    program: Option<&'static str>,
    install: &'static str,
}

/// In the order of the report.
const ALL: [Peer; 3] = [
    Peer { name: "nginx", program: Some("nginx"), install: "nginx is missing: apt-get install nginx-light" },
    Peer { name: "hyper", program: None, install: "" },
    Peer { name: "h2o", program: Some("h2o"), install: "h2o is missing: apt-get install h2o" },
];

/// Those that are named, or all. The error names what is unknown.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Peer>, String> {
    static PEERS: [Peer; 3] = ALL;
    if let Some(unknown) = names.iter().find(|name| !PEERS.iter().any(|peer| peer.name == *name)) {
        return Err(format!("no peer `{unknown}`; there are {}", ALL.map(|peer| peer.name).join(", ")));
    }
    Ok(PEERS.iter().filter(|peer| names.is_empty() || names.iter().any(|name| name == peer.name)).collect())
}

impl Peer {
    /// What to install, if the program is not there.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        match self.program {
            Some(program) if find(program).is_none() => Some(self.install),
            _ => None,
        }
    }

    /// As the document calls it.
    pub(crate) fn version(&self) -> String {
        match self.program.and_then(find) {
            Some(path) => {
                let output = Command::new(path).arg("-v").stdin(Stdio::null()).output();
                let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                let first = text.lines().next().unwrap_or_default();
                let version = first.split([' ', '/']).find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
                format!("{} {}", self.name, version.unwrap_or("of unknown version"))
            }
            None => {
                let lock = fs::read_to_string(repo::root().join("benches/peers/Cargo.lock")).unwrap_or_default();
                let after = lock.split("name = \"hyper\"\nversion = \"").nth(1).unwrap_or_default();
                format!("{} {}", self.name, after.split('"').next().unwrap_or_default())
            }
        }
    }

    /// Starts it on a free port and waits until it takes connections.
    pub(crate) fn start(&self) -> Result<Running, String> {
        let dir = repo::target_dir().join("conformance").join(self.name);
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let (port, behind) = (free_port()?, free_port()?);
        let shown = dir.display().to_string();
        let fill = |text: &str| {
            let text = text.replace("{port}", &port.to_string()).replace("{behind}", &behind.to_string());
            text.replace("{dir}", &shown)
        };
        let mut command = match self.name {
            "nginx" => configured(self.program, &dir, &fill(NGINX), &["-c"])?,
            "h2o" => configured(self.program, &dir, &fill(H2O), &["-c"])?,
            _ => built(port)?,
        };
        let log = fs::File::create(dir.join("stderr")).map_err(|error| format!("{shown}: {error}"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.map_err(|error| format!("did not start: {error}"))?;
        let mut running = Running { child, address: (Ipv4Addr::LOCALHOST, port).into(), dir };
        running.wait_until_ready()?;
        Ok(running)
    }
}

/// A program with a configuration file.
fn configured(program: Option<&str>, dir: &std::path::Path, text: &str, flags: &[&str]) -> Result<Command, String> {
    let path = program.and_then(find).ok_or("the program is gone")?;
    let file = dir.join("conf");
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(path);
    command.args(flags).arg(file);
    Ok(command)
}

/// The program of `benches/peers`.
fn built(port: u16) -> Result<Command, String> {
    let target = repo::target_dir().join("peers");
    let manifest = ["--manifest-path", "benches/peers/Cargo.toml", "-p", "conformance-hyper"];
    let status = repo::cargo().args(["build", "--locked", "--target-dir"]).arg(&target).args(manifest).status();
    match status {
        Ok(status) if status.success() => {}
        other => return Err(format!("was not built: {other:?}")),
    }
    let mut command = Command::new(target.join("debug/conformance-hyper"));
    command.arg(format!("127.0.0.1:{port}"));
    Ok(command)
}

/// A server while it runs; it ends with this value.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    dir: PathBuf,
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still runs. One that a case brought down has no results.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("did not survive the cases ({ended:?}): {}", self.last_words())),
        }
    }

    fn last_words(&self) -> String {
        let said = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
        said.lines().last().unwrap_or("it said nothing").to_owned()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while TcpStream::connect(self.address).is_err() || self.check().is_err() {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() >= deadline {
                return Err(format!("takes no connection: {}", self.last_words()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Where a program is.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// A proxy reads every body to its end before it asks the server behind it.
const NGINX: &str = "\
daemon off;
master_process off;
pid {dir}/pid;
error_log {dir}/error.log;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {
        listen 127.0.0.1:{port};
        location / { proxy_pass http://127.0.0.1:{behind}; }
        location = /early { return 200 ok; }
        location = /probe { add_header seen 'GET /probe host=probe'; return 200 ok; }
    }
    server {
        listen 127.0.0.1:{behind};
        location / { return 200 ok; }
    }
}
";

/// It reads every body before any handler sees the request. The redirection is its only handler that takes every
/// method.
const H2O: &str = "\
listen:
  host: 127.0.0.1
  port: {port}
num-threads: 1
hosts:
  default:
    paths:
      /:
        redirect:
          url: /elsewhere/
          status: 302
      /probe:
        header.add: 'seen: GET /probe host=probe'
        redirect:
          url: /elsewhere/
          status: 302
";

/// A server that takes no connection for so long does not start.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
